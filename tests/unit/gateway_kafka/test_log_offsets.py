"""ListOffsets and OffsetForLeaderEpoch, asked of real brokers."""

from __future__ import annotations

from typing import Any

import pytest

from kafkaesque.gateway.kafka import log_offsets
from kafkaesque.model.batch_encoder import BatchOptions
from kafkaesque.model.compression import Codec
from kafkaesque.model.ids import NodeId, Offset
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafkaesque.protocols.kafka.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.unit.gateway_kafka.live import KEPT, LiveCluster, versions_of

VERSION_WITH_EPOCHS = 4
LATEST, EARLIEST, NEWEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = range(-1, -7, -1)


def find(
    live: LiveCluster,
    timestamp: int,
    *,
    name: str = "orders",
    version: int | None = None,
    epoch: int = -1,
    isolation_level: int = 0,
    node: int = 1,
) -> Any:
    """Returns the result for partition 0."""
    partition = ListOffsetsPartition(0, epoch, timestamp)
    request = ListOffsetsRequest(-1, isolation_level, [ListOffsetsTopic(name, [partition])], 1000)
    (topic,) = live.ask(request, version, node=node).topics
    (result,) = topic.partitions
    return result


def offset_of(live: LiveCluster, timestamp: int, **more: Any) -> tuple[int, int]:
    """Returns (timestamp, offset)."""
    result = find(live, timestamp, **more)
    assert result.error_code == 0, result
    return result.timestamp, result.offset


# -- places


@pytest.mark.parametrize("version", versions_of(ApiKey.LIST_OFFSETS))
def test_the_ends_of_a_log(live: LiveCluster, version: int) -> None:
    live.create_topic("orders")
    live.produce("orders", timestamps_ms=[1, 2, 3])
    live.produce("orders", timestamps_ms=[4])
    live.broker.partitions.advance_start(live.partition("orders"), Offset(3))
    for isolation_level in (0, 1):
        assert offset_of(live, EARLIEST, version=version, isolation_level=isolation_level) == (
            -1,
            3,
        )
        assert offset_of(live, LATEST, version=version, isolation_level=isolation_level) == (-1, 4)
    if version >= VERSION_WITH_EPOCHS:
        epoch = live.partition("orders").leader_epoch
        assert find(live, LATEST, version=version).leader_epoch == epoch
        assert find(live, EARLIEST, version=version).leader_epoch == epoch


def test_an_empty_log_begins_and_ends_at_zero(live: LiveCluster) -> None:
    live.create_topic("orders")
    assert offset_of(live, EARLIEST) == offset_of(live, LATEST) == (-1, 0)
    assert offset_of(live, NEWEST) == (-1, -1)
    assert offset_of(live, 0) == (-1, -1)


def test_without_tiers_all_is_local_and_nothing_is_elsewhere(live: LiveCluster) -> None:
    live.create_topic("orders")
    live.produce("orders", timestamps_ms=[1, 2])
    live.broker.partitions.advance_start(live.partition("orders"), Offset(2))
    assert offset_of(live, EARLIEST_LOCAL) == (-1, 2)
    for place in (LATEST_TIERED, EARLIEST_PENDING):
        result = find(live, place)
        assert (result.error_code, result.offset, result.timestamp) == (0, -1, -1)
        assert result.leader_epoch == -1


@pytest.mark.parametrize(
    ("place", "since"),
    [(NEWEST, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (EARLIEST_PENDING, 11)],
)
def test_a_place_is_known_from_its_version_on(live: LiveCluster, place: int, since: int) -> None:
    live.create_topic("orders")
    assert find(live, place, version=since - 1).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert find(live, place, version=since).error_code == 0


def test_a_place_that_does_not_exist_is_refused(live: LiveCluster) -> None:
    live.create_topic("orders")
    assert find(live, -7).error_code == ErrorCode.UNSUPPORTED_VERSION


# -- times


@pytest.mark.parametrize("version", versions_of(ApiKey.LIST_OFFSETS))
def test_the_first_record_that_is_not_older_is_found(live: LiveCluster, version: int) -> None:
    live.create_topic("orders")
    live.produce("orders", timestamps_ms=[100, 50, 300])
    live.produce("orders", timestamps_ms=[200, 400], options=BatchOptions(codec=Codec.ZSTD))
    for timestamp, expected in {
        0: (100, 0),
        100: (100, 0),
        101: (300, 2),
        300: (300, 2),
        301: (400, 4),
        400: (400, 4),
        401: (-1, -1),
    }.items():
        assert offset_of(live, timestamp, version=version) == expected


def test_a_record_before_the_start_is_not_found(live: LiveCluster) -> None:
    live.create_topic("orders")
    live.produce("orders", timestamps_ms=[100, 200, 300])
    live.broker.partitions.advance_start(live.partition("orders"), Offset(2))
    assert offset_of(live, 0) == (300, 2)


def test_the_newest_record_is_not_always_the_last(live: LiveCluster) -> None:
    live.create_topic("orders")
    live.produce("orders", timestamps_ms=[100, 900, 900])
    live.produce("orders", timestamps_ms=[500])
    result = find(live, NEWEST)
    assert (result.timestamp, result.offset) == (900, 1)
    assert result.leader_epoch == live.partition("orders").leader_epoch


def test_the_first_of_a_batch_is_the_newest_if_the_broker_gave_the_time(live: LiveCluster) -> None:
    live.create_topic("orders", configs={"message.timestamp.type": "LogAppendTime", **KEPT})
    live.produce("orders", timestamps_ms=[1])
    live.run_for(0.01)
    live.produce("orders", timestamps_ms=[5, 5, 5], options=BatchOptions(codec=Codec.ZSTD))
    assert find(live, NEWEST).offset == 1


def test_many_segments_are_searched(live: LiveCluster) -> None:
    live.create_topic("orders", configs={"segment.ms": "1", **KEPT})
    for number in range(20):
        live.produce("orders", timestamps_ms=[1000 * number, 1000 * number + 500])
        live.run_for(0.002)
    for number in range(20):
        assert offset_of(live, 1000 * number) == (1000 * number, 2 * number)
        assert offset_of(live, 1000 * number + 1) == (1000 * number + 500, 2 * number + 1)


# -- who answers


def test_unknown_partitions(live: LiveCluster) -> None:
    live.create_topic("orders")
    for name, index in (("nothing", 0), ("orders", 1), ("orders", -1)):
        request = ListOffsetsRequest(
            -1, 0, [ListOffsetsTopic(name, [ListOffsetsPartition(index, -1, LATEST)])]
        )
        (result,) = live.ask(request).topics[0].partitions
        assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (result.partition_index, result.offset) == (index, -1)


def test_other_epochs_are_fenced(live: LiveCluster) -> None:
    live.create_topic("orders")
    epoch = live.partition("orders").leader_epoch
    assert find(live, LATEST, epoch=epoch).error_code == 0
    assert find(live, LATEST, epoch=epoch - 1).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert find(live, LATEST, epoch=epoch + 1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_partition_that_stands_twice_is_refused(live: LiveCluster) -> None:
    live.create_topic("orders", 2)
    twice = ListOffsetsPartition(0, -1, LATEST)
    topic = ListOffsetsTopic("orders", [twice, ListOffsetsPartition(1, -1, LATEST), twice])
    (answer,) = live.ask(ListOffsetsRequest(-1, 0, [topic])).topics
    assert [result.error_code for result in answer.partitions] == [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
    ]


def test_only_the_leader_answers(live_trio: LiveCluster) -> None:
    live = live_trio
    live.create_topic("orders", 1, 3)
    leader = live.leader("orders")
    for node in (1, 2, 3):
        result = find(live, LATEST, node=node)
        expected = ErrorCode.NONE if node == leader else ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert result.error_code == expected


@pytest.mark.parametrize(
    ("version", "code"),
    [(4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)],
)
def test_a_fresh_leader_does_not_know_the_end_yet(
    live_trio: LiveCluster, monkeypatch: pytest.MonkeyPatch, version: int, code: ErrorCode
) -> None:
    """Its high watermark may be behind what consumers have seen from its predecessor (KIP-207)."""
    live = live_trio
    live.create_topic("orders", 1, 3)
    leader = live.leader("orders")
    live.produce("orders", timestamps_ms=[100], node=leader)
    partition = live.partition("orders", node=leader)
    live.wait(lambda: partition.high_watermark == 1, "the record is committed")
    assert find(live, LATEST, node=leader, version=version).error_code == 0
    # What a new leader's state is, before a follower has told it anything.
    with monkeypatch.context() as patch:
        patch.setattr(partition.replica, "term_committed", False)
        patch.setattr(partition, "high_watermark", Offset(0))
        for timestamp in (LATEST, 50):
            assert find(live, timestamp, node=leader, version=version).error_code == code
        assert find(live, EARLIEST, node=leader, version=version).error_code == 0


# -- epochs


def end_of(
    live: LiveCluster,
    epoch: int,
    *,
    version: int | None = None,
    name: str = "orders",
    current: int = -1,
    node: int = 1,
) -> Any:
    """Returns where an epoch of partition 0 ended."""
    partition = OffsetForLeaderPartition(0, current, epoch)
    request = OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic(name, [partition])])
    (topic,) = live.ask(request, version, node=node).topics
    assert topic.topic == name
    (result,) = topic.partitions
    return result


@pytest.mark.parametrize("version", versions_of(ApiKey.OFFSET_FOR_LEADER_EPOCH))
def test_the_current_epoch_ends_at_the_end(live: LiveCluster, version: int) -> None:
    live.create_topic("orders")
    live.produce("orders", timestamps_ms=[1, 2])
    epoch = live.partition("orders").leader_epoch
    result = end_of(live, epoch, version=version)
    assert (result.error_code, result.leader_epoch, result.end_offset) == (0, epoch, 2)
    result = end_of(live, epoch + 1, version=version)
    assert (result.error_code, result.leader_epoch, result.end_offset) == (0, -1, -1)


def test_what_knows_no_epochs(live: LiveCluster) -> None:
    live.create_topic("orders")
    epoch = live.partition("orders").leader_epoch
    code = end_of(live, epoch, name="nothing").error_code
    assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert end_of(live, epoch, current=epoch - 1).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert end_of(live, epoch, current=epoch + 1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_an_old_epoch_ends_where_the_next_leader_began(live_trio: LiveCluster) -> None:
    live = live_trio
    live.create_topic("orders", 1, 3)
    first = live.leader("orders")
    old_epoch = live.partition("orders", node=first).leader_epoch
    live.produce("orders", timestamps_ms=[100, 200], node=first)
    group = live.broker.state.topic("orders").partitions[0].group
    second = first % 3 + 1
    live.nodes[first].broker.driver.transfer_leadership(group, NodeId(second))
    live.wait(lambda: live.leader("orders") == second, "leadership is handed over")
    live.wait(lambda: live.partition("orders", node=second).is_leader, "it is taken over")
    live.produce("orders", timestamps_ms=[300], node=second)
    new_epoch = live.partition("orders", node=second).leader_epoch
    assert new_epoch > old_epoch
    result = end_of(live, old_epoch, node=second)
    assert (result.error_code, result.leader_epoch, result.end_offset) == (0, old_epoch, 2)
    result = end_of(live, new_epoch, node=second)
    assert (result.error_code, result.leader_epoch, result.end_offset) == (0, new_epoch, 3)
    assert end_of(live, old_epoch, node=first).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    # The epoch of a record is that of the leader that wrote it.
    assert find(live, EARLIEST, node=second).leader_epoch == old_epoch
    assert find(live, 250, node=second).leader_epoch == new_epoch
    assert offset_of(live, 250, node=second) == (300, 2)
    log = live.partition("orders", node=second).log
    assert [log_offsets.epoch_at(log, offset) for offset in range(4)] == [
        old_epoch,
        old_epoch,
        new_epoch,
        new_epoch,
    ]
