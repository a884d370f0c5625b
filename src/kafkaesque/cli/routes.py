"""Which names of MQTT, NATS and STOMP go where: bindings of `amq.topic`, in MQTT's words."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kafkaesque.cli.arguments import wrong_usage
from kafkaesque.cli.exchange_requests import KINDS, Binding
from kafkaesque.routing.errors import BadName, NotExpressible
from kafkaesque.routing.names import AMQP, MANY, MQTT, Levels, NameFilter

#: The exchange whose names they are, and its binding's argument.
NAMES_EXCHANGE: Final = "amq.topic"
KEY_LEVELS: Final = "x-key-levels"
FILTER: Final = "x-filter"


class Destination(NamedTuple):
    """Where a name goes."""

    kind: str
    name: str
    #: The names that go there.
    names: str
    #: Only messages for which this selector is true; empty: all.
    condition: str


def binding_of(names: str, topic: str, levels: int | None) -> Binding:
    """Return the binding that brings names to a topic.

    Raises:
        CommandFailed: they are no names of MQTT.
    """
    arguments: dict[str, object] = {} if levels is None else {KEY_LEVELS: levels}
    return Binding(NAMES_EXCHANGE, KINDS.index("topic"), topic, _key_of(names), arguments)


def _key_of(names: str) -> str:
    """Return the pattern of AMQP for names that begin so, or that a filter of MQTT matches."""
    try:
        found = MQTT.read_filter(names)
        if not found.has_wildcard:
            found = NameFilter(levels=(*found.levels, MANY))
        (key,) = AMQP.write_filters(found)
    except (BadName, NotExpressible) as error:
        raise wrong_usage(f"{names!r} cannot be used: {error}", "house/kitchen") from None
    return key


def shown_names(key: str) -> str:
    """Return a pattern of AMQP as MQTT says it; as it is, where MQTT has nothing of the kind."""
    try:
        (text,) = MQTT.write_filters(AMQP.read_filter(key))
    except (BadName, NotExpressible):
        return key
    return text


def shown_levels(arguments: Mapping[str, object]) -> int | str:
    """Return how many levels of a name choose the partition."""
    found = arguments.get(KEY_LEVELS)
    return found if isinstance(found, int) else "all"


def read_name(text: str) -> Levels:
    """Return a name of MQTT.

    Raises:
        CommandFailed: it is none.
    """
    try:
        return MQTT.read_name(text)
    except BadName as error:
        raise wrong_usage(f"{text!r} is no name: {error}", "house/kitchen/temperature") from None


def destinations(
    name: Levels, bindings: Iterable[tuple[str, int, str, Mapping[str, object]]]
) -> list[Destination]:
    """Return where a name goes, each place once; bindings are those of the exchange of names."""
    found: dict[tuple[int, str], Destination] = {}
    for key, kind, destination, arguments in bindings:
        if AMQP.read_filter(key).matches(name):
            condition = arguments.get(FILTER)
            made = Destination(
                KINDS[kind],
                destination,
                shown_names(key),
                "" if condition is None else str(condition),
            )
            known = found.get((kind, destination))
            if known is None or (known.condition and not made.condition):
                found[kind, destination] = made
    return list(found.values())
