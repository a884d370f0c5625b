"""A gap in a producer's numbers: after a change of leader, after a refusal, and otherwise."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkaesque.broker.partitions import partition as partition_module
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.errors import DiskFull, NotEnoughReplicas
from kafkaesque.model.records import Record
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.unit.gateway_kafka.live import LiveCluster

T = "orders"
LAST_VERSION_WITH_NAMES = 12


def send(live: LiveCluster, sequence: int, epoch: int = 0) -> int:
    options = BatchOptions(producer_id=4_000, producer_epoch=epoch, base_sequence=sequence)
    data = PartitionProduceData(0, bytes(encode_batch([Record(0, 5, None, b"v", ())], options)))
    topic = TopicProduceData(name=T, partition_data=[data])
    answer = live.ask(ProduceRequest(None, -1, 5000, [topic]), LAST_VERSION_WITH_NAMES)
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


def test_what_follows_on_a_refused_batch_is_refused_like_it(live: LiveCluster) -> None:
    live.create_topic(T)
    assert send(live, 0) == ErrorCode.NONE
    live.partition(T).on_leading(9)
    # Number 1 came while nobody led.
    assert send(live, 2) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert send(live, 3, epoch=1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert [send(live, number) for number in (1, 2, 1, 3)] == [ErrorCode.NONE] * 4


def test_what_lies_behind_is_out_of_order_at_once(live: LiveCluster) -> None:
    live.create_topic(T)
    assert [send(live, number) for number in range(7)] == [ErrorCode.NONE] * 7
    live.partition(T).on_leading(9)
    assert send(live, 0) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_is_out_of_order_where_nobody_else_has_led(live: LiveCluster) -> None:
    live.create_topic(T)
    assert send(live, 0) == ErrorCode.NONE
    assert send(live, 2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_that_stays_is_out_of_order(
    live: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.create_topic(T)
    assert send(live, 0) == ErrorCode.NONE
    monkeypatch.setattr(partition_module, "GAPS_MS", 0)
    live.partition(T).on_leading(9)
    assert send(live, 2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.fixture
def full(live: LiveCluster, monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Says whether the broker's disk takes no records."""
    live.create_topic(T)
    kind = type(live.partition(T)._replica().driver.store)

    def set_full(is_full: bool) -> None:
        refused = DiskFull("only 7 bytes are free") if is_full else None
        monkeypatch.setattr(kind, "refusal", refused)

    return set_full


def test_what_follows_on_a_batch_that_found_the_disk_full_waits_for_it(
    live: LiveCluster, full: Callable[[bool], None]
) -> None:
    assert send(live, 0) == ErrorCode.NONE
    full(True)
    assert send(live, 1) == ErrorCode.KAFKA_STORAGE_ERROR
    # Told that these are out of order, librdkafka would send all of them in a new epoch.
    assert send(live, 2) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    full(False)
    assert send(live, 3) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert [send(live, number) for number in (1, 2, 1, 3)] == [ErrorCode.NONE] * 4
    assert send(live, 5) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_new_producer_s_later_batch_does_not_take_the_place_of_its_first(
    live: LiveCluster, full: Callable[[bool], None]
) -> None:
    full(True)
    assert send(live, 0) == ErrorCode.KAFKA_STORAGE_ERROR
    full(False)
    assert send(live, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert [send(live, number) for number in (0, 1)] == [ErrorCode.NONE] * 2


def test_a_producer_that_goes_on_with_a_new_epoch_is_not_kept_back(
    live: LiveCluster, full: Callable[[bool], None]
) -> None:
    assert send(live, 0) == ErrorCode.NONE
    full(True)
    assert send(live, 1) == ErrorCode.KAFKA_STORAGE_ERROR
    full(False)
    assert [send(live, number, epoch=1) for number in (0, 1)] == [ErrorCode.NONE] * 2


def test_where_there_are_too_few_replicas_it_is_the_same(
    live: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.create_topic(T, configs={"min.insync.replicas": "2"})
    partition = live.partition(T)
    assert send(live, 0) == ErrorCode.NONE  # there is one replica, and one is enough

    def refuse(_: object) -> None:
        raise NotEnoughReplicas("1 replica in sync")

    with monkeypatch.context() as few:
        few.setattr(partition, "_check_in_sync", refuse)
        assert send(live, 1) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert send(live, 2) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert [send(live, number) for number in (1, 2)] == [ErrorCode.NONE] * 2
