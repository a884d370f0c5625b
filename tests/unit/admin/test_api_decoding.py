"""Keys and values over the admin API, decoded by their schemas and without any."""

import dataclasses
import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fastavro
import msgspec
import pytest

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.admin.api.decoding_run import WORK_BYTES_MAX, DecodingRun
from kafkaesque.admin.api.messages import (
    LISTED_BYTES_MAX,
    REASON_LENGTH_MAX,
    Form,
    SearchFilter,
)
from kafkaesque.admin.api.scan_part import Room, search
from kafkaesque.admin.api.search_matcher import Matcher
from kafkaesque.admin.decoding.bounds import VALUE_BYTES_MAX, Allowance, UndecodableError
from kafkaesque.admin.decoding.decoder import Decoder
from kafkaesque.admin.decoding.schema_book import (
    SCHEMAS_MAX,
    KnownSchema,
    Place,
    SchemaBook,
    UnknownSchema,
)
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.requests.commands import FetchResult
from kafkaesque.broker.schemas.schema_log import SchemaLog
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.errors import OverBound
from kafkaesque.model.ids import TopicPartition
from kafkaesque.model.records import Record
from kafkaesque.registry.records import Entry, ReferenceValue, SchemaKey, SchemaValue
from kafkaesque.registry.schemas import SchemaType
from kafkaesque.registry.state import RegistryState
from tests.unit.admin.api_ground import ApiGround
from tests.unit.admin.visits import AdminCluster
from tests.unit.gateway_kafka.secured import add_user, allow

ORDER = (
    '{"type":"record","name":"shop.Order","fields":['
    '{"name":"id","type":"long"},'
    '{"name":"to","type":["null","shop.Person"]},'
    '{"name":"price","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}},'
    '{"name":"at","type":{"type":"long","logicalType":"timestamp-millis"}},'
    '{"name":"day","type":{"type":"int","logicalType":"date"}},'
    '{"name":"raw","type":"bytes"}]}'
)
PERSON = '{"type":"record","name":"shop.Person","fields":[{"name":"name","type":"string"}]}'
PROTO = (
    'syntax = "proto3"; import "colour.proto"; message Car { int64 id = 1; Colour colour = 2; '
    "message Wheel { int32 size = 1; } map<string, int32> parts = 3; message Seat {} } "
    "message Boat { string name = 1; }"
)
COLOUR = 'syntax = "proto3"; enum Colour { BLUE = 0; RED = 1; }'
#: By id: subject, version, type, text, references.
SCHEMAS: dict[int, tuple[str, int, str, str, tuple[str, ...]]] = {
    1: ("shop.Person", 1, "AVRO", PERSON, ()),
    2: ("things-value", 3, "AVRO", ORDER, ("shop.Person",)),
    3: ("colour.proto", 1, "PROTOBUF", COLOUR, ()),
    4: ("cars", 1, "PROTOBUF", PROTO, ("colour.proto",)),
    5: ("docs", 1, "JSON", '{"type":"object"}', ()),
    6: ("things-key", 1, "AVRO", '"string"', ()),
    7: ("wide", 1, "AVRO", '{"type":"array","items":"null"}', ()),
}


def entries() -> list[Entry]:
    return [
        Entry(
            SchemaKey(subject=subject, version=version),
            SchemaValue(
                subject=subject,
                version=version,
                id=number,
                schema=text,
                schema_type=kind,
                references=tuple(ReferenceValue(name=e, subject=e, version=1) for e in references),
            ),
        )
        for number, (subject, version, kind, text, references) in SCHEMAS.items()
    ]


def register(doors: Doors, done: list[object]) -> None:
    doors.schemas.change(lambda _: (None, entries()), done.append)


def framed(number: int, data: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + data


def written_order(name: str) -> bytes:
    """Return an order as fastavro writes it."""
    known: dict[str, Any] = {}
    fastavro.parse_schema(json.loads(PERSON), named_schemas=known)
    order = {
        "id": 7,
        "to": {"name": name},
        "price": Decimal("12.34"),
        "at": datetime(2026, 1, 1, tzinfo=UTC),
        "day": date(2026, 1, 1),
        "raw": b"\xff\0",
    }
    data = io.BytesIO()
    parsed = fastavro.parse_schema(json.loads(ORDER), named_schemas=known)
    fastavro.schemaless_writer(data, parsed, order)
    return data.getvalue()


ORDER_DATA = written_order("Ann")
ORDER_SHOWN = {
    "id": 7,
    "to": {"name": "Ann"},
    "price": "12.34",
    "at": "2026-01-01T00:00:00.000Z",
    "day": "2026-01-01",
    "raw": "/wA=",
}
CAR_DATA = b"\x08\x05\x10\x01\x1a\x06\x0a\x02ab\x10\x03"
CAR_SHOWN = {"id": "5", "colour": "RED", "parts": {"ab": 3}}


@pytest.fixture(scope="module")
def ground() -> Iterator[ApiGround]:
    made = ApiGround(31)
    made.create("things")
    done: list[object] = []
    register(made.cluster.brokers["b2"].doors, done)
    made.run_until(lambda: bool(done))
    assert done == [None]
    yield made
    assert made.lines == []


def page(ground: ApiGround, *records: Record, host: str = "b1", **query: object) -> Any:
    """Publish; return what is shown of it."""
    first = ground.publish("things", 0, *records)
    found = ground.get("/topics/things/messages", host, partition=0, offset=first, **query)
    return found["items"]


def value_of(ground: ApiGround, data: bytes, *, host: str = "b1", **query: object) -> Any:
    (item,) = page(ground, Record(0, 1, None, data), host=host, **query)
    return item["value"]


@pytest.mark.parametrize("host", ["b1", "b2", "b3"])
def test_any_broker_decodes_by_the_registry(ground: ApiGround, host: str) -> None:
    record = Record(0, 1, framed(6, b"\x04ab"), framed(2, ORDER_DATA))
    (item,) = page(ground, record, host=host)
    key, value = item["key"], item["value"]
    assert (key["kind"], key["text"], key["bytes"]) == ("avro", '"ab"', 8)
    assert key["schema"] == {"id": 6, "type": "AVRO", "subject": "things-key", "version": 1}
    assert (value["kind"], json.loads(value["text"])) == ("avro", ORDER_SHOWN)
    assert value["schema"] == {"id": 2, "type": "AVRO", "subject": "things-value", "version": 3}
    assert (value["undecoded"], value["is_cut"]) == (None, False)


@pytest.mark.parametrize(
    ("data", "kind", "shown"),
    [
        (framed(4, b"\0" + CAR_DATA), "protobuf", CAR_SHOWN),
        (framed(4, b"\x02\0" + CAR_DATA), "protobuf", CAR_SHOWN),
        (framed(4, b"\x02\x02" + b"\x0a\x03Ada"), "protobuf", {"name": "Ada"}),
        (framed(4, b"\x04\0\0" + b"\x08\x11"), "protobuf", {"size": 17}),
        (framed(4, b"\x04\0\x02"), "protobuf", {}),
        (framed(4, b"\x04\0\x04" + b"\x0a\x01z\x10\x04"), "protobuf", {"key": "z", "value": 4}),
        (framed(5, b'{"n": 12345678901234567890}'), "json", {"n": 12345678901234567890}),
        (b"\x82\xa1a\x01\xa1b\xc4\x01\xff", "msgpack", {"a": 1, "b": "/w=="}),
    ],
    ids="first first-long second nested other entry json msgpack".split(),
)
def test_values_are_decoded_as_what_they_are(
    ground: ApiGround, data: bytes, kind: str, shown: object
) -> None:
    value = value_of(ground, data)
    assert (value["undecoded"], value["kind"], json.loads(value["text"])) == (None, kind, shown)


def test_json_is_shown_as_it_was_written(ground: ApiGround) -> None:
    value = value_of(ground, framed(5, b'{ "n": 1.50 }'))
    assert (value["kind"], value["text"]) == ("json", '{ "n": 1.50 }')
    assert value["schema"]["subject"] == "docs"


@pytest.mark.parametrize(
    ("data", "wanted", "kind", "reason"),
    [
        (framed(2, b"\x0e"), "auto", "hex", "it ends within a number"),
        (framed(2, ORDER_DATA + b"!"), "auto", "hex", "1 byte follows the value"),
        (framed(99, b"\x0e"), "auto", "hex", "there is no schema 99"),
        (framed(4, b"\x02\x06"), "auto", "hex", "its schema has no message [3]"),
        (framed(4, b"\x7f"), "auto", "hex", "it does not say which message of its schema it is"),
        (framed(5, b"{"), "auto", "hex", "it is no JSON: Input data was truncated"),
        (framed(2, ORDER_DATA), "protobuf", "hex", "its schema 2 is AVRO"),
        (framed(7, b"\xfe\xff\xff\xff\x0f\0"), "avro", "hex", "becomes more than 2097152"),
        (b"hello", "avro", "text", "it does not begin with a zero and the id of a schema"),
        (b'{"a": 1}', "protobuf", "json", "it does not begin with a zero and the id of a schema"),
        (b"hello", "json", "text", "it is no JSON"),
        (b"hello", "msgpack", "text", "4 bytes follow the value"),
        (b"\x81\xa1a", "auto", "hex", "1 more bytes"),
        (b"\0" * 8, "auto", "hex", None),
        (b"\0\0\0\0", "auto", "hex", None),
    ],
)
def test_what_cannot_be_decoded_says_why(
    ground: ApiGround, data: bytes, wanted: str, kind: str, reason: str | None
) -> None:
    value = value_of(ground, data, value_format=wanted)
    assert (value["kind"], value["schema"]) == (kind, None)
    if reason is None:
        assert value["undecoded"] is None
    else:
        assert reason in value["undecoded"]


@pytest.mark.parametrize(
    ("query", "kinds"),
    [
        ({}, ("avro", "avro")),
        ({"show": "hex"}, ("hex", "hex")),
        ({"show": "hex", "value_format": "auto"}, ("hex", "avro")),
        ({"key_format": "hex"}, ("hex", "avro")),
        ({"value_format": "hex"}, ("avro", "hex")),
        ({"value_format": "text"}, ("avro", "hex")),
        ({"key_format": "avro", "value_format": "avro"}, ("avro", "avro")),
    ],
)
def test_keys_and_values_have_formats_of_their_own(
    ground: ApiGround, query: dict[str, str], kinds: tuple[str, str]
) -> None:
    (item,) = page(ground, Record(0, 1, framed(6, b"\x04ab"), framed(2, ORDER_DATA)), **query)
    assert (item["key"]["kind"], item["value"]["kind"]) == kinds


def test_no_other_formats_are_known(ground: ApiGround) -> None:
    assert ground.ask("GET", "/topics/things/messages?value_format=xml").status == 400


def test_headers_may_name_the_schemas(ground: ApiGround) -> None:
    headers = (
        ("__key_schema_id", framed(6, b"")),
        ("__value_schema_id", framed(4, b"\x02\x02")),
    )
    (item,) = page(ground, Record(0, 1, b"\x04ab", b"\x0a\x03Ada", headers))
    assert (item["key"]["kind"], item["key"]["text"]) == ("avro", '"ab"')
    assert json.loads(item["value"]["text"]) == {"name": "Ada"}
    guid = (("__value_schema_id", b"\1" + bytes(16)),)
    (item,) = page(ground, Record(0, 1, None, b"\x0a\x03Ada", guid))
    assert "by a GUID" in item["value"]["undecoded"]


def test_what_is_decoded_is_cut_in_lists_and_whole_alone(ground: ApiGround) -> None:
    data = framed(6, b"\x80\xfa\x01" + b"x" * 16_000)
    value = value_of(ground, data)
    assert (value["kind"], len(value["text"]), value["is_cut"]) == ("avro", LISTED_BYTES_MAX, True)
    value = value_of(ground, data, limit=1)
    assert (len(value["text"]), value["is_cut"]) == (16_002, False)


def test_a_value_that_is_too_large_says_so(ground: ApiGround) -> None:
    big = framed(6, bytes(VALUE_BYTES_MAX))
    records = bytes(encode_batch([Record(0, 1, None, big)]))
    (value,) = (each.value for each in searched(records, SchemaBook(), Allowance()).messages)
    assert value.undecoded == f"only values of up to {VALUE_BYTES_MAX} bytes are decoded"


# -- what is looked up, and what it may take


def searched(
    records: bytes, book: SchemaBook, allowance: Allowance, wanted: SearchFilter | None = None
) -> Any:
    result = FetchResult(records=records, aborted=[], last_stable_offset=999, log_start_offset=0)
    form = Form(key="auto", value="auto")
    matcher = Matcher(wanted or SearchFilter())
    room = Room(records=1_000, bytes=1_000_000)
    return search(result, matcher, range(999), room, form, Decoder(book, allowance))


def test_hostile_ids_are_looked_up_within_a_bound() -> None:
    values = [framed(number, b"") for number in range(1, 2 * SCHEMAS_MAX)]
    records = [Record(at, 1, None, value) for at, value in enumerate(values)]
    book = SchemaBook()
    found = searched(bytes(encode_batch(records)), book, Allowance())
    assert len(book.missing) == SCHEMAS_MAX
    assert "more than 100 schemas" in found.messages[-1].value.undecoded
    book.add({number: UnknownSchema("none") for number in book.missing})
    found = searched(bytes(encode_batch(records)), book, Allowance())
    assert (len(found.messages), len(book.missing)) == (len(records), 0)


def large_schemas(count: int) -> dict[int, KnownSchema | UnknownSchema]:
    text = f'{{"type":"fixed","name":"F","size":1,"doc":"{"d" * 500_000}"}}'
    place = Place(subject="s", version=1)
    return {
        number: KnownSchema(
            id=number,
            type=SchemaType.AVRO,
            text=text,
            references={},
            key_place=place,
            value_place=place,
        )
        for number in range(1, count + 1)
    }


def test_a_question_parses_so_much_of_schemas() -> None:
    records = [Record(at, 1, None, framed(at % 6 + 1, b"a")) for at in range(12)]
    found = searched(bytes(encode_batch(records)), SchemaBook(large_schemas(6)), Allowance())
    kinds = [each.value.kind for each in found.messages]
    assert kinds == 2 * [*(["avro"] * 4), "hex", "hex"]
    assert "more than 2097152 characters" in found.messages[-1].value.undecoded


def test_a_search_in_decoded_values_goes_on_where_no_more_schemas_have_room() -> None:
    wanted = SearchFilter(json_path="n", decoded=True)
    batch = bytes(encode_batch([Record(at, 1, None, framed(at + 1, b"a")) for at in range(300)]))
    found = searched(batch, SchemaBook(large_schemas(6)), Allowance(), wanted)
    assert (found.is_spent, found.next) == (True, 4)
    book = SchemaBook()
    searched(batch, book, Allowance(), wanted)
    book.add({number: UnknownSchema("none") for number in book.missing})
    found = searched(batch, book, Allowance(), wanted)
    assert (found.is_spent, found.next) == (True, SCHEMAS_MAX)


def test_a_reason_is_as_long_as_people_read() -> None:
    name = "n" * 100_000
    schema = KnownSchema(
        id=1,
        type=SchemaType.PROTOBUF,
        text=f'syntax = "proto3"; message {name} {{ string text = 1; }}',
        references={},
        key_place=Place(subject="s", version=1),
        value_place=Place(subject="s", version=1),
    )
    record = Record(0, 1, None, framed(1, b"\0\x0a\1\xff"))
    found = searched(bytes(encode_batch([record])), SchemaBook({1: schema}), Allowance())
    reason = found.messages[0].value.undecoded
    assert reason.startswith("it cannot be read as nnn")
    assert len(reason) == REASON_LENGTH_MAX


Jobs = list[Callable[[], object]]


def decoding_run(jobs: Jobs, jobs_max: int) -> DecodingRun:
    """Return a run whose jobs are done by hand, and whose registry is empty."""

    def run(
        work: Callable[[], object], on_done: Callable[[object, Exception | None], None]
    ) -> None:
        if len(jobs) >= jobs_max:
            raise OverBound("too many jobs")
        jobs.append(lambda: on_done(work(), None))

    schemas = SimpleNamespace(state=RegistryState(), catch_up=lambda on_read: on_read(True))
    clock = SimpleNamespace(call_later=lambda *_: SimpleNamespace(cancel=lambda: None))
    condition = SimpleNamespace(disk=SimpleNamespace(run=run))
    doors = SimpleNamespace(condition=condition, schemas=schemas, clock=clock)
    context: Any = SimpleNamespace(doors=doors)
    return DecodingRun(context, "things", None)


def test_what_cannot_be_worked_on_a_second_time_is_refused() -> None:
    jobs: Jobs = []
    told: list[tuple[str | None, Exception | None]] = []

    def work(decoder: Decoder) -> str:
        with suppress(UndecodableError):
            decoder.decode(framed(7, b""), "auto")
        return "done"

    decoding_run(jobs, 1).run(work, lambda *both: told.append(both))
    jobs[0]()
    assert [(found, str(error)) for found, error in told] == [(None, "too many jobs")]


def test_a_question_whose_schemas_come_one_by_one_works_within_a_bound() -> None:
    jobs: Jobs = []
    told: list[object] = []
    decoded: list[int] = []

    def work(decoder: Decoder) -> int:
        # As if what is decoded now left room for one message more.
        with suppress(UndecodableError):
            decoder.decode(framed(len(jobs), b""), "auto")
        before = decoder.allowance.left
        with suppress(UndecodableError):
            while True:
                decoder.decode(b"\x81\xa1a\xc6\0\x07\0\0" + bytes(0x70000), "auto")
        decoded.append(before - decoder.allowance.left)
        return len(jobs)

    decoding_run(jobs, 1_000).run(work, lambda *both: told.append(both))
    for number in range(1_000):
        if number < len(jobs):
            jobs[number]()
    assert told == [(SCHEMAS_MAX + 1, None)]
    assert sum(decoded) == WORK_BYTES_MAX


def test_headers_take_of_what_a_page_shows() -> None:
    headers = tuple(("h", b"x" * 8_000) for _ in range(50))
    records = [Record(at, 1, None, b"a", headers) for at in range(10)]
    found = searched(bytes(encode_batch(records)), SchemaBook(), Allowance())
    assert (len(found.messages), found.next) == (3, 3)


LISTS = KnownSchema(
    id=1,
    type=SchemaType.AVRO,
    text='{"type":"array","items":{"type":"record","name":"R","fields":[{"name":"n","type":"int"}]}}',
    references={},
    key_place=Place(subject="s", version=1),
    value_place=Place(subject="s", version=1),
)
#: Lists of 10,000 records each: 330 kB of what may be decoded.
LONG = [
    Record(at, 1, None, framed(1, b"\xa0\x9c\x01" + b"\x02" * 10_000 + b"\0")) for at in range(30)
]


def test_a_page_decodes_so_much_and_shows_the_rest_as_it_is() -> None:
    found = searched(bytes(encode_batch(LONG)), SchemaBook({1: LISTS}), Allowance())
    kinds = [each.value.kind for each in found.messages]
    assert len(kinds) == 30
    assert kinds == sorted(kinds)
    assert kinds.count("avro") == 25
    assert "ask for fewer" in found.messages[-1].value.undecoded


def test_a_search_in_decoded_values_goes_on_where_it_could_not_decode_more() -> None:
    # A record of one field is written as that is. What a list is shown as has to be decoded.
    text = f'{{"type":"record","name":"L","fields":[{{"name":"l","type":{LISTS.text}}}]}}'
    schema = dataclasses.replace(LISTS, text=text)
    wanted = SearchFilter(json_path="l", json_value="x", decoded=True)
    records = bytes(encode_batch(LONG))
    found = searched(records, SchemaBook({1: schema}), Allowance(), wanted)
    assert found.is_spent
    assert found.next == found.records == 25


def test_a_search_looks_into_decoded_values() -> None:
    ground = ApiGround(32)
    ground.create("things", 2)
    done: list[object] = []
    register(ground.cluster.brokers["b1"].doors, done)
    ground.run_until(lambda: bool(done))
    values = [
        framed(2, ORDER_DATA),
        framed(2, written_order("Bob")),
        framed(4, b"\0" + CAR_DATA),
        b'{"to": {"name": "Ann"}}',
        b"\x81\xa2to\x81\xa4name\xa3Ann",
        framed(2, b"\x0e"),
        framed(99, b"Ann"),
    ]
    ground.publish("things", 0, *(Record(0, 1, None, each) for each in values))

    def offsets(wanted: Mapping[str, object]) -> list[int]:
        told = ground.ask("POST", "/search", {"topic": "things", "filter": wanted}, "b3")
        lines = [json.loads(line) for line in told.body.splitlines()]
        assert lines[-1]["reason"] == "complete"
        return [each["message"]["offset"] for each in lines if each["kind"] == "match"]

    by_name = {"json_path": "to.name", "json_value": "Ann"}
    assert offsets(by_name) == [3]
    assert offsets({**by_name, "decoded": True}) == [0, 3, 4]
    assert offsets({"json_path": "colour", "json_value": "RED", "decoded": True}) == [2]
    assert offsets({"json_path": "id", "decoded": True}) == [0, 1, 2]


def test_messages_of_queues_are_decoded(ground: ApiGround) -> None:
    ground.create_queue("letters")
    written = framed(6, b"\x04ab").decode()
    ground.put("letters", written, "plain", framed(99, b"a").decode())
    items = ground.get("/queues/letters/messages", "b3")["items"]
    kinds = [(each["value"]["kind"], each["value"]["text"]) for each in items[:2]]
    assert kinds == [("avro", '"ab"'), ("text", "plain")]
    assert items[0]["value"]["schema"]["subject"] == "things-key"
    assert items[2]["value"]["undecoded"] == "there is no schema 99"
    (raw, *_) = ground.get("/queues/letters/messages", value_format="hex")["items"]
    assert raw["value"]["text"] == written.encode().hex()


# -- who may


def test_a_schema_is_known_to_who_may_see_one_of_its_subjects(tmp_path: Path) -> None:
    cluster = AdminCluster(tmp_path)
    try:
        for name in ("reader", "root"):
            add_user(cluster.live, name)
        body = {"name": "things", "partitions": 1, "replication_factor": 1}
        made = cluster.ask("POST", "/api/v1/topics", body=body, token=cluster.token("root"))
        assert made.status == 201
        doors = cluster.live.nodes[1].broker.doors
        done: list[object] = []
        register(doors, done)
        cluster.live.wait(lambda: bool(done), "schemas are registered")
        batch = bytes(encode_batch([Record(0, 1, None, framed(2, ORDER_DATA))]))
        told: list[object] = []
        doors.publishing.publish(
            TopicPartition("things", 0),
            batch,
            acks=-1,
            timeout_ms=10_000,
            on_done=told.append,
            is_wanted=lambda: True,
        )
        cluster.live.wait(lambda: bool(told), "the record is there")
        allow(cluster.live, "reader", Operation.READ, ResourceType.TOPIC, "things")
        token = cluster.token("reader")

        def value() -> Any:
            found = cluster.ask("GET", "/api/v1/topics/things/messages", token=token)
            return msgspec.json.decode(found.body)["items"][0]["value"]

        hidden = value()
        assert (hidden["kind"], hidden["schema"]) == ("hex", None)
        assert hidden["undecoded"] == "there is no schema 2"
        allow(cluster.live, "reader", Operation.DESCRIBE, ResourceType.SUBJECT, "things-*")
        assert json.loads(value()["text"]) == ORDER_SHOWN
    finally:
        cluster.close()


def test_without_the_leader_of_the_schemas_known_ones_serve(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ground = ApiGround(33)
    ground.create("things")
    done: list[object] = []
    register(ground.cluster.brokers["b1"].doors, done)
    ground.run_until(lambda: bool(done))
    values = [Record(0, 1, None, framed(number, b"\x04ab")) for number in (6, 99)]
    assert page(ground, *values)[0]["value"]["kind"] == "avro"
    # Nobody answers who reads its log.
    monkeypatch.setattr(SchemaLog, "catch_up", lambda *_: None)
    known, unknown = page(ground, *values)
    assert known["value"]["kind"] == "avro"
    assert "as far as the registry could be read in time" in unknown["value"]["undecoded"]
