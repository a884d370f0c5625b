"""What subscribers of this broker want, by NATS' subjects, and what comes for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from kafkaesque.env.dice import Dice
from kafkaesque.protocols.nats.writing import MessageVariant
from kafkaesque.routing.name_index import NameIndex
from kafkaesque.routing.names import NATS, NameFilter, NameKey


class LiveMessage(NamedTuple):
    """A message on its way to those who listen now."""

    subject: str
    reply: str
    #: As NATS writes them; empty: none.
    headers: bytes
    payload: bytes


class Taker(Protocol):
    """Who subscribes."""

    def take(self, sid: str, variant: MessageVariant) -> None:
        """Take a message."""


class Subscription(NamedTuple):
    """What somebody has subscribed to."""

    name_filter: NameFilter
    group: str
    taker: Taker
    sid: str


class LocalInterest:
    """Subscriptions of one broker's clients."""

    __slots__ = ("_dice", "_groups", "_index", "_next", "_subscriptions")

    def __init__(self, dice: Dice) -> None:
        self._dice: Final = dice
        self._index: Final = NameIndex()
        self._subscriptions: Final[dict[int, Subscription]] = {}
        self._next = 0

    def subscribe(self, subscription: Subscription, on_confirmed: Callable[[], None]) -> int:
        """Deliver what comes; call when that holds for messages from all brokers."""
        self._next += 1
        number = self._next
        self._subscriptions[number] = subscription
        self._index.add(subscription.name_filter, number)
        on_confirmed()
        return number

    def unsubscribe(self, number: int) -> None:
        """Deliver nothing more."""
        found = self._subscriptions.pop(number)
        self._index.remove(found.name_filter, number)

    def publish(
        self,
        key: NameKey,
        message: LiveMessage,
        without: Taker | None,
        on_done: Callable[[int], None],
    ) -> None:
        """Deliver to all who want it but one; call with how many these are."""
        count = 0
        groups: dict[str, list[Subscription]] = {}
        variant = MessageVariant(*message)
        for number in self._index.match(key):
            found = self._subscriptions[number]
            if found.taker is without:
                continue
            if found.group:
                groups.setdefault(found.group, []).append(found)
            else:
                found.taker.take(found.sid, variant)
                count += 1
        for members in groups.values():
            chosen = members[self._dice.below(len(members))]
            chosen.taker.take(chosen.sid, variant)
            count += 1
        on_done(count)


def key_of_subject(subject: str) -> NameKey:
    """Return the key of a subject.

    Raises:
        BadName: nobody can subscribe to it.
    """
    return NATS.key_of(subject)
