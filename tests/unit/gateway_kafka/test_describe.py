"""DescribeCluster and DescribeTopicPartitions, asked of a real broker."""

from __future__ import annotations

import pytest

from kafkaesque.gateway.kafka import operation_bits
from kafkaesque.model.ids import NodeId
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.describe_cluster_request import DescribeClusterRequest
from kafkaesque.protocols.kafka.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from kafkaesque.protocols.kafka.messages.describe_topic_partitions_response import (
    DescribeTopicPartitionsResponse,
)
from tests.unit.gateway_kafka.live import LiveCluster


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_cluster_is_described(live: LiveCluster, version: int) -> None:
    answer = live.ask(DescribeClusterRequest(), version)
    assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, "live", 1)
    (broker,) = answer.brokers
    address = live.broker.config.kafka_address
    assert (broker.broker_id, broker.host, broker.port) == (1, *address)
    assert answer.cluster_authorized_operations == operation_bits.OPERATIONS_OMITTED
    answer = live.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), version)
    assert answer.cluster_authorized_operations == operation_bits.CLUSTER_OPERATIONS


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
def test_a_request_for_another_kind_of_port_is_refused(
    live: LiveCluster, endpoint_type: int, code: ErrorCode
) -> None:
    answer = live.ask(DescribeClusterRequest(endpoint_type=endpoint_type))
    assert answer.error_code == code
    assert f"endpoint type {endpoint_type}" in answer.error_message


def test_brokers_that_are_not_alive_are_shown_on_demand(live_trio: LiveCluster) -> None:
    live = live_trio
    live.ask_until(DescribeClusterRequest(), lambda answer: len(answer.brokers) == 3)
    live.nodes[2].stop(lambda: None)
    live.wait(lambda: not live.broker.peers.is_alive(NodeId(2)), "broker 2 is lost")
    assert [b.broker_id for b in live.ask(DescribeClusterRequest()).brokers] == [1, 3]
    answer = live.ask(DescribeClusterRequest(include_fenced_brokers=True))
    assert [(b.broker_id, b.is_fenced) for b in answer.brokers] == [
        (1, False),
        (2, True),
        (3, False),
    ]


# -- DescribeTopicPartitions


def request(
    *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsRequest:
    """Returns a request for these topics, or for all."""
    return DescribeTopicPartitionsRequest(
        [TopicRequest(name) for name in names], limit, None if cursor is None else Cursor(*cursor)
    )


def shape(answer: DescribeTopicPartitionsResponse) -> list[tuple[str | None, list[int]]]:
    """Returns names and partition numbers."""
    return [
        (topic.name, [partition.partition_index for partition in topic.partitions])
        for topic in answer.topics
    ]


def test_topics_are_described_in_the_order_of_their_names(live: LiveCluster) -> None:
    live.create_topic("b", 2)
    topic_id = live.create_topic("a", 1)
    answer = live.ask(request())
    assert shape(answer) == [("a", [0]), ("b", [0, 1])]
    assert answer.next_cursor is None
    topic = answer.topics[0]
    assert (topic.error_code, topic.topic_id, topic.is_internal) == (0, topic_id, False)
    assert topic.topic_authorized_operations == operation_bits.TOPIC_OPERATIONS
    (partition,) = topic.partitions
    assert (partition.error_code, partition.leader_id) == (0, 1)
    assert partition.leader_epoch == live.partition("a").leader_epoch
    assert list(partition.replica_nodes) == list(partition.isr_nodes) == [1]
    assert list(partition.eligible_leader_replicas) == list(partition.last_known_elr) == []


def test_pages_follow_one_another_without_a_gap(live: LiveCluster) -> None:
    live.create_topic("a", 3)
    live.create_topic("b", 2)
    live.create_topic("c", 1)
    pages = []
    cursor = None
    for _ in range(4):
        answer = live.ask(request(limit=2, cursor=cursor))
        pages.append(shape(answer))
        if answer.next_cursor is None:
            break
        cursor = (answer.next_cursor.topic_name, answer.next_cursor.partition_index)
    assert pages == [[("a", [0, 1])], [("a", [2]), ("b", [0])], [("b", [1]), ("c", [0])]]


def test_a_full_page_points_to_the_next_topic(live: LiveCluster) -> None:
    live.create_topic("a", 2)
    live.create_topic("b", 1)
    answer = live.ask(request("b", "a", limit=2))
    assert shape(answer) == [("a", [0, 1])]
    assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == ("b", 0)


def test_a_limit_of_nothing_still_gets_on(live: LiveCluster) -> None:
    live.create_topic("a", 2)
    assert shape(live.ask(request(limit=0))) == [("a", [0])]


def test_missing_topics_are_named_only_if_asked_for(live: LiveCluster) -> None:
    live.create_topic("b")
    codes = [topic.error_code for topic in live.ask(request("b", "c", "a a")).topics]
    assert codes == [
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert shape(live.ask(request(cursor=("a", 5)))) == [("b", [0])]


@pytest.mark.parametrize("cursor", [("c", 0), ("a", -1)], ids=["other topic", "negative"])
def test_a_cursor_that_does_not_fit_is_refused(live: LiveCluster, cursor: tuple[str, int]) -> None:
    live.create_topic("a")
    answer = live.ask(request("a", cursor=cursor))
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.INVALID_REQUEST]


def test_a_partition_without_leader_says_so(live: LiveCluster) -> None:
    live.create_topic("a")
    live.broker.leaders.retire(live.broker.state.topic("a").partitions[0].group, 7)
    (partition,) = live.ask(request("a")).topics[0].partitions
    assert partition.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert (partition.leader_id, partition.leader_epoch) == (-1, 7)
