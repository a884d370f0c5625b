"""The controller's decisions: what is let through, what is refused, and what the state becomes."""

from itertools import count

import pytest

from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.controller_planner import ControllerFacts
from kafkaesque.broker.metadata.plan import PlanInputs
from kafkaesque.broker.metadata.planner import plan
from kafkaesque.broker.metadata.records import read_metadata_record, write_metadata_record
from kafkaesque.broker.options.tables import BROKER_OPTIONS
from kafkaesque.broker.requests.commands import (
    AllocateProducerIds,
    ChangeConfig,
    ConfigChange,
    ControllerCommand,
    ControllerResult,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    ProducerIdBlock,
    RegisterBroker,
    TopicResult,
)
from kafkaesque.model.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    RequestRefused,
    TopicExists,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kafkaesque.model.ids import NodeId, TopicId


class Cluster:
    """A state and what the planner needs, with records going through their bytes."""

    def __init__(self, brokers: int = 3) -> None:
        self.state = ClusterState()
        self.options = BROKER_OPTIONS.defaults()
        self._ids = count(1)
        self.controllers = ControllerFacts()
        #: Which process of a broker is heard of.
        self.incarnations: dict[NodeId, int] = {}
        self.alive = [NodeId(node) for node in range(1, brokers + 1)]
        for node in self.alive:
            self.do(
                RegisterBroker(
                    node=node,
                    host="h",
                    kafka_port=1,
                    text_port=2,
                    peer_host="h",
                    peer_port=3,
                    rack=None,
                    incarnation=9,
                )
            )

    def do(self, command: ControllerCommand) -> ControllerResult:
        inputs = PlanInputs(
            alive=self.alive,
            expected_brokers=len(self.alive),
            broker_option=self.options.__getitem__,
            start_option=BROKER_OPTIONS.defaults().__getitem__,
            new_topic_id=lambda: TopicId(next(self._ids).to_bytes(16, "big")),
            draw=0,
            controllers=self.controllers,
            incarnation=self.incarnations.get,
        )
        planned = plan(self.state, command, inputs)
        for record in planned.records:
            self.state.apply(read_metadata_record(write_metadata_record(record)))
        return planned.result


def test_a_topic_that_was_made_for_the_same_request_before_is_not_in_its_way() -> None:
    cluster = Cluster()
    first, second, others = (bytes([number]) * 16 for number in (1, 2, 3))
    made = cluster.do(CreateTopic(name="orders", partition_count=4, topic_id=first))
    assert isinstance(made, TopicResult)
    assert made.topic_id == first
    again = CreateTopic(name="orders", topic_id=second, doubtful_ids=(others, first))
    assert cluster.do(again) == made
    for asked in (CreateTopic(name="orders", topic_id=first), CreateTopic(name="orders")):
        with pytest.raises(TopicExists):
            cluster.do(asked)
    strangers = CreateTopic(name="orders", topic_id=second, doubtful_ids=(others,))
    with pytest.raises(TopicExists):
        cluster.do(strangers)


def test_a_topic_gets_defaults_an_id_and_groups_of_its_own() -> None:
    cluster = Cluster()
    result = cluster.do(CreateTopic(name="a", partition_count=4))
    assert isinstance(result, TopicResult)
    assert (result.partition_count, result.replication_factor) == (4, 3)
    cluster.do(CreateTopic(name="b"))
    groups = [p.group for topic in cluster.state.topics.values() for p in topic.partitions]
    assert groups == [1, 2, 3, 4, 5]
    assert cluster.state.topic("a").topic_id != cluster.state.topic("b").topic_id


def test_groups_are_never_used_twice_even_after_a_deletion_and_a_snapshot() -> None:
    cluster = Cluster()
    cluster.do(CreateTopic(name="a", partition_count=5))
    cluster.do(DeleteTopic(name="a"))
    cluster.state = ClusterState.read_snapshot(cluster.state.write_snapshot())
    cluster.do(CreateTopic(name="a"))
    assert [p.group for p in cluster.state.topic("a").partitions] == [6]


def test_a_snapshot_gives_the_same_state() -> None:
    cluster = Cluster()
    cluster.do(CreateTopic(name="a", partition_count=2, configs={"retention.ms": "5"}))
    cluster.do(AllocateProducerIds(node=1))
    cluster.do(ChangeConfig(node=0, changes=[ConfigChange(name="num.partitions", value="7")]))
    again = ClusterState.read_snapshot(cluster.state.write_snapshot())
    assert again.brokers == cluster.state.brokers
    assert again.topics == cluster.state.topics
    assert again.broker_configs == cluster.state.broker_configs
    assert again.next_producer_id == cluster.state.next_producer_id
    assert again.next_group == cluster.state.next_group


def test_validate_only_changes_nothing() -> None:
    cluster = Cluster()
    result = cluster.do(CreateTopic(name="a", partition_count=2, validate_only=True))
    assert isinstance(result, TopicResult)
    assert result.partition_count == 2
    assert not cluster.state.topics


def test_producer_ids_never_overlap() -> None:
    cluster = Cluster()
    blocks = [cluster.do(AllocateProducerIds(node=node)) for node in (1, 2, 1)]
    spans = [
        (block.first, block.first + block.count)
        for block in blocks
        if isinstance(block, ProducerIdBlock)
    ]
    assert spans == [(0, 1000), (1000, 2000), (2000, 3000)]


def test_options_are_set_deleted_and_listed() -> None:
    cluster = Cluster()
    cluster.do(CreateTopic(name="a"))
    cluster.do(
        ChangeConfig(
            topic="a",
            changes=[
                ConfigChange(name="cleanup.policy", value="compact", operation="append"),
                ConfigChange(name="retention.ms", value="77"),
            ],
        )
    )
    assert cluster.state.topic("a").configs == {
        "cleanup.policy": "delete,compact",
        "retention.ms": "77",
    }
    cluster.do(
        ChangeConfig(
            topic="a",
            changes=[
                ConfigChange(name="cleanup.policy", value="delete", operation="subtract"),
                ConfigChange(name="retention.ms", value=None, operation="delete"),
            ],
        )
    )
    assert cluster.state.topic("a").configs == {"cleanup.policy": "compact"}


def set_options(node: int, **values: int) -> ChangeConfig:
    """Returns the command; underscores stand for dots, after `log.cleaner.`."""
    names = {f"log.cleaner.{name.replace('_', '.')}": str(each) for name, each in values.items()}
    return ChangeConfig(
        node=node, changes=[ConfigChange(name=n, value=v) for n, v in names.items()]
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (set_options(1, min_compaction_lag_ms=9), set_options(1, max_compaction_lag_ms=8)),
        (set_options(1, max_compaction_lag_ms=8), set_options(1, min_compaction_lag_ms=9)),
        (set_options(0, max_compaction_lag_ms=8), set_options(1, min_compaction_lag_ms=9)),
        (set_options(1, min_compaction_lag_ms=9), set_options(0, max_compaction_lag_ms=8)),
        (set_options(0, min_compaction_lag_ms=9), set_options(0, max_compaction_lag_ms=8)),
    ],
)
def test_a_brokers_option_is_not_set_against_another(
    first: ChangeConfig, second: ChangeConfig
) -> None:
    cluster = Cluster()
    cluster.do(first)
    said = (
        r"log\.cleaner\.min\.compaction\.lag\.ms = 9 is above "
        r"log\.cleaner\.max\.compaction\.lag\.ms = 8"
    )
    with pytest.raises(InvalidConfig, match=said):
        cluster.do(second)
    cluster.do(set_options(2, min_compaction_lag_ms=7))


def test_a_topics_option_is_not_set_against_what_holds_for_all() -> None:
    cluster = Cluster()
    cluster.options["log.cleaner.max.compaction.lag.ms"] = 8
    with pytest.raises(InvalidConfig, match=r"min\.compaction\.lag\.ms = 9 is above .* = 8"):
        cluster.do(CreateTopic(name="a", configs={"min.compaction.lag.ms": "9"}))
    lags = {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "10"}
    cluster.do(CreateTopic(name="a", configs=lags))
    own_maximum = ConfigChange(name="max.compaction.lag.ms", value=None, operation="delete")
    with pytest.raises(InvalidConfig, match="above"):
        cluster.do(ChangeConfig(topic="a", changes=[own_maximum]))
    cluster.options["log.cleaner.min.compaction.lag.ms"] = 11
    cluster.do(CreateTopic(name="b", configs={"retention.ms": "1"}))


OFFSETS = "__consumer_offsets"


def policy(value: str | None, operation: str = "set") -> ConfigChange:
    return ConfigChange(name="cleanup.policy", value=value, operation=operation)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (CreatePartitions(name=OFFSETS, count=9), "would not be found"),
        (ChangeConfig(topic=OFFSETS, changes=[policy("delete")]), "deleted in time"),
        (ChangeConfig(topic=OFFSETS, changes=[policy("delete", "append")]), "deleted in time"),
        (ChangeConfig(topic=OFFSETS, changes=[policy(None, "delete")]), "deleted in time"),
        (ChangeConfig(topic=OFFSETS, changes=[], replace_all=True), "deleted in time"),
        (
            CreateTopic(name="__transaction_state", configs={"cleanup.policy": "delete"}),
            "deleted in time",
        ),
    ],
)
def test_the_brokers_own_topics_keep_what_they_have(command: ControllerCommand, says: str) -> None:
    cluster = Cluster()
    made = cluster.do(CreateTopic(name=OFFSETS))
    assert isinstance(made, TopicResult)
    assert made.configs["cleanup.policy"] == "compact"
    before = cluster.state.write_snapshot()
    with pytest.raises((InvalidTopic, InvalidConfig), match=says):
        cluster.do(command)
    assert cluster.state.write_snapshot() == before


def test_an_own_topic_of_before_is_put_right_and_changed_otherwise() -> None:
    cluster = Cluster()
    cluster.do(CreateTopic(name=OFFSETS))
    cluster.state.topic(OFFSETS).configs["cleanup.policy"] = "delete"
    changes = [ConfigChange(name="segment.bytes", value="1048576")]
    cluster.do(ChangeConfig(topic=OFFSETS, changes=changes))
    cluster.do(ChangeConfig(topic=OFFSETS, changes=[policy("compact")]))
    assert cluster.state.topic(OFFSETS).configs == {
        "cleanup.policy": "compact",
        "segment.bytes": "1048576",
    }


@pytest.mark.parametrize(
    ("command", "error", "says"),
    [
        (CreateTopic(name="there"), TopicExists, "there"),
        (CreateTopic(name=""), InvalidTopic, "''"),
        (CreateTopic(name="a/b"), InvalidTopic, "a/b"),
        (CreateTopic(name="x" * 250), InvalidTopic, "249"),
        (CreateTopic(name="__cluster_metadata"), InvalidTopic, "own log"),
        (CreateTopic(name="there_x"), InvalidTopic, "collides"),
        (CreateTopic(name="a", partition_count=0), InvalidPartitions, "not 0"),
        (CreateTopic(name="a", partition_count=-2), InvalidPartitions, "-2"),
        (CreateTopic(name="a", replication_factor=4), InvalidReplicationFactor, "4"),
        (CreateTopic(name="a", replication_factor=0), InvalidReplicationFactor, "0"),
        (CreateTopic(name="a", configs={"retention.mss": "1"}), InvalidConfig, "retention.ms?"),
        (CreateTopic(name="a", configs={"retention.ms": "x"}), InvalidConfig, "number"),
        (CreateTopic(name="a", configs={"segment.bytes": "1"}), InvalidConfig, "segment.bytes"),
        (
            CreateTopic(
                name="a", configs={"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"}
            ),
            InvalidConfig,
            "min.compaction.lag.ms = 9 is above max.compaction.lag.ms = 8",
        ),
        (CreateTopic(name="a", assignments=[]), InvalidReplicaAssignment, "no partition"),
        (CreateTopic(name="a", assignments=[[1, 1]]), InvalidReplicaAssignment, "twice"),
        (CreateTopic(name="a", assignments=[[1], [1, 2]]), InvalidReplicaAssignment, "differ"),
        (CreateTopic(name="a", assignments=[[9]]), InvalidReplicaAssignment, "9"),
        (CreateTopic(name="a", assignments=[[1]], partition_count=1), InvalidRequest, "both"),
        (DeleteTopic(name="gone"), UnknownTopicOrPartition, "gone"),
        (DeleteTopic(topic_id=b"y" * 16), UnknownTopicId, "79"),
        (CreatePartitions(name="there.x", count=1), InvalidPartitions, "only grow"),
        (CreatePartitions(name="gone", count=3), UnknownTopicOrPartition, "gone"),
        (
            CreatePartitions(name="there.x", count=3, assignments=[[1]]),
            InvalidReplicaAssignment,
            "2 new",
        ),
        (
            ChangeConfig(topic="there", changes=[ConfigChange(name="a", value="b")]),
            InvalidConfig,
            "unknown",
        ),
        (
            ChangeConfig(
                topic="there",
                changes=[ConfigChange(name="retention.ms", value="1", operation="append")],
            ),
            InvalidConfig,
            "is not a list",
        ),
        (ChangeConfig(node=8, changes=[]), InvalidRequest, "8"),
        (AllocateProducerIds(node=1, count=0), InvalidRequest, "0"),
    ],
)
def test_what_is_refused_says_why_and_changes_nothing(
    command: ControllerCommand, error: type[RequestRefused], says: str
) -> None:
    cluster = Cluster()
    cluster.do(CreateTopic(name="there"))
    cluster.do(CreateTopic(name="there.x"))
    before = cluster.state.write_snapshot()
    with pytest.raises(error, match=says.replace("?", r"\?")):
        cluster.do(command)
    assert cluster.state.write_snapshot() == before
