"""Batches with fewer records: the same as encoding what stays."""

from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.model.batch import read_batch_header, read_payload, scan_batches
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.batch_filter import filter_batch
from kafkaesque.model.compression import Codec
from kafkaesque.model.records import Record, decode_batch

names = st.text(max_size=5).filter(lambda name: all(not 0xD800 <= ord(c) < 0xE000 for c in name))
rows = st.tuples(
    st.integers(1, 4),
    st.integers(-(2**40), 2**40),
    st.none() | st.binary(max_size=70),
    st.none() | st.binary(max_size=300),
    st.lists(st.tuples(names, st.none() | st.binary(max_size=5)), max_size=2).map(tuple),
)


@given(
    st.lists(st.tuples(rows, st.booleans()), min_size=1, max_size=12),
    st.sampled_from(list(Codec)),
    st.none() | st.integers(-(2**41), 2**41),
    st.none() | st.integers(0, 2**40),
)
def test_what_stays_is_what_was_there(
    script: list[tuple[tuple[int, int, bytes, bytes, tuple[tuple[str, bytes], ...]], bool]],
    codec: Codec,
    horizon_ms: int | None,
    append_time_ms: int | None,
) -> None:
    offset = 100
    records: list[Record] = []
    for (gap, *fields), _ in script:
        offset += gap
        records.append(Record(offset, *fields))  # type: ignore[arg-type]
    options = BatchOptions(
        codec=codec,
        leader_epoch=3,
        producer_id=7,
        producer_epoch=1,
        base_sequence=9,
        transactional=True,
        append_time_ms=append_time_ms,
        base_offset=99,
        last_offset=offset + 5,
    )
    data = encode_batch(records, options)
    header = read_batch_header(data)
    kept = [row for row, (_, stays) in enumerate(script) if stays] or [0]
    latest = max(records[row].timestamp_ms for row in kept)
    payload = read_payload(data, header, 1 << 20)
    out = bytes(filter_batch(header, payload, kept, latest, delete_horizon_ms=horizon_ms))
    scan = scan_batches(out, walk=True)
    assert scan.end == len(out)
    (found,) = scan.batches
    wanted = [records[row] for row in kept]
    if append_time_ms is not None:
        wanted = [record._replace(timestamp_ms=append_time_ms) for record in wanted]
        latest = append_time_ms
    assert decode_batch(out, 1 << 20) == wanted
    assert found.delete_horizon_ms == horizon_ms
    assert found.max_timestamp_ms == latest
    base_time = header.base_timestamp_ms if horizon_ms is None else horizon_ms
    attributes = header.attributes | (0 if horizon_ms is None else 0x40)
    assert found == header._replace(
        batch_length=found.batch_length,
        crc=found.crc,
        record_count=len(kept),
        max_timestamp_ms=latest,
        base_timestamp_ms=base_time,
        attributes=attributes,
        latest_timestamp_ms=found.latest_timestamp_ms,
    )
    if len(kept) == len(records) and horizon_ms is None and not codec:
        assert out == bytes(data)
