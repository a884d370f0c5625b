"""Exchanges route what a plain router routes, whatever was declared, bound and deleted before."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from kafkaesque.model.errors import RequestRefused
from kafkaesque.routing.exchanges import planner
from kafkaesque.routing.exchanges.records import (
    AnyRoutingRecord,
    Bound,
    Destination,
    ExchangeDeclared,
    QueueAdded,
    Unbound,
    VhostAdded,
)
from kafkaesque.routing.exchanges.route import Route
from kafkaesque.routing.exchanges.router import Router
from kafkaesque.routing.exchanges.topology import PREDECLARED, Topology
from kafkaesque.routing.message import RoutedMessage
from kafkaesque.routing.names import AMQP
from tests.property.routing_names import matches

VHOST = "/"
EXCHANGES = ("e1", "e2", "e3", "amq.topic", "amq.headers", "amq.direct")
QUEUES = ("q1", "q2", "q3")
KINDS = ("direct", "fanout", "topic", "headers", "x-delayed-message")

KEYS = ("a", "b", "a.b", "q1", "", "a.")
keys = st.sampled_from((*KEYS, "a.*", "*.b", "*", "#", "#.#", "#.*", "a.#", "#.b"))
values = st.sampled_from((1, True, "x", None, 1.0, ["x"]))
matched = st.dictionaries(st.sampled_from(("h", "i", "x-h")), values, max_size=2)
filters = st.sampled_from((None, None, None, "h = 1", "h IS NULL", "i = 'x' OR h = 1"))
words = st.sampled_from((None, "all", "any", "all-with-x", "any-with-x"))


class Lots:
    """Dice that nothing here throws."""

    def below(self, bound: int) -> int:
        raise AssertionError

    def unique_bytes(self, count: int) -> bytes:
        raise AssertionError


@st.composite
def arguments(draw: st.DrawFn) -> dict[str, object]:
    found = {**draw(matched), "x-match": draw(words), "x-filter": draw(filters)}
    return {
        name: value
        for name, value in sorted(found.items())
        if value is not None or name not in ("x-match", "x-filter")
    }


bindings = st.tuples(
    st.sampled_from(EXCHANGES),
    st.one_of(
        st.sampled_from(QUEUES).map(Destination),
        st.sampled_from(EXCHANGES).map(lambda name: Destination(name, True)),
    ),
    keys,
    arguments(),
)


class Plain:
    """Lists of what there is, searched from the first to the last."""

    def __init__(self) -> None:
        self.exchanges = {
            name: ExchangeDeclared(vhost=VHOST, name=name, type=kind.value)
            for name, kind in PREDECLARED.items()
        }
        self.queues: set[str] = set()
        self.bindings: list[Bound] = []

    def remove_bindings(self, gone: list[Bound]) -> None:
        """Removes bindings, and with their last one those exchanges that want it so."""
        texts = set(map(repr, gone))
        self.bindings = [each for each in self.bindings if repr(each) not in texts]
        for source in {each.source for each in gone}:
            there = self.exchanges.get(source)
            has_any = any(each.source == source for each in self.bindings)
            if there is not None and there.is_auto_delete and not has_any:
                self.delete_exchange(source)

    def delete_exchange(self, name: str) -> None:
        self.exchanges.pop(name, None)
        self.bindings = [each for each in self.bindings if each.source != name]
        self.remove_bindings(
            [each for each in self.bindings if each.destination == Destination(name, True)]
        )

    def delete_queue(self, name: str) -> None:
        self.queues.discard(name)
        self.remove_bindings(
            [each for each in self.bindings if each.destination == Destination(name)]
        )

    def route(self, exchange: str, message: RoutedMessage) -> tuple[set[str], set[str], int]:
        """Returns queues at once, later, and the delay."""
        delay = message.headers.get("x-delay", 0)
        assert isinstance(delay, int)
        at_once = self.reached(exchange, message, through_delayed=not delay)
        everything = self.reached(exchange, message, through_delayed=True)
        return at_once, everything - at_once, delay

    def reached(self, first: str, message: RoutedMessage, *, through_delayed: bool) -> set[str]:
        passed: set[str] = set()
        found: set[str] = set()

        def visit(name: str) -> None:
            exchange = self.exchanges.get(name)
            if exchange is None or name in passed:
                return
            if exchange.type == "x-delayed-message" and not through_delayed:
                return
            passed.add(name)
            if name == "":
                found.update({message.key} & self.queues)
                return
            hits = [each for each in self.bindings if each.source == name]
            hits = [each for each in hits if is_matched(exchange, each, message)]
            for hit in hits:
                if hit.destination.is_exchange:
                    visit(hit.destination.name)
                else:
                    found.add(hit.destination.name)
            alternate = exchange.arguments.get("alternate-exchange")
            if not hits and isinstance(alternate, str):
                visit(alternate)

        visit(first)
        return found


def is_matched(exchange: ExchangeDeclared, binding: Bound, message: RoutedMessage) -> bool:
    headers = message.headers
    expression = binding.arguments.get("x-filter")
    h, i = headers.get("h"), headers.get("i")
    is_one = type(h) in (int, float) and h == 1
    if expression == "h = 1" and not is_one:
        return False
    if expression == "h IS NULL" and h is not None:
        return False
    if expression == "i = 'x' OR h = 1" and not (i == "x" or is_one):
        return False
    kind = exchange.arguments.get("x-delayed-type", exchange.type)
    if kind == "direct":
        return binding.key == message.key
    if kind == "topic":
        # As RabbitMQ splits keys: without text there is no word.
        words = tuple(message.key.split(".")) if message.key else ()
        return matches(AMQP.read_filter(binding.key), words) or binding.key == message.key
    if kind == "headers":
        word = str(binding.arguments.get("x-match", "all"))
        demands = {
            name: value
            for name, value in binding.arguments.items()
            if name not in ("x-match", "x-filter")
            and (word.endswith("with-x") or not name.startswith("x-"))
        }
        hits = [
            name in headers
            and (value is None or (type(headers[name]) is type(value) and headers[name] == value))
            for name, value in demands.items()
        ]
        return all(hits) if word.startswith("all") else any(hits)
    return True


class RouterMachine(RuleBasedStateMachine):
    """Changes and publishes, beside the plain router."""

    @initialize(
        kinds=st.lists(st.sampled_from(KINDS), min_size=3, max_size=3),
        alternates=st.lists(st.sampled_from((None, *EXCHANGES)), min_size=3, max_size=3),
    )
    def begin(self, kinds: list[str], alternates: list[str | None]) -> None:
        self.topology = Topology(Lots())
        self.router = Router(self.topology)
        self.plain = Plain()
        self.apply([VhostAdded(vhost=VHOST)])
        for name in QUEUES:
            self.add_queue(name)
        for name, kind, other in zip(EXCHANGES[:3], kinds, alternates, strict=True):
            self.declare(name, kind, kind == "fanout", other, "topic")

    def apply(self, records: list[AnyRoutingRecord]) -> None:
        for record in records:
            raw = msgspec.msgpack.encode(record)
            self.topology.apply(msgspec.msgpack.decode(raw, type=AnyRoutingRecord))

    @rule(
        name=st.sampled_from(EXCHANGES[:3]),
        kind=st.sampled_from(KINDS),
        is_auto_delete=st.booleans(),
        alternate=st.sampled_from((None, None, *EXCHANGES, "")),
        inner=st.sampled_from(KINDS[:-1]),
    )
    def declare(
        self, name: str, kind: str, is_auto_delete: bool, alternate: str | None, inner: str
    ) -> None:
        given: dict[str, object] = {}
        if alternate is not None:
            given["alternate-exchange"] = alternate
        if kind == "x-delayed-message":
            given["x-delayed-type"] = inner
        record = ExchangeDeclared(
            vhost=VHOST, name=name, type=kind, is_auto_delete=is_auto_delete, arguments=given
        )
        existing = self.plain.exchanges.get(name)
        try:
            self.apply(planner.declare_exchange(self.topology, record))
        except RequestRefused:
            assert existing is not None
            assert existing != record
            return
        assert existing in (None, record)
        self.plain.exchanges[name] = record

    @rule(name=st.sampled_from(QUEUES))
    def add_queue(self, name: str) -> None:
        self.apply([QueueAdded(vhost=VHOST, name=name)])
        self.plain.queues.add(name)

    @rule(name=st.sampled_from(QUEUES))
    def remove_queue(self, name: str) -> None:
        self.apply(planner.remove_queue(self.topology, VHOST, name))
        self.plain.delete_queue(name)

    @rule(name=st.sampled_from(EXCHANGES[:3]))
    def delete_exchange(self, name: str) -> None:
        self.apply(planner.delete_exchange(self.topology, VHOST, name))
        self.plain.delete_exchange(name)

    @rule(binding=bindings)
    def bind(self, binding: tuple[str, Destination, str, dict[str, object]]) -> None:
        source, destination, key, given = binding
        record = Bound(
            vhost=VHOST, source=source, destination=destination, key=key, arguments=given
        )
        there = self.plain.exchanges if destination.is_exchange else self.plain.queues
        is_possible = source in self.plain.exchanges and destination.name in there
        try:
            self.apply(planner.bind(self.topology, record))
        except RequestRefused:
            assert not is_possible
            return
        assert is_possible
        # By their texts, because True equals 1.
        if repr(record) not in map(repr, self.plain.bindings):
            self.plain.bindings.append(record)

    @rule(binding=bindings, data=st.data())
    def unbind(
        self, binding: tuple[str, Destination, str, dict[str, object]], data: st.DataObject
    ) -> None:
        if self.plain.bindings:
            found = data.draw(st.sampled_from((None, *self.plain.bindings)))
            if found is not None:
                binding = (found.source, found.destination, found.key, found.arguments)
        source, destination, key, given = binding
        wanted = Unbound(
            vhost=VHOST, source=source, destination=destination, key=key, arguments=given
        )
        self.apply(planner.unbind(self.topology, wanted))
        gone = Bound(vhost=VHOST, source=source, destination=destination, key=key, arguments=given)
        if repr(gone) in map(repr, self.plain.bindings):
            self.plain.remove_bindings([gone])

    @rule(headers=matched, delay=st.sampled_from((0, 0, 5)))
    def publish_everywhere(self, headers: dict[str, object], delay: int) -> None:
        if delay:
            headers = {**headers, "x-delay": delay}
        for exchange in ("", *EXCHANGES):
            for key in KEYS:
                self.publish(exchange, RoutedMessage(key=key, headers=headers))

    def publish(self, exchange: str, message: RoutedMessage) -> None:
        try:
            routes = [self.router.route(VHOST, exchange, message) for _ in range(2)]
        except RequestRefused:
            assert exchange not in self.plain.exchanges
            return
        at_once, later, delay = self.plain.route(exchange, message)
        for route in routes:  # the second perhaps from the cache
            self.check(route, at_once, later, delay)

    def check(self, route: Route, at_once: set[str], later: set[str], delay: int) -> None:
        assert len(route.queues) == len(set(route.queues))
        assert set(route.queues) == at_once
        assert set(route.delayed_queues) == later
        assert route.delay_ms == (delay if later else route.delay_ms)
        assert route.is_unroutable == (not at_once and not later)

    @rule()
    def rebuild(self) -> None:
        """A state that is made of the other's records is the same."""
        again = Topology(Lots())
        for record in self.topology.records():
            again.apply(record)
        assert list(_sorted(again)) == list(_sorted(self.topology))
        self.topology = again
        self.router = Router(again)


def _sorted(topology: Topology) -> Iterator[str]:
    yield from sorted(repr(record) for record in topology.records())


TestRouter = RouterMachine.TestCase
