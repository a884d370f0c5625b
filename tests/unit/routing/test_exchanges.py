"""Exchanges: what may be declared and bound, what goes with it, and where messages go."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import pytest

from kafkaesque.model.errors import InvariantBroken, OverBound
from kafkaesque.routing.errors import BadName
from kafkaesque.routing.exchanges import errors, planner
from kafkaesque.routing.exchanges.planner import ExchangeLimits
from kafkaesque.routing.exchanges.records import (
    AnyRoutingRecord,
    Bound,
    Destination,
    ExchangeDeclared,
    ExchangeDeleted,
    QueueAdded,
    Unbound,
    VhostAdded,
    VhostRemoved,
)
from kafkaesque.routing.exchanges.route import Route
from kafkaesque.routing.exchanges.router import Router
from kafkaesque.routing.exchanges.topology import Topology
from kafkaesque.routing.message import RoutedMessage


class Turns:
    """Dice that fall in turns."""

    def __init__(self) -> None:
        self.thrown = 0

    def below(self, bound: int) -> int:
        self.thrown += 1
        return self.thrown % bound

    def unique_bytes(self, count: int) -> bytes:
        raise AssertionError


class Host:
    """One virtual host with its router."""

    def __init__(self, *queues: str, local: tuple[str, ...] = ()) -> None:
        self.topology = Topology(Turns(), lambda vhost, queue: queue in local)
        self.router = Router(self.topology)
        self.apply(VhostAdded(vhost="/"), *(QueueAdded(vhost="/", name=each) for each in queues))

    def apply(self, *records: AnyRoutingRecord) -> None:
        for record in records:
            self.topology.apply(record)

    def declare(self, name: str, kind: str, **arguments: object) -> None:
        given = {each.replace("_", "-"): value for each, value in arguments.items()}
        record = ExchangeDeclared(vhost="/", name=name, type=kind, arguments=given)
        self.apply(*planner.declare_exchange(self.topology, record))

    def bind(self, source: str, to: str, key: str = "", **arguments: object) -> None:
        """Binds to a queue, or to an exchange whose name begins with `e`."""
        given = {each.replace("_", "-"): value for each, value in arguments.items()}
        record = Bound(
            vhost="/",
            source=source,
            destination=Destination(to, to.startswith("e")),
            key=key,
            arguments=given,
        )
        self.apply(*planner.bind(self.topology, record))

    def route(self, exchange: str, key: str = "", **headers: object) -> Route:
        given = {each.replace("_", "-"): value for each, value in headers.items()}
        return self.router.route("/", exchange, RoutedMessage(key=key, headers=given))

    def queues(self, exchange: str, key: str = "", **headers: object) -> list[str]:
        return sorted(self.route(exchange, key, **headers).queues)


def declared(name: str = "e", kind: str = "topic", **given: object) -> ExchangeDeclared:
    return ExchangeDeclared(vhost="/", name=name, type=kind, **given)  # type: ignore[arg-type]


def test_the_default_exchange_knows_queues_by_their_names() -> None:
    host = Host("q1")
    assert host.queues("", "q1") == ["q1"]
    assert host.route("", "q2").is_unroutable


def test_each_queue_gets_a_message_once() -> None:
    host = Host("q1", "q2")
    host.declare("e1", "fanout")
    host.bind("amq.topic", "q1", "a.#")
    host.bind("amq.topic", "q1", "*.b")
    host.bind("amq.topic", "e1", "#")
    host.bind("e1", "q1")
    host.bind("e1", "q2")
    assert host.queues("amq.topic", "a.b") == ["q1", "q2"]


def test_the_empty_key_has_no_words_and_one_that_ends_in_a_dot_has_an_empty_word() -> None:
    patterns = {"one": "*", "any": "#", "all": "#.#", "some": "#.*", "none": "", "two": "*.*"}
    host = Host(*patterns)
    for queue, pattern in patterns.items():
        host.bind("amq.topic", queue, pattern)
    assert host.queues("amq.topic", "") == ["all", "any", "none"]
    assert host.queues("amq.topic", "a") == ["all", "any", "one", "some"]
    assert host.queues("amq.topic", "a.") == ["all", "any", "some", "two"]
    assert host.queues("amq.topic", ".") == ["all", "any", "some", "two"]
    assert host.queues("amq.topic", "", CC=["a"]) == ["all", "any", "none", "one", "some"]
    gone = Unbound(vhost="/", source="amq.topic", destination=Destination("any"), key="#")
    host.apply(*planner.unbind(host.topology, gone))
    assert host.queues("amq.topic", "") == ["all", "none"]


def test_cycles_of_exchanges_end() -> None:
    host = Host("q1")
    host.declare("e1", "fanout", alternate_exchange="e1")
    host.declare("e2", "fanout")
    for source, to in (("e1", "e2"), ("e2", "e1"), ("e2", "e2"), ("e2", "q1")):
        host.bind(source, to)
    assert host.queues("e1") == ["q1"]


def test_what_matches_nothing_goes_to_the_alternate_exchange() -> None:
    host = Host("q1", "q2", "q3")
    host.declare("e1", "direct", alternate_exchange="e2")
    host.declare("e3", "direct", alternate_exchange="missing")
    assert host.route("e1", "x").is_unroutable
    host.declare("e2", "fanout")
    host.bind("e1", "q1", "a")
    host.bind("e2", "q2")
    host.bind("amq.fanout", "e1")
    host.bind("amq.fanout", "q3")
    assert host.queues("e1", "a") == ["q1"]
    assert host.queues("e1", "b") == ["q2"]
    # It is the exchange's own affair, and not the message's.
    assert host.queues("amq.fanout", "b") == ["q2", "q3"]
    assert host.route("e3", "a").is_unroutable


def test_headers() -> None:
    host = Host("both", "any", "there", "with", "nothing", "list")
    host.bind("amq.headers", "both", a=1, b="x", x_c=2)
    host.bind("amq.headers", "any", a=1, b="x", x_match="any")
    host.bind("amq.headers", "there", a=None)
    host.bind("amq.headers", "with", x_c=2, x_match="all-with-x")
    host.bind("amq.headers", "list", a=[1], x_match="any")
    assert host.queues("amq.headers", a=1, b="x") == ["any", "both", "there"]
    assert host.queues("amq.headers", a=1) == ["any", "there"]
    assert host.queues("amq.headers", b="x") == ["any"]
    assert host.queues("amq.headers", a=True, b=1) == ["there"]
    assert host.queues("amq.headers", a=[1]) == ["list", "there"]
    assert host.queues("amq.headers", a=[2]) == ["there"]
    assert host.queues("amq.headers", x_c=2) == ["with"]
    host.bind("amq.headers", "nothing")
    host.bind("amq.match", "nothing", x_match="any")
    assert host.queues("amq.headers") == ["nothing"]
    assert host.queues("amq.match", a=1) == []


def test_consistent_hashes_follow_weights_and_move_little() -> None:
    host = Host("q1", "q2", "q3")
    host.declare("e1", "x-consistent-hash")
    for queue, weight in (("q1", "1"), ("q2", "2"), ("q3", "1")):
        host.bind("e1", queue, weight)
    before = {str(key): host.queues("e1", str(key))[0] for key in range(4000)}
    counts = Counter(before.values())
    assert 900 < counts["q1"] < 1100
    assert 1850 < counts["q2"] < 2150
    record = Unbound(vhost="/", source="e1", destination=Destination("q1"), key="1")
    host.apply(*planner.unbind(host.topology, record))
    for key, queue in before.items():
        if queue != "q1":
            assert host.queues("e1", key) == [queue]


def test_hashes_of_headers_and_properties() -> None:
    host = Host("q1", "q2")
    host.declare("e1", "x-consistent-hash", hash_header="user")
    host.declare("e2", "x-modulus-hash", hash_property="message_id")
    for queue in ("q1", "q2"):
        host.bind("e1", queue, "1")
        host.bind("e2", queue)
    found = {tuple(host.queues("e1", str(n), user="ann")) for n in range(50)}
    assert len(found) == 1
    assert len({tuple(host.queues("e1", user=n)) for n in range(50)}) == 2
    messages = [RoutedMessage(properties={"message_id": str(n)}) for n in range(50)]
    assert len({host.router.route("/", "e2", each) for each in messages}) == 2


def test_lots_decide_among_all_bindings_or_the_local_ones() -> None:
    host = Host("q1", "q2", "q3", local=("q2",))
    for name, kind in (("e1", "x-random"), ("e2", "x-local-random")):
        host.declare(name, kind)
        assert host.route(name).is_unroutable
        for queue in ("q1", "q2", "q3"):
            host.bind(name, queue)
    assert Counter(host.queues("e1")[0] for _ in range(30)) == {"q1": 10, "q2": 10, "q3": 10}
    assert {host.queues("e2")[0] for _ in range(30)} == {"q2"}


def test_a_delayed_exchange_says_when() -> None:
    host = Host("q1", "q2")
    host.declare("e1", "x-delayed-message", x_delayed_type="direct")
    host.bind("e1", "q1", "a")
    host.bind("amq.fanout", "e1")
    host.bind("amq.fanout", "q2")
    assert host.route("e1", "a") == Route(("q1",))
    assert host.route("e1", "a", x_delay=5000) == Route((), ("q1",), 5000)
    assert host.route("amq.fanout", "a", x_delay=5000) == Route(("q2",), ("q1",), 5000)
    host.bind("amq.fanout", "q1")
    assert host.queues("amq.fanout", "a", x_delay=5000) == ["q1", "q2"]
    assert host.route("e1", "a", x_delay=-1) == Route(("q1",))


def test_filters_on_bindings() -> None:
    host = Host("q1", "q2")
    host.bind("amq.fanout", "q1", x_filter="color = 'red'")
    host.bind("amq.fanout", "q2", x_filter="$.total > 10")
    assert host.queues("amq.fanout", color="red") == ["q1"]
    assert host.queues("amq.fanout", color="blue") == []
    rich = RoutedMessage(body=b'{"total": 11}')
    assert host.router.route("/", "amq.fanout", rich).queues == ("q2",)


def test_of_bindings_that_ask_for_the_longest_match_the_most_specific_ones_count() -> None:
    host = Host("all", "house", "kitchen", "heat", "hot", "beside")
    for to, key in (("all", "#"), ("house", "house.#"), ("kitchen", "house.kitchen.#")):
        host.bind("amq.topic", to, key, x_longest_match=True)
    host.bind("amq.topic", "heat", "house.*.heat.#", x_longest_match=True)
    host.bind("amq.topic", "hot", "house.kitchen.heat.#", x_longest_match=True, x_filter="hot = 1")
    host.bind("amq.topic", "beside", "house.#", x_longest_match=False)
    assert host.queues("amq.topic", "garden") == ["all"]
    assert host.queues("amq.topic", "house.hall") == ["beside", "house"]
    assert host.queues("amq.topic", "house.kitchen") == ["beside", "kitchen"]
    assert host.queues("amq.topic", "house.kitchen.light") == ["beside", "kitchen"]
    # Three levels are more than two; as many words are more than a wildcard.
    assert host.queues("amq.topic", "house.kitchen.heat") == ["beside", "heat"]
    assert host.queues("amq.topic", "house.kitchen.heat", hot=1) == ["beside", "hot"]
    # Each key of a message has its own longest match.
    assert host.queues("amq.topic", "garden", CC=["house.kitchen.x"]) == [
        "all",
        "beside",
        "kitchen",
    ]
    record = Unbound(
        vhost="/",
        source="amq.topic",
        destination=Destination("kitchen"),
        key="house.kitchen.#",
        arguments={"x-longest-match": True},
    )
    host.apply(*planner.unbind(host.topology, record))
    assert host.queues("amq.topic", "house.kitchen") == ["beside", "house"]


def test_bindings_that_are_equally_specific_all_count() -> None:
    host = Host("a", "b")
    for queue in ("a", "b"):
        host.bind("amq.topic", queue, "house.#", x_longest_match=True)
    assert host.queues("amq.topic", "house.hall") == ["a", "b"]


def test_a_binding_to_its_own_exchange_keeps_names_away_from_shorter_ones() -> None:
    """What is published to them is live only: subscribers get it, and nothing keeps it."""
    host = Host("house")
    host.bind("amq.topic", "house", "house.#", x_longest_match=True)
    record = Bound(
        vhost="/",
        source="amq.topic",
        destination=Destination("amq.topic", True),
        key="house.debug.#",
        arguments={"x-longest-match": True},
    )
    host.apply(*planner.bind(host.topology, record))
    assert host.queues("amq.topic", "house.hall") == ["house"]
    found = host.route("amq.topic", "house.debug.x")
    assert (found.queues, found.has_names) == ((), True)


def test_carbon_copies_are_further_keys() -> None:
    host = Host("q1", "q2", "q3")
    for queue in ("q1", "q2", "q3"):
        host.bind("amq.direct", queue, queue)
        host.bind("amq.topic", queue, f"{queue}.#")
    for exchange in ("amq.direct", "amq.topic", ""):
        assert host.queues(exchange, "q1", CC=["q2"], BCC=["q3", "q1"]) == ["q1", "q2", "q3"]
        assert host.queues(exchange, "q1") == ["q1"]
    for copies in ("q2", [1], ["x"] * 300):
        with pytest.raises(errors.BadHeader, match=r"list of texts|at most 256"):
            host.route("amq.direct", "q1", CC=copies)


@pytest.mark.parametrize(
    ("wanted", "error", "what"),
    [
        (declared(""), errors.ExchangeReserved, "the default exchange"),
        (declared("amq.mine"), errors.ExchangeReserved, r"reserved prefix 'amq\.\*'"),
        (declared("amq.topic", "direct"), errors.InequivalentExchange, "'direct' but .* 'topic'"),
        (declared("e1", "fanout"), errors.InequivalentExchange, "inequivalent arg 'type'"),
        (
            declared("e1", is_durable=False),
            errors.InequivalentExchange,
            "inequivalent arg 'durable' for exchange 'e1' in vhost '/': "
            "received 'false' but current is 'true'",
        ),
        (
            declared("e1", arguments={"alternate-exchange": "x"}),
            errors.InequivalentExchange,
            "received the value 'x' but current is none",
        ),
        (declared("e", "nonsense"), errors.UnknownExchangeKind, "type 'nonsense'"),
        (declared("e", "x-delayed-message"), errors.BadArgument, "x-delayed-type is missing"),
        (
            declared("e", "x-delayed-message", arguments={"x-delayed-type": "x-delayed-message"}),
            errors.BadArgument,
            "x-delayed-type",
        ),
        (declared("e", arguments={"alternate-exchange": 1}), errors.BadArgument, "a text"),
        (
            declared("e", arguments={"hash-header": "a", "hash-property": "message_id"}),
            errors.BadArgument,
            "not both",
        ),
        (declared("e", arguments={"hash-property": "body"}), errors.BadArgument, "one of"),
        (declared("e" * 256), errors.BadArgument, "255 bytes"),
        (declared("e\udcff"), errors.BadArgument, "UTF-8"),
        (declared("e", arguments={"a": object()}), errors.BadArgument, "cannot be kept"),
        (declared("e", arguments={"a": "x" * 20_000}), errors.BadArgument, "16384 bytes"),
        (
            ExchangeDeclared(vhost="other", name="e", type="topic"),
            errors.NoSuchVhost,
            "vhost 'other'",
        ),
    ],
)
def test_exchanges_that_cannot_be(
    wanted: ExchangeDeclared, error: type[Exception], what: str
) -> None:
    host = Host()
    host.declare("e1", "topic")
    with pytest.raises(error, match=what):
        planner.declare_exchange(host.topology, wanted)


def test_an_equivalent_exchange_is_declared_already() -> None:
    host = Host()
    host.declare("e1", "topic")
    # Arguments that are not the exchange's own are not compared.
    assert planner.declare_exchange(host.topology, declared("e1", arguments={"note": 1})) == []
    assert planner.declare_exchange(host.topology, declared("amq.topic")) == []


@pytest.mark.parametrize(
    ("source", "to", "key", "arguments", "error", "what"),
    [
        ("", "q1", "", {}, errors.ExchangeReserved, "default exchange"),
        ("amq.topic", "e9", "", {}, errors.NoSuchExchange, "no exchange 'e9' in vhost '/'"),
        ("e9", "q1", "", {}, errors.NoSuchExchange, "no exchange 'e9'"),
        ("amq.topic", "q9", "", {}, errors.NoSuchQueue, "no queue 'q9' in vhost '/'"),
        ("amq.topic", "q1", "k" * 256, {}, BadName, "255 bytes"),
        ("amq.topic", "q1", "\udcff", {}, errors.BadArgument, "UTF-8"),
        ("amq.topic", "q1", "", {"x_filter": "a ="}, errors.BadArgument, "x-filter: a value"),
        ("amq.topic", "q1", "", {"x_filter": "'a'"}, errors.BadArgument, "no condition"),
        ("amq.topic", "q1", "", {"x_filter": 1}, errors.BadArgument, "a text"),
        ("amq.topic", "q1", "", {"x_longest_match": 1}, errors.BadArgument, "true or false"),
        ("amq.direct", "q1", "", {"x_longest_match": True}, errors.BadArgument, "no place"),
        ("amq.headers", "q1", "", {"x_match": "some"}, errors.BadArgument, "all-with-x"),
        ("e1", "q1", "heavy", {}, errors.BadArgument, "a weight from 1"),
        ("e1", "q1", "0", {}, errors.BadArgument, "a weight from 1"),
        ("e1", "q1", "1", {"x_filter": "a = 1"}, errors.BadArgument, "no place"),
    ],
)
def test_bindings_that_cannot_be(
    source: str,
    to: str,
    key: str,
    arguments: dict[str, object],
    error: type[Exception],
    what: str,
) -> None:
    host = Host("q1")
    host.declare("e1", "x-consistent-hash")
    with pytest.raises(error, match=what):
        host.bind(source, to, key, **arguments)


def test_numbers_of_exchanges_and_bindings_have_bounds() -> None:
    host = Host("q1")
    host.bind("amq.topic", "q1", "a")
    limits = ExchangeLimits(exchanges_max=6, bindings_max=1)
    with pytest.raises(OverBound, match="6 exchanges"):
        planner.declare_exchange(host.topology, declared(), limits)
    another = Bound(vhost="/", source="amq.topic", destination=Destination("q1"), key="b")
    with pytest.raises(OverBound, match="1 bindings"):
        planner.bind(host.topology, another, limits)


def test_auto_delete_exchanges_go_with_their_last_binding_and_take_others_along() -> None:
    host = Host("q1", "q2")
    for name in ("e1", "e2"):
        host.apply(declared(name, "fanout", is_auto_delete=True))
    host.bind("e1", "e2")
    host.bind("e2", "q1")
    host.bind("e2", "q2")
    host.apply(*planner.remove_queue(host.topology, "/", "q1"))
    assert set(host.topology.vhost("/").exchanges) >= {"e1", "e2"}
    records = planner.remove_queue(host.topology, "/", "q2")
    assert records[1:] == [
        ExchangeDeleted(vhost="/", name="e2"),
        ExchangeDeleted(vhost="/", name="e1"),
    ]
    host.apply(*records)
    assert not {"e1", "e2"} & set(host.topology.vhost("/").exchanges)


def test_an_exchange_with_bindings_is_in_use() -> None:
    host = Host("q1")
    host.declare("e1", "fanout")
    assert planner.delete_exchange(host.topology, "/", "e9") == []
    host.bind("e1", "q1")
    with pytest.raises(errors.ExchangeInUse, match="in use"):
        planner.delete_exchange(host.topology, "/", "e1", if_unused=True)
    for name in ("", "amq.topic"):
        with pytest.raises(errors.ExchangeReserved):
            planner.delete_exchange(host.topology, "/", name)
    host.apply(*planner.delete_exchange(host.topology, "/", "e1"))
    with pytest.raises(errors.NoSuchExchange, match="no exchange 'e1' in vhost '/'"):
        host.route("e1")
    host.apply(VhostRemoved(vhost="/"))
    with pytest.raises(errors.NoSuchVhost):
        host.route("")


def test_only_exchanges_pass_messages_to_an_internal_one() -> None:
    host = Host("q1")
    host.apply(declared("e1", "fanout", is_internal=True))
    host.bind("e1", "q1")
    host.bind("amq.direct", "e1", "a")
    assert host.queues("amq.direct", "a") == ["q1"]
    for _ in range(2):
        with pytest.raises(errors.ExchangeInternal, match="internal exchange 'e1' in vhost '/'"):
            host.route("e1")
        # That a broker may is no way for others.
        assert host.router.route_for_broker("/", "e1", RoutedMessage(key="")).queues == ("q1",)


def test_names_of_other_protocols_may_be_longer_than_amqps() -> None:
    host = Host("q1")
    host.bind("amq.topic", "q1", "a.#")
    for name in ("a." + "é" * 1000, ".".join("a" * 500), "a.%2E." + "x" * 300):
        assert host.queues("amq.topic", name) == ["q1"]
    assert host.route("amq.topic", "b." + "x" * 300).is_unroutable


class Seconds(int):
    """A whole number of a type of its own, as AMQP's timestamps are."""


def test_arguments_of_a_protocols_own_types_are_kept_as_plain_ones() -> None:
    host = Host("q1", "q2")
    host.bind("amq.headers", "q1", at=Seconds(5), price=Decimal("1.50"))
    (binding,) = host.topology.vhost("/").bindings()
    assert binding.arguments == {"at": 5, "price": "1.50"}
    assert type(binding.arguments["at"]) is int
    for at in (5, Seconds(5)):
        assert host.queues("amq.headers", at=at, price=Decimal("1.50")) == ["q1"]
    assert host.queues("amq.headers", at=True, price=Decimal("1.50")) == []
    host.declare("e1", "x-modulus-hash", hash_header="at")
    for queue in ("q1", "q2"):
        host.bind("e1", queue)
    for at in range(10):
        assert host.queues("e1", at=at) == host.queues("e1", at=Seconds(at))
    wanted = Unbound(
        vhost="/",
        source="amq.headers",
        destination=Destination("q1"),
        arguments={"price": Decimal("1.50"), "at": Seconds(5)},
    )
    host.apply(*planner.unbind(host.topology, wanted))
    assert host.queues("amq.headers", at=5, price="1.50") == []


def test_bytes_are_the_text_that_they_are() -> None:
    """As in RabbitMQ, whose long strings and byte arrays are both binaries."""
    host = Host("q1", "q2", "q3")
    host.bind("amq.headers", "q1", a="text")
    host.bind("amq.headers", "q2", a=b"text")
    host.bind("amq.headers", "q3", a=["text", {"b": b"text"}])
    for sent in ("text", b"text", bytearray(b"text"), memoryview(b"text")):
        assert sorted(host.queues("amq.headers", a=sent)) == ["q1", "q2"]
        assert host.queues("amq.headers", a=[b"text", {"b": sent}]) == ["q3"]
    assert host.queues("amq.headers", a=b"\xff") == []
    wanted = Unbound(
        vhost="/",
        source="amq.headers",
        destination=Destination("q2"),
        arguments={"a": b"text"},
    )
    host.apply(*planner.unbind(host.topology, wanted))
    assert host.queues("amq.headers", a=b"text") == ["q1"]


def test_a_record_that_contradicts_the_state_is_a_defect_of_ours() -> None:
    host = Host("q1")
    for record in (
        Bound(vhost="/", source="e9", destination=Destination("q1")),
        Bound(vhost="/", source="amq.topic", destination=Destination("q9")),
        QueueAdded(vhost="other", name="q1"),
    ):
        with pytest.raises(InvariantBroken, match="not there"):
            host.apply(record)
