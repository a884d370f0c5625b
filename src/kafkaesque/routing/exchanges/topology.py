"""All exchanges, queues' names and bindings, as one broker has them.

Like the cluster's other metadata it changes only by `apply`, with committed records in the log's
order. Whether something may be declared or bound has been decided before, by `planner.py`.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from kafkaesque.env.dice import Dice
from kafkaesque.model.errors import InvariantBroken
from kafkaesque.routing.exchanges.errors import NoSuchExchange, NoSuchVhost
from kafkaesque.routing.exchanges.kinds import (
    ALTERNATE,
    LOG,
    LOG_OF_POLICY,
    LONGEST_MATCH,
    Kind,
    read_filter,
    read_key_levels,
    read_transformation,
)
from kafkaesque.routing.exchanges.matchers import new_matcher
from kafkaesque.routing.exchanges.records import (
    AnyRoutingRecord,
    Arguments,
    BindingRecord,
    Bound,
    Destination,
    ExchangeDeclared,
    ExchangeDeleted,
    PolicyPut,
    PolicyRemoved,
    QueueAdded,
    QueueRemoved,
    TransformationPut,
    TransformationRemoved,
    Unbound,
    VhostAdded,
    VhostRemoved,
)
from kafkaesque.routing.exchanges.route_cache import RouteCache
from kafkaesque.routing.names import AMQP, Length, length_of
from kafkaesque.routing.policies import NO_POLICIES, Policies, Target
from kafkaesque.routing.selectors.selector import Selector
from kafkaesque.routing.transformations.transformation import Transformation

#: The virtual host that every cluster has.
DEFAULT_VHOST = "/"
#: Its name is empty; it passes each message to the queue that its key names.
DEFAULT_EXCHANGE = ""
RESERVED_PREFIX = "amq."
#: The space of names that MQTT, STOMP and NATS share.
NAMES_EXCHANGE = "amq.topic"

#: Exchanges that every virtual host has, and their types.
PREDECLARED = {
    DEFAULT_EXCHANGE: Kind.DIRECT,
    "amq.direct": Kind.DIRECT,
    "amq.fanout": Kind.FANOUT,
    "amq.headers": Kind.HEADERS,
    "amq.match": Kind.HEADERS,
    NAMES_EXCHANGE: Kind.TOPIC,
}


def _plain_number(value: object) -> object:
    """Return a whole number of a protocol's own type as a plain one."""
    if isinstance(value, int):
        return int(value)
    raise TypeError(f"{type(value).__name__} cannot be written down")


_encoder = msgspec.msgpack.Encoder(enc_hook=_plain_number, order="deterministic")
_decoder = msgspec.msgpack.Decoder(dict[str, object])
_NO_ARGUMENTS = _encoder.encode({})


class Binding(NamedTuple):
    """One binding; all of it is what it is known by."""

    source: str
    destination: Destination
    key: str
    #: As MessagePack, with names in order.
    packed_arguments: bytes = _NO_ARGUMENTS

    @property
    def arguments(self) -> Arguments:
        """The arguments that it was made with."""
        return unpack_arguments(self.packed_arguments)


def binding_of(record: BindingRecord) -> Binding:
    """Return the binding that a record is about."""
    packed = pack_arguments(record.arguments)
    return Binding(record.source, Destination(*record.destination), record.key, packed)


def pack_arguments(arguments: Arguments) -> bytes:
    """Return arguments such that equal ones are equal bytes.

    Raises:
        TypeError, UnicodeEncodeError: they have a value that cannot be written down.
    """
    return _encoder.encode(arguments) if arguments else _NO_ARGUMENTS


def unpack_arguments(packed: bytes) -> dict[str, object]:
    """Return arguments, of plain types."""
    return {} if packed == _NO_ARGUMENTS else _decoder.decode(packed)


class Exchange:
    """One exchange and the bindings that begin at it."""

    __slots__ = (
        "_free",
        "_rows",
        "alternate",
        "as_destination",
        "bindings",
        "definition",
        "filters",
        "key_levels",
        "kind",
        "lengths",
        "log",
        "matcher",
        "transformations",
    )

    def __init__(
        self, definition: ExchangeDeclared, dice: Dice, is_local: Callable[[str], bool]
    ) -> None:
        self.definition = definition
        self.as_destination = Destination(definition.name, True)
        self.kind = Kind(definition.type)
        self.matcher = new_matcher(self.kind, definition.arguments, dice, is_local)
        #: By its own arguments, or by a policy.
        self.alternate: str | None = None
        #: The topic that keeps what is published to it once for all queues; empty: none.
        self.log = ""
        #: Each with its row.
        self.bindings: dict[Binding, int] = {}
        #: Of the rows that have one.
        self.filters: dict[int, Selector] = {}
        #: How many levels of the name choose a topic's partition; of the rows that say so.
        self.key_levels: dict[int, int] = {}
        #: How specific their keys are; of the rows of which only the most specific ones count.
        self.lengths: dict[int, Length] = {}
        #: Names of transformations; of the rows that have one.
        self.transformations: dict[int, str] = {}
        self._rows: list[Destination | None] = []
        self._free: list[int] = []

    @property
    def is_delayed(self) -> bool:
        """Whether messages say when they are to be delivered."""
        return self.kind is Kind.DELAYED

    def destination(self, row: int) -> Destination:
        """Return where the binding of a row leads."""
        found = self._rows[row]
        if found is None:
            raise InvariantBroken(f"row {row} of exchange {self.definition.name!r} is free")
        return found

    def add(self, binding: Binding) -> None:
        """Take in a binding that is not there."""
        destination = binding.destination
        row = self._free.pop() if self._free else len(self._rows)
        if row == len(self._rows):
            self._rows.append(destination)
        else:
            self._rows[row] = destination
        self.bindings[binding] = row
        arguments = binding.arguments
        self.matcher.add(row, destination, binding.key, arguments)
        selector = read_filter(arguments)
        if selector is not None:
            self.filters[row] = selector
        key_levels = read_key_levels(arguments)
        if key_levels:
            self.key_levels[row] = key_levels
        # An earlier release has let pass whatever a binding said here.
        if arguments.get(LONGEST_MATCH) is True:
            self.lengths[row] = length_of(AMQP.read_filter(binding.key))
        transformation = read_transformation(arguments)
        if transformation:
            self.transformations[row] = transformation

    def remove(self, binding: Binding) -> None:
        """Take out a binding."""
        row = self.bindings.pop(binding)
        self.matcher.remove(row, binding.destination, binding.key, binding.arguments)
        self.filters.pop(row, None)
        self.key_levels.pop(row, None)
        self.lengths.pop(row, None)
        self.transformations.pop(row, None)
        self._rows[row] = None
        self._free.append(row)


class Vhost:
    """One virtual host."""

    __slots__ = (
        "_to",
        "binding_count",
        "exchanges",
        "name",
        "policies",
        "queues",
        "routes",
        "streams",
        "transformations",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.exchanges: dict[str, Exchange] = {}
        self.queues: dict[str, Destination] = {}
        #: The topics of those queues that are streams.
        self.streams: dict[str, str] = {}
        #: Most destinations have one binding, and a dict of one would be as large as that.
        self._to: dict[Destination, Binding | dict[Binding, None]] = {}
        self.binding_count = 0
        self.routes = RouteCache()
        self.policies = NO_POLICIES
        #: Compiled, by their names.
        self.transformations: dict[str, Transformation] = {}

    def set_policies(self, policies: Policies) -> None:
        """Let other policies count."""
        self.policies = policies
        for exchange in self.exchanges.values():
            self.set_up(exchange)

    def set_up(self, exchange: Exchange) -> None:
        """Find out what an exchange's arguments say of it, or a policy where they are silent."""
        arguments, name = exchange.definition.arguments, exchange.definition.name
        alternate, log = arguments.get(ALTERNATE), arguments.get(LOG)
        policy = self.policies.find(Target.EXCHANGE, name).policy if self.policies else None
        if policy is not None:
            alternate = policy.definition.get(ALTERNATE) if alternate is None else alternate
            log = policy.definition.get(LOG_OF_POLICY) if log is None else log
        exchange.alternate = alternate if isinstance(alternate, str) else None
        # The exchange without a name leads to one queue, which keeps the message anyway.
        is_named = name != DEFAULT_EXCHANGE
        exchange.log = log if is_named and isinstance(log, str) else ""

    def exchange(self, name: str) -> Exchange:
        """Return an exchange.

        Raises:
            NoSuchExchange: there is none of this name.
        """
        found = self.exchanges.get(name)
        if found is None:
            raise NoSuchExchange(f"no exchange '{name}' in vhost '{self.name}'")
        return found

    def has(self, destination: Destination) -> bool:
        """Tell whether a binding can lead there; of topics others know."""
        there = self.exchanges if destination.is_exchange else self.queues
        return destination.name in there

    def bindings_to(self, destination: Destination) -> tuple[Binding, ...]:
        """Return the bindings that lead there."""
        found = self._to.get(destination, {})
        return tuple(found) if isinstance(found, dict) else (found,)

    def bindings_with(self, transformation: str) -> int:
        """Return how many bindings name a transformation."""
        named = (each.transformations.values() for each in self.exchanges.values())
        return sum(list(each).count(transformation) for each in named if each)

    def bindings(self) -> Iterator[Binding]:
        """Return all bindings."""
        for exchange in self.exchanges.values():
            yield from exchange.bindings

    def bind(self, binding: Binding) -> None:
        """Add a binding; one that is there already stays as it is."""
        source = self._source(binding)
        if binding in source.bindings:
            return
        destination = self._shared(binding.destination)
        # A record's own copies of the names would be half of what a binding takes.
        binding = Binding(
            source.definition.name, destination, binding.key, binding.packed_arguments
        )
        there = self._to.get(destination)
        if there is None:
            self._to[destination] = binding
        elif isinstance(there, dict):
            there[binding] = None
        else:
            self._to[destination] = {there: None, binding: None}
        source.add(binding)
        self.binding_count += 1

    def unbind(self, binding: Binding) -> None:
        """Remove a binding, if it is there."""
        source = self._source(binding)
        if binding not in source.bindings:
            return
        source.remove(binding)
        self.binding_count -= 1
        there = self._to[binding.destination]
        if isinstance(there, dict) and len(there) > 1:
            del there[binding]
        else:
            del self._to[binding.destination]

    def cut_off(self, destination: Destination) -> None:
        """Remove the bindings that lead somewhere."""
        for binding in self.bindings_to(destination):
            self.unbind(binding)

    def _shared(self, destination: Destination) -> Destination:
        """Return the same destination as the object that all bindings to it share."""
        if destination.is_topic:
            return destination
        if destination.is_exchange and destination.name in self.exchanges:
            return self.exchanges[destination.name].as_destination
        if destination.is_exchange or destination.name not in self.queues:
            raise InvariantBroken(f"a binding leads to {destination}, which is not there")
        return self.queues[destination.name]

    def _source(self, binding: Binding) -> Exchange:
        source = self.exchanges.get(binding.source)
        if source is None:
            raise InvariantBroken(f"a binding begins at {binding.source!r}, which is not there")
        return source


#: Tells of a virtual host and a queue whether this broker leads the queue.
IsLocal = Callable[[str, str], bool]


def _nowhere(vhost: str, queue: str) -> bool:
    """No queue is here where nobody has said so."""
    return False


class _LateDice:
    """Chance, for exchanges that were declared before somebody has brought dice."""

    __slots__ = ("dice",)

    def __init__(self, dice: Dice | None) -> None:
        self.dice = dice

    def below(self, bound: int) -> int:
        return 0 if self.dice is None else self.dice.below(bound)

    def unique_bytes(self, count: int) -> bytes:
        raise InvariantBroken("exchanges draw numbers only")


class Topology:
    """All virtual hosts; read freely, change by `apply` only."""

    __slots__ = ("_dice", "_is_local", "vhosts")

    def __init__(self, dice: Dice | None = None, is_local: IsLocal = _nowhere) -> None:
        """Begin with nothing; what does not `serve` messages needs no dice."""
        self._dice = _LateDice(dice)
        self._is_local = is_local
        self.vhosts: dict[str, Vhost] = {}

    def serve(self, dice: Dice, is_local: IsLocal) -> None:
        """Route messages on this broker: by its chance, and by what it leads."""
        self._dice.dice = dice
        self._is_local = is_local

    def __eq__(self, other: object) -> bool:
        """Tell whether the same is there, in whatever order it came."""
        return isinstance(other, Topology) and self._image() == other._image()

    __hash__ = None  # type: ignore[assignment]

    def _image(self) -> list[bytes]:
        return sorted(map(_encoder.encode, self.records()))

    def vhost(self, name: str) -> Vhost:
        """Return a virtual host.

        Raises:
            NoSuchVhost: there is none of this name.
        """
        found = self.vhosts.get(name)
        if found is None:
            raise NoSuchVhost(f"vhost '{name}' not found")
        return found

    def apply(self, record: AnyRoutingRecord) -> None:
        """Change the state as a committed record says.

        Raises:
            InvariantBroken: the record contradicts the state.
        """
        if isinstance(record, VhostAdded):
            self._add_vhost(record.vhost)
            return
        if isinstance(record, VhostRemoved):
            self.vhosts.pop(record.vhost, None)
            return
        vhost = self.vhosts.get(record.vhost)
        if vhost is None:
            raise InvariantBroken(f"a record is about vhost {record.vhost!r}, which is not there")
        vhost.routes.clear()
        match record:
            case ExchangeDeclared():
                self._declare(vhost, record)
            case ExchangeDeleted(name=name):
                if name in vhost.exchanges:
                    vhost.cut_off(Destination(name, True))
                    for binding in tuple(vhost.exchanges[name].bindings):
                        vhost.unbind(binding)
                    del vhost.exchanges[name]
            case QueueAdded(name=name, topic=topic):
                vhost.queues.setdefault(name, Destination(name))
                if topic:
                    vhost.streams[name] = topic
            case QueueRemoved(name=name):
                vhost.cut_off(Destination(name))
                vhost.queues.pop(name, None)
                vhost.streams.pop(name, None)
            case Bound():
                vhost.bind(binding_of(record))
            case Unbound():
                vhost.unbind(binding_of(record))
            case PolicyPut():
                vhost.set_policies(vhost.policies.with_policy(record))
            case TransformationPut(name=name, rule=rule):
                vhost.transformations[name] = Transformation(rule)
            case TransformationRemoved(name=name):
                vhost.transformations.pop(name, None)
            case PolicyRemoved(name=name, is_operator=is_operator):
                vhost.set_policies(vhost.policies.without(name, is_operator=is_operator))

    def remove_topic(self, name: str) -> None:
        """Remove the bindings that lead to a topic, which is gone."""
        destination = Destination(name, is_topic=True)
        for vhost in self.vhosts.values():
            if vhost.bindings_to(destination):
                vhost.cut_off(destination)
                vhost.routes.clear()

    def records(self) -> Iterator[AnyRoutingRecord]:
        """Return records that make this state of an empty one."""
        for name, vhost in self.vhosts.items():
            yield VhostAdded(vhost=name)
            for exchange in vhost.exchanges.values():
                if exchange.definition.name not in PREDECLARED:
                    yield exchange.definition
            for queue in vhost.queues:
                yield QueueAdded(vhost=name, name=queue, topic=vhost.streams.get(queue, ""))
            for transformation, made in vhost.transformations.items():
                yield TransformationPut(vhost=name, name=transformation, rule=made.rule)
            for binding in vhost.bindings():
                yield bound(name, binding)
            yield from vhost.policies

    def _add_vhost(self, name: str) -> None:
        if name in self.vhosts:
            return
        vhost = self.vhosts[name] = Vhost(name)
        for exchange, kind in PREDECLARED.items():
            self._declare(vhost, ExchangeDeclared(vhost=name, name=exchange, type=kind.value))

    def _declare(self, vhost: Vhost, record: ExchangeDeclared) -> None:
        if record.name in vhost.exchanges:
            return
        exchange = vhost.exchanges[record.name] = Exchange(
            record, self._dice, lambda queue: self._is_local(vhost.name, queue)
        )
        vhost.set_up(exchange)


def bound(vhost: str, binding: Binding) -> Bound:
    """Return the record of a binding."""
    return Bound(
        vhost=vhost,
        source=binding.source,
        destination=binding.destination,
        key=binding.key,
        arguments=dict(binding.arguments),
    )


def unbound(vhost: str, binding: Binding) -> Unbound:
    """Return the record of a binding's end."""
    return Unbound(
        vhost=vhost,
        source=binding.source,
        destination=binding.destination,
        key=binding.key,
        arguments=dict(binding.arguments),
    )
