"""Decides what clients ask for: exchanges, bindings, and what is deleted with them.

Each function looks at the state and returns the records that do what is asked for, in their order;
none, if it is done already. RabbitMQ's rules decide what is asked for in vain (docs: "Exchanges",
"Declaring and redeclaring"): what is absent can be deleted and unbound, an exchange can be declared
again if type, flags and alternate exchange are the same, and names that begin with `amq.` are the
broker's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import msgspec

from kafkaesque.model.errors import OverBound
from kafkaesque.routing.exchanges.errors import (
    BadArgument,
    ExchangeInUse,
    ExchangeReserved,
    InequivalentExchange,
    NoSuchExchange,
    NoSuchQueue,
    NoSuchTopic,
    NoSuchTransformation,
)
from kafkaesque.routing.exchanges.kinds import (
    ALTERNATE,
    DELAYED_TYPE,
    LOG,
    TRANSFORMATION,
    Kind,
    check_binding,
    check_exchange,
    matching_kind,
    read_kind,
    read_transformation,
)
from kafkaesque.routing.exchanges.records import (
    AnyRoutingRecord,
    Arguments,
    Bound,
    Destination,
    ExchangeDeclared,
    ExchangeDeleted,
    QueueRemoved,
    Unbound,
)
from kafkaesque.routing.exchanges.topology import (
    DEFAULT_EXCHANGE,
    RESERVED_PREFIX,
    Exchange,
    Topology,
    Vhost,
    binding_of,
    pack_arguments,
    unbound,
    unpack_arguments,
)
from kafkaesque.routing.names import AMQP

Records = list[AnyRoutingRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeLimits:
    """Bounds of one virtual host."""

    exchanges_max: int = 100_000
    bindings_max: int = 1_000_000
    #: Arguments of one exchange or binding, as they are written down.
    arguments_bytes_max: int = 16 * 1024


DEFAULT_LIMITS = ExchangeLimits()


def _no_topic(name: str) -> bool:
    """Topics are for those who say which there are."""
    return False


# -- exchanges


def declare_exchange(
    topology: Topology,
    wanted: ExchangeDeclared,
    limits: ExchangeLimits = DEFAULT_LIMITS,
    has_topic: Callable[[str], bool] = _no_topic,
) -> Records:
    """Return the record of a new exchange; none if there is an equivalent one.

    Raises:
        NoSuchVhost, UnknownExchangeKind, BadArgument: it cannot be as it is wanted.
        ExchangeReserved: the name is the broker's.
        InequivalentExchange: there is another one of this name.
        NoSuchTopic: it is to keep messages in a topic that does not exist.
        OverBound: there are too many.
    """
    vhost = topology.vhost(wanted.vhost)
    # First of all: of several mistakes RabbitMQ tells this one.
    kind = read_kind(wanted.type)
    _refuse_default(wanted.name)
    existing = vhost.exchanges.get(wanted.name)
    if existing is not None:
        _check_equivalent(existing.definition, wanted)
        return []
    if wanted.name.startswith(RESERVED_PREFIX):
        raise ExchangeReserved(
            f"exchange name '{wanted.name}' contains reserved prefix '{RESERVED_PREFIX}*'"
        )
    _check_name(wanted.name)
    check_exchange(kind, wanted.arguments)
    log = wanted.arguments.get(LOG)
    if isinstance(log, str) and not has_topic(log):
        raise NoSuchTopic(f"there is no topic '{log}', which {LOG} names: make it first")
    arguments = _plain(wanted.arguments, limits)
    if len(vhost.exchanges) >= limits.exchanges_max:
        raise OverBound(f"vhost '{vhost.name}' has {limits.exchanges_max} exchanges already")
    return [msgspec.structs.replace(wanted, arguments=arguments)]


def delete_exchange(
    topology: Topology, vhost_name: str, name: str, *, if_unused: bool = False
) -> Records:
    """Return the records of an exchange's end, and of those that are deleted with it.

    Raises:
        NoSuchVhost: there is none of this name.
        ExchangeReserved: the exchange is the broker's.
        ExchangeInUse: it has bindings, and is to be deleted only `if_unused`.
    """
    vhost = topology.vhost(vhost_name)
    _refuse_default(name)
    if name.startswith(RESERVED_PREFIX):
        raise ExchangeReserved(
            f"deletion of system exchange '{name}' in vhost '{vhost_name}' not allowed"
        )
    exchange = vhost.exchanges.get(name)
    if exchange is None:
        return []
    if if_unused and exchange.bindings:
        raise ExchangeInUse(f"exchange '{name}' in vhost '{vhost_name}' in use")
    first = ExchangeDeleted(vhost=vhost_name, name=name)
    return [first, *_deleted_with(vhost, Destination(name, True), gone={name})]


# -- bindings


def bind(
    topology: Topology,
    wanted: Bound,
    limits: ExchangeLimits = DEFAULT_LIMITS,
    has_topic: Callable[[str], bool] = _no_topic,
) -> Records:
    """Return the record of a new binding; none if there is the same one.

    Raises:
        NoSuchTopic: it would lead to a topic that does not exist.
        NoSuchVhost, NoSuchExchange, NoSuchQueue: one of its ends is missing.
        NoSuchTransformation: it names one that does not exist.
        ExchangeReserved: one of its ends is the default exchange.
        BadArgument: key or arguments are not what the exchange's type needs.
        BadName: the key is too long.
        OverBound: there are too many.
    """
    vhost, source = _ends(topology, wanted)
    if wanted.destination.is_topic:
        if not has_topic(wanted.destination.name):
            raise NoSuchTopic(f"there is no topic '{wanted.destination.name}'")
    elif not vhost.has(wanted.destination):
        _refuse_missing(vhost, wanted.destination)
    arguments = _plain(wanted.arguments, limits)
    AMQP.read_filter(wanted.key)
    _check_text(wanted.key)
    definition = source.definition
    kind = matching_kind(source.kind, definition.arguments)
    check_binding(kind, wanted.key, wanted.arguments)
    _check_transformation(vhost, wanted)
    if binding_of(wanted) in source.bindings:
        return []
    if vhost.binding_count >= limits.bindings_max:
        raise OverBound(f"vhost '{vhost.name}' has {limits.bindings_max} bindings already")
    return [msgspec.structs.replace(wanted, arguments=arguments)]


def unbind(topology: Topology, wanted: Unbound) -> Records:
    """Return the records of a binding's end, and of exchanges that are deleted with it.

    Raises:
        NoSuchVhost: there is none of this name.
        ExchangeReserved: one of its ends is the default exchange.
    """
    try:
        vhost, source = _ends(topology, wanted)
        binding = binding_of(wanted)
    except (NoSuchExchange, TypeError, ValueError, OverflowError, RecursionError):
        return []
    if binding not in source.bindings:
        return []
    records: Records = [unbound(vhost.name, binding)]
    if source.definition.is_auto_delete and len(source.bindings) == 1:
        name = source.definition.name
        records.append(ExchangeDeleted(vhost=vhost.name, name=name))
        records += _deleted_with(vhost, Destination(name, True), gone={name})
    return records


def remove_queue(topology: Topology, vhost_name: str, name: str) -> Records:
    """Return the records of a queue's end, and of exchanges that are deleted with it.

    Raises:
        NoSuchVhost: there is none of this name.
    """
    vhost = topology.vhost(vhost_name)
    if name not in vhost.queues:
        return []
    first = QueueRemoved(vhost=vhost_name, name=name)
    return [first, *_deleted_with(vhost, Destination(name), gone=set())]


def remove_topic(topology: Topology, name: str) -> Records:
    """Return the ends of exchanges that are deleted with a topic; its own record says the rest."""
    gone = Destination(name, is_topic=True)
    records: Records = []
    for vhost in topology.vhosts.values():
        records += _deleted_with(vhost, gone, gone=set())
    return records


def _deleted_with(vhost: Vhost, destination: Destination, gone: set[str]) -> Records:
    """Return the ends of auto-delete exchanges whose last binding led to what goes.

    `gone` are names of exchanges whose end is decided already.
    """
    records: Records = []
    lost: dict[str, int] = {}
    going = [destination]
    while going:
        for binding in vhost.bindings_to(going.pop()):
            name = binding.source
            lost[name] = lost.get(name, 0) + 1
            source = vhost.exchanges[name]
            is_last = lost[name] == len(source.bindings)
            if is_last and source.definition.is_auto_delete and name not in gone:
                gone.add(name)
                records.append(ExchangeDeleted(vhost=vhost.name, name=name))
                going.append(Destination(name, True))
    return records


# -- checks


def _ends(topology: Topology, wanted: Bound | Unbound) -> tuple[Vhost, Exchange]:
    """Return the virtual host of a binding, and the exchange at which it begins."""
    vhost = topology.vhost(wanted.vhost)
    _refuse_default(wanted.source)
    if wanted.destination.is_exchange:
        _refuse_default(wanted.destination.name)
    return vhost, vhost.exchange(wanted.source)


def _refuse_default(name: str) -> None:
    if name == DEFAULT_EXCHANGE:
        raise ExchangeReserved("operation not permitted on the default exchange")


def _refuse_missing(vhost: Vhost, destination: Destination) -> NoReturn:
    if destination.is_exchange:
        raise NoSuchExchange(f"no exchange '{destination.name}' in vhost '{vhost.name}'")
    raise NoSuchQueue(f"no queue '{destination.name}' in vhost '{vhost.name}'")


def _check_transformation(vhost: Vhost, wanted: Bound) -> None:
    name = read_transformation(wanted.arguments)
    if name and wanted.destination.is_exchange:
        # Further exchanges go by the message as it was published.
        raise BadArgument(f"{TRANSFORMATION} has no place in a binding to an exchange")
    if name and name not in vhost.transformations:
        raise NoSuchTransformation(f"no transformation '{name}' in vhost '{vhost.name}'")


def _check_name(name: str) -> None:
    _check_text(name)
    if len(name.encode()) > AMQP.name_bytes_max:
        raise BadArgument(f"an exchange's name has at most {AMQP.name_bytes_max} bytes")


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadArgument("names and keys of bindings have to be UTF-8") from None


def _plain(arguments: Arguments, limits: ExchangeLimits) -> dict[str, object]:
    """Return arguments as they are read again after they were written down."""
    try:
        packed = pack_arguments(arguments)
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise BadArgument("an argument has a value that cannot be kept") from None
    if len(packed) > limits.arguments_bytes_max:
        raise BadArgument(f"arguments have at most {limits.arguments_bytes_max} bytes")
    return unpack_arguments(packed)


def _check_equivalent(existing: ExchangeDeclared, wanted: ExchangeDeclared) -> None:
    """Refuse to take an exchange for another one.

    Raises:
        InequivalentExchange: with the first difference, in RabbitMQ's words.
    """
    pairs: list[tuple[str, object, object]] = [
        ("type", wanted.type, existing.type),
        ("durable", wanted.is_durable, existing.is_durable),
        ("auto_delete", wanted.is_auto_delete, existing.is_auto_delete),
        ("internal", wanted.is_internal, existing.is_internal),
    ]
    names = [ALTERNATE, LOG]
    if existing.type == Kind.DELAYED.value:
        names.append(DELAYED_TYPE)
    pairs += [(name, wanted.arguments.get(name), existing.arguments.get(name)) for name in names]
    for name, received, current in pairs:
        if type(received) is not type(current) or received != current:
            what = "the value " if name in names else ""
            raise InequivalentExchange(
                f"inequivalent arg '{name}' for exchange '{existing.name}' in vhost "
                f"'{existing.vhost}': received {_shown(received, what)} "
                f"but current is {_shown(current, what)}"
            )


def _shown(value: object, what: str) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return f"'{str(value).lower()}'"
    return f"{what}'{value}'"
