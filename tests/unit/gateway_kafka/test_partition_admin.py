"""DeleteRecords, ElectLeaders, DescribeLogDirs and AlterReplicaLogDirs, asked of real brokers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from kafkaesque.broker.metadata.topic_names import QUEUE_LOG_PREFIX
from kafkaesque.model.ids import GroupId, NodeId
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kafkaesque.protocols.kafka.messages.create_queue_request import CreateQueueRequest
from kafkaesque.protocols.kafka.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kafkaesque.protocols.kafka.messages.describe_log_dirs_request import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from kafkaesque.protocols.kafka.messages.elect_leaders_request import (
    ElectLeadersRequest,
    TopicPartitions,
)
from tests.unit.gateway_kafka.live import LiveCluster, versions_of

TIMEOUT_MS = 5000
PREFERRED, UNCLEAN = 0, 1

# -- DeleteRecords


def delete(
    live: LiveCluster,
    offset: int,
    *,
    name: str = "orders",
    index: int = 0,
    version: int | None = None,
    node: int = 1,
) -> Any:
    """Deletes what is before an offset and returns the partition's result."""
    topic = DeleteRecordsTopic(name, [DeleteRecordsPartition(index, offset)])
    (answer,) = live.ask(DeleteRecordsRequest([topic], TIMEOUT_MS), version, node=node).topics
    (result,) = answer.partitions
    assert (answer.name, result.partition_index) == (name, index)
    return result


@pytest.mark.parametrize("version", versions_of(ApiKey.DELETE_RECORDS))
def test_records_before_an_offset_are_deleted(live: LiveCluster, version: int) -> None:
    live.create_topic("orders")
    live.produce("orders", timestamps_ms=[1, 2, 3, 4])
    for offset, start in ((2, 2), (1, 2), (0, 2), (-1, 4)):
        result = delete(live, offset, version=version)
        assert (result.error_code, result.low_watermark) == (0, start)
        assert live.partition("orders").log_start_offset == start


def test_followers_delete_the_same(live_trio: LiveCluster) -> None:
    live = live_trio
    live.create_topic("orders", 1, 3)
    leader = live.leader("orders")
    live.produce("orders", timestamps_ms=[1, 2, 3], node=leader)
    assert delete(live, 2, node=leader).low_watermark == 2
    logs = [live.partition("orders", node=node).log for node in (1, 2, 3)]
    live.wait(lambda: {log.start_offset for log in logs} == {2}, "all begin at 2")
    follower = leader % 3 + 1
    code = delete(live, 3, node=follower).error_code
    assert code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("offset", [3, -2, 2**62])
def test_an_offset_beyond_the_log_is_refused(live: LiveCluster, offset: int) -> None:
    live.create_topic("orders")
    live.produce("orders", timestamps_ms=[1, 2])
    result = delete(live, offset)
    assert (result.error_code, result.low_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert live.partition("orders").log_start_offset == 0


def test_records_that_are_not_deleted(live: LiveCluster) -> None:
    live.create_topic("orders")
    live.create_topic("table", configs={"cleanup.policy": "compact"})
    live.create_topic("__consumer_offsets")
    for name, index, code in (
        ("nothing", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("table", 0, ErrorCode.POLICY_VIOLATION),
        ("__consumer_offsets", 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ):
        result = delete(live, 0, name=name, index=index)
        assert (result.error_code, result.low_watermark) == (code, -1)


# -- ElectLeaders


def elect(
    live: LiveCluster,
    *topics: tuple[str, list[int]],
    everything: bool = False,
    kind: int = PREFERRED,
    node: int = 1,
    version: int | None = None,
) -> dict[tuple[str, int], int]:
    """Elects and returns the error code of each partition."""
    asked = None if everything else [TopicPartitions(name, indexes) for name, indexes in topics]
    answer = live.ask(ElectLeadersRequest(kind, asked, TIMEOUT_MS), version, node=node)
    assert answer.error_code == 0
    outcomes: dict[tuple[str, int], int] = {}
    for topic in answer.replica_election_results:
        for result in topic.partition_result:
            assert (result.error_message is None) == (result.error_code == 0)
            outcomes[topic.topic, result.partition_id] = result.error_code
    return outcomes


def move_leader(live: LiveCluster, name: str) -> tuple[int, int]:
    """Moves partition 0 away from its preferred leader; returns (preferred leader, leader)."""
    state = live.broker.state.topic(name).partitions[0]
    preferred, other = state.replicas[0], state.replicas[1]
    live.wait(lambda: live.leader(name) == preferred, "the preferred leader leads")
    live.nodes[preferred].broker.driver.transfer_leadership(state.group, NodeId(other))
    tables = [one.broker.leaders for one in live.nodes.values()]
    live.wait(
        lambda: {table.leader(state.group) for table in tables} == {other}, "another broker leads"
    )
    live.wait(
        lambda: len(live.partition(name, node=other).replica.in_sync()) == len(state.replicas),  # type: ignore[union-attr]
        "all replicas are in sync",
    )
    return preferred, other


@pytest.mark.parametrize("version", versions_of(ApiKey.ELECT_LEADERS))
def test_the_preferred_leader_leads_already(live: LiveCluster, version: int) -> None:
    live.create_topic("orders")
    outcomes = elect(live, ("orders", [0]), version=version)
    assert outcomes == {("orders", 0): ErrorCode.ELECTION_NOT_NEEDED}
    assert elect(live, everything=True, version=version) == {}


@pytest.mark.parametrize("asked", ["leader", "preferred", "third"])
def test_leadership_goes_back_to_the_first_replica(live_trio: LiveCluster, asked: str) -> None:
    live = live_trio
    live.create_topic("orders", 1, 3)
    preferred, leader = move_leader(live, "orders")
    third = 6 - preferred - leader
    node = {"leader": leader, "preferred": preferred, "third": third}[asked]
    assert elect(live, ("orders", [0, 0]), node=node) == {("orders", 0): 0}
    assert live.partition("orders", node=preferred).is_leader


def test_a_leader_that_gives_up_handing_over_is_asked_again(
    live_trio: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = live_trio
    live.create_topic("orders", 1, 3)
    preferred, leader = move_leader(live, "orders")
    driver = live.nodes[leader].broker.driver
    hand_over, asked = driver.transfer_leadership, []

    def give_up_once(group: GroupId, to: NodeId) -> None:
        asked.append(to)
        if len(asked) > 1:
            hand_over(group, to)

    monkeypatch.setattr(driver, "transfer_leadership", give_up_once)
    assert elect(live, ("orders", [0]), node=preferred) == {("orders", 0): 0}
    assert asked == [preferred, preferred]


def test_all_partitions_that_need_it_are_elected(live_trio: LiveCluster) -> None:
    live = live_trio
    live.create_topic("orders", 1, 3)
    live.create_topic("payments", 2, 3)
    preferred, _ = move_leader(live, "orders")
    assert elect(live, everything=True) == {("orders", 0): 0}
    assert live.partition("orders", node=preferred).is_leader


def test_with_all_partitions_the_logs_of_queues_are_elected(live_trio: LiveCluster) -> None:
    live = live_trio
    assert live.ask(CreateQueueRequest("/", "mails", timeout_ms=TIMEOUT_MS)).error_code == 0
    (log,) = [
        each
        for each in live.broker.state.partitions_by_group.values()
        if each.topic.startswith(QUEUE_LOG_PREFIX)
    ]
    assert log.topic not in live.broker.state.topics
    preferred, other = log.replicas[0], log.replicas[1]
    tables = [one.broker.leaders for one in live.nodes.values()]

    def is_led_by(node: NodeId) -> bool:
        reports = [table.get(log.group) for table in tables]
        return all(
            each is not None and each.leader == node and len(each.in_sync) == len(log.replicas)
            for each in reports
        )

    live.wait(lambda: is_led_by(preferred), "the preferred leader leads")
    live.nodes[preferred].broker.driver.transfer_leadership(log.group, NodeId(other))
    live.wait(lambda: is_led_by(other), "another broker leads")
    assert elect(live, everything=True) == {(log.topic, 0): 0}
    live.wait(lambda: is_led_by(preferred), "the preferred leader leads again")


def test_a_preferred_leader_that_is_gone_is_not_available(live_trio: LiveCluster) -> None:
    live = live_trio
    live.create_topic("orders", 1, 3)
    preferred, leader = move_leader(live, "orders")
    live.nodes[preferred].stop(lambda: None)
    watching = live.nodes[leader].broker
    live.wait(lambda: not watching.peers.is_alive(NodeId(preferred)), "it is lost")
    outcomes = elect(live, ("orders", [0]), node=leader)
    assert outcomes == {("orders", 0): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}


def test_partitions_that_do_not_exist_are_not_elected(live: LiveCluster) -> None:
    live.create_topic("orders")
    assert elect(live, ("nothing", [0]), ("orders", [1])) == {
        ("nothing", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("orders", 1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_a_partition_with_a_leader_is_not_formed_anew(live: LiveCluster) -> None:
    live.create_topic("orders")
    outcomes = elect(live, ("orders", [0]), kind=UNCLEAN)
    assert outcomes == {("orders", 0): ErrorCode.ELECTION_NOT_NEEDED}
    assert elect(live, everything=True, kind=UNCLEAN) == {}


def test_an_election_of_another_type_is_refused(live: LiveCluster) -> None:
    live.create_topic("orders")
    asked = [TopicPartitions("orders", [0])]
    answer = live.ask(ElectLeadersRequest(7, asked, TIMEOUT_MS))
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    (topic,) = answer.replica_election_results
    assert [result.error_code for result in topic.partition_result] == [ErrorCode.INVALID_REQUEST]


# -- DescribeLogDirs


@pytest.mark.parametrize("version", versions_of(ApiKey.DESCRIBE_LOG_DIRS))
def test_sizes_are_told(live: LiveCluster, version: int) -> None:
    live.create_topic("orders", 2)
    live.create_topic("payments")
    live.produce("orders", 1, timestamps_ms=[1, 2, 3])
    (result,) = live.ask(DescribeLogDirsRequest(None), version).results
    assert (result.error_code, result.log_dir) == (0, live.broker.config.data_dir)
    sizes = {
        (topic.name, partition.partition_index): partition.partition_size
        for topic in result.topics
        for partition in topic.partitions
    }
    assert Path(result.log_dir).is_dir()
    assert sizes == {
        ("orders", 0): 0,
        ("orders", 1): live.partition("orders", 1).log.size_bytes,
        ("payments", 0): 0,
    }
    assert sizes["orders", 1] > 61
    if version >= 4:
        volume = os.statvfs(result.log_dir)
        assert result.total_bytes == volume.f_blocks * volume.f_frsize
        assert 0 < result.usable_bytes <= result.total_bytes


def test_only_the_partitions_that_are_asked_for_are_shown(live: LiveCluster) -> None:
    live.create_topic("orders", 3)
    live.create_topic("payments")
    asked = [DescribableLogDirTopic("orders", [2, 7]), DescribableLogDirTopic("nothing", [0])]
    (result,) = live.ask(DescribeLogDirsRequest(asked)).results
    (topic,) = result.topics
    assert topic.name == "orders"
    assert [partition.partition_index for partition in topic.partitions] == [2]


# -- AlterReplicaLogDirs


def move(
    live: LiveCluster,
    path: str,
    *wanted: tuple[str, list[int]],
    version: int | None = None,
    node: int = 1,
) -> dict[tuple[str, int], int]:
    """Wants replicas in a directory of a broker; returns what became of each."""
    topics = [AlterReplicaLogDirTopic(name, indexes) for name, indexes in wanted]
    request = AlterReplicaLogDirsRequest([AlterReplicaLogDir(path, topics)])
    return {
        (topic.topic_name, each.partition_index): each.error_code
        for topic in live.ask(request, version, node=node).results
        for each in topic.partitions
    }


@pytest.mark.parametrize("version", versions_of(ApiKey.ALTER_REPLICA_LOG_DIRS))
def test_replicas_are_where_they_are_to_be_in_the_only_directory(
    live: LiveCluster, version: int
) -> None:
    live.create_topic("orders", 2)
    here = live.broker.config.data_dir
    wanted = (("orders", [0, 1, 2]), ("nothing", [0]))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert move(live, here, *wanted, version=version) == {
        ("orders", 0): ErrorCode.NONE,
        ("orders", 1): ErrorCode.NONE,
        ("orders", 2): unknown,
        ("nothing", 0): unknown,
    }


@pytest.mark.parametrize("path", ["", "/elsewhere"])
def test_there_is_no_other_directory(live: LiveCluster, path: str) -> None:
    live.create_topic("orders")
    assert set(move(live, path, ("orders", [0, 1]), ("nothing", [0])).values()) == {
        ErrorCode.LOG_DIR_NOT_FOUND
    }


def test_a_replica_of_another_broker_is_not_in_the_directory(live_trio: LiveCluster) -> None:
    live_trio.create_topic("orders")
    leader = live_trio.leader("orders")
    for node, live in live_trio.nodes.items():
        code = ErrorCode.NONE if node == leader else ErrorCode.REPLICA_NOT_AVAILABLE
        here = live.broker.config.data_dir
        assert move(live_trio, here, ("orders", [0]), node=node) == {("orders", 0): code}
