"""Queues that Kafka's clients see as topics: their names, and what is refused by these."""

from __future__ import annotations

import pytest

from kafkaesque.access.operations import CLUSTER_NAME, Operation, ResourceType
from kafkaesque.broker.metadata.change_rights import check_rights
from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.features import LEVEL_WITH_QUEUES, METADATA
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST
from kafkaesque.broker.metadata.topic_catalog import TopicCatalogSource
from kafkaesque.broker.metadata.topic_views import (
    all_readable,
    find_readable,
    find_readable_by_id,
    readable,
    readable_by_id,
    readable_partition,
)
from kafkaesque.broker.options.queues import KAFKA_TOPIC, NOT_OF_SHOWN, make_policy
from kafkaesque.broker.requests.commands import (
    ChangeConfig,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
)
from kafkaesque.broker.requests.queue_commands import (
    ChangeQueue,
    CreateQueue,
    DeleteQueue,
    QueueResult,
)
from kafkaesque.model.errors import (
    InvalidConfig,
    InvalidTopic,
    NotAuthorized,
    QueueExists,
    TopicNameTaken,
    TopicShowsQueue,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kafkaesque.model.ids import TopicId, TopicPartition
from tests.unit.broker.test_planner import Cluster
from tests.unit.broker.test_queue_planner import ASKED, rules

VIEW = "orders.view"


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.state.features[METADATA] = LEVEL_WITH_QUEUES
    return made


def create(cluster: Cluster, name: str = "orders", **options: str) -> TopicId:
    given = {key.replace("_", "."): value for key, value in options.items()}
    command = CreateQueue(vhost=DEFAULT_VHOST, name=name, options=given)
    result = cluster.do(command)
    assert isinstance(result, QueueResult)
    return TopicId(result.log_id)


def change(cluster: Cluster, value: str | None, name: str = "orders") -> None:
    command = ChangeQueue(vhost=DEFAULT_VHOST, name=name, changes={KAFKA_TOPIC: value})
    cluster.do(command)


def seen(state: ClusterState) -> list[str]:
    return [each.name for each in all_readable(state)]


def test_a_view_has_the_queues_partitions_and_the_logs_id(cluster: Cluster) -> None:
    log_id = create(cluster, kafka_topic=VIEW, partitions="3")
    cluster.do(CreateTopic(name="other", partition_count=1))
    found = readable(cluster.state, VIEW)
    assert (found.name, found.topic_id, found.is_internal) == (VIEW, log_id, False)
    assert len(found.partitions) == 3
    by_id = find_readable_by_id(cluster.state, log_id)
    assert by_id is not None
    assert by_id.name == VIEW
    assert readable_partition(cluster.state, VIEW, 2) is found.partitions[2]
    with pytest.raises(UnknownTopicOrPartition, match="0 to 2, not 3"):
        readable_partition(cluster.state, VIEW, 3)
    assert seen(cluster.state) == ["other", VIEW]
    assert VIEW not in cluster.state.topics
    catalog = TopicCatalogSource().current(cluster.state)
    assert catalog.by_name[VIEW].partition_count == 3
    assert not catalog.by_name[VIEW].is_internal


def test_a_queue_without_the_option_is_seen_by_no_name_and_no_id(cluster: Cluster) -> None:
    log_id = create(cluster)
    assert find_readable(cluster.state, "orders") is None
    assert find_readable_by_id(cluster.state, log_id) is None
    with pytest.raises(UnknownTopicId):
        readable_by_id(cluster.state, log_id)
    assert seen(cluster.state) == []


def test_it_is_shown_and_hidden_while_the_queue_lives(cluster: Cluster) -> None:
    log_id = create(cluster)
    change(cluster, VIEW)
    assert seen(cluster.state) == [VIEW]
    change(cluster, "another")
    assert seen(cluster.state) == ["another"]
    assert find_readable(cluster.state, VIEW) is None
    change(cluster, None)
    assert seen(cluster.state) == []
    assert find_readable_by_id(cluster.state, log_id) is None
    change(cluster, VIEW)
    cluster.do(DeleteQueue(vhost=DEFAULT_VHOST, name="orders"))
    assert seen(cluster.state) == []
    cluster.do(CreateTopic(name=VIEW, partition_count=1))


def test_it_is_in_a_snapshot(cluster: Cluster) -> None:
    create(cluster, kafka_topic=VIEW)
    again = ClusterState.read_snapshot(cluster.state.write_snapshot())
    assert seen(again) == [VIEW]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("a b", "characters other than"),
        ("..", "cannot be called"),
        ("__consumer_offsets", "brokers' own"),
        ("__queue-1", "belong to logs"),
        ("taken", "there is a topic"),
        ("shown", "shows another queue"),
        ("tak_en.", "collides"),
        ("sho_wn", "collides"),
    ],
)
def test_a_name_that_is_none_or_is_taken_is_refused(cluster: Cluster, name: str, why: str) -> None:
    cluster.do(CreateTopic(name="taken", partition_count=1))
    cluster.do(CreateTopic(name="tak.en.", partition_count=1))
    create(cluster, "first", kafka_topic="shown")
    create(cluster, "second", kafka_topic="sho.wn")
    with pytest.raises(InvalidConfig, match=why):
        create(cluster, kafka_topic=name)
    create(cluster)
    with pytest.raises(InvalidConfig, match=why):
        change(cluster, name)


def test_its_name_may_be_the_queues_and_stay_through_changes(cluster: Cluster) -> None:
    create(cluster, kafka_topic="orders")
    cluster.do(ChangeQueue(vhost=DEFAULT_VHOST, name="orders", changes={"max.length": "5"}))
    change(cluster, "orders")
    assert seen(cluster.state) == ["orders"]


def test_no_topic_is_made_with_its_name(cluster: Cluster) -> None:
    create(cluster, kafka_topic=VIEW)
    with pytest.raises(TopicNameTaken, match="shows a queue"):
        cluster.do(CreateTopic(name=VIEW, partition_count=1))
    with pytest.raises(InvalidTopic, match="collides"):
        cluster.do(CreateTopic(name="orders_view", partition_count=1))


def test_whatever_changes_a_topic_refuses_it(cluster: Cluster) -> None:
    log_id = create(cluster, kafka_topic=VIEW)
    commands = (
        DeleteTopic(name=VIEW),
        DeleteTopic(topic_id=log_id),
        CreatePartitions(name=VIEW, count=5),
        ChangeConfig(topic=VIEW, changes=[]),
    )
    for command in commands:
        with pytest.raises(TopicShowsQueue, match="can only be read"):
            cluster.do(command)
    with pytest.raises(TopicShowsQueue):
        cluster.state.partition(TopicPartition(VIEW, 0))
    with pytest.raises(InvalidConfig, match="there is no topic"):
        create(cluster, "over", source_topic=VIEW)


def test_who_does_not_ask_for_a_view_leaves_the_one_that_there_is(cluster: Cluster) -> None:
    first = create(cluster, kafka_topic=VIEW)
    assert create(cluster) == first
    assert create(cluster, kafka_topic=VIEW) == first
    with pytest.raises(QueueExists, match=r"differs in kafka\.topic"):
        create(cluster, kafka_topic="another")
    assert seen(cluster.state) == [VIEW]


@pytest.mark.parametrize("option", NOT_OF_SHOWN)
def test_a_queue_without_messages_of_its_own_is_shown_as_no_topic(option: str) -> None:
    value = "true" if option == "transient" else "x"
    with pytest.raises(InvalidConfig, match=r"has no kafka\.topic"):
        make_policy({KAFKA_TOPIC: VIEW, option: value})


def test_messages_that_were_refused_are_not_shown() -> None:
    with pytest.raises(InvalidConfig, match="messages that were refused"):
        make_policy({KAFKA_TOPIC: VIEW, "overflow": "reject-publish-dlx"})


def test_it_is_for_those_to_say_who_may_make_a_topic_of_the_name(cluster: Cluster) -> None:
    create(cluster)
    command = ChangeQueue(
        vhost=DEFAULT_VHOST, name="orders", changes={KAFKA_TOPIC: VIEW}, on_behalf_of=ASKED
    )
    alter = (Operation.ALTER, ResourceType.QUEUE, "orders")
    with pytest.raises(NotAuthorized, match=VIEW):
        check_rights(cluster.state, command, rules(alter))
    for more in (
        (Operation.CREATE, ResourceType.TOPIC, VIEW),
        (Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME),
    ):
        check_rights(cluster.state, command, rules(alter, more))
