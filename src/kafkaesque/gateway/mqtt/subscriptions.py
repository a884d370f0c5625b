"""What one client has subscribed to, and which of it a message is for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from kafkaesque.broker.doors.live import LiveMessage
from kafkaesque.broker.doors.live import Subscription as LiveSubscription
from kafkaesque.broker.options.mqtt_sessions import FILTER_ARGUMENT, QOS_ARGUMENT
from kafkaesque.gateway.mqtt.names import binding_key_of
from kafkaesque.protocols.mqtt.filters import is_shared, read_shared
from kafkaesque.protocols.mqtt.packets import Subscription
from kafkaesque.routing.exchanges.topology import Binding
from kafkaesque.routing.names import MQTT, NameFilter, NameKey, levels_of_key

#: Of one client.
SUBSCRIPTIONS_MAX: Final = 1_000
#: Names whose subscriptions are not looked for again.
_REMEMBERED_MAX: Final = 1_024

_NO_LOCAL: Final = "mqtt.no-local"
_AS_PUBLISHED: Final = "mqtt.retain-as-published"
_IDENTIFIER: Final = "mqtt.subscription-id"


class Subscribed:
    """A filter of a client, with the options that hold for it."""

    __slots__ = (
        "group",
        "identifier",
        "live",
        "match",
        "name_filter",
        "options",
        "pattern",
        "watcher",
    )

    def __init__(self, options: Subscription, identifier: int) -> None:
        """Take what a SUBSCRIBE says.

        Raises:
            BadName: the filter has too many levels, or is too long.
        """
        self.options: Final = options
        #: 0: none.
        self.identifier: Final = identifier
        shared = read_shared(options.topic_filter) if is_shared(options.topic_filter) else None
        #: The filter without what says that it is shared, and with whom.
        self.pattern: Final = options.topic_filter if shared is None else shared.topic_filter
        self.group: Final = "" if shared is None else shared.group
        self.name_filter: Final[NameFilter] = MQTT.read_filter(self.pattern)
        #: What it says of a message that nothing else of the client's wants.
        self.match: Final = Match(
            options.qos, options.retain_as_published, (identifier,) if identifier else ()
        )
        #: Where messages come from, if they are not kept in a queue.
        self.live: LiveSubscription | None = None
        #: Takes the broker's own numbers, if that is what it is for.
        self.watcher: Callable[[LiveMessage], None] | None = None

    @property
    def binding_key(self) -> str:
        """The key of the binding that brings messages for it to a queue."""
        return binding_key_of(self.name_filter)

    @property
    def binding_arguments(self) -> dict[str, object]:
        """The arguments of that binding: all that there is to know."""
        said: dict[str, object] = {
            FILTER_ARGUMENT: self.options.topic_filter,
            QOS_ARGUMENT: self.options.qos,
        }
        if self.options.no_local:
            said[_NO_LOCAL] = True
        if self.options.retain_as_published:
            said[_AS_PUBLISHED] = True
        if self.identifier:
            said[_IDENTIFIER] = self.identifier
        return said


def read_binding(binding: Binding) -> Subscribed | None:
    """Return the subscription that a binding was made for; None: for none."""
    said = binding.arguments
    topic_filter, qos = said.get(FILTER_ARGUMENT), said.get(QOS_ARGUMENT)
    identifier = said.get(_IDENTIFIER, 0)
    if not isinstance(topic_filter, str) or not isinstance(qos, int):
        return None
    options = Subscription(
        topic_filter=topic_filter,
        qos=qos,
        no_local=said.get(_NO_LOCAL) is True,
        retain_as_published=said.get(_AS_PUBLISHED) is True,
    )
    return Subscribed(options, identifier if isinstance(identifier, int) else 0)


class Match(NamedTuple):
    """What a message's subscriptions say together (3.3.4-2, 3.3.4-4)."""

    #: The highest that was granted.
    qos: int
    as_published: bool
    identifiers: tuple[int, ...]


def match_of(found: Sequence[Subscribed], *, is_own: bool) -> Match | None:
    """Return how a message is delivered that these subscriptions want; None: it is not.

    Args:
        is_own: whether the client has published it itself.
    """
    if len(found) == 1:
        only = found[0]
        return None if is_own and only.options.no_local else only.match
    qos, as_published, identifiers = -1, False, []
    for each in found:
        if is_own and each.options.no_local:
            continue
        qos = max(qos, each.options.qos)
        as_published = as_published or each.options.retain_as_published
        if each.identifier:
            identifiers.append(each.identifier)
    return None if qos < 0 else Match(qos, as_published, tuple(identifiers))


class Subscriptions:
    """All of one client."""

    __slots__ = ("_by_filter", "_found")

    def __init__(self) -> None:
        self._by_filter: Final[dict[str, Subscribed]] = {}
        self._found: dict[NameKey, tuple[Subscribed, ...]] = {}

    def __len__(self) -> int:
        return len(self._by_filter)

    def __iter__(self) -> Iterator[Subscribed]:
        return iter(self._by_filter.values())

    def get(self, topic_filter: str) -> Subscribed | None:
        """Return what is subscribed to by a filter."""
        return self._by_filter.get(topic_filter)

    def put(self, subscribed: Subscribed) -> None:
        """Add a subscription, in the place of the one with the same filter (3.8.4-3)."""
        self._by_filter[subscribed.options.topic_filter] = subscribed
        self._found.clear()

    def remove(self, topic_filter: str) -> Subscribed | None:
        """Take out a subscription, and return it."""
        self._found.clear()
        return self._by_filter.pop(topic_filter, None)

    def wanting(self, key: NameKey) -> tuple[Subscribed, ...]:
        """Return the subscriptions that want a name."""
        found = self._found.get(key)
        if found is None:
            name = levels_of_key(key)
            found = tuple(
                each
                for each in self
                if not each.group and each.watcher is None and each.name_filter.matches(name)
            )
            if len(self._found) >= _REMEMBERED_MAX:
                self._found.clear()
            self._found[key] = found
        return found
