"""Subscriptions that end by themselves: a filter on names, perhaps a selector, perhaps a time.

Time is the caller's, in milliseconds of a clock that does not go back. A subscription that is over
matches nothing from then on, whether it was taken out yet or not.
"""

from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from kafkaesque.model.errors import OverBound
from kafkaesque.routing.message import RoutedMessage
from kafkaesque.routing.name_index import NameIndex
from kafkaesque.routing.names import NameFilter, NameKey
from kafkaesque.routing.selectors.selector import Selector
from kafkaesque.routing.subscribers import SUBSCRIBER_MAX

SUBSCRIPTIONS_MAX = 1_000_000
#: Entries of ends that do not hold any longer are removed when there are more than the others and
#: these.
_STALE_MAX = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What somebody wants to have."""

    name_filter: NameFilter
    selector: Selector | None = None
    #: None: it does not end by itself.
    expires_ms: int | None = None


class SubscriptionTable:
    """Subscriptions by the numbers that they are given."""

    __slots__ = ("_ends", "_index", "_next", "_subscriptions", "_subscriptions_max")

    def __init__(self, subscriptions_max: int = SUBSCRIPTIONS_MAX) -> None:
        self._subscriptions: dict[int, Subscription] = {}
        self._subscriptions_max = subscriptions_max
        self._index = NameIndex()
        #: A heap of (end, number); an entry holds if the subscription still has this end.
        self._ends: list[tuple[int, int]] = []
        self._next = 0

    def __len__(self) -> int:
        """How many there are, with those that are over and not taken out."""
        return len(self._subscriptions)

    def get(self, number: int) -> Subscription | None:
        """Return a subscription."""
        return self._subscriptions.get(number)

    def add(self, subscription: Subscription) -> int:
        """Return the number of a new subscription.

        A number is used again only after `SUBSCRIBER_MAX` others.

        Raises:
            OverBound: there are too many.
        """
        if len(self._subscriptions) >= self._subscriptions_max:
            raise OverBound(f"there are {self._subscriptions_max} subscriptions already")
        number = self._next
        while number in self._subscriptions:
            number = number + 1 if number < SUBSCRIBER_MAX else 0
        self._next = number + 1 if number < SUBSCRIBER_MAX else 0
        self._subscriptions[number] = subscription
        self._index.add(subscription.name_filter, number)
        self._note_end(number, subscription.expires_ms)
        return number

    def renew(self, number: int, expires_ms: int | None) -> bool:
        """Give a subscription another end; say whether there is such a one."""
        found = self._subscriptions.get(number)
        if found is None:
            return False
        self._subscriptions[number] = Subscription(
            name_filter=found.name_filter, selector=found.selector, expires_ms=expires_ms
        )
        self._note_end(number, expires_ms)
        return True

    def remove(self, number: int) -> bool:
        """Take a subscription out; say whether there was such a one."""
        found = self._subscriptions.pop(number, None)
        if found is None:
            return False
        self._index.remove(found.name_filter, number)
        return True

    def matching(self, key: NameKey, message: RoutedMessage, now_ms: int) -> list[int]:
        """Return the numbers of those that want a message of this name, ascending."""
        found = []
        for number in self._index.match(key):
            subscription = self._subscriptions[number]
            end_ms, selector = subscription.expires_ms, subscription.selector
            if end_ms is not None and end_ms <= now_ms:
                continue
            if selector is None or selector.matches(message):
                found.append(number)
        return found

    def take_expired(self, now_ms: int) -> list[int]:
        """Take out those that are over by now; return their numbers."""
        expired = []
        while self._ends and self._ends[0][0] <= now_ms:
            end_ms, number = heappop(self._ends)
            if self._holds(end_ms, number):
                self.remove(number)
                expired.append(number)
        return expired

    @property
    def next_end_ms(self) -> int | None:
        """When the next one is over; None: none of them ends by itself."""
        while self._ends and not self._holds(*self._ends[0]):
            heappop(self._ends)
        return self._ends[0][0] if self._ends else None

    def _holds(self, end_ms: int, number: int) -> bool:
        found = self._subscriptions.get(number)
        return found is not None and found.expires_ms == end_ms

    def _note_end(self, number: int, expires_ms: int | None) -> None:
        if expires_ms is None:
            return
        heappush(self._ends, (expires_ms, number))
        if len(self._ends) > 2 * len(self._subscriptions) + _STALE_MAX:
            self._ends = [each for each in set(self._ends) if self._holds(*each)]
            heapify(self._ends)
