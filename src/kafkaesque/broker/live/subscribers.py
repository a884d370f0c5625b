"""The live subscribers of one broker, found by a message's name.

A receiver may have many subscriptions. It gets a message once, with all those of its subscriptions
that want it. Of a group's subscriptions on this broker one gets the message, in turn.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final, Protocol

from kafkaesque.model.errors import OverBound
from kafkaesque.routing.live_message import LiveMessage
from kafkaesque.routing.name_index import NameIndex
from kafkaesque.routing.names import NameFilter, NameKey

#: Of one broker.
SUBSCRIPTIONS_MAX: Final = 1_000_000
#: Names whose receivers are remembered until somebody subscribes or leaves, and at how many of one
#: name they are not: it takes longer to send to them.
REMEMBERED_NAMES_MAX: Final = 1_024
REMEMBERED_COPIES_MAX: Final = 256


class Receiver(Protocol):
    """Somebody who gets messages; known by its identity."""

    __slots__ = ()

    def on_message(self, message: LiveMessage, subscriptions: Sequence["Subscription"]) -> None:
        """Take a message that these subscriptions want; may end them, and must not raise.

        It is called within the loop's turn for up to 256 receivers: encode once for all (the
        message is the same object), write, and return. Who cannot take more drops or hangs up.
        """

    @property
    def takes_runs(self) -> bool:
        """Whether it is given what came together by `on_run`; it takes much less for all at once.

        Others get message after message, each of them before the next: so it is encoded once.
        """
        return False

    def on_run(
        self, messages: Sequence[LiveMessage], subscriptions: Sequence["Subscription"]
    ) -> None:
        """Take messages that came together in their order, as `on_message` takes each.

        The sequence, too, is the same object for all receivers.
        """
        for each in messages:
            live = [one for one in subscriptions if not one.is_over]
            if live:
                self.on_message(each, live)


class Subscription:
    """What a receiver wants, until it is ended."""

    __slots__ = (
        "_on_ended",
        "group",
        "is_confirmed",
        "is_over",
        "name_filter",
        "number",
        "receiver",
    )

    def __init__(
        self,
        number: int,
        name_filter: NameFilter,
        receiver: Receiver,
        group: str,
        on_ended: Callable[["Subscription"], None],
    ) -> None:
        self.number: Final = number
        self.name_filter: Final = name_filter
        self.receiver: Final = receiver
        #: The name that it shares with others; empty: it shares with nobody.
        self.group: Final = group
        #: Whether all living brokers know of it.
        self.is_confirmed = False
        self.is_over = False
        self._on_ended: Final = on_ended

    def end(self) -> None:
        """Get nothing more from now on; harmless if it is over."""
        if not self.is_over:
            self.is_over = True
            self._on_ended(self)


#: A receiver, and those of its subscriptions that want a message.
Copy = tuple[Receiver, list[Subscription]]


def is_for_run(copy: Copy) -> bool:
    """Tell whether a message may be given to its receiver together with those behind it.

    A member may leave its group with any message: others get the next one.
    """
    receiver, subscriptions = copy
    return receiver.takes_runs and len(subscriptions) == 1 and not subscriptions[0].group


class LiveSubscribers:
    """See the module."""

    __slots__ = (
        "_grouped",
        "_members",
        "_next",
        "_plain",
        "_remembered",
        "_subscriptions",
        "_turns",
    )

    def __init__(self) -> None:
        self._subscriptions: dict[int, Subscription] = {}
        self._plain = NameIndex()
        #: Those that share.
        self._grouped = NameIndex()
        self._next = 0
        #: Who gets messages of a name, where no groups do.
        self._remembered: dict[NameKey, list[Copy]] = {}
        #: By group: how many messages it has had, so that its members take turns.
        self._turns: dict[str, int] = {}
        #: By group: how many subscriptions it has here.
        self._members: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._subscriptions)

    def add(
        self,
        name_filter: NameFilter,
        receiver: Receiver,
        group: str,
        on_ended: Callable[[Subscription], None],
    ) -> Subscription:
        """Return a new subscription.

        Raises:
            OverBound: there are too many.
        """
        if len(self._subscriptions) >= SUBSCRIPTIONS_MAX:
            raise OverBound(f"this broker has {SUBSCRIPTIONS_MAX} live subscriptions already")
        while self._next in self._subscriptions:
            self._next = (self._next + 1) % (2 * SUBSCRIPTIONS_MAX)
        made = Subscription(self._next, name_filter, receiver, group, on_ended)
        self._next = (self._next + 1) % (2 * SUBSCRIPTIONS_MAX)
        self._subscriptions[made.number] = made
        self._remembered.clear()
        if group:
            self._members[group] = self._members.get(group, 0) + 1
        (self._grouped if group else self._plain).add(name_filter, made.number)
        return made

    def remove(self, subscription: Subscription) -> None:
        """Forget a subscription that is there."""
        del self._subscriptions[subscription.number]
        self._remembered.clear()
        group = subscription.group
        index = self._grouped if group else self._plain
        index.remove(subscription.name_filter, subscription.number)
        if group:
            self._members[group] -= 1
            if not self._members[group]:
                del self._members[group]
                self._turns.pop(group, None)

    def wants(self, key: NameKey) -> bool:
        """Tell whether anybody here wants a name."""
        return bool(self._plain.match(key)) or bool(self._grouped.match(key))

    def groups(self, key: NameKey) -> list[str]:
        """Return the groups that have a member here who wants a name, each once."""
        subscriptions = self._subscriptions
        return list(dict.fromkeys(subscriptions[each].group for each in self._grouped.match(key)))

    def copies(
        self, key: NameKey, groups: Collection[str] | None = None, *, is_for_all: bool = True
    ) -> list[Copy]:
        """Return who gets a message of a name, and for what.

        Of groups only these are served, each by one member; None: all that are here. Unless it
        `is_for_all`, nobody else is. The list is not to be changed.
        """
        remembered = self._remembered.get(key) if is_for_all else None
        if remembered is not None:
            return remembered
        found = self._find(key, groups, is_for_all=is_for_all)
        if is_for_all and len(found) < REMEMBERED_COPIES_MAX and not self._grouped.match(key):
            if len(self._remembered) >= REMEMBERED_NAMES_MAX:
                self._remembered.clear()
            self._remembered[key] = found
        return found

    def _find(
        self, key: NameKey, groups: Collection[str] | None, *, is_for_all: bool
    ) -> list[Copy]:
        subscriptions = self._subscriptions
        found: dict[Receiver, list[Subscription]] = {}
        for number in self._plain.match(key) if is_for_all else ():
            subscription = subscriptions[number]
            mine = found.get(subscription.receiver)
            if mine is None:
                found[subscription.receiver] = [subscription]
            else:
                mine.append(subscription)
        if groups is None or groups:
            for chosen in self._chosen(key, groups):
                found.setdefault(chosen.receiver, []).append(chosen)
        return list(found.items())

    def _chosen(self, key: NameKey, groups: Collection[str] | None) -> list[Subscription]:
        """Return the member of each group whose turn it is."""
        by_group: dict[str, list[Subscription]] = {}
        for number in self._grouped.match(key):
            subscription = self._subscriptions[number]
            if groups is None or subscription.group in groups:
                by_group.setdefault(subscription.group, []).append(subscription)
        return [self._next_of(group, members) for group, members in by_group.items()]

    def _next_of(self, group: str, members: list[Subscription]) -> Subscription:
        turn = self._turns.get(group, 0)
        self._turns[group] = turn + 1
        return members[turn % len(members)]
