"""The transaction log's records: what is written is read back, and nothing else is believed."""

from dataclasses import replace
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.model.errors import InvariantBroken
from kafkaesque.model.ids import TopicPartition
from kafkaesque.transactions.errors import BadTransactionRecord
from kafkaesque.transactions.records import (
    TransactionValue,
    read_key,
    read_value,
    write_key,
    write_value,
)
from kafkaesque.transactions.states import STORED, TransactionState

INT64 = st.integers(-(2**63), 2**63 - 1)
NATURAL = st.integers(0, 2**63 - 1)
PARTITIONS = st.frozensets(
    st.builds(TopicPartition, st.text(max_size=8), st.integers(0, 2**31 - 1)), max_size=6
)


@st.composite
def values(draw: st.DrawFn) -> TransactionValue:
    state = draw(st.sampled_from(list(STORED.values())))
    is_empty = state is TransactionState.EMPTY
    return TransactionValue(
        producer_id=draw(NATURAL),
        producer_epoch=draw(st.integers(0, 2**15 - 1)),
        timeout_ms=draw(st.integers(0, 2**31 - 1)),
        state=state,
        partitions=frozenset() if is_empty else draw(PARTITIONS),
        update_wall_ms=draw(INT64),
        start_wall_ms=draw(INT64),
        previous_producer_id=draw(st.just(-1) | NATURAL),
        next_producer_id=draw(st.just(-1) | NATURAL),
        client_version=draw(st.integers(0, 2**15 - 1)),
    )


def refuses_every_cut(data: bytes, read: object) -> None:
    assert callable(read)
    for length in range(len(data)):
        with pytest.raises(BadTransactionRecord):
            read(data[:length])
    with pytest.raises(BadTransactionRecord):
        read(data + b"\x00")


@given(values())
def test_values_are_read_back(value: TransactionValue) -> None:
    data = write_value(value)
    assert read_value(data) == value
    refuses_every_cut(data, read_value)


@given(st.text(max_size=20))
def test_keys_are_read_back(transactional_id: str) -> None:
    key = write_key(transactional_id)
    assert read_key(key) == transactional_id
    refuses_every_cut(key, read_key)


@given(st.integers(-1, 2), st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(version: int, rest: bytes) -> None:
    data = version.to_bytes(2, "big", signed=True) + rest
    for read in (read_key, read_value):
        try:
            read(data)
        except BadTransactionRecord:
            continue


@given(values(), st.data())
def test_a_changed_byte_is_read_or_refused(value: TransactionValue, data: st.DataObject) -> None:
    changed = bytearray(write_value(value))
    position = data.draw(st.integers(0, len(changed) - 1))
    changed[position] ^= data.draw(st.integers(1, 255))
    try:
        read_value(bytes(changed))
    except BadTransactionRecord:
        return


VALUE = TransactionValue(
    producer_id=7,
    producer_epoch=3,
    timeout_ms=60_000,
    state=TransactionState.ONGOING,
    partitions=frozenset((TopicPartition("t", 1), TopicPartition("t", 0))),
    update_wall_ms=20,
    start_wall_ms=10,
)

#: Version 0, as older coordinators of Apache Kafka have written it.
HEAD_V0 = pack(">hqhib", 0, 7, 3, 60_000, 1)
TOPICS_V0 = pack(">ih1sIii", 1, 1, b"t", 2, 0, 1)
TIMES = pack(">qq", 20, 10)


def test_version_0_is_read() -> None:
    data = HEAD_V0 + TOPICS_V0 + TIMES
    assert read_value(data) == VALUE
    refuses_every_cut(data, read_value)


def test_an_empty_transaction_has_null_for_partitions_in_both_versions() -> None:
    empty = replace(VALUE, state=TransactionState.EMPTY, partitions=frozenset(), start_wall_ms=-1)
    v0 = pack(">hqhib", 0, 7, 3, 60_000, 0) + pack(">i", -1) + pack(">qq", 20, -1)
    assert read_value(v0) == empty
    v1 = pack(">hqhib", 1, 7, 3, 60_000, 0) + b"\x00" + pack(">qq", 20, -1) + b"\x00"
    assert write_value(empty) == v1


def test_version_1_is_written_byte_for_byte_as_kafka_does() -> None:
    value = replace(VALUE, previous_producer_id=7, next_producer_id=9, client_version=2)
    expected = (
        pack(">hqhib", 1, 7, 3, 60_000, 1)
        + b"\x02\x02t\x03"
        + pack(">ii", 0, 1)
        + b"\x00"
        + TIMES
        + b"\x03"
        + b"\x00\x08"
        + pack(">q", 7)
        + b"\x01\x08"
        + pack(">q", 9)
        + b"\x02\x02"
        + pack(">h", 2)
    )
    assert write_value(value) == expected


def test_a_tag_that_we_do_not_know_is_passed_over() -> None:
    data = bytearray(write_value(VALUE))
    assert data.pop() == 0
    assert read_value(bytes(data) + b"\x01\x03\x02\x00\x05") == VALUE


@pytest.mark.parametrize(
    "data",
    [
        pack(">hqhib", 2, 7, 3, 60_000, 1) + TOPICS_V0 + TIMES,
        pack(">hqhib", 0, -1, 3, 60_000, 1) + TOPICS_V0 + TIMES,
        pack(">hqhib", 0, 7, -1, 60_000, 1) + TOPICS_V0 + TIMES,
        pack(">hqhib", 0, 7, 3, -1, 1) + TOPICS_V0 + TIMES,
        pack(">hqhib", 0, 7, 3, 60_000, 0) + TOPICS_V0 + TIMES,
        pack(">hqhib", 0, 7, 3, 60_000, 6) + TOPICS_V0 + TIMES,
        pack(">hqhib", 0, 7, 3, 60_000, 7) + TOPICS_V0 + TIMES,
        HEAD_V0 + pack(">i", -2) + TIMES,
        HEAD_V0 + pack(">i", 2**31 - 1) + TIMES,
        HEAD_V0 + pack(">ih1sIi", 1, 1, b"t", 1, -1) + TIMES,
        HEAD_V0 + pack(">ih1sIi", 1, 1, b"\xff", 1, 0) + TIMES,
        HEAD_V0 + pack(">ihI", 1, -1, 0) + TIMES,
        HEAD_V0 + pack(">ih1si", 1, 1, b"t", -1) + TIMES,
        write_value(VALUE)[:-1] + b"\x01\x00\x04\x00\x00\x00\x00",
        write_value(VALUE)[:-1] + b"\x01\x01\x08" + pack(">q", -2),
        write_value(VALUE)[:-1] + b"\x02\x07\x00\x07\x00",
        write_value(VALUE)[:-1] + b"\xff\xff\xff\xff\xff\xff",
    ],
)
def test_a_value_that_breaks_its_version_s_promise_is_refused(data: bytes) -> None:
    with pytest.raises(BadTransactionRecord):
        read_value(data)


def test_a_key_of_a_later_version_is_not_ours() -> None:
    assert read_key(b"\x00\x01anything") is None
    with pytest.raises(BadTransactionRecord):
        read_key(b"\xff\xff\x00\x00")


def test_what_does_not_fit_into_a_record_is_our_mistake() -> None:
    with pytest.raises(InvariantBroken):
        write_key("x" * 32_768)
    with pytest.raises(InvariantBroken):
        write_value(replace(VALUE, state=TransactionState.EMPTY))
