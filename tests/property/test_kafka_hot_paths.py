"""The hand-written Produce and Fetch against the generated ones, and so against kio."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.protocols.kafka import fetch_path, frames, produce_path
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.errors import MalformedRequest
from kafkaesque.protocols.kafka.fetch_path import PartitionFetched
from kafkaesque.protocols.kafka.messages import (
    fetch_request,
    fetch_response,
    produce_request,
    produce_response,
)
from kafkaesque.protocols.kafka.produce_path import PartitionProduced
from tests.property.kafka_oracle import kio_bytes, samples

PRODUCE_VERSIONS = list(produce_request.READ)
FETCH_VERSIONS = list(fetch_request.READ)
SAMPLES = 40


def produce_as_tuples(message: produce_request.ProduceRequest, version: int) -> Any:
    by_id = version >= produce_path.TOPIC_ID_FROM
    return (
        message.transactional_id,
        message.acks,
        message.timeout_ms,
        [
            (
                topic.topic_id if by_id else topic.name,
                [(part.index, part.records) for part in topic.partition_data],
            )
            for topic in message.topic_data
        ],
    )


def produce_generated(data: memoryview, version: int) -> Any:
    try:
        return produce_as_tuples(produce_request.READ[version](data), version)
    except MalformedRequest:
        return None


def produce_by_hand(data: memoryview, version: int) -> Any:
    try:
        call = produce_path.read_produce_request(data, 0, version)
    except MalformedRequest:
        return None
    return (call.transactional_id, call.acks, call.timeout_ms, call.topics)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_produce_requests_are_read_alike(version: int) -> None:
    for entity in samples("produce_request", version, SAMPLES):
        data = memoryview(kio_bytes(entity))
        assert produce_by_hand(data, version) == produce_generated(data, version) is not None


@given(
    version=st.sampled_from(PRODUCE_VERSIONS),
    name=st.text(max_size=130),
    transactional_id=st.none() | st.just("t"),
    partitions=st.lists(
        st.tuples(st.integers(0, 2**31 - 1), st.none() | st.integers(0, 20_000)), max_size=2
    ),
    topics=st.integers(0, 2),
)
def test_usual_produce_requests_are_read_alike(
    version: int,
    name: str,
    transactional_id: str | None,
    partitions: list[tuple[int, int | None]],
    topics: int,
) -> None:
    topic = produce_request.TopicProduceData(
        topic_id=b"0123456789abcdef",
        name=name,
        partition_data=[
            produce_request.PartitionProduceData(index, None if size is None else b"r" * size)
            for index, size in partitions
        ],
    )
    message = produce_request.ProduceRequest(transactional_id, -1, 30_000, [topic] * topics)
    parts: list[Any] = []
    produce_request.WRITE[version](message, parts)
    data = memoryview(b"".join(parts))
    assert produce_by_hand(data, version) == produce_as_tuples(message, version)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_broken_produce_requests_are_refused_alike(version: int) -> None:
    dice = random.Random(f"broken produce {version}")
    for entity in samples("produce_request", version, SAMPLES):
        data = kio_bytes(entity)
        for _ in range(40):
            mutated = bytearray(data)
            at = dice.randrange(len(mutated))
            mutated[at : at + dice.randint(0, 2)] = dice.randbytes(dice.randint(0, 2))
            broken = memoryview(mutated)
            assert produce_by_hand(broken, version) == produce_generated(broken, version)
        for cut in range(0, len(data), 1 + len(data) // 500):
            assert produce_by_hand(memoryview(data[:cut]), version) is None


def produced(part: produce_response.PartitionProduceResponse) -> PartitionProduced:
    leader = part.current_leader
    return PartitionProduced(
        part.index,
        part.error_code,
        part.base_offset,
        part.log_append_time_ms,
        part.log_start_offset,
        part.error_message,
        [(e.batch_index, e.batch_index_error_message) for e in part.record_errors],
        None if leader is None else (leader.leader_id, leader.leader_epoch),
    )


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_produce_responses_are_written_alike(version: int) -> None:
    for entity in samples("produce_response", version, SAMPLES):
        message = produce_response.READ[version](memoryview(kio_bytes(entity)))
        by_id = version >= produce_path.TOPIC_ID_FROM
        frame = produce_path.write_produce_response(
            version,
            77,
            [
                (topic.topic_id if by_id else topic.name, list(map(produced, partitions)))
                for topic in message.responses
                for partitions in [topic.partition_responses]
            ],
            message.throttle_time_ms,
            [(n.node_id, n.host, n.port, n.rack) for n in message.node_endpoints],
        )
        assert frame == frames.write_response(ApiKey.PRODUCE, version, 77, message)


_LONGS = st.integers(-(2**63), 2**63 - 1)
_INTS = st.integers(-(2**31), 2**31 - 1)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@given(data=st.data())
def test_the_answer_to_one_appended_batch_is_written_alike(
    version: int, data: st.DataObject
) -> None:
    ids, names = st.binary(min_size=16, max_size=16), st.text("aé.", max_size=249)
    topic: produce_path.TopicKey
    topic = data.draw(ids) if version >= produce_path.TOPIC_ID_FROM else data.draw(names)
    correlation_id, index = data.draw(_INTS), data.draw(_INTS)
    offsets = data.draw(st.tuples(_LONGS, _LONGS, _LONGS))
    frame = produce_path.write_one_produced(version, correlation_id, topic, index, *offsets)
    outcome = PartitionProduced(index, 0, *offsets)
    assert frame == produce_path.write_produce_response(
        version, correlation_id, [(topic, [outcome])]
    )


def fetch_as_tuples(message: fetch_request.FetchRequest, version: int) -> Any:
    by_id = version >= fetch_path.TOPIC_ID_FROM
    state = message.replica_state
    return (
        message.replica_id if state is None else state.replica_id,
        message.max_wait_ms,
        message.min_bytes,
        message.max_bytes,
        message.isolation_level,
        message.session_id,
        message.session_epoch,
        [
            (
                topic.topic_id if by_id else topic.topic,
                [
                    (
                        part.partition,
                        part.current_leader_epoch,
                        part.fetch_offset,
                        part.last_fetched_epoch,
                        part.log_start_offset,
                        part.partition_max_bytes,
                    )
                    for part in topic.partitions
                ],
            )
            for topic in message.topics
        ],
        [(t.topic_id if by_id else t.topic, t.partitions) for t in message.forgotten_topics_data],
        message.rack_id,
    )


def fetch_by_hand(data: memoryview, version: int) -> Any:
    call = fetch_path.read_fetch_request(data, 0, version)
    topics = [
        (topic, [tuple(getattr(part, name) for name in FETCH_FIELDS) for part in partitions])
        for topic, partitions in call.topics
    ]
    return (
        call.replica_id,
        call.max_wait_ms,
        call.min_bytes,
        call.max_bytes,
        call.isolation_level,
        call.session_id,
        call.session_epoch,
        topics,
        call.forgotten,
        call.rack_id,
    )


FETCH_FIELDS = (
    "partition",
    "current_leader_epoch",
    "fetch_offset",
    "last_fetched_epoch",
    "log_start_offset",
    "partition_max_bytes",
)


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_fetch_requests_are_read_alike(version: int) -> None:
    for entity in samples("fetch_request", version, SAMPLES):
        data = memoryview(kio_bytes(entity))
        message = fetch_request.READ[version](data)
        assert fetch_by_hand(data, version) == fetch_as_tuples(message, version)


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_broken_fetch_requests_are_refused(version: int) -> None:
    dice = random.Random(f"broken fetch {version}")
    for entity in samples("fetch_request", version, SAMPLES):
        data = kio_bytes(entity)
        for cut in range(0, len(data), 1 + len(data) // 500):
            with pytest.raises(MalformedRequest):
                fetch_by_hand(memoryview(data[:cut]), version)
        for _ in range(40):
            mutated = bytearray(data)
            at = dice.randrange(len(mutated))
            mutated[at : at + dice.randint(0, 2)] = dice.randbytes(dice.randint(0, 2))
            try:
                expected = fetch_as_tuples(
                    fetch_request.READ[version](memoryview(mutated)), version
                )
            except MalformedRequest:
                # What only brokers of Kafka say in tagged fields is not looked at by hand.
                if version < fetch_path.TOPIC_ID_FROM - 1:
                    with pytest.raises(MalformedRequest):
                        fetch_by_hand(memoryview(mutated), version)
                continue
            assert fetch_by_hand(memoryview(mutated), version) == expected


def fetched(part: fetch_response.PartitionData, records: Any) -> PartitionFetched:
    leader, diverging = part.current_leader, part.diverging_epoch
    aborted = part.aborted_transactions
    return PartitionFetched(
        part.partition_index,
        part.error_code,
        part.high_watermark,
        part.last_stable_offset,
        part.log_start_offset,
        records,
        len(part.records or b""),
        None if aborted is None else [(a.producer_id, a.first_offset) for a in aborted],
        part.preferred_read_replica,
        None if leader is None else (leader.leader_id, leader.leader_epoch),
        None if diverging is None else (diverging.epoch, diverging.end_offset),
    )


class Range:
    """Records that are somewhere else: nothing may look into them or copy them."""

    def __init__(self, data: Any) -> None:
        self.data = data


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_fetch_responses_are_written_alike_and_pass_records_through(version: int) -> None:
    for entity in samples("fetch_response", version, SAMPLES):
        message = fetch_response.READ[version](memoryview(kio_bytes(entity)))
        by_id = version >= fetch_path.TOPIC_ID_FROM
        topics = []
        ranges = []
        for topic in message.responses:
            answers = []
            for part in topic.partitions:
                # Null and empty records are both sent as empty ones, and no snapshot is ever named.
                part.records, part.snapshot_id = part.records or b"", None
                answers.append(fetched(part, Range(part.records)))
                if part.records:
                    ranges.append(answers[-1].records)
            topics.append((topic.topic_id if by_id else topic.topic, answers))
        parts, total = fetch_path.write_fetch_response(
            version,
            77,
            topics,
            message.session_id,
            message.error_code,
            message.throttle_time_ms,
            [(n.node_id, n.host, n.port, n.rack) for n in message.node_endpoints],
        )
        assert [part for part in parts if isinstance(part, Range)] == ranges
        frame = b"".join(part.data if isinstance(part, Range) else part for part in parts)
        assert frame == frames.write_response(ApiKey.FETCH, version, 77, message)
        assert len(frame) == total


@pytest.mark.parametrize("version", [9, 12, 13])
@pytest.mark.parametrize("length", [b"\x80\x00", b"\x81\x00", b"\x82\x00", b"\x85\x80\x00"])
def test_lengths_in_more_bytes_than_needed_are_read_alike(version: int, length: bytes) -> None:
    topic = b"i" * 16 if version >= produce_path.TOPIC_ID_FROM else b"\x02t"
    n = int.from_bytes(length[:1], "big") & 127
    head = b"\x00\xff\xff\x00\x00\x00\x01\x02" + topic + b"\x02\x00\x00\x00\x05"
    data = memoryview(head + length + b"r" * max(0, n - 1) + bytes(3))
    assert produce_by_hand(data, version) == produce_generated(data, version) is not None
    assert produce_by_hand(data[:-1], version) is None


@pytest.mark.parametrize("size", [12, 14])
def test_a_replica_state_of_another_size_than_it_says_is_refused(size: int) -> None:
    message = fetch_request.FetchRequest(replica_state=fetch_request.ReplicaState(3, 4))
    parts: list[Any] = []
    fetch_request.WRITE[15](message, parts)
    data = b"".join(parts)
    assert data.endswith(b"\x01\x01\x0d\x00\x00\x00\x03" + bytes(7) + b"\x04\x00")
    assert fetch_by_hand(memoryview(data), 15)[0] == 3
    for tail in (b"", b"\x00"):
        broken = data[:-14] + bytes([size]) + data[-13:] + tail
        with pytest.raises(MalformedRequest):
            fetch_by_hand(memoryview(broken), 15)


def test_the_tag_of_a_replica_state_means_nothing_before_version_15() -> None:
    parts: list[Any] = []
    fetch_request.WRITE[14](fetch_request.FetchRequest(replica_id=9), parts)
    data = b"".join(parts)[:-1] + b"\x01\x01\x02ab"
    assert fetch_by_hand(memoryview(data), 14)[0] == 9
