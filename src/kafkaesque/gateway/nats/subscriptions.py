"""One connection's subscriptions: their ids, how many messages each still gets, who has confirmed.

A subscription is confirmed when all living brokers know of it. PONG says that those before it are;
so PINGs wait in their order for the subscriptions that came before them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from kafkaesque.gateway.nats.interest import LocalInterest, Subscription, Taker
from kafkaesque.routing.names import NATS

#: Of one connection; one more ends it.
SUBSCRIPTIONS_MAX: Final = 20_000


class OwnSubscription:
    """One of a connection's subscriptions."""

    __slots__ = ("delivered", "group", "messages_max", "number", "sid", "subject")

    def __init__(self, subject: str, group: str, sid: str) -> None:
        self.subject: Final = subject
        #: The queue group; empty: none.
        self.group: Final = group
        self.sid: Final = sid.encode("utf-8", "surrogateescape")
        #: Among all of the broker; 0: not yet.
        self.number = 0
        #: It ends with so many; 0: it does not.
        self.messages_max = 0
        self.delivered = 0

    @property
    def has_all(self) -> bool:
        """Whether it has got as many messages as were wanted."""
        return bool(self.messages_max) and self.delivered >= self.messages_max


class Subscriptions:
    """See the module."""

    __slots__ = ("_begun", "_by_sid", "_interest", "_pongs", "_send_pong", "_taker", "_unconfirmed")

    def __init__(
        self, interest: LocalInterest, taker: Taker, send_pong: Callable[[], None]
    ) -> None:
        self._interest: Final = interest
        self._taker: Final = taker
        self._send_pong: Final = send_pong
        self._by_sid: Final[dict[str, OwnSubscription]] = {}
        #: How many were begun, and which of these are not confirmed.
        self._begun = 0
        self._unconfirmed: Final[set[int]] = set()
        #: For each PING that is not answered: how many subscriptions were begun before it.
        self._pongs: Final[deque[int]] = deque()

    def __len__(self) -> int:
        return len(self._by_sid)

    @property
    def pongs_due(self) -> int:
        """How many PINGs wait for subscriptions to be confirmed."""
        return len(self._pongs)

    def find(self, sid: str) -> OwnSubscription | None:
        """Return the subscription of an id."""
        return self._by_sid.get(sid)

    def add(self, subject: str, group: str, sid: str) -> None:
        """Subscribe; nothing is done if the id is in use.

        Raises:
            BadName: the subject is beyond a bound.
        """
        if sid in self._by_sid:
            return
        name_filter = NATS.read_filter(subject)
        self._begun += 1
        ordinal = self._begun
        own = OwnSubscription(subject, group, sid)
        self._by_sid[sid] = own
        self._unconfirmed.add(ordinal)

        def on_confirmed() -> None:
            self._unconfirmed.discard(ordinal)
            self._answer_pings()

        subscription = Subscription(name_filter, group, self._taker, sid)
        own.number = self._interest.subscribe(subscription, on_confirmed)

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
        if own is not None:
            self._interest.unsubscribe(own.number)

    def clear(self) -> None:
        """End all."""
        for sid in list(self._by_sid):
            self.remove(sid)
        self._pongs.clear()

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
