"""CreateTopics, DeleteTopics and CreatePartitions, asked of real brokers."""

from __future__ import annotations

from typing import Any

import pytest

from kafkaesque.broker.requests.commands import DeleteTopic
from kafkaesque.model.errors import UnknownTopicOrPartition
from kafkaesque.model.ids import ZERO_TOPIC_ID
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kafkaesque.protocols.kafka.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kafkaesque.protocols.kafka.messages.delete_topics_request import (
    DeleteTopicsRequest,
    DeleteTopicState,
)
from tests.unit.gateway_kafka.live import LiveCluster, versions_of

TIMEOUT_MS = 5000
VERSION_WITH_CONFIGS = 5
VERSION_WITH_IDS = 7
VERSION_WITH_DELETION_BY_ID = 6


def assigned(*replicas: list[int], first: int = 0) -> list[CreatableReplicaAssignment]:
    """Returns an assignment of partitions numbered from `first`."""
    return [
        CreatableReplicaAssignment(number, nodes) for number, nodes in enumerate(replicas, first)
    ]


def configured(**configs: str | None) -> list[CreatableTopicConfig]:
    """Returns options; underscores stand for dots."""
    return [CreatableTopicConfig(name.replace("_", "."), value) for name, value in configs.items()]


def create(live: LiveCluster, *topics: CreatableTopic, validate_only: bool = False) -> list[Any]:
    """Returns the results in the newest version."""
    request = CreateTopicsRequest(topics, TIMEOUT_MS, validate_only)
    return list(live.ask(request).topics)


# -- CreateTopics


@pytest.mark.parametrize("version", versions_of(ApiKey.CREATE_TOPICS))
def test_a_topic_is_created(live: LiveCluster, version: int) -> None:
    topic = CreatableTopic("orders", 2, 1, configs=configured(retention_ms="1000"))
    (result,) = live.ask(CreateTopicsRequest([topic], TIMEOUT_MS), version).topics
    assert (result.error_code, result.name, result.error_message) == (0, "orders", None)
    state = live.broker.state.topic("orders")
    assert len(state.partitions) == 2
    assert state.configs == {"retention.ms": "1000"}
    if version >= VERSION_WITH_CONFIGS:
        assert (result.num_partitions, result.replication_factor) == (2, 1)
        shown = {config.name: config for config in result.configs}
        assert (shown["retention.ms"].value, shown["retention.ms"].config_source) == ("1000", 1)
        assert (shown["segment.bytes"].value, shown["segment.bytes"].config_source) == (
            "1073741824",
            5,
        )
    if version >= VERSION_WITH_IDS:
        assert result.topic_id == state.topic_id != ZERO_TOPIC_ID


def test_the_brokers_defaults_fill_what_is_left_open(live_trio: LiveCluster) -> None:
    (result,) = create(live_trio, CreatableTopic("orders", -1, -1))
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 1, 3)


def test_any_broker_has_the_controller_create_topics(live_trio: LiveCluster) -> None:
    live = live_trio
    for node in (1, 2, 3):
        request = CreateTopicsRequest([CreatableTopic(f"from-{node}", 1, 3)], TIMEOUT_MS)
        (result,) = live.ask(request, node=node).topics
        assert result.error_code == 0, result
    live.wait(lambda: len(live.broker.state.topics) == 3, "all are known")


def test_many_topics_are_created_in_one_request(live: LiveCluster) -> None:
    results = create(live, *(CreatableTopic(f"topic-{number}", 1, 1) for number in range(150)))
    assert [result.name for result in results] == [f"topic-{number}" for number in range(150)]
    assert {result.error_code for result in results} == {0}


def test_replicas_go_where_they_are_assigned(live_trio: LiveCluster) -> None:
    assignments = assigned([2, 1], [3, 2])
    (result,) = create(live_trio, CreatableTopic("orders", -1, -1, assignments[::-1]))
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 2, 2)
    partitions = live_trio.broker.state.topic("orders").partitions
    assert [partition.replicas for partition in partitions] == [(2, 1), (3, 2)]


REFUSED_TOPICS = {
    "illegal name": (CreatableTopic("a b", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION, "a b"),
    "the controller's log": (
        CreatableTopic("__cluster_metadata", 1, 1),
        ErrorCode.INVALID_REQUEST,
        "controller",
    ),
    "exists": (CreatableTopic("there", 1, 1), ErrorCode.TOPIC_ALREADY_EXISTS, "there"),
    "no partitions": (CreatableTopic("t", 0, 1), ErrorCode.INVALID_PARTITIONS, "0"),
    "less than none": (CreatableTopic("t", -2, 1), ErrorCode.INVALID_PARTITIONS, "-2"),
    "no replicas": (CreatableTopic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR, "0"),
    "too many replicas": (CreatableTopic("t", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR, "2"),
    "unknown option": (
        CreatableTopic("t", 1, 1, configs=configured(retention_mz="1")),
        ErrorCode.INVALID_CONFIG,
        "retention.ms",
    ),
    "value out of range": (
        CreatableTopic("t", 1, 1, configs=configured(retention_ms="-2")),
        ErrorCode.INVALID_CONFIG,
        "retention.ms",
    ),
    "no value": (
        CreatableTopic("t", 1, 1, configs=configured(retention_ms=None)),
        ErrorCode.INVALID_CONFIG,
        "retention.ms",
    ),
    "count and assignment": (
        CreatableTopic("t", 1, -1, assigned([1])),
        ErrorCode.INVALID_REQUEST,
        "assignments",
    ),
    "factor and assignment": (
        CreatableTopic("t", -1, 1, assigned([1])),
        ErrorCode.INVALID_REQUEST,
        "assignments",
    ),
    "a gap": (
        CreatableTopic("t", -1, -1, assigned([1], first=1)),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "numbered",
    ),
    "assigned twice": (
        CreatableTopic("t", -1, -1, assigned([1]) + assigned([1])),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "more than once",
    ),
    "unknown broker": (
        CreatableTopic("t", -1, -1, assigned([7])),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "7",
    ),
    "same broker twice": (
        CreatableTopic("t", -1, -1, assigned([1, 1])),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "twice",
    ),
    "collides": (CreatableTopic("a.b", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION, "a_b"),
}


@pytest.mark.parametrize(
    ("topic", "code", "says"), REFUSED_TOPICS.values(), ids=REFUSED_TOPICS.keys()
)
def test_what_is_not_created(
    live: LiveCluster, topic: CreatableTopic, code: ErrorCode, says: str
) -> None:
    live.create_topic("there")
    live.create_topic("a_b")
    for validate_only in (True, False):
        other = CreatableTopic("other", 1, 1)
        refused, accepted = create(live, topic, other, validate_only=validate_only)
        assert (refused.error_code, refused.num_partitions) == (code, -1)
        assert says in refused.error_message
        # One topic's mistake is no other topic's.
        assert accepted.error_code == 0
    assert sorted(live.broker.state.topics) == ["a_b", "other", "there"]


def test_a_refusal_holds_no_frames(live: LiveCluster) -> None:
    """Theirs hold the refusal: many of them would stay until the garbage is collected."""
    told: list[Any] = []
    live.broker.doors.cluster.submit(DeleteTopic(name="no-such-topic"), TIMEOUT_MS, told.append)
    live.wait(lambda: bool(told), "the controller answers")
    assert isinstance(told[0], UnknownTopicOrPartition)
    assert told[0].__traceback__ is None


def test_validating_creates_nothing(live: LiveCluster) -> None:
    (result,) = create(live, CreatableTopic("orders", 3, 1), validate_only=True)
    assert (result.error_code, result.num_partitions, result.topic_id) == (0, 3, ZERO_TOPIC_ID)
    assert live.broker.state.topics == {}


def test_a_name_that_stands_twice_in_a_request_is_refused(live: LiveCluster) -> None:
    twice = CreatableTopic("twice", 1, 1)
    results = create(live, twice, CreatableTopic("once", 1, 1), twice)
    assert [(result.name, result.error_code) for result in results] == [
        ("twice", ErrorCode.INVALID_REQUEST),
        ("once", 0),
    ]
    assert list(live.broker.state.topics) == ["once"]


def test_a_client_without_patience_is_told_so(live: LiveCluster) -> None:
    request = CreateTopicsRequest([CreatableTopic("orders", 1, 1)], 0)
    (result,) = live.ask(request).topics
    assert result.error_code == ErrorCode.REQUEST_TIMED_OUT


# -- DeleteTopics


def deletion(version: int, *names: str) -> DeleteTopicsRequest:
    """Returns a request as this version has it."""
    if version >= VERSION_WITH_DELETION_BY_ID:
        return DeleteTopicsRequest([DeleteTopicState(name) for name in names], (), TIMEOUT_MS)
    return DeleteTopicsRequest((), names, TIMEOUT_MS)


@pytest.mark.parametrize("version", versions_of(ApiKey.DELETE_TOPICS))
def test_a_topic_is_deleted(live: LiveCluster, version: int) -> None:
    topic_id = live.create_topic("orders")
    deleted, missing = live.ask(deletion(version, "orders", "nothing"), version).responses
    assert (deleted.error_code, deleted.name) == (0, "orders")
    assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert live.broker.state.topics == {}
    if version >= VERSION_WITH_DELETION_BY_ID:
        assert deleted.topic_id == topic_id
        assert "nothing" in missing.error_message


def test_a_topic_is_deleted_by_its_id(live: LiveCluster) -> None:
    topic_id = live.create_topic("orders")
    states = [DeleteTopicState(None, topic_id), DeleteTopicState(None, b"?" * 16)]
    deleted, missing = live.ask(DeleteTopicsRequest(states, (), TIMEOUT_MS)).responses
    assert (deleted.error_code, deleted.name, deleted.topic_id) == (0, "orders", topic_id)
    assert (missing.error_code, missing.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, b"?" * 16)


def test_what_is_not_deleted(live: LiveCluster) -> None:
    topic_id = live.create_topic("orders")
    both = DeleteTopicState("orders", topic_id)
    for states in (
        [both],
        [DeleteTopicState(None)],
        [DeleteTopicState("orders"), DeleteTopicState("orders")],
        [DeleteTopicState("orders"), DeleteTopicState(None, topic_id)],
    ):
        (result,) = live.ask(DeleteTopicsRequest(states, (), TIMEOUT_MS)).responses
        assert result.error_code == ErrorCode.INVALID_REQUEST
        assert result.error_message
    assert list(live.broker.state.topics) == ["orders"]


def test_a_name_that_is_free_again_gets_another_id(live: LiveCluster) -> None:
    first = live.create_topic("orders")
    live.produce("orders")
    live.ask(deletion(6, "orders"))
    assert live.create_topic("orders") != first
    assert live.partition("orders").high_watermark == 0


# -- CreatePartitions


def growth(
    name: str, count: int, *replicas: list[int], validate_only: bool = False
) -> CreatePartitionsRequest:
    """Returns a request for one topic."""
    assignments = [CreatePartitionsAssignment(nodes) for nodes in replicas] or None
    topic = CreatePartitionsTopic(name, count, assignments)
    return CreatePartitionsRequest([topic], TIMEOUT_MS, validate_only)


@pytest.mark.parametrize("version", versions_of(ApiKey.CREATE_PARTITIONS))
def test_a_topic_grows(live: LiveCluster, version: int) -> None:
    live.create_topic("orders")
    (result,) = live.ask(growth("orders", 3), version).results
    assert (result.name, result.error_code, result.error_message) == ("orders", 0, None)
    assert len(live.broker.state.topic("orders").partitions) == 3


def test_new_partitions_go_where_they_are_assigned(live_trio: LiveCluster) -> None:
    live = live_trio
    live.create_topic("orders", 1, 2)
    (result,) = live.ask(growth("orders", 3, [3, 1], [2, 3])).results
    assert result.error_code == 0
    partitions = live.broker.state.topic("orders").partitions
    assert [partition.replicas for partition in partitions[1:]] == [(3, 1), (2, 3)]


def test_validating_adds_nothing(live: LiveCluster) -> None:
    live.create_topic("orders")
    (result,) = live.ask(growth("orders", 3, validate_only=True)).results
    assert result.error_code == 0
    assert len(live.broker.state.topic("orders").partitions) == 1


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (growth("nothing", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (growth("orders", 2), ErrorCode.INVALID_PARTITIONS),
        (growth("orders", 1), ErrorCode.INVALID_PARTITIONS),
        (growth("orders", 4, [1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (growth("orders", 3, [7]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
    ids=["unknown topic", "as many", "fewer", "too few assignments", "unknown broker"],
)
def test_what_does_not_grow(
    live: LiveCluster, request_: CreatePartitionsRequest, code: ErrorCode
) -> None:
    live.create_topic("orders", 2)
    (result,) = live.ask(request_).results
    assert result.error_code == code
    assert result.error_message
    assert len(live.broker.state.topic("orders").partitions) == 2


def test_a_topic_that_stands_twice_in_a_request_does_not_grow(live: LiveCluster) -> None:
    live.create_topic("orders")
    topics = [CreatePartitionsTopic("orders", count, None) for count in (2, 3)]
    (result,) = live.ask(CreatePartitionsRequest(topics, TIMEOUT_MS)).results
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert len(live.broker.state.topic("orders").partitions) == 1
