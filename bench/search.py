"""How fast the console's search looks through records: `python -m bench.search`.

Records of 200 bytes of JSON, searched as a leader does it on its worker thread: a piece of fetched
batches after the other, without the reading of files. Processor time, best of several rounds.
"""

import argparse
import cProfile
import io
import json
import pstats
from collections.abc import Callable
from time import process_time

import fastavro
import msgspec

from kafkaesque.admin.api.messages import Form, SearchFilter
from kafkaesque.admin.api.scan_part import PIECE_BYTES_MAX, Room, search
from kafkaesque.admin.api.search_matcher import Matcher
from kafkaesque.admin.decoding.bounds import Allowance
from kafkaesque.admin.decoding.decoder import Decoder
from kafkaesque.admin.decoding.schema_book import KnownSchema, Place, SchemaBook
from kafkaesque.broker.requests.commands import FetchResult
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.records import Record
from kafkaesque.registry.schemas import SchemaType

VALUE_BYTES = 200
BATCH_RECORDS = 80
ROUNDS = 7
#: So much is searched in a round.
PIECES = 8
ROOM = Room(records=10**9, bytes=10**12)
#: One record in so many is meant.
RARE = 10_000

CASES = {
    "contains, nowhere": SearchFilter(contains="zzzzzz"),
    "contains, 1 in 10,000": SearchFilter(contains="needle"),
    "contains, in every record": SearchFilter(contains="customer", before=1),
    "JSON path, text, 1 in 10,000": SearchFilter(json_path="order.note", json_value="needle"),
    "JSON path, number, 1 in 10,000": SearchFilter(json_path="order.rare", json_value="1"),
    "JSON path, number, nowhere": SearchFilter(json_path="order.size", json_value="-1"),
}
#: What looks into decoded values, of the same records and of those in Avro.
DECODED = SearchFilter(json_path="order.size", json_value="-1", decoded=True)
AVRO = KnownSchema(
    id=1,
    type=SchemaType.AVRO,
    text=(
        '{"type":"record","name":"R","fields":[{"name":"customer","type":"string"},'
        '{"name":"order","type":{"type":"record","name":"O","fields":['
        '{"name":"id","type":"long"},{"name":"size","type":"int"},'
        '{"name":"note","type":"string"}]}},{"name":"fill","type":"string"}]}'
    ),
    references={},
    key_place=Place(subject="s", version=1),
    value_place=Place(subject="s", version=1),
)


def value_of(number: int) -> bytes:
    """Return 200 bytes of JSON."""
    order: dict[str, object] = {"id": number, "size": number % 9, "note": "plain"}
    if number % RARE == RARE // 2:
        order |= {"note": "needle", "rare": 1}
    text = msgspec.json.encode({"customer": f"c-{number % 977}", "order": order, "fill": ""})
    return text[:-2] + b"x" * (VALUE_BYTES - len(text)) + b'"}'


def avro_of(number: int) -> bytes:
    """Return the same in Avro, after the schema's id."""
    order = {"id": number, "size": number % 9, "note": "plain"}
    data = io.BytesIO()
    data.write(b"\0\0\0\0\1")
    value = {"customer": f"c-{number % 977}", "order": order, "fill": "x" * 150}
    fastavro.schemaless_writer(data, PARSED, value)
    return data.getvalue()


PARSED = fastavro.parse_schema(json.loads(AVRO.text))


def pieces(write: Callable[[int], bytes]) -> list[tuple[bytes, range]]:
    """Return what is fetched, with the offsets that are in it."""
    made, offset = [], 0
    for _ in range(PIECES):
        first, parts, size = offset, [], 0
        while size < PIECE_BYTES_MAX - 20_000:
            records = [
                Record(offset + at, 1_790_000_000_000, b"key", write(offset + at))
                for at in range(BATCH_RECORDS)
            ]
            parts.append(bytes(encode_batch(records)))
            size += len(parts[-1])
            offset += BATCH_RECORDS
        made.append((b"".join(parts), range(first, offset)))
    return made


def run(fetched: list[tuple[bytes, range]], wanted: SearchFilter) -> tuple[int, int]:
    """Return how many records were looked at, and how many were found."""
    matcher, records, matches = Matcher(wanted), 0, 0
    for data, offsets in fetched:
        result = FetchResult(records=data, aborted=[], last_stable_offset=0, log_start_offset=0)
        decoder = Decoder(SchemaBook({1: AVRO}), Allowance(1 << 62))
        found = search(result, matcher, offsets, ROOM, Form(), decoder)
        records += found.records
        matches += len(found.messages)
    return records, matches


def main() -> None:
    """Print the rates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    asked = parser.parse_args()
    plain, avro = pieces(value_of), pieces(avro_of)
    cases = [(name, plain, wanted) for name, wanted in CASES.items()]
    cases += [("decoded JSON path, of JSON", plain, DECODED)]
    cases += [("decoded JSON path, of Avro", avro, DECODED)]
    for name, fetched, wanted in cases:
        best, records, matches = 1e9, 0, 0
        for _ in range(ROUNDS):
            begun = process_time()
            records, matches = run(fetched, wanted)
            best = min(best, process_time() - begun)
        print(f"{name:<42}{records / best / 1e6:>7.2f} M records/s a core, {matches} found")
        if asked.profile:
            profile = cProfile.Profile()
            profile.runcall(run, fetched, wanted)
            pstats.Stats(profile).sort_stats("tottime").print_stats(6)


if __name__ == "__main__":
    main()
