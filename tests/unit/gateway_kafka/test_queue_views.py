"""Queues that Kafka's clients read as topics: what they are shown, and that they take nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.gateway.kafka import queue_views
from kafkaesque.gateway.kafka.queue_views import shown_batches
from kafkaesque.gateway.kafka.turns import Turn
from kafkaesque.model.batch import scan_batches
from kafkaesque.model.batch_encoder import (
    BatchOptions,
    EndMarker,
    MarkerType,
    encode_batch,
    encode_end_marker,
)
from kafkaesque.model.ids import Offset
from kafkaesque.model.kernel_types import Headers
from kafkaesque.model.message_headers import (
    DEATH,
    PRIORITY,
    STAGED,
    STORED_AMQP,
    STORED_MQTT,
    STORED_NATS,
    STORED_SQS,
)
from kafkaesque.model.record_errors import CorruptBatch
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.protocols.amqp.properties import Properties, write_properties
from kafkaesque.protocols.amqp.stored_message import write_stored
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages import describe_topic_partitions_request as describing
from kafkaesque.protocols.kafka.messages import fetch_request as fetching
from kafkaesque.protocols.kafka.messages import list_offsets_request as listing
from kafkaesque.protocols.kafka.messages import run_transaction_request as run
from kafkaesque.protocols.kafka.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kafkaesque.protocols.kafka.messages.alter_queue_request import AlterQueueRequest
from kafkaesque.protocols.kafka.messages.alter_queue_request import SetOption as Change
from kafkaesque.protocols.kafka.messages.delete_queue_request import DeleteQueueRequest
from kafkaesque.protocols.kafka.messages.list_config_resources_request import (
    ListConfigResourcesRequest,
)
from kafkaesque.protocols.kafka.messages.metadata_request import (
    MetadataRequest,
    MetadataRequestTopic,
)
from kafkaesque.tables import replicated
from tests.unit.gateway_kafka.live import LiveCluster
from tests.unit.gateway_kafka.secured import Client, produce_request
from tests.unit.gateway_kafka.test_queues import (
    BYTES,
    TIMEOUT_MS,
    VHOST,
    create,
    put,
    settle,
    take,
)

EARLIEST, LATEST = -2, -1
LAST_VERSION_WITH_NAMES = 12
EPOCH = 3

# -- batches


def message(offset: int, headers: Headers = (), key: bytes | None = None) -> Record:
    return Record(offset, 5, key, b"%d" % offset, headers)


def batch(*records: Record, **more: Any) -> bytearray:
    options = {"leader_epoch": EPOCH, "append_time_ms": 1_000 + records[0].offset, **more}
    return encode_batch(records, BatchOptions(**options))


def decision(offset: int, **more: Any) -> bytearray:
    record = Record(offset, 5, b"\0\0\x51\x55", b"decided")
    return batch(record, control=True, **more)


def shown(*batches: bytearray, aborted: Sequence[tuple[int, int]] = ()) -> list[Any]:
    """Return each batch that readers get: where it begins and ends, and its records."""
    data = bytes(shown_batches(b"".join(batches), aborted))
    scan = scan_batches(data)
    assert scan.end == len(data)
    assert not any(each.is_control or each.is_transactional for each in scan.batches)
    return [
        (each.base_offset, each.next_offset, decode_batch(data, BYTES, at=each.at))
        for each in scan.batches
    ]


def test_decisions_are_covered_by_the_messages_beside_them() -> None:
    found = shown(decision(0), batch(message(1), message(2)), decision(3), batch(message(4)))
    assert [(first, end, len(records)) for first, end, records in found] == [(0, 4, 2), (4, 5, 1)]
    assert [each.offset for _, _, records in found for each in records] == [1, 2, 4]
    assert [each.timestamp_ms for each in found[0][2]] == [1_001, 1_001]
    assert found[1][2][0].timestamp_ms == 1_004


def test_where_there_are_decisions_only_a_reader_goes_on_all_the_same() -> None:
    assert shown(decision(7), decision(8)) == [(7, 9, [])]
    assert shown() == []


def test_batches_of_two_leaders_stay_two() -> None:
    found = shown(batch(message(1)), decision(2, leader_epoch=EPOCH + 1))
    assert [(first, end) for first, end, _ in found] == [(1, 2), (2, 3)]


def test_what_was_aborted_is_not_shown_and_what_was_committed_is() -> None:
    def of(producer: int, sequence: int, *records: Record) -> bytearray:
        more = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}
        return batch(*records, transactional=True, **more)

    def end(producer: int, offset: int, how: MarkerType) -> bytearray:
        marker = EndMarker(type=how, coordinator_epoch=0)
        return encode_end_marker(
            marker,
            producer_id=producer,
            producer_epoch=0,
            timestamp_ms=5,
            base_offset=offset,
            leader_epoch=EPOCH,
        )

    data = (
        of(1, 0, message(0)),
        of(2, 0, message(1)),
        end(1, 2, MarkerType.ABORT),
        end(2, 3, MarkerType.COMMIT),
        of(1, 1, message(4)),
        end(1, 5, MarkerType.COMMIT),
    )
    found = shown(*data, aborted=[(1, 0)])
    assert [each.offset for _, _, records in found for each in records] == [1, 4]
    assert (found[0][0], found[-1][1]) == (0, 6)


def test_what_a_transaction_settles_is_no_message() -> None:
    staged = Record(1, 5, None, None, ((STAGED, b"runs"),))
    assert shown(batch(message(0)), batch(staged)) == [(0, 2, [_timed(message(0), 1_000)])]


def _timed(record: Record, time_ms: int) -> Record:
    return record._replace(timestamp_ms=time_ms)


def test_headers_are_those_of_a_topic() -> None:
    inner: Headers = (
        (STORED_MQTT, b"x"),
        (STORED_NATS, b"x"),
        (STORED_SQS, b"{}"),
        (PRIORITY, b"3"),
        ("colour", b"red"),
        (DEATH, b"{}"),
    )
    ((_, _, (plain,)),) = shown(batch(message(0, inner, b"k")))
    assert (plain.key, plain.headers) == (b"k", (("colour", b"red"), (DEATH, b"{}")))
    said = Properties(content_type="text/plain", headers={"caf\udce9": "x", "n": 5})
    stored = write_stored("logs", "a.b", write_properties(said))
    ((_, _, (amqp,)),) = shown(batch(message(0, ((STORED_AMQP, stored),))))
    assert amqp.key == b"a.b"
    assert amqp.headers == (("content-type", b"text/plain"), ("caf?", b"x"), ("n", b"5"))
    unnamed = write_stored("", "", write_properties(Properties()))
    ((_, _, (keyless,)),) = shown(batch(message(0, ((STORED_AMQP, unnamed),))))
    assert (keyless.key, keyless.headers) == (None, ())
    ((_, _, (forged,)),) = shown(batch(message(0, ((STORED_AMQP, b"no such thing"),))))
    assert forged.headers == ()


def test_a_damaged_batch_is_not_passed_over() -> None:
    damaged = batch(message(0))
    damaged[-1] ^= 1
    with pytest.raises(CorruptBatch):
        shown_batches(bytes(damaged), ())


# -- with a broker


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    options = {"transaction.state.log.num.partitions": 1}
    found = LiveCluster(tmp_path_factory.mktemp("views"), options=options)
    yield found
    found.close()


@pytest.fixture
def name(cluster: LiveCluster, request: pytest.FixtureRequest) -> str:
    """A queue with a view of its name."""
    made = str(request.node.name)
    assert create(cluster, made, kafka_topic=made) == 0
    cluster.wait(lambda: _is_led(cluster, made), "it is led")
    return made


def _is_led(cluster: LiveCluster, name: str) -> bool:
    """Whether its leader serves it, and knows where its messages end."""
    queue = cluster.broker.state.topic_views[name]
    end = cluster.broker.doors.queues.messages_end(queue.topic_id, 0)
    if end is None or cluster.broker.leaders.leader(queue.partitions[0].group) is None:
        return False
    replica = _log(cluster, name).replica
    return replica is not None and replica.term_committed


def fetch(cluster: LiveCluster, name: str, offset: int, **more: Any) -> Any:
    wanted = fetching.FetchPartition(
        0, fetch_offset=offset, partition_max_bytes=BYTES, **more.pop("of_partition", {})
    )
    request = fetching.FetchRequest(
        replica_id=-1,
        max_wait_ms=more.pop("wait_ms", 0),
        min_bytes=more.pop("min_bytes", 1),
        max_bytes=BYTES,
        topics=[fetching.FetchTopic(topic=name, partitions=[wanted])],
        **more,
    )
    (topic,) = cluster.ask(request, LAST_VERSION_WITH_NAMES).responses
    return topic.partitions[0]


def read_all(cluster: LiveCluster, name: str, offset: int = 0) -> list[bytes | None]:
    """Read as clients do, up to the end."""
    values: list[bytes | None] = []
    while True:
        answer = fetch(cluster, name, offset)
        assert answer.error_code == 0, answer
        if offset >= answer.high_watermark:
            return values
        data = bytes(answer.records or b"")
        batches = scan_batches(data).batches
        assert batches, "a reader stands still"
        for each in batches:
            values += [
                record.value
                for record in decode_batch(data, BYTES, at=each.at)
                if record.offset >= offset
            ]
            offset = each.next_offset


def place(cluster: LiveCluster, name: str, timestamp: int) -> tuple[int, int]:
    """Return error and offset of a time, or of a place in the log."""
    asked = listing.ListOffsetsTopic(name, [listing.ListOffsetsPartition(0, -1, timestamp)])
    (topic,) = cluster.ask(listing.ListOffsetsRequest(-1, 0, [asked])).topics
    return topic.partitions[0].error_code, topic.partitions[0].offset


def test_it_is_described_by_its_name_by_its_id_and_among_all(
    cluster: LiveCluster, name: str
) -> None:
    everything = cluster.ask(MetadataRequest(None))
    (among,) = (each for each in everything.topics if each.name == name)
    (by_name,) = cluster.ask(MetadataRequest([MetadataRequestTopic(name=name)])).topics
    by_id = MetadataRequestTopic(topic_id=by_name.topic_id, name=None)
    (found,) = cluster.ask(MetadataRequest([by_id])).topics
    for each in (among, by_name, found):
        assert (each.error_code, each.name, each.is_internal) == (0, name, False)
        assert [part.leader_id for part in each.partitions] == [1]
    asked = describing.DescribeTopicPartitionsRequest([], 2_000, None)
    described = cluster.ask(asked).topics
    assert name in [each.name for each in described]
    listed = cluster.ask(ListConfigResourcesRequest([2])).config_resources
    assert name in [each.resource_name for each in listed]


def test_reading_takes_nothing_and_shows_no_decision(cluster: LiveCluster, name: str) -> None:
    assert (place(cluster, name, EARLIEST), place(cluster, name, LATEST)) == ((0, 0), (0, 0))
    put(cluster, name, b"a", b"b")
    assert read_all(cluster, name) == read_all(cluster, name) == [b"a", b"b"]
    taken = take(cluster, name, 1)
    last = put(cluster, name, b"c")[0]
    settle(cluster, name, taken)
    assert read_all(cluster, name) == [b"a", b"b", b"c"]
    # A reader of all has no lag, though the log has more.
    assert place(cluster, name, LATEST) == (0, last + 1)
    log = _log(cluster, name)
    assert log.high_watermark > last + 1
    assert fetch(cluster, name, last + 1).high_watermark == last + 1
    assert [len(take(cluster, name).attempts)] == [2]


def _log(cluster: LiveCluster, name: str) -> Partition:
    return cluster.broker.partitions.find_log(cluster.broker.state.topic_views[name].topic_id, 0)


def test_a_reader_that_waits_is_woken_by_a_message_and_by_no_decision(
    cluster: LiveCluster, name: str
) -> None:
    put(cluster, name, b"a")
    end = place(cluster, name, LATEST)[1]
    asked = fetching.FetchPartition(0, fetch_offset=end, partition_max_bytes=BYTES)
    request = fetching.FetchRequest(
        replica_id=-1,
        max_wait_ms=60_000,
        min_bytes=1,
        max_bytes=BYTES,
        topics=[fetching.FetchTopic(topic=name, partitions=[asked])],
    )
    client = Client(cluster)
    client.request(request, LAST_VERSION_WITH_NAMES)
    settle(cluster, name, take(cluster, name))
    put(cluster, name, b"b")
    frame = client.receive()
    client.close()
    assert b"b" in frame
    assert read_all(cluster, name, end) == [b"b"]


def test_offsets_of_times_are_those_of_messages_or_none(cluster: LiveCluster, name: str) -> None:
    put(cluster, name, b"a")
    first = place(cluster, name, EARLIEST)
    assert place(cluster, name, 1) == first
    settle(cluster, name, take(cluster, name))
    assert place(cluster, name, 2**50) == (0, -1)


def test_what_is_cleaned_away_is_passed_over_and_earliest_moves(
    cluster: LiveCluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A snapshot of the queue's state follows each turn: the log is needed from the messages on.
    monkeypatch.setattr(replicated, "SNAPSHOT_RECORD_BYTES", 1)
    monkeypatch.setattr(replicated, "SNAPSHOT_BYTES", 1)
    monkeypatch.setattr(replicated, "SNAPSHOT_FACTOR", 0)
    put(cluster, name, *(b"%d" % number for number in range(10)))
    settle(cluster, name, take(cluster, name, 4))
    log = _log(cluster, name)
    _, end = place(cluster, name, LATEST)
    first = end - 6
    cluster.broker.partitions.advance_start(log, Offset(first))
    cluster.wait(lambda: log.log_start_offset == first, "the start is there")
    assert place(cluster, name, EARLIEST) == (0, first)
    assert fetch(cluster, name, 0).log_start_offset == first
    assert read_all(cluster, name) == [b"%d" % number for number in range(4, 10)]
    settle(cluster, name, take(cluster, name))
    cluster.broker.partitions.advance_start(log, Offset(log.high_watermark - 1))
    cluster.wait(lambda: log.log_start_offset > end, "all is gone")
    # One that had all has no lag, and nothing that it would have to be told.
    assert place(cluster, name, EARLIEST) == place(cluster, name, LATEST) == (0, end)
    assert read_all(cluster, name, end) == []
    # One that was behind comes to the end, too: nothing is left that it could wait for.
    assert read_all(cluster, name) == read_all(cluster, name, first) == []
    put(cluster, name, b"next")
    assert read_all(cluster, name, end) == read_all(cluster, name) == [b"next"]


def test_an_offset_that_the_log_has_not_is_out_of_range(cluster: LiveCluster, name: str) -> None:
    put(cluster, name, b"a")
    for offset in (1_000, -5):
        assert fetch(cluster, name, offset).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_transaction_s_messages_are_shown_and_what_it_settles_is_not(
    cluster: LiveCluster, name: str
) -> None:
    put(cluster, name, b"a")
    taken = take(cluster, name)
    (old,) = decode_batch(taken.records, BYTES)
    claims = [run.TransactionClaim(old.offset, old.offset + 1, taken.attempts[0])]
    records = encode_batch([Record(0, 0, None, b"b")])
    queues = [run.TransactionQueue(name, 0, records, claims)]
    answer = cluster.ask(run.RunTransactionRequest(VHOST, queues, [], TIMEOUT_MS))
    assert answer.is_committed, answer
    end = old.offset + 2
    cluster.wait(lambda: _log(cluster, name).last_stable_offset > end, "the end is marked")
    assert read_all(cluster, name) == [b"a", b"b"]
    (left,) = decode_batch(take(cluster, name).records, BYTES)
    assert left.value == b"b"


def test_a_long_log_is_read_in_pieces(cluster: LiveCluster, name: str) -> None:
    body = b"x" * 1_000
    for _ in range(8):
        put(cluster, name, *[body] * 100)
    first = fetch(cluster, name, 0)
    assert 200_000 < len(first.records) < 500_000
    assert len(read_all(cluster, name)) == 800


def test_what_was_written_for_a_reader_is_answered_at_once(
    cluster: LiveCluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(cluster, name, b"a")
    written: list[int] = []

    def count(data: bytes, *more: Any) -> Any:
        written.append(len(data))
        return shown_batches(data, *more)

    monkeypatch.setattr(queue_views, "shown_batches", count)
    # Else it is written again whenever more is committed, and when the time is up.
    answer = fetch(cluster, name, 0, wait_ms=200, min_bytes=BYTES)
    assert b"a" in bytes(answer.records)
    assert len(written) == 1


def test_a_reader_of_many_gives_way_between_them(
    cluster: LiveCluster, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = f"{name}-2"
    assert create(cluster, other, kafka_topic=other) == 0
    cluster.wait(lambda: _is_led(cluster, other), "it is led")
    looks: list[Turn] = []

    def is_over(turn: Turn) -> bool:
        looks.append(turn)
        return True

    monkeypatch.setattr(Turn, "is_over", is_over)
    asked = []
    for each in (name, other):
        put(cluster, each, each.encode())
        wanted = fetching.FetchPartition(0, fetch_offset=0, partition_max_bytes=BYTES)
        asked.append(fetching.FetchTopic(topic=each, partitions=[wanted]))
    request = fetching.FetchRequest(
        replica_id=-1, max_wait_ms=0, min_bytes=1, max_bytes=BYTES, topics=asked
    )
    found = cluster.ask(request, LAST_VERSION_WITH_NAMES).responses
    records = [bytes(each.partitions[0].records) for each in found]
    assert name.encode() in records[0]
    assert other.encode() in records[1]
    assert len(looks) == 1


def test_writing_is_refused_with_a_reason(cluster: LiveCluster, name: str) -> None:
    answer = cluster.ask(produce_request(name), LAST_VERSION_WITH_NAMES)
    refused = answer.responses[0].partition_responses[0]
    assert refused.error_code == ErrorCode.POLICY_VIOLATION
    assert f"shows the queue {name!r}" in refused.error_message
    assert read_all(cluster, name) == []
    topic = AddPartitionsToTxnTopic(name, [0])
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="mine",
        v3_and_below_producer_id=5,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[topic],
    )
    (found,) = cluster.ask(request, 3).results_by_topic_v3_and_below
    assert found.results_by_partition[0].partition_error_code == ErrorCode.POLICY_VIOLATION


def test_it_goes_when_the_option_or_the_queue_goes(cluster: LiveCluster, name: str) -> None:
    def code() -> int:
        topics = [MetadataRequestTopic(name=name)]
        request = MetadataRequest(topics, allow_auto_topic_creation=False)
        found: int = cluster.ask(request).topics[0].error_code
        return found

    put(cluster, name, b"a")
    change = AlterQueueRequest(VHOST, name, [Change("kafka.topic", None)], TIMEOUT_MS)
    assert cluster.ask(change).error_code == 0
    cluster.wait(lambda: name not in cluster.broker.state.topic_views, "it is heard of")
    assert code() == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert fetch(cluster, name, 0).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    change = AlterQueueRequest(VHOST, name, [Change("kafka.topic", name)], TIMEOUT_MS)
    assert cluster.ask(change).error_code == 0
    cluster.wait(lambda: name in cluster.broker.state.topic_views, "it is shown again")
    assert code() == 0
    assert read_all(cluster, name) == [b"a"]
    assert cluster.ask(DeleteQueueRequest(VHOST, name, TIMEOUT_MS)).error_code == 0
    cluster.wait(lambda: name not in cluster.broker.state.topic_views, "it is gone")
    assert code() == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
