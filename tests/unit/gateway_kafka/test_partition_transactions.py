"""Transactions of a partition, asked of real brokers: markers, isolated reads, descriptions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kafkaesque.access.audit import AuditEvent, Outcome
from kafkaesque.broker.audit import Audit
from kafkaesque.broker.partitions import producers as partition_producers
from kafkaesque.broker.partitions.producers import PartitionProducers
from kafkaesque.model.batch import read_batch_header
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.errors import TransactionUnverified
from kafkaesque.model.ids import Offset
from kafkaesque.model.records import Record
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.describe_producers_request import (
    DescribeProducersRequest,
    TopicRequest,
)
from kafkaesque.protocols.kafka.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
)
from kafkaesque.protocols.kafka.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafkaesque.protocols.kafka.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kafkaesque.protocols.kafka.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kafkaesque.transactions.producer_state import ProducerStateConfig
from tests.unit.gateway_kafka.live import LiveCluster, versions_of

T = "orders"
P = 4_000
UNCOMMITTED, COMMITTED = 0, 1
LAST_VERSION_WITH_NAMES = 12


def options(sequence: int, producer_id: int = P, epoch: int = 0) -> BatchOptions:
    return BatchOptions(
        producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True
    )


def confirm(live: LiveCluster, batch: BatchOptions, node: int) -> None:
    """Says what the coordinator would say."""
    header = read_batch_header(encode_batch([Record(0, 0, None, b"", ())], batch))
    producers = live.partition(T, node=node).producers
    with pytest.raises(TransactionUnverified) as refused:
        producers.check(header)
    assert producers.verified(refused.value.guard)


def begin(
    live: LiveCluster, sequence: int, producer_id: int = P, epoch: int = 0, node: int = 1
) -> int:
    """Writes the first batch of a transaction, one record, and returns its offset."""
    batch = options(sequence, producer_id, epoch)
    confirm(live, batch, node)
    return live.produce(T, options=batch, node=node)


def end(
    live: LiveCluster,
    *,
    commit: bool,
    producer_id: int = P,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
    partitions: tuple[int, ...] = (0,),
    version: int | None = None,
    node: int = 1,
) -> list[int]:
    """Writes markers and returns the partitions' codes."""
    marker = WritableTxnMarker(
        producer_id,
        epoch,
        commit,
        [WritableTxnMarkerTopic(T, partitions)],
        coordinator_epoch,
        transaction_version,
    )
    (result,) = live.ask(WriteTxnMarkersRequest([marker]), version, node=node).markers
    assert result.producer_id == producer_id
    (topic,) = result.topics
    assert [each.partition_index for each in topic.partitions] == list(partitions)
    return [each.error_code for each in topic.partitions]


def fetch(
    live: LiveCluster,
    offset: int = 0,
    isolation_level: int = COMMITTED,
    version: int = LAST_VERSION_WITH_NAMES,
) -> Any:
    """Returns what partition 0 has from an offset on."""
    wanted = FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        isolation_level=isolation_level,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic=T, partitions=[wanted])],
    )
    (topic,) = live.ask(request, version).responses
    (found,) = topic.partitions
    assert found.error_code == 0
    return found


def offsets(found: Any) -> list[int]:
    """Returns the base offsets of the batches that were fetched."""
    return list(_offsets(bytes(found.records or b"")))


def _offsets(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        header = read_batch_header(data, at)
        yield header.base_offset
        at = header.end


def aborted(found: Any) -> list[tuple[int, int]] | None:
    if found.aborted_transactions is None:
        return None
    return [(each.producer_id, each.first_offset) for each in found.aborted_transactions]


def latest(live: LiveCluster, isolation_level: int) -> int:
    request = ListOffsetsRequest(
        -1, isolation_level, [ListOffsetsTopic(T, [ListOffsetsPartition(0, -1, -1)])], 1000
    )
    (topic,) = live.ask(request).topics
    offset: int = topic.partitions[0].offset
    return offset


# -- reading


@pytest.mark.parametrize("version", [v for v in versions_of(ApiKey.FETCH) if v < 13])
def test_readers_of_committed_transactions_stop_before_an_open_one(
    live: LiveCluster, version: int
) -> None:
    live.create_topic(T)
    live.produce(T)
    assert begin(live, 0) == 1
    live.produce(T)
    found = fetch(live, version=version)
    assert offsets(found) == [0]
    assert (found.high_watermark, found.last_stable_offset) == (3, 1)
    assert aborted(found) == []
    everything = fetch(live, isolation_level=UNCOMMITTED, version=version)
    assert offsets(everything) == [0, 1, 2]
    assert everything.last_stable_offset == 1
    assert not everything.aborted_transactions
    assert (latest(live, COMMITTED), latest(live, UNCOMMITTED)) == (1, 3)
    assert end(live, commit=False) == [0]
    found = fetch(live, version=version)
    assert offsets(found) == [0, 1, 2, 3]
    assert aborted(found) == [(P, 1)]
    assert latest(live, COMMITTED) == 4
    assert aborted(fetch(live, 3, version=version)) == [(P, 1)]
    assert aborted(fetch(live, 4, version=version)) == []


def test_a_committed_transaction_is_not_named(live: LiveCluster) -> None:
    live.create_topic(T)
    begin(live, 0)
    assert end(live, commit=True) == [0]
    found = fetch(live)
    assert offsets(found) == [0, 1]
    assert aborted(found) == []


def test_an_answer_ends_where_very_many_were_aborted(
    live: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_producers, "MARKERS_PER_READ_MAX", 2)
    live.create_topic(T)
    for number in range(5):
        begin(live, number)
        end(live, commit=False)
    found = fetch(live)
    assert offsets(found) == [0, 1, 2, 3]
    assert aborted(found) == [(P, 0), (P, 2)]
    assert offsets(fetch(live, 8)) == [8, 9]


# -- writing


def test_what_no_coordinator_has_confirmed_is_refused(live: LiveCluster) -> None:
    live.create_topic(T)
    data = encode_batch([Record(0, 0, None, b"value", ())], options(0))
    request = ProduceRequest(
        None,
        -1,
        5000,
        [TopicProduceData(name=T, partition_data=[PartitionProduceData(0, data)])],
    )
    result = live.ask(request, 9).responses[0].partition_responses[0]
    assert result.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert latest(live, UNCOMMITTED) == 0


@pytest.mark.parametrize("version", versions_of(ApiKey.WRITE_TXN_MARKERS))
def test_a_marker_is_written_once(live: LiveCluster, version: int) -> None:
    live.create_topic(T)
    begin(live, 0)
    for _ in range(2):
        assert end(live, commit=True, version=version) == [0]
    assert latest(live, UNCOMMITTED) == 2


def test_markers_that_are_refused(live: LiveCluster) -> None:
    live.create_topic(T)
    assert end(live, commit=True, coordinator_epoch=2) == [0]
    begin(live, 0, epoch=1)
    assert end(live, commit=True, epoch=0) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    fenced = end(live, commit=True, epoch=1, coordinator_epoch=1)
    assert fenced == [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
    late = end(live, commit=True, epoch=1, coordinator_epoch=2, transaction_version=2)
    assert late == [ErrorCode.INVALID_PRODUCER_EPOCH]
    both = end(live, commit=True, epoch=2, coordinator_epoch=2, partitions=(0, 1))
    assert both == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_markers_are_told_to_the_audit_log(
    live: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[AuditEvent] = []
    monkeypatch.setattr(Audit, "wants", lambda *_: True)
    monkeypatch.setattr(Audit, "note", lambda _, event: noted.append(event))
    live.create_topic(T)
    begin(live, 0)
    noted.clear()
    end(live, commit=False, partitions=(0, 7))
    end(live, commit=True, epoch=-2)
    begin(live, 1)
    end(live, commit=True)
    assert [(e.operation, e.resource, e.outcome, e.detail) for e in noted] == [
        ("abort-transaction", T, Outcome.DONE, {"1": f"0: producer {P}"}),
        ("commit-transaction", T, Outcome.DONE, {"1": f"0: producer {P}"}),
    ]


# -- describing


def test_producers_are_described(live: LiveCluster) -> None:
    live.create_topic(T)
    begin(live, 0)
    end(live, commit=True, coordinator_epoch=3)
    live.produce(T, timestamps_ms=[5, 9], options=BatchOptions(
        producer_id=P + 1, producer_epoch=7, base_sequence=0
    ))  # fmt: skip
    begin(live, 1)
    request = DescribeProducersRequest([TopicRequest(T, [0, 1])])
    (topic,) = live.ask(request).topics
    good, bad = topic.partitions
    assert bad.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert good.error_code == 0
    found = {
        each.producer_id: (
            each.producer_epoch,
            each.last_sequence,
            each.last_timestamp,
            each.coordinator_epoch,
            each.current_txn_start_offset,
        )
        for each in good.active_producers
    }
    assert found == {P: (0, 1, 0, 3, 4), P + 1: (7, 1, 9, -1, -1)}


# -- what is kept


def test_followers_know_what_the_leader_knows(live_trio: LiveCluster) -> None:
    live_trio.create_topic(T, replication_factor=3)
    leader = live_trio.leader(T)
    partition = live_trio.partition(T, node=leader)
    for sequence, producer_id in ((0, P), (0, P + 1)):
        begin(live_trio, sequence, producer_id, node=leader)
    assert end(live_trio, commit=False, node=leader) == [0]
    expected = partition.producers.aborted_between(Offset(0), Offset(9))
    assert expected == (9, [(P, 0)])
    for node in live_trio.nodes:
        replica = live_trio.partition(T, node=node)
        live_trio.wait(lambda replica=replica: replica.last_stable_offset == 1, "it is known")  # type: ignore[misc]
        assert replica.producers.aborted_between(Offset(0), Offset(9)) == expected


def restored(live: LiveCluster) -> PartitionProducers:
    """Returns what a start of the broker would find."""
    env = live.broker.env
    again = PartitionProducers(ProducerStateConfig(), env.clock.wall_ms, env.disk)
    again.restore(live.partition(T).log)
    return again


def test_a_restart_finds_all_transactions_again(live: LiveCluster) -> None:
    live.create_topic(T)
    partition = live.partition(T)
    log, producers = partition.log, partition.producers
    path = f"{log.identity.directory}/aborted-transactions"

    def check() -> None:
        again = restored(live)
        assert sorted(again.describe()) == sorted(producers.describe())
        assert again.first_unstable_offset == producers.first_unstable_offset
        here = producers.aborted_between(Offset(0), Offset(100))
        assert again.aborted_between(Offset(0), Offset(100)) == here

    for number in range(3):
        begin(live, number)
        end(live, commit=False)
        check()
        partition.save()
        check()
    begin(live, 0, producer_id=P + 1)
    partition.save()
    begin(live, 3)
    check()
    file = live.broker.env.disk.open(path)
    data = file.read_blocking(0, file.size())
    file.truncate(len(data) - 1)  # torn: what is missing is read from the log
    check()
    file.write_at(0, [data])
    file.close()
    end(live, commit=False)
    partition.save()
    check()
    live.broker.partitions.advance_start(partition, Offset(5))
    producers.maybe_save(log, partition.high_watermark)
    assert producers.aborted_between(Offset(5), Offset(100))[1] == [(P, 4), (P, 7)]
    check()
