"""One connection's subscriptions: their ids, how many messages each still gets, who has confirmed.

A subscription is confirmed when all living brokers know of it. PONG says that those before it are;
so PINGs wait in their order for the subscriptions that came before them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from kafkaesque.broker.doors.live import Live, Receiver, Subscription
from kafkaesque.gateway.nats.authorization import is_own_inbox
from kafkaesque.gateway.nats.jetstream.pushing import Pushing
from kafkaesque.model.errors import OverBound
from kafkaesque.routing.names import NATS

#: Of one connection; one more ends it.
SUBSCRIPTIONS_MAX: Final = 20_000
#: Queue groups of NATS are no groups of other protocols.
_GROUP_PREFIX: Final = "nats/"


class OwnSubscription:
    """One of a connection's subscriptions."""

    __slots__ = (
        "delivered",
        "group",
        "is_inbox",
        "live",
        "messages_max",
        "name",
        "ordinal",
        "sid",
        "subject",
    )

    def __init__(self, subject: str, group: str, sid: str, ordinal: int) -> None:
        self.subject: Final = subject
        #: Whether it needs no rule.
        self.is_inbox: Final = is_own_inbox(subject)
        #: The queue group; empty: none.
        self.group: Final = group
        self.name: Final = sid
        self.sid: Final = sid.encode("utf-8", "surrogateescape")
        #: In the order in which they were begun.
        self.ordinal: Final = ordinal
        #: None: not yet.
        self.live: Subscription | None = None
        #: It ends with so many; 0: it does not.
        self.messages_max = 0
        self.delivered = 0

    @property
    def has_all(self) -> bool:
        """Whether it has got as many messages as were wanted."""
        return bool(self.messages_max) and self.delivered >= self.messages_max


class Subscriptions:
    """See the module."""

    __slots__ = (
        "_begun",
        "_by_number",
        "_by_sid",
        "_live",
        "_pongs",
        "_pushing",
        "_receiver",
        "_send_pong",
        "_unconfirmed",
    )

    def __init__(
        self, live: Live, pushing: Pushing, receiver: Receiver, send_pong: Callable[[], None]
    ) -> None:
        self._live: Final = live
        self._pushing: Final = pushing
        self._receiver: Final = receiver
        self._send_pong: Final = send_pong
        self._by_sid: Final[dict[str, OwnSubscription]] = {}
        #: By its number among all of the broker.
        self._by_number: Final[dict[int, OwnSubscription]] = {}
        #: How many were begun, and which of these are not confirmed.
        self._begun = 0
        self._unconfirmed: Final[set[int]] = set()
        #: For each PING that is not answered: how many subscriptions were begun before it.
        self._pongs: Final[deque[int]] = deque()

    def __len__(self) -> int:
        return len(self._by_sid)

    def __iter__(self) -> Iterator[OwnSubscription]:
        return iter(self._by_sid.values())

    @property
    def pongs_due(self) -> int:
        """How many PINGs wait for subscriptions to be confirmed."""
        return len(self._pongs)

    def of(self, subscription: Subscription) -> OwnSubscription | None:
        """Return which of them it is."""
        return self._by_number.get(subscription.number)

    def add(self, subject: str, group: str, sid: str) -> None:
        """Subscribe; nothing is done if the id is in use.

        Raises:
            BadName: the subject is beyond a bound.
            OverBound: the broker has too many subscriptions.
        """
        if sid in self._by_sid:
            return
        name_filter = NATS.read_filter(subject)
        self._begun += 1
        ordinal = self._begun
        own = OwnSubscription(subject, group, sid, ordinal)
        self._unconfirmed.add(ordinal)

        def on_confirmed() -> None:
            self._unconfirmed.discard(ordinal)
            self._answer_pings()

        try:
            own.live = self._live.subscribe(
                name_filter,
                self._receiver,
                on_confirmed,
                group=f"{_GROUP_PREFIX}{group}" if group else "",
            )
        except OverBound:
            self._unconfirmed.discard(ordinal)
            raise
        self._by_sid[sid] = own
        self._by_number[own.live.number] = own
        self._pushing.on_subscribed(subject, group)

    def limit(self, sid: str, messages_max: int) -> None:
        """End a subscription when it has had so many messages, or now."""
        own = self._by_sid.get(sid)
        if own is None:
            return
        own.messages_max = messages_max
        if own.delivered >= messages_max:
            self.remove(sid)

    def remove(self, sid: str) -> None:
        """End a subscription; harmless if there is none."""
        own = self._by_sid.pop(sid, None)
        if own is None or own.live is None:
            return
        del self._by_number[own.live.number]
        own.live.end()
        self._pushing.on_unsubscribed(own.subject, own.group)
        # Nobody confirms what is over.
        self._unconfirmed.discard(own.ordinal)
        self._answer_pings()

    def clear(self) -> None:
        """End all."""
        self._pongs.clear()
        for sid in list(self._by_sid):
            self.remove(sid)

    def taker_of(self, subject: str) -> OwnSubscription | None:
        """Return the subscription that wants a subject: that to the subject itself, or another.

        Queue groups are passed over, as nats-server does it.

        Raises:
            BadName: nobody can subscribe to it.
        """
        name = NATS.read_name(subject)
        mine = [own for own in self._by_sid.values() if not own.group]
        literal = next((own for own in mine if own.subject == subject), None)
        if literal is not None:
            return literal
        return next((own for own in mine if NATS.read_filter(own.subject).matches(name)), None)

    # -- PING

    def on_ping(self) -> None:
        """Answer when all subscriptions before are confirmed."""
        self._pongs.append(self._begun)
        self._answer_pings()

    def _answer_pings(self) -> None:
        oldest = min(self._unconfirmed, default=self._begun + 1)
        while self._pongs and self._pongs[0] < oldest:
            self._pongs.popleft()
            self._send_pong()
