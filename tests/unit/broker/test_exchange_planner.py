"""Virtual hosts, exchanges and bindings in the metadata: decisions, snapshots, rights."""

import pytest
from msgspec.structs import replace

from kafkaesque.access import planner as access_planner
from kafkaesque.access.decisions import Judge
from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.principals import user_principal
from kafkaesque.access.rules import Effect, Rule
from kafkaesque.access.state import AccessState
from kafkaesque.broker.metadata import exchange_planner
from kafkaesque.broker.metadata.change_rights import check_rights
from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.features import LEVEL_WITH_EXCHANGES, METADATA
from kafkaesque.broker.metadata.queue_names import (
    DEFAULT_VHOST,
    exchange_resource,
    queue_resource,
)
from kafkaesque.broker.metadata.queue_names import QueueName as Q
from kafkaesque.broker.requests.client_command import ClientCommand, OnBehalfOf
from kafkaesque.broker.requests.commands import CreateTopic, DeleteTopic
from kafkaesque.broker.requests.exchange_commands import (
    BindDestination,
    CreateVhost,
    DeclareExchange,
    DeleteExchange,
    DeleteVhost,
    ExchangeCommand,
    UnbindDestination,
)
from kafkaesque.broker.requests.queue_commands import CreateQueue, DeleteQueue
from kafkaesque.model.errors import (
    FeatureUpdateFailed,
    InvalidRequest,
    NotAuthorized,
    OverBound,
    RequestRefused,
)
from kafkaesque.routing.exchanges.errors import (
    BadArgument,
    ExchangeInUse,
    ExchangeReserved,
    InequivalentExchange,
    NoSuchExchange,
    NoSuchQueue,
    NoSuchTopic,
    NoSuchVhost,
    UnknownExchangeKind,
)
from kafkaesque.routing.exchanges.records import Destination
from kafkaesque.routing.exchanges.route import Route
from kafkaesque.routing.exchanges.router import Router
from kafkaesque.routing.exchanges.topology import PREDECLARED
from kafkaesque.routing.message import RoutedMessage
from tests.unit.broker.test_planner import Cluster

VHOST = DEFAULT_VHOST
TEAM = "team/a"


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.state.features[METADATA] = LEVEL_WITH_EXCHANGES
    return made


def exchange(
    name: str = "logs", kind: str = "topic", vhost: str = VHOST, **more: bool
) -> DeclareExchange:
    return DeclareExchange(vhost=vhost, name=name, type=kind, **more)  # type: ignore[arg-type]


def queue(name: str = "errors", vhost: str = VHOST, **options: str) -> CreateQueue:
    given = {key.replace("_", "."): value for key, value in options.items()}
    return CreateQueue(vhost=vhost, name=name, options=given)


def bind(to: str | Destination, key: str = "#", source: str = "logs") -> BindDestination:
    where = to if isinstance(to, Destination) else Destination(to)
    return BindDestination(vhost=VHOST, source=source, destination=where, key=key)


def routed(cluster: Cluster, name: str, key: str, vhost: str = VHOST) -> Route:
    return Router(cluster.state.routing).route(vhost, name, RoutedMessage(key=key))


def test_each_virtual_host_has_its_first_exchanges(cluster: Cluster) -> None:
    cluster.do(CreateVhost(vhost=TEAM))
    cluster.do(CreateVhost(vhost=TEAM))
    assert set(cluster.state.routing.vhosts) == {VHOST, TEAM}
    for vhost in cluster.state.routing.vhosts.values():
        assert set(vhost.exchanges) == set(PREDECLARED)


def test_a_message_finds_queues_topics_and_other_exchanges(cluster: Cluster) -> None:
    cluster.do(CreateTopic(name="archive"))
    for command in (
        exchange(),
        exchange("copies", "fanout"),
        queue(),
        queue("all"),
        bind("errors", "*.error"),
        bind(Destination("copies", True), "db.#"),
        bind(Destination("archive", is_topic=True), "db.#"),
        bind("all", "", "copies"),
    ):
        cluster.do(command)
    assert set(routed(cluster, "logs", "db.error").queues) == {"errors", "all"}
    assert routed(cluster, "logs", "db.error").topics == ("archive",)
    assert routed(cluster, "logs", "web.info").is_unroutable
    assert routed(cluster, "", "errors").queues == ("errors",)
    # The second time from memory.
    assert routed(cluster, "", "errors").queues == ("errors",)


def test_a_snapshot_has_all_of_it(cluster: Cluster) -> None:
    cluster.do(CreateTopic(name="archive"))
    for command in (
        CreateVhost(vhost=TEAM),
        exchange(vhost=TEAM),
        exchange(is_auto_delete=True),
        queue(),
        queue("mine", "other"),
        bind("errors"),
        bind(Destination("archive", is_topic=True)),
        bind(Destination("logs", True), "x", "amq.direct"),
    ):
        cluster.do(command)
    again = ClusterState.read_snapshot(cluster.state.write_snapshot())
    assert again.routing == cluster.state.routing
    assert set(again.routing.vhosts) == {VHOST, TEAM, "other"}
    cluster.do(
        UnbindDestination(vhost=VHOST, source="logs", destination=Destination("errors"), key="#")
    )
    assert again.routing != cluster.state.routing


def test_a_cluster_without_exchanges_has_nothing_of_them_in_its_snapshot(cluster: Cluster) -> None:
    cluster.do(queue())
    assert b"routing" not in cluster.state.write_snapshot()


def test_bindings_go_with_their_queue_and_auto_delete_exchanges_with_them(
    cluster: Cluster,
) -> None:
    for command in (
        exchange(is_auto_delete=True),
        exchange("first", "fanout", is_auto_delete=True),
        queue(),
        bind("errors"),
        bind(Destination("logs", True), "", "first"),
    ):
        cluster.do(command)
    cluster.do(DeleteQueue(vhost=VHOST, name="errors"))
    assert set(cluster.state.routing.vhost(VHOST).exchanges) == set(PREDECLARED)
    cluster.do(queue())
    assert routed(cluster, "", "errors").queues == ("errors",)


def test_bindings_to_a_topic_go_with_it(cluster: Cluster) -> None:
    archive = Destination("archive", is_topic=True)
    cluster.do(CreateTopic(name="archive"))
    for command in (exchange(), exchange("other"), queue(), bind(archive), bind("errors")):
        cluster.do(command)
    cluster.do(DeleteExchange(vhost=VHOST, name="other"))
    cluster.do(exchange("other", is_auto_delete=True))
    cluster.do(bind(archive, "#", "other"))
    assert routed(cluster, "logs", "k").topics == ("archive",)
    cluster.do(DeleteTopic(name="archive"))
    assert routed(cluster, "logs", "k") == Route(("errors",))
    assert "other" not in cluster.state.routing.vhost(VHOST).exchanges


def test_a_virtual_host_goes_with_its_queues(cluster: Cluster) -> None:
    for command in (CreateVhost(vhost=TEAM), queue("mine", TEAM), exchange(vhost=TEAM), queue()):
        cluster.do(command)
    cluster.do(DeleteVhost(vhost=TEAM))
    assert set(cluster.state.queues) == {Q(VHOST, "errors")}
    assert set(cluster.state.routing.vhosts) == {VHOST}
    with pytest.raises(NoSuchVhost):
        cluster.do(DeleteVhost(vhost=TEAM))
    # It is another one then.
    cluster.do(CreateVhost(vhost=TEAM))
    assert set(cluster.state.routing.vhost(TEAM).exchanges) == set(PREDECLARED)


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        (exchange("amq.mine"), ExchangeReserved),
        (exchange("logs", "direct"), InequivalentExchange),
        (exchange("new", "no-such"), UnknownExchangeKind),
        (exchange(vhost="nowhere"), NoSuchVhost),
        (bind("no-such"), NoSuchQueue),
        (bind("errors", source="no-such"), NoSuchExchange),
        (bind("errors", source=""), ExchangeReserved),
        (bind(Destination("no-such", True)), NoSuchExchange),
        (bind(Destination("no-such", is_topic=True)), NoSuchTopic),
        (bind(Destination("__consumer_offsets", is_topic=True)), NoSuchTopic),
        (bind(Destination("both", True, True)), InvalidRequest),
        (bind("over"), InvalidRequest),
        (bind("errors", "k" * 256), BadArgument),
        (DeleteExchange(vhost=VHOST, name="amq.topic"), ExchangeReserved),
        (DeleteExchange(vhost=VHOST, name="logs", if_unused=True), ExchangeInUse),
        (DeleteVhost(vhost=VHOST), InvalidRequest),
        (CreateVhost(vhost=""), InvalidRequest),
        (CreateVhost(vhost="__share/x"), InvalidRequest),
        (CreateVhost(vhost="v" * 256), InvalidRequest),
    ],
)
def test_what_cannot_be_is_refused(
    cluster: Cluster, command: ExchangeCommand, refusal: type[RequestRefused]
) -> None:
    cluster.do(CreateTopic(name="t"))
    for first in (exchange(), queue(), bind("errors"), queue("over", source_topic="t")):
        cluster.do(first)
    before = cluster.state.write_snapshot()
    with pytest.raises(refusal):
        cluster.do(command)
    assert cluster.state.write_snapshot() == before


def test_what_is_absent_can_be_deleted_and_unbound(cluster: Cluster) -> None:
    cluster.do(DeleteExchange(vhost=VHOST, name="none"))
    cluster.do(UnbindDestination(vhost=VHOST, source="none", destination=Destination("none")))


def test_brokers_of_before_could_not_read_it(cluster: Cluster) -> None:
    cluster.state.features[METADATA] = LEVEL_WITH_EXCHANGES - 1
    with pytest.raises(FeatureUpdateFailed):
        cluster.do(exchange())


def test_there_are_so_many_virtual_hosts_and_no_more(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange_planner, "VHOSTS_MAX", 2)
    cluster.do(CreateVhost(vhost=TEAM))
    for command in (CreateVhost(vhost="more"), queue("q", "more")):
        with pytest.raises(OverBound):
            cluster.do(command)
    cluster.do(queue("q", TEAM))


def test_queues_over_topics_and_of_share_groups_are_no_destinations(cluster: Cluster) -> None:
    cluster.do(CreateTopic(name="t"))
    cluster.do(queue("over", source_topic="t"))
    assert routed(cluster, "", "over").is_unroutable
    cluster.do(DeleteQueue(vhost=VHOST, name="over"))


# -- rights

ASKED = OnBehalfOf(principal="User:alice", host="10.0.0.1")
_E, _Q, _T, _V = (
    ResourceType.EXCHANGE,
    ResourceType.QUEUE,
    ResourceType.TOPIC,
    ResourceType.VHOST,
)
_O = Operation
Need = tuple[Operation, ResourceType, str]


def _on_behalf(command: ClientCommand) -> ClientCommand:
    return replace(command, on_behalf_of=ASKED)


def _judge(needs: list[Need]) -> Judge:
    access = AccessState()
    rules = [
        Rule(
            principal=user_principal("alice"),
            operation=operation,
            resource_type=kind,
            name=name,
            effect=Effect.ALLOW,
        )
        for operation, kind, name in needs
    ]
    return Judge(access.apply_all(access_planner.plan_rules(access, rules)), ())


CASES: list[tuple[ClientCommand, list[Need]]] = [
    (CreateVhost(vhost=TEAM), [(_O.CREATE, _V, TEAM)]),
    (DeleteVhost(vhost=TEAM), [(_O.DELETE, _V, TEAM)]),
    (exchange(), [(_O.CREATE, _E, "logs")]),
    (exchange(vhost=TEAM), [(_O.CREATE, _E, exchange_resource(TEAM, "logs"))]),
    (
        DeclareExchange(
            vhost=VHOST, name="logs", type="topic", arguments={"alternate-exchange": "rest"}
        ),
        [(_O.CREATE, _E, "logs"), (_O.READ, _E, "logs"), (_O.WRITE, _E, "rest")],
    ),
    (DeleteExchange(vhost=VHOST, name="logs"), [(_O.DELETE, _E, "logs")]),
    (bind("errors"), [(_O.READ, _E, "logs"), (_O.WRITE, _Q, queue_resource(Q(VHOST, "errors")))]),
    (bind(Destination("to", True)), [(_O.READ, _E, "logs"), (_O.WRITE, _E, "to")]),
    (bind(Destination("to", is_topic=True)), [(_O.READ, _E, "logs"), (_O.WRITE, _T, "to")]),
    (
        UnbindDestination(vhost=VHOST, source="logs", destination=Destination("errors")),
        [(_O.READ, _E, "logs"), (_O.WRITE, _Q, "errors")],
    ),
    (
        queue(dead_letter_exchange="dead"),
        [(_O.CREATE, _Q, "errors"), (_O.WRITE, _E, "dead")],
    ),
]


@pytest.mark.parametrize(("command", "needs"), CASES)
def test_a_command_needs_all_its_rights(command: ClientCommand, needs: list[Need]) -> None:
    state = ClusterState()
    asked = _on_behalf(command)
    check_rights(state, asked, _judge(needs))
    for missing in needs:
        with pytest.raises(NotAuthorized):
            check_rights(state, asked, _judge([each for each in needs if each != missing]))
