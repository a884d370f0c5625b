"""Policies in the metadata: which count, what of a queue's options they change, what is refused."""

from __future__ import annotations

import pytest

from kafkaesque.broker.metadata import exchange_planner
from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.effective_options import applied_to, effective_options
from kafkaesque.broker.metadata.features import LEVEL_WITH_EXCHANGES, METADATA
from kafkaesque.broker.metadata.queue_names import QueueName
from kafkaesque.broker.options.queues import DECLARATION
from kafkaesque.broker.requests.commands import CreateTopic
from kafkaesque.broker.requests.exchange_commands import (
    BindDestination,
    CreateVhost,
    DeclareExchange,
    DeleteVhost,
    ExchangeCommand,
    PutPolicy,
    RemovePolicy,
)
from kafkaesque.broker.requests.queue_commands import ChangeQueue, CreateQueue
from kafkaesque.model.errors import InvalidConfig, OverBound, RequestRefused
from kafkaesque.routing.exchanges import policy_planner
from kafkaesque.routing.exchanges.errors import BadArgument, NoSuchVhost
from kafkaesque.routing.exchanges.records import Destination
from kafkaesque.routing.exchanges.router import Router
from kafkaesque.routing.message import RoutedMessage
from tests.unit.broker.test_planner import Cluster


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.state.features[METADATA] = LEVEL_WITH_EXCHANGES
    return made


def change(cluster: Cluster, command: ExchangeCommand) -> int:
    """Decide and apply; return how many records it took."""
    records = exchange_planner.plan_exchanges(cluster.state, command, 0)
    for each in records:
        cluster.state.apply(each)
    return len(records)


def put(cluster: Cluster, name: str, pattern: str, **more: object) -> int:
    """Put a policy; settings are those of `definition`."""
    fields = {"vhost": "/", "definition": {}, **more}
    return change(cluster, PutPolicy(name=name, pattern=pattern, **fields))  # type: ignore[arg-type]


def make(cluster: Cluster, name: str, **options: str) -> None:
    said = {key.replace("_", "."): value for key, value in options.items()}
    cluster.do(CreateQueue(vhost="/", name=name, options=said))


def holding(cluster: Cluster, name: str) -> dict[str, str]:
    state = cluster.state
    return dict(effective_options(state, state.queue(QueueName("/", name))))


def test_a_policy_holds_for_the_queues_whose_names_fit(cluster: Cluster) -> None:
    make(cluster, "orders.eu")
    make(cluster, "bills.eu")
    assert put(cluster, "short", "^orders", definition={"max-length": 10, "message-ttl": 500}) == 1
    assert holding(cluster, "orders.eu") == {"max.length": "10", "message.ttl.ms": "500"}
    assert holding(cluster, "bills.eu") == {}
    make(cluster, "orders.us")
    assert holding(cluster, "orders.us")["max.length"] == "10"
    # The same again changes nothing.
    assert put(cluster, "short", "^orders", definition={"max-length": 10, "message-ttl": 500}) == 0
    assert put(cluster, "short", "^bills", definition={"max-length": 10}) == 1
    assert holding(cluster, "orders.eu") == {}
    assert holding(cluster, "bills.eu") == {"max.length": "10"}
    assert change(cluster, RemovePolicy(vhost="/", name="short")) == 1
    assert change(cluster, RemovePolicy(vhost="/", name="short")) == 0
    assert holding(cluster, "bills.eu") == {}


def test_the_highest_priority_counts_alone(cluster: Cluster) -> None:
    make(cluster, "orders")
    put(cluster, "b", "orders", definition={"max-length": 1}, priority=3)
    put(cluster, "c", "orders", definition={"max-length": 2, "message-ttl": 9}, priority=7)
    put(cluster, "a", "orders", definition={"expires": 5}, priority=3)
    assert holding(cluster, "orders") == {"max.length": "2", "message.ttl.ms": "9"}
    change(cluster, RemovePolicy(vhost="/", name="c"))
    # Of equal ones that whose name comes first.
    assert holding(cluster, "orders") == {"expires.ms": "5"}


def test_of_limits_the_smallest_counts_and_else_the_queues_own(cluster: Cluster) -> None:
    make(cluster, "own", max_length="5", delayed_retry_min_ms="100")
    make(cluster, "none")
    settings = {"max-length": 10, "delayed-retry-min": 900, "delivery-limit": 4}
    put(cluster, "all", ".", definition=settings)
    assert holding(cluster, "own") == {
        "max.length": "5",
        "delayed.retry.min.ms": "100",
        "delivery.limit": "5",
    }
    assert holding(cluster, "none")["max.length"] == "10"
    put(cluster, "limit", ".", definition={"max-length": 7}, is_operator=True)
    assert holding(cluster, "own")["max.length"] == "5"
    assert holding(cluster, "none")["max.length"] == "7"
    cluster.do(ChangeQueue(vhost="/", name="own", changes={"max.length": "8"}))
    assert holding(cluster, "own")["max.length"] == "7"


def test_where_dead_letters_go_is_said_in_one_place(cluster: Cluster) -> None:
    make(cluster, "dead")
    make(cluster, "plain")
    make(cluster, "own", dead_letter_queue="dead", overflow="dead-letter")
    settings = {"dead-letter-exchange": "amq.fanout", "dead-letter-routing-key": "k"}
    put(cluster, "dlx", ".", definition=settings)
    assert holding(cluster, "plain") == {
        "dead.letter.exchange": "amq.fanout",
        "dead.letter.routing.key": "k",
        "overflow": "dead-letter",
    }
    assert holding(cluster, "own") == {"dead.letter.queue": "dead", "overflow": "dead-letter"}
    put(cluster, "dlx", ".", definition={**settings, "overflow": "reject-publish"})
    assert holding(cluster, "plain")["overflow"] == "reject-publish"
    assert holding(cluster, "own")["overflow"] == "reject-publish"


def test_a_policy_can_have_a_queue_hold_nothing(cluster: Cluster) -> None:
    make(cluster, "own", max_length="3")
    put(cluster, "none", ".", definition={"max-length": 0}, is_operator=True)
    assert holding(cluster, "own") == {"max.length": "-1"}
    put(cluster, "none", ".", definition={"max-length": 2}, is_operator=True)
    assert holding(cluster, "own") == {"max.length": "2"}
    make(cluster, "nothing", max_length="-1")
    assert holding(cluster, "nothing") == {"max.length": "-1"}


def test_a_policy_may_be_for_one_kind_alone(cluster: Cluster) -> None:
    make(cluster, "classic")
    declared = '{"arguments": {"x-queue-type": "quorum"}}'
    cluster.do(CreateQueue(vhost="/", name="quorum", options={DECLARATION: declared}))
    put(cluster, "q", ".", definition={"max-length": 1}, apply_to="quorum_queues")
    assert "max.length" in holding(cluster, "quorum")
    assert "max.length" not in holding(cluster, "classic")
    put(cluster, "q", ".", definition={"max-length": 1}, apply_to="exchanges")
    assert "max.length" not in holding(cluster, "quorum")


def test_what_does_not_go_with_a_queue_over_a_topic_is_left_out(cluster: Cluster) -> None:
    cluster.do(CreateTopic(name="t", partition_count=1, replication_factor=1))
    make(cluster, "cursor", source_topic="t")
    put(cluster, "all", ".", definition={"max-length": 3, "delivery-limit": 2})
    assert holding(cluster, "cursor") == {"source.topic": "t", "delivery.limit": "3"}


def test_the_same_object_holds_as_long_as_nothing_changes(cluster: Cluster) -> None:
    make(cluster, "orders")
    put(cluster, "p", "orders", definition={"max-length": 3})
    queue = cluster.state.queue(QueueName("/", "orders"))
    first = effective_options(cluster.state, queue)
    assert effective_options(cluster.state, queue) is first
    put(cluster, "other", "bills", definition={"max-length": 3})
    assert effective_options(cluster.state, queue) == first
    assert applied_to(cluster.state, queue).policy is not None


def test_a_policy_gives_exchanges_an_alternate(cluster: Cluster) -> None:
    make(cluster, "lost")
    change(cluster, DeclareExchange(vhost="/", name="shop", type="direct"))
    put(cluster, "alt", "^shop", definition={"alternate-exchange": "rest"})
    change(cluster, DeclareExchange(vhost="/", name="rest", type="fanout"))
    change(cluster, DeclareExchange(vhost="/", name="shop.later", type="direct"))
    to = Destination("lost")
    change(cluster, BindDestination(vhost="/", source="rest", destination=to))
    router = Router(cluster.state.routing)
    for name in ("shop", "shop.later"):
        assert router.route("/", name, RoutedMessage(key="x")).queues == ("lost",)
    change(cluster, RemovePolicy(vhost="/", name="alt"))
    assert router.route("/", "shop", RoutedMessage(key="x")).is_unroutable


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"pattern": "("}, BadArgument),
        ({"pattern": "a" * 1001}, BadArgument),
        # RE2 has none: its time is bounded.
        ({"pattern": "a(?=b)"}, BadArgument),
        ({"definition": {}}, BadArgument),
        ({"definition": {"max-lenght": 3}}, BadArgument),
        ({"definition": {"max-length": "3"}}, InvalidConfig),
        ({"definition": {"max-length": -1}}, InvalidConfig),
        ({"definition": {"dead-letter-routing-key": "k"}}, InvalidConfig),
        ({"definition": {"alternate-exchange": 3}}, BadArgument),
        ({"definition": {"overflow": "reject-publish"}, "is_operator": True}, BadArgument),
        ({"apply_to": "everything"}, BadArgument),
        ({"name": ""}, BadArgument),
        ({"name": "n" * 256}, BadArgument),
        ({"priority": 2**31}, BadArgument),
        ({"vhost": "nowhere"}, NoSuchVhost),
    ],
)
def test_what_cannot_be_is_refused(
    cluster: Cluster, fields: dict[str, object], refusal: type[RequestRefused]
) -> None:
    well: dict[str, object] = {
        "vhost": "/",
        "name": "p",
        "pattern": ".",
        "definition": {"max-length": 3},
    }
    with pytest.raises(refusal):
        change(cluster, PutPolicy(**{**well, **fields}))  # type: ignore[arg-type]


def test_a_virtual_host_has_so_many(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_planner, "POLICIES_MAX", 2)
    for name in ("a", "b", "a"):
        put(cluster, name, name, definition={"max-length": 3})
    with pytest.raises(OverBound):
        put(cluster, "c", ".", definition={"max-length": 3})


def test_settings_of_rabbitmq_that_say_nothing_here_are_kept(cluster: Cluster) -> None:
    make(cluster, "orders")
    put(cluster, "ha", ".", definition={"ha-mode": "all", "queue-mode": "lazy"})
    put(cluster, "logs", "^logs", definition={"max-age": "7D", "initial-cluster-size": 3})
    put(cluster, "up", "^up", definition={"federation-upstream-set": "all"})
    assert holding(cluster, "orders") == {}


def test_policies_are_in_snapshots_and_go_with_their_virtual_host(cluster: Cluster) -> None:
    change(cluster, CreateVhost(vhost="team"))
    for vhost in ("/", "team"):
        put(cluster, "p", ".", vhost=vhost, definition={"max-length": 3}, priority=-2)
    put(cluster, "p", ".", definition={"max-length": 2}, is_operator=True)
    restored = ClusterState.read_snapshot(cluster.state.write_snapshot())
    assert restored.routing == cluster.state.routing
    assert [each.name for each in restored.routing.vhost("team").policies] == ["p"]
    change(cluster, DeleteVhost(vhost="team"))
    change(cluster, CreateVhost(vhost="team"))
    assert len(cluster.state.routing.vhost("team").policies) == 0
