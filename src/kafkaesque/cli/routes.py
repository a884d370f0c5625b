"""Which names of MQTT, NATS and STOMP go where: bindings of `amq.topic`, in MQTT's words.

A route counts where no longer one fits, unless it is to count beside others. One that leads nowhere
is a binding of the exchange to itself: what is published to its names is live only.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kafkaesque.cli.arguments import wrong_usage
from kafkaesque.cli.exchange_requests import EXCHANGE, KINDS, TOPIC, Binding
from kafkaesque.routing.errors import BadName, NotExpressible
from kafkaesque.routing.names import (
    AMQP,
    MANY,
    MQTT,
    NO_LENGTH,
    Length,
    Levels,
    NameFilter,
    length_of,
)

#: The exchange whose names they are, and its binding's argument.
NAMES_EXCHANGE: Final = "amq.topic"
KEY_LEVELS: Final = "x-key-levels"
LONGEST_MATCH: Final = "x-longest-match"
FILTER: Final = "x-filter"
#: In the place of a topic: nothing keeps what is published to these names.
LIVE_ONLY: Final = "live only"


class Destination(NamedTuple):
    """Where a name goes."""

    kind: str
    name: str
    #: The names that go there.
    names: str
    #: Only messages for which this selector is true; empty: all.
    condition: str


class Found(NamedTuple):
    """A binding of the exchange of names."""

    key: str
    kind: int
    name: str
    arguments: Mapping[str, object]

    @property
    def is_route(self) -> bool:
        """Whether it says which topic names go to, or that they are live only."""
        return self.kind == TOPIC or self._is_nowhere

    @property
    def _is_nowhere(self) -> bool:
        return self.kind == EXCHANGE and self.name == NAMES_EXCHANGE

    @property
    def topic(self) -> str:
        """Where a route leads."""
        return LIVE_ONLY if self._is_nowhere else self.name

    @property
    def wants_longest(self) -> bool:
        """Whether it counts only where no longer one does."""
        return self.arguments.get(LONGEST_MATCH) is True

    @property
    def condition(self) -> str:
        """The selector that has to be true for a message; empty: none."""
        found = self.arguments.get(FILTER)
        return "" if found is None else str(found)

    def as_binding(self) -> Binding:
        """Return what it is deleted by."""
        return Binding(NAMES_EXCHANGE, self.kind, self.name, self.key, self.arguments)


def binding_of(names: str, topic: str | None, levels: int | None, *, beside: bool) -> Binding:
    """Return the binding that brings names to a topic, or nowhere.

    If `beside`, it counts whatever else fits.

    Raises:
        CommandFailed: they are no names of MQTT.
    """
    arguments: dict[str, object] = {} if beside else {LONGEST_MATCH: True}
    if topic is None:
        return Binding(NAMES_EXCHANGE, EXCHANGE, NAMES_EXCHANGE, key_of(names), arguments)
    if levels is not None:
        arguments[KEY_LEVELS] = levels
    return Binding(NAMES_EXCHANGE, TOPIC, topic, key_of(names), arguments)


def replaced(binding: Binding, bindings: Iterable[Found]) -> list[Binding]:
    """Return the routes of the same names to the same place that only say it in another way."""
    return [
        each
        for each in same_place(binding, bindings)
        if each != binding and each.arguments.keys() <= {KEY_LEVELS, LONGEST_MATCH}
    ]


def same_place(binding: Binding, bindings: Iterable[Found]) -> list[Binding]:
    """Return all bindings of the same names to the same place."""
    place = (binding.key, binding.kind, binding.destination)
    return [each.as_binding() for each in bindings if (each.key, each.kind, each.name) == place]


def topics_of(key: str, bindings: Iterable[Found]) -> list[str]:
    """Return the topics that routes of just these names lead to, each once."""
    found = {each.topic for each in bindings if each.key == key and each.is_route}
    return sorted(found - {LIVE_ONLY})


def key_of(names: str) -> str:
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


def destinations(name: Levels, bindings: Iterable[Found]) -> list[Destination]:
    """Return where a name goes, each place once; bindings are those of the exchange of names.

    One with a condition may be the longest for some messages, and a shorter one for the others:
    both are returned.
    """
    matching = [each for each in bindings if AMQP.read_filter(each.key).matches(name)]
    longest = max(
        (_length(each) for each in matching if each.wants_longest and not each.condition),
        default=NO_LENGTH,
    )
    found: dict[tuple[int, str], Destination] = {}
    for each in matching:
        if each.wants_longest and _length(each) < longest:
            continue
        kind = LIVE_ONLY if each.topic == LIVE_ONLY else KINDS[each.kind]
        place = "-" if kind == LIVE_ONLY else each.name
        made = Destination(kind, place, shown_names(each.key), each.condition)
        known = found.get((each.kind, each.name))
        if known is None or (known.condition and not made.condition):
            found[each.kind, each.name] = made
    return list(found.values())


def _length(binding: Found) -> Length:
    return length_of(AMQP.read_filter(binding.key))
