"""Queues in the metadata: names and options are checked, and no client sees their logs."""

import pytest

from kafkaesque.access import planner
from kafkaesque.access.decisions import Judge
from kafkaesque.access.operations import CLUSTER_NAME, Operation, ResourceType
from kafkaesque.access.principals import user_principal
from kafkaesque.access.rules import Effect, Rule
from kafkaesque.access.state import AccessState
from kafkaesque.broker.metadata.change_rights import check_rights
from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.features import LEVEL_WITH_QUEUES, METADATA
from kafkaesque.broker.metadata.queue_names import (
    DEFAULT_VHOST,
    QueueName,
    queue_resource,
    share_queue,
)
from kafkaesque.broker.metadata.queue_planner import OPTION_LENGTH_MAX
from kafkaesque.broker.metadata.records import Home
from kafkaesque.broker.metadata.topic_names import QUEUE_LOG_PREFIX
from kafkaesque.broker.options.queues import (
    MOVE_TASKS,
    NAMES_OF_TARGETS,
    QUEUE_OPTIONS,
    REDRIVE_RATE,
    SHORT_TEXTS,
    exchange_target,
    make_policy,
    topic_target,
)
from kafkaesque.broker.requests.client_command import OnBehalfOf
from kafkaesque.broker.requests.commands import (
    ChangeConfig,
    CreateTopic,
    DeleteTopic,
    RegisterBroker,
    RemoveBroker,
)
from kafkaesque.broker.requests.queue_commands import (
    ChangeQueue,
    CreateQueue,
    CreateShareQueue,
    DeleteQueue,
    QueueResult,
)
from kafkaesque.model.errors import (
    FeatureUpdateFailed,
    InvalidConfig,
    InvalidRequest,
    InvalidTopic,
    NotAuthorized,
    OverBound,
    QueueExists,
    RequestRefused,
    UnknownQueue,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kafkaesque.model.ids import NodeId, TopicId, TopicPartition, home_of
from kafkaesque.queues.policy import Overflow, Policy
from tests.unit.broker.test_planner import Cluster

TASKS = QueueName(DEFAULT_VHOST, "tasks")


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.state.features[METADATA] = LEVEL_WITH_QUEUES
    return made


def create(cluster: Cluster, name: str = "tasks", **options: str) -> TopicId:
    given = {key.replace("_", "."): value for key, value in options.items()}
    result = cluster.do(CreateQueue(vhost=DEFAULT_VHOST, name=name, options=given))
    assert isinstance(result, QueueResult)
    return TopicId(result.log_id)


def test_a_queue_has_a_log_of_one_partition(cluster: Cluster) -> None:
    log_id = create(cluster)
    queue = cluster.state.queue(TASKS)
    assert queue.topic_id == log_id
    (partition,) = queue.partitions
    assert len(partition.replicas) == 3
    assert cluster.state.partitions_by_group[partition.group] is partition
    assert cluster.state.configs_of(partition)["retention.ms"] == "-1"


def test_clients_see_no_topic_of_it(cluster: Cluster) -> None:
    log_id = create(cluster)
    state = cluster.state
    log = state.queue(TASKS).name
    assert log not in state.topics
    assert log_id not in state.topics_by_id
    with pytest.raises(UnknownTopicOrPartition):
        state.topic(log)
    with pytest.raises(UnknownTopicId):
        state.topic_by_id(log_id)
    for command in (DeleteTopic(name=log), ChangeConfig(topic=log, changes=[])):
        with pytest.raises(UnknownTopicOrPartition):
            cluster.do(command)
    with pytest.raises(UnknownTopicId):
        cluster.do(DeleteTopic(topic_id=log_id))


def test_nobody_makes_a_topic_with_the_name_of_a_log(cluster: Cluster) -> None:
    with pytest.raises(InvalidTopic, match="belong to logs of queues"):
        cluster.do(CreateTopic(name=QUEUE_LOG_PREFIX + "0" * 32))


def test_queues_and_topics_may_have_equal_names(cluster: Cluster) -> None:
    cluster.do(CreateTopic(name="tasks", partition_count=1))
    create(cluster)
    assert "tasks" in cluster.state.topics
    assert TASKS in cluster.state.queues


def test_what_exists_with_the_same_options_is_not_made_again(cluster: Cluster) -> None:
    first = create(cluster, delivery_limit="5")
    assert create(cluster, delivery_limit="5", max_length="0") == first
    with pytest.raises(QueueExists, match=r"differs in delivery\.limit"):
        create(cluster, delivery_limit="6")


def test_a_queue_that_is_made_anew_has_another_log(cluster: Cluster) -> None:
    first = create(cluster)
    cluster.do(DeleteQueue(vhost=DEFAULT_VHOST, name="tasks"))
    assert cluster.state.queues == {}
    assert cluster.state.partitions_by_group == {}
    assert create(cluster) != first


def test_what_does_not_exist_is_refused(cluster: Cluster) -> None:
    for command in (
        DeleteQueue(vhost=DEFAULT_VHOST, name="tasks"),
        ChangeQueue(vhost=DEFAULT_VHOST, name="tasks", changes={}),
    ):
        with pytest.raises(UnknownQueue):
            cluster.do(command)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"delivery.limit": "-1"}, "delivery.limit"),
        ({"delivery.limits": "1"}, "delivery.limit"),
        ({"overflow": "explode"}, "drop-head"),
        ({"overflow": "dead-letter"}, "needs a place"),
        ({"dead.letter.queue": "nowhere"}, "there is no queue 'nowhere'"),
        ({"ordered.groups": "true", "max.priority": "3"}, "not by both"),
    ],
)
def test_options_are_checked(cluster: Cluster, options: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        cluster.do(CreateQueue(vhost=DEFAULT_VHOST, name="tasks", options=options))
    create(cluster)
    with pytest.raises(InvalidConfig, match=words):
        cluster.do(ChangeQueue(vhost=DEFAULT_VHOST, name="tasks", changes=dict(options)))


def test_a_queue_may_take_its_own_dead_letters_and_those_of_others(cluster: Cluster) -> None:
    create(cluster, "dead")
    create(cluster, dead_letter_queue="dead")
    create(cluster, "loop", dead_letter_queue="loop")


@pytest.mark.parametrize("name", ["", "x" * 256, "é" * 128])
def test_names_are_checked(cluster: Cluster, name: str) -> None:
    with pytest.raises(InvalidRequest, match="1 to 255 bytes"):
        create(cluster, name)


def test_any_other_name_is_taken(cluster: Cluster) -> None:
    for name in ("é" * 127, "a b/c#*", "__queue-x"):
        create(cluster, name)


def test_options_change_one_by_one(cluster: Cluster) -> None:
    create(cluster, delivery_limit="5", max_length="10")
    cluster.do(
        ChangeQueue(
            vhost=DEFAULT_VHOST,
            name="tasks",
            changes={"delivery.limit": None, "overflow": "reject-publish"},
        )
    )
    options = cluster.state.queue(TASKS).options
    assert options == {"max.length": "10", "overflow": "reject-publish"}
    policy = make_policy(options)
    assert (policy.messages_max, policy.overflow) == (10, Overflow.REJECT)


def test_a_snapshot_has_the_queues(cluster: Cluster) -> None:
    log_id = create(cluster, delivery_limit="5")
    read = ClusterState.read_snapshot(cluster.state.write_snapshot())
    queue = read.queue(TASKS)
    assert queue == cluster.state.queue(TASKS)
    assert read.owner(log_id) is queue
    assert read.partitions_by_group.keys() == cluster.state.partitions_by_group.keys()


def test_brokers_of_before_are_not_given_records_they_cannot_read() -> None:
    with pytest.raises(FeatureUpdateFailed, match="there can be queues"):
        create(Cluster())


def test_the_defaults_are_the_engines() -> None:
    assert make_policy({}) == Policy()
    assert {option.name for option in QUEUE_OPTIONS} >= {"visibility.timeout.ms", "delivery.limit"}


def test_refusals_may_travel_between_brokers() -> None:
    assert issubclass(UnknownQueue, RequestRefused)
    assert issubclass(QueueExists, RequestRefused)


APP = user_principal("app")
ASKED = OnBehalfOf(APP, "127.0.0.1")


def judge(operation: Operation, resource_type: ResourceType, name: str) -> Judge:
    """Return a judge by whose only rule the application may do this."""
    rule = Rule(
        effect=Effect.ALLOW,
        principal=APP,
        operation=operation,
        resource_type=resource_type,
        name=name,
    )
    state = AccessState()
    return Judge(state.apply_all(planner.plan_rules(state, [rule])), ())


@pytest.mark.parametrize(
    ("command", "operation"),
    [
        (CreateQueue(vhost=DEFAULT_VHOST, name="tasks", on_behalf_of=ASKED), Operation.CREATE),
        (DeleteQueue(vhost=DEFAULT_VHOST, name="tasks", on_behalf_of=ASKED), Operation.DELETE),
        (
            ChangeQueue(vhost=DEFAULT_VHOST, name="tasks", changes={}, on_behalf_of=ASKED),
            Operation.ALTER,
        ),
    ],
)
def test_a_client_needs_the_operation_on_the_queue_or_on_the_cluster(
    cluster: Cluster, command: object, operation: Operation
) -> None:
    check_rights(cluster.state, command, judge(operation, ResourceType.QUEUE, "tasks"))
    if operation is not Operation.DELETE:  # There is no such rule for the cluster.
        check_rights(cluster.state, command, judge(operation, ResourceType.CLUSTER, CLUSTER_NAME))
    for refused in (
        judge(operation, ResourceType.QUEUE, "others"),
        judge(operation, ResourceType.TOPIC, "tasks"),
        judge(Operation.READ, ResourceType.QUEUE, "tasks"),
    ):
        with pytest.raises(NotAuthorized):
            check_rights(cluster.state, command, refused)


def rules(*wanted: tuple[Operation, ResourceType, str]) -> Judge:
    """Return a judge by whose rules the application may do all this."""
    made = [
        Rule(effect=Effect.ALLOW, principal=APP, operation=each, resource_type=kind, name=name)
        for each, kind, name in wanted
    ]
    state = AccessState()
    return Judge(state.apply_all(planner.plan_rules(state, made)), ())


@pytest.mark.parametrize(
    ("option", "kind"),
    [
        ("dead.letter.queue", ResourceType.QUEUE),
        ("dead.letter.topic", ResourceType.TOPIC),
    ],
)
def test_who_says_where_dead_letters_go_needs_to_write_there(
    cluster: Cluster, option: str, kind: ResourceType
) -> None:
    queue = ResourceType.QUEUE
    for command, operation in (
        (
            CreateQueue(
                vhost=DEFAULT_VHOST, name="tasks", options={option: "dead"}, on_behalf_of=ASKED
            ),
            Operation.CREATE,
        ),
        (
            ChangeQueue(
                vhost=DEFAULT_VHOST, name="tasks", changes={option: "dead"}, on_behalf_of=ASKED
            ),
            Operation.ALTER,
        ),
    ):
        own = operation, queue, "tasks"
        check_rights(cluster.state, command, rules(own, (Operation.WRITE, kind, "dead")))
        for refused in (rules(own), rules(own, (Operation.READ, kind, "dead"))):
            with pytest.raises(NotAuthorized):
                check_rights(cluster.state, command, refused)


def test_rules_tell_queues_of_two_virtual_hosts_apart() -> None:
    names = {
        queue_resource(QueueName(vhost, name))
        for vhost, name in (("/", "a/b"), ("a", "b"), ("a/b", "c"), ("a", "b/c"), ("a%2Fb", "c"))
    }
    assert len(names) == 5


def test_options_of_queues_fit_into_the_memory_of_every_broker(cluster: Cluster) -> None:
    long: dict[str, str] = {"tags": "x" * (OPTION_LENGTH_MAX + 1)}
    with pytest.raises(InvalidConfig, match="tags has 65,537 characters, and may have 65,536"):
        cluster.do(CreateQueue(vhost=DEFAULT_VHOST, name="tasks", options=long))
    cluster.do(CreateQueue(vhost=DEFAULT_VHOST, name="tasks"))
    with pytest.raises(InvalidConfig, match="tags has 65,537 characters"):
        cluster.do(ChangeQueue(vhost=DEFAULT_VHOST, name="tasks", changes={**long}))


def of(user: str, name: str) -> CreateQueue:
    client = OnBehalfOf(f"User:{user}", "127.0.0.1")
    return CreateQueue(vhost=DEFAULT_VHOST, name=name, on_behalf_of=client)


def test_a_user_makes_so_many_queues(cluster: Cluster) -> None:
    cluster.options["user.queues.max"] = 2
    for name in ("a", "b"):
        cluster.do(of("alice", name))
    with pytest.raises(OverBound, match=r"User:alice has made 2 queues already.*user\.queues\.max"):
        cluster.do(of("alice", "c"))
    # One that is there is no new one; others, and clients of open listeners, are not kept out.
    cluster.do(of("alice", "b"))
    cluster.do(of("bob", "c"))
    create(cluster, "d")
    # A broker that begins with a snapshot counts the same.
    cluster.state = ClusterState.read_snapshot(cluster.state.write_snapshot())
    with pytest.raises(OverBound):
        cluster.do(of("alice", "e"))
    cluster.do(DeleteQueue(vhost=DEFAULT_VHOST, name="a"))
    cluster.do(of("alice", "e"))
    assert cluster.state.queue_counts == {"User:alice": 2, "User:bob": 1}


def test_who_may_read_a_queue_may_have_its_tasks_kept_and_nothing_else(cluster: Cluster) -> None:
    reader = rules((Operation.READ, ResourceType.QUEUE, "dead"))
    task: dict[str, str | None] = {MOVE_TASKS: "[]", REDRIVE_RATE: "5"}

    def change(changes: dict[str, str | None]) -> ChangeQueue:
        return ChangeQueue(vhost=DEFAULT_VHOST, name="dead", changes=changes, on_behalf_of=ASKED)

    check_rights(cluster.state, change(task), reader)
    for more in ({REDRIVE_RATE: "5"}, {**task, "delay.ms": "5"}):
        with pytest.raises(NotAuthorized, match="no rule allows Alter on queue 'dead'"):
            check_rights(cluster.state, change({**more}), reader)
    with pytest.raises(NotAuthorized):
        check_rights(cluster.state, change(task), rules())


def test_a_name_that_is_no_utf_8_is_refused(cluster: Cluster) -> None:
    for vhost, name in ((DEFAULT_VHOST, "a\udcff"), ("a\udcff", "a")):
        with pytest.raises(InvalidRequest, match="no UTF-8"):
            cluster.do(CreateQueue(vhost=vhost, name=name))


def test_no_client_reaches_the_cursors_of_a_share_group(cluster: Cluster) -> None:
    """Whoever could redirect one would get records of a topic that it may not read."""
    cluster.do(CreateTopic(name="salaries"))
    topic_id = cluster.state.topic("salaries").topic_id
    cluster.do(CreateShareQueue(group="payroll", topic_id=bytes(topic_id)))
    vhost, name = share_queue("payroll", topic_id)
    changes: dict[str, str | None] = {"dead.letter.queue": "mine"}
    for command in (
        ChangeQueue(vhost=vhost, name=name, changes=changes, on_behalf_of=ASKED),
        DeleteQueue(vhost=vhost, name=name, on_behalf_of=ASKED),
    ):
        with pytest.raises(UnknownQueue):
            cluster.do(command)
    assert cluster.state.queue(QueueName(vhost, name)).options == {}


@pytest.mark.parametrize("option", NAMES_OF_TARGETS)
def test_no_name_of_a_target_stands_for_something_else(cluster: Cluster, option: str) -> None:
    """The engine's own word for a topic, given as a queue's name, is judged as a queue's."""
    cluster.do(CreateTopic(name="salaries"))
    create(cluster)
    for name in (topic_target("salaries"), exchange_target("amq.topic", "key")):
        with pytest.raises(InvalidConfig, match="a name has no NUL in it"):
            cluster.do(CreateQueue(vhost=DEFAULT_VHOST, name="new", options={option: name}))
        change = ChangeQueue(vhost=DEFAULT_VHOST, name="tasks", changes={option: name})
        with pytest.raises(InvalidConfig, match="a name has no NUL in it"):
            cluster.do(change)


@pytest.mark.parametrize("option", SHORT_TEXTS)
def test_where_messages_go_on_has_a_name_that_they_can_be_kept_with(
    cluster: Cluster, option: str
) -> None:
    create(cluster)
    for text in ("x" * 256, "\u00e9" * 128):
        change = ChangeQueue(vhost=DEFAULT_VHOST, name="tasks", changes={option: text})
        with pytest.raises(InvalidConfig, match="more than 255 bytes"):
            cluster.do(change)


# -- transient queues


def create_transient(cluster: Cluster, home: int = 2, **more: object) -> TopicId:
    command = CreateQueue(
        vhost=DEFAULT_VHOST,
        name="tasks",
        options={"transient": "true"},
        home=home,
        **more,  # type: ignore[arg-type]
    )
    result = cluster.do(command)
    assert isinstance(result, QueueResult)
    return TopicId(result.log_id)


def restart(cluster: Cluster, node: int, incarnation: int) -> None:
    known = cluster.state.brokers[NodeId(node)]
    if known.incarnation != incarnation:
        del cluster.incarnations[NodeId(node)]
    fields = ("host", "kafka_port", "text_port", "peer_host", "peer_port", "rack")
    cluster.do(
        RegisterBroker(
            node=node,
            incarnation=incarnation,
            features={METADATA: (1, LEVEL_WITH_QUEUES)},
            **{name: getattr(known, name) for name in fields},
        )
    )
    cluster.incarnations[NodeId(node)] = incarnation


@pytest.fixture
def with_processes(cluster: Cluster) -> Cluster:
    cluster.incarnations = dict.fromkeys(cluster.alive, 9)
    return cluster


def test_a_transient_queue_is_in_one_process_and_no_group_is_behind_it(
    with_processes: Cluster,
) -> None:
    cluster = with_processes
    before = cluster.state.next_group
    log_id = create_transient(cluster)
    queue = cluster.state.queue(TASKS)
    assert queue.home == Home(2, 9)
    (part,) = queue.partitions
    assert (part.replicas, home_of(part.group)) == ((NodeId(2),), NodeId(2))
    assert part.group not in cluster.state.partitions_by_group
    assert cluster.state.next_group == before
    with pytest.raises(UnknownTopicOrPartition):
        cluster.state.placed(TopicPartition(queue.name, 0))
    again = ClusterState.read_snapshot(cluster.state.write_snapshot())
    assert again.queue(TASKS) == queue
    assert create_transient(cluster, home=3) == log_id
    cluster.do(DeleteQueue(vhost=DEFAULT_VHOST, name="tasks"))
    assert TASKS not in cluster.state.queues


def test_it_ends_when_its_broker_registers_as_another_process(with_processes: Cluster) -> None:
    cluster = with_processes
    create_transient(cluster)
    kept = create(cluster, "kept")
    restart(cluster, 3, 10)
    restart(cluster, 2, 9)
    assert TASKS in cluster.state.queues
    restart(cluster, 2, 10)
    assert list(cluster.state.queues_by_log) == [kept]


def test_it_ends_when_its_broker_is_removed(with_processes: Cluster) -> None:
    cluster = with_processes
    create_transient(cluster, home=3)
    cluster.alive.remove(NodeId(3))
    del cluster.incarnations[NodeId(3)]
    cluster.do(RemoveBroker(node=3))
    assert not cluster.state.queues


def test_one_whose_broker_is_away_is_made_anew_where_it_is_asked_for(
    with_processes: Cluster,
) -> None:
    cluster = with_processes
    first = create_transient(cluster)
    del cluster.incarnations[NodeId(2)]
    second = create_transient(cluster, home=1)
    assert second != first
    assert cluster.state.queue(TASKS).home == Home(1, 9)
    assert list(cluster.state.queues_by_log) == [second]


def test_a_transient_queue_without_a_home_or_with_replicas_is_refused(
    with_processes: Cluster,
) -> None:
    with pytest.raises(InvalidRequest, match="not known"):
        create_transient(with_processes, home=17)
    with pytest.raises(InvalidRequest, match="not known"):
        create(with_processes, transient="true")
    with pytest.raises(InvalidRequest, match="no replicas"):
        create_transient(with_processes, replication_factor=3)


def test_what_is_transient_stays_so(with_processes: Cluster) -> None:
    create_transient(with_processes)
    with pytest.raises(QueueExists, match="differs in transient"):
        create(with_processes)
    change = ChangeQueue(vhost=DEFAULT_VHOST, name="tasks", changes={"transient": None})
    with pytest.raises(InvalidConfig, match="cannot be changed"):
        with_processes.do(change)


# -- several partitions


def test_a_queue_has_as_many_logs_as_it_is_said_to_have(cluster: Cluster) -> None:
    create(cluster, partitions="3")
    placed = cluster.state.queue(TASKS).partitions
    assert [each.partition for each in placed] == [0, 1, 2]
    assert sorted(each.replicas[0] for each in placed) == [1, 2, 3]
    create(cluster, partitions="3")
    with pytest.raises(QueueExists, match="differs in partitions"):
        create(cluster)


@pytest.mark.parametrize("count", ["0", "65", "many"])
def test_there_are_not_any_number_of_logs(cluster: Cluster, count: str) -> None:
    with pytest.raises(InvalidConfig, match="partitions"):
        create(cluster, partitions=count)


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("max.priority", "5", "max.priority"),
        ("max.length", "5", "max.length"),
        ("max.length.bytes", "5", "max.length.bytes"),
        ("max.in.flight", "5", "max.in.flight"),
        ("sharing", "single-active", "sharing=single-active"),
        ("sharing", "exclusive", "sharing=exclusive"),
        ("transient", "true", "transient"),
        ("source.topic", "events", "source.topic"),
        ("forward.exchange", "amq.topic", "forward.exchange"),
    ],
)
def test_what_needs_one_order_over_the_whole_is_refused(
    cluster: Cluster, option: str, value: str, says: str
) -> None:
    cluster.do(CreateTopic(name="events", partition_count=1))
    with pytest.raises(InvalidConfig, match=f"several partitions has no {says}"):
        create(cluster, **{option: value}, partitions="2")
    create(cluster, partitions="2")
    if option not in ("transient", "source.topic"):
        change = ChangeQueue(vhost=DEFAULT_VHOST, name="tasks", changes={option: value})
        with pytest.raises(InvalidConfig, match=f"several partitions has no {says}"):
            cluster.do(change)


def test_ids_are_those_of_a_group_where_groups_are_spread(cluster: Cluster) -> None:
    options = {"deduplication_ms": "1000", "ordered_groups": "true", "partitions": "2"}
    with pytest.raises(InvalidConfig, match=r"deduplication\.scope=group"):
        create(cluster, **options)
    create(cluster, **options, deduplication_scope="group")


@pytest.mark.parametrize("count", ["1", "3", None])
def test_the_number_of_logs_stays(cluster: Cluster, count: str | None) -> None:
    create(cluster, partitions="2")
    change = ChangeQueue(vhost=DEFAULT_VHOST, name="tasks", changes={"partitions": count})
    with pytest.raises(InvalidConfig, match="partitions cannot be changed"):
        cluster.do(change)
    cluster.do(ChangeQueue(vhost=DEFAULT_VHOST, name="tasks", changes={"partitions": "2"}))
