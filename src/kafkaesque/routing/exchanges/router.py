"""Routes messages through exchanges to queues.

Theory of operation. A message walks the graph of exchanges from the one that it was published to.
Each exchange is passed at most once, so cycles end; each queue gets the message once. An exchange
at which a message matches no binding passes it to its alternate exchange, if that exists. What
comes through a delayed exchange is delayed, unless it reaches the queue by another way, too.

The walk goes by the message as it was published. Where a binding names a transformation, the route
says that its queue or topic gets the message changed. Of several ways to one place one with a
transformation counts before one without, and of several transformations the one whose name comes
first: what a rule takes away does not come by another way, and all brokers choose alike.

Of a topic exchange's bindings that ask for the longest match (`x-longest-match`) only the most
specific ones that match one of the message's keys count; all other bindings count as ever.

The exchange that a message is published to says whether a topic keeps it for all queues: those
behind it may be shared with exchanges that say nothing.

If nothing but the key has decided, the route is remembered until something changes in the virtual
host.
"""

from collections.abc import Sequence

from kafkaesque.routing.exchanges.errors import BadHeader, ExchangeInternal
from kafkaesque.routing.exchanges.records import Destination
from kafkaesque.routing.exchanges.route import Route
from kafkaesque.routing.exchanges.topology import (
    DEFAULT_EXCHANGE,
    NAMES_EXCHANGE,
    Exchange,
    Topology,
    Vhost,
)
from kafkaesque.routing.message import RoutedMessage
from kafkaesque.routing.names import NO_LENGTH

#: Headers with further routing keys; the second is for the broker only (RabbitMQ's sender-selected
#: distribution).
CARBON_COPY, BLIND_CARBON_COPY = "CC", "BCC"
#: Routing keys of one message.
KEYS_MAX = 256

DELAY_HEADER = "x-delay"


class _Walk:
    """One message on its way."""

    __slots__ = (
        "_message",
        "_passed",
        "_vhost",
        "goes_by_keys",
        "keys",
        "later",
        "queues",
        "topics",
        "transformed",
    )

    def __init__(self, vhost: Vhost, message: RoutedMessage, keys: Sequence[str]) -> None:
        self._vhost = vhost
        self._message = message
        self._passed: set[str] = set()
        self.keys = keys
        #: In the order in which they were reached.
        self.queues: dict[str, None] = {}
        #: Topics, each with how many levels of the name choose its partition.
        self.topics: dict[str, int] = {}
        #: Names of the transformations for some of both.
        self.transformed: dict[Destination, str] = {}
        #: Delayed exchanges that were reached.
        self.later: list[str] = []
        self.goes_by_keys = True

    def run(self, first: list[str], *, delays: bool) -> None:
        """Pass the message on from these exchanges; if `delays`, up to delayed ones."""
        waiting = first
        while waiting:
            name = waiting.pop()
            exchange = self._vhost.exchanges.get(name)
            if exchange is None or name in self._passed:
                continue
            if exchange.is_delayed:
                # The next message of this key may have another delay.
                self.goes_by_keys = False
                if delays:
                    self.later.append(name)
                    continue
            self._passed.add(name)
            if name == DEFAULT_EXCHANGE:
                self._take_named_queues()
            elif not self._pass_on(name, waiting) and exchange.alternate is not None:
                waiting.append(exchange.alternate)

    def key_levels(self) -> tuple[int, ...]:
        """Return how many levels choose each topic's partition; nothing, if it is always all."""
        found = tuple(self.topics.values())
        return found if any(found) else ()

    def has_passed(self, exchange: str) -> bool:
        """Tell whether the message has come to an exchange so far."""
        return exchange in self._passed

    def _take_named_queues(self) -> None:
        for key in self.keys:
            if key in self._vhost.queues:
                self._take_queue(key)

    def _take_queue(self, name: str, transformation: str = "") -> None:
        topic = self._vhost.streams.get(name)
        if topic is None:
            self.queues[name] = None
        else:
            self.topics.setdefault(topic, 0)
        if transformation:
            self._change(Destination(topic or name, is_topic=topic is not None), transformation)

    def _change(self, place: Destination, transformation: str) -> None:
        """Note what changes the message for a place, unless another transformation comes first."""
        known = self.transformed.get(place, transformation)
        self.transformed[place] = min(known, transformation)

    def _pass_on(self, name: str, waiting: list[str]) -> bool:
        """Pass the message on from one exchange; say whether any binding has matched."""
        exchange = self._vhost.exchanges[name]
        matcher, filters = exchange.matcher, exchange.filters
        transformations = exchange.transformations
        if filters or not matcher.goes_by_keys:
            self.goes_by_keys = False
        has_matched = False
        rows = (
            _longest(exchange, self.keys, self._message)
            if exchange.lengths
            else matcher.rows(self.keys, self._message)
        )
        for row in rows:
            if filters:
                selector = filters.get(row)
                if selector is not None and not selector.matches(self._message):
                    continue
            has_matched = True
            destination = exchange.destination(row)
            transformation = transformations.get(row, "") if transformations else ""
            if destination.is_exchange:
                waiting.append(destination.name)
            elif destination.is_topic:
                # Of two ways to one topic the first counts.
                self.topics.setdefault(destination.name, exchange.key_levels.get(row, 0))
                if transformation:
                    self._change(destination, transformation)
            else:
                self._take_queue(destination.name, transformation)
        return has_matched


def _longest(exchange: Exchange, keys: Sequence[str], message: RoutedMessage) -> list[int]:
    """Return the rows that a message matches, without those that a longer match keeps away."""
    lengths, filters = exchange.lengths, exchange.filters
    found: list[int] = []
    for key in keys:
        longest: list[int] = []
        best = NO_LENGTH
        for row in exchange.matcher.rows((key,), message):
            length = lengths.get(row)
            if length is None:
                found.append(row)
                continue
            selector = filters.get(row)
            if length < best or (selector is not None and not selector.matches(message)):
                continue
            if length > best:
                longest, best = [], length
            longest.append(row)
        found += longest
    return found


class Router:
    """Routes by a topology that others change."""

    __slots__ = ("_topology",)

    def __init__(self, topology: Topology) -> None:
        self._topology = topology

    def route(self, vhost_name: str, exchange: str, message: RoutedMessage) -> Route:
        """Return where a message goes that is published to an exchange.

        Raises:
            NoSuchVhost, NoSuchExchange: there is none of this name.
            ExchangeInternal: nobody may publish to it.
            BadHeader: the header CC or BCC is not a list of texts, or too long a one.
        """
        vhost = self._topology.vhost(vhost_name)
        # A message without headers, as most are, has its own key alone.
        keys = keys_of(message) if message.headers else (message.key,)
        found = vhost.routes.get((exchange, message.key)) if len(keys) == 1 else None
        if found is not None:
            return found
        if vhost.exchange(exchange).definition.is_internal:
            raise ExchangeInternal(
                f"cannot publish to internal exchange '{exchange}' in vhost '{vhost_name}'"
            )
        return self._walk(vhost, exchange, message, keys)

    def known_route(self, vhost_name: str, exchange: str, key: str) -> Route | None:
        """Return where all messages of a key go that have no other ones; None: it is to be found.

        Raises:
            NoSuchVhost: there is none of this name.
        """
        return self._topology.vhost(vhost_name).routes.get((exchange, key))

    def route_for_broker(self, vhost_name: str, exchange: str, message: RoutedMessage) -> Route:
        """Return where a message goes that a broker publishes, which may be to any exchange.

        Raises:
            NoSuchVhost, NoSuchExchange: there is none of this name.
            BadHeader: the header CC or BCC is not a list of texts, or too long a one.
        """
        vhost = self._topology.vhost(vhost_name)
        vhost.exchange(exchange)
        return self._walk(vhost, exchange, message, keys_of(message))

    def _walk(
        self, vhost: Vhost, exchange: str, message: RoutedMessage, keys: Sequence[str]
    ) -> Route:
        walk = _Walk(vhost, message, keys)
        log = vhost.exchanges[exchange].log
        delay_ms = _delay_ms(message)
        walk.run([exchange], delays=delay_ms > 0)
        queues = tuple(walk.queues)
        has_names = walk.has_passed(NAMES_EXCHANGE)
        if walk.later:
            walk.run(walk.later, delays=False)
            later = tuple(walk.queues)[len(queues) :]
            return Route(
                queues,
                later,
                delay_ms,
                tuple(walk.topics),
                has_names,
                walk.key_levels(),
                tuple(walk.transformed.items()),
                log,
            )
        route = Route(
            queues,
            topics=tuple(walk.topics),
            has_names=has_names,
            key_levels=walk.key_levels(),
            transformed=tuple(walk.transformed.items()),
            log=log,
        )
        # Nobody but brokers may use the route of an internal exchange.
        is_shared = not vhost.exchange(exchange).definition.is_internal
        if walk.goes_by_keys and len(keys) == 1 and is_shared:
            vhost.routes.put((exchange, message.key), route)
        return route


def keys_of(message: RoutedMessage) -> Sequence[str]:
    """Return a message's routing keys: its own first.

    Raises:
        BadHeader: the header CC or BCC is not a list of texts, or too long a one.
    """
    headers = message.headers
    if not headers or (CARBON_COPY not in headers and BLIND_CARBON_COPY not in headers):
        return (message.key,)
    keys = [message.key]
    for name in (CARBON_COPY, BLIND_CARBON_COPY):
        copies = headers.get(name, ())
        if not isinstance(copies, list | tuple) or not all(isinstance(e, str) for e in copies):
            raise BadHeader(f"the header {name} has to be a list of texts")
        keys += copies
    if len(keys) > KEYS_MAX:
        raise BadHeader(f"a message has at most {KEYS_MAX} routing keys")
    return keys


def _delay_ms(message: RoutedMessage) -> int:
    value = message.headers.get(DELAY_HEADER) if message.headers else None
    return value if type(value) is int and value > 0 else 0
