"""Tells the other brokers what live subscribers here want, and keeps what they tell (ADR 41).

Theory of operation. To each broker that is linked one request at a time brings the news since the
last one; its answer confirms them. A new link begins with everything. Brokers that have nothing to
tell say nothing until they are asked, and they are asked when there is somebody to ask for: so a
cluster without clients of this kind sends none of this.

A subscription is confirmed when every broker has confirmed it that is alive. One that is lost is
waited for a little longer, unless its machine says that it does not run: it may not have noticed
yet, and may still publish by what it knew.

That is why what another broker has told is *current* only while it is known to have heard us within
the lease, half of the time after which it takes us for lost. It cannot have confirmed anything
without us until then; and what it confirmed before, it had told before the heartbeat by which we
know. Of a broker whose interest is not current, messages have to wait until it is.
"""

from collections.abc import Callable
from enum import Enum, auto
from heapq import heappop, heappush
from typing import Final

from kafkaesque.broker.config import PeerTimings
from kafkaesque.broker.peers.link import PeerNetwork, PeerUnreachable
from kafkaesque.broker.requests.caller import RemoteCaller
from kafkaesque.broker.requests.commands import Done
from kafkaesque.broker.requests.live_requests import (
    AskInterest,
    InterestKnown,
    TellInterest,
    pack_news,
    unpack_news,
)
from kafkaesque.env.clock import Clock
from kafkaesque.model.errors import RequestRefused, RequestTimedOut
from kafkaesque.model.ids import NodeId
from kafkaesque.routing.interest import OwnInterest, PeerInterest
from kafkaesque.routing.names import NameFilter

TELL_TIMEOUT_MS: Final = 2_000
#: After a request that came to nothing though the link stands.
RETRY_MS: Final = 100
#: A broker that has not told what it wants is asked for it again after this.
ASK_AGAIN_MS: Final = 1_000
#: So long messages wait for a broker that cannot be reached.
HOLD_MS: Final = 30_000
#: What is told in fewer words than there are filters is put right again after this.
NARROW_MS: Final = 10_000


class Standing(Enum):
    """What is known of another broker."""

    #: What it has told is what it wants.
    CURRENT = auto()
    #: It may want more.
    UNKNOWN = auto()
    #: It does not run, or cannot be reached for long.
    GONE = auto()


class _Told:
    """What one broker was told."""

    __slots__ = ("is_asking", "link", "sent")

    def __init__(self) -> None:
        #: The number up to which it was sent; None: nothing.
        self.sent: int | None = None
        self.is_asking = False
        #: How often there was a link: answers of an earlier one count for nothing.
        self.link = 0


class InterestExchange:
    """See the module."""

    __slots__ = (
        "_asked_ms",
        "_caller",
        "_clock",
        "_deaf",
        "_heard",
        "_is_due",
        "_is_in_use",
        "_lease_ms",
        "_narrowed_ms",
        "_peers",
        "_told",
        "_waiting",
        "_waiting_number",
        "own",
        "theirs",
    )

    def __init__(
        self, *, clock: Clock, peers: PeerNetwork, caller: RemoteCaller, timings: PeerTimings
    ) -> None:
        self._clock: Final = clock
        self._peers: Final = peers
        self._caller: Final = caller
        self._lease_ms: Final = timings.peer_timeout_ms // 2
        self.own: Final = OwnInterest()
        self.theirs: Final = PeerInterest()
        self._told: dict[NodeId, _Told] = {}
        #: Brokers of an earlier release, which know nothing of this.
        self._deaf: set[NodeId] = set()
        #: Which process has told what is known of a broker.
        self._heard: dict[NodeId, int | None] = {}
        #: When a broker was last asked for what it wants.
        self._asked_ms: dict[NodeId, int] = {}
        #: A heap of (number to be confirmed, number in the order of asking, who waits).
        self._waiting: list[tuple[int, int, Callable[[], None]]] = []
        self._waiting_number = 0
        self._is_due = False
        #: Whether there is any client here or elsewhere that has to do with live messages.
        self._is_in_use = False
        self._narrowed_ms = clock.now_ms()

    # -- what is wanted here

    def add(self, name_filter: NameFilter, group: str, on_confirmed: Callable[[], None]) -> None:
        """Somebody here wants it; `on_confirmed` is called once, maybe at once.

        Raises:
            OverBound: there are too many filters of groups.
        """
        self.begin()
        number = self.own.add(name_filter, group)
        if self.own.confirmed(self._counted()) >= number:
            on_confirmed()
            return
        self._waiting_number += 1
        heappush(self._waiting, (number, self._waiting_number, on_confirmed))
        self._tell_soon()

    def remove(self, name_filter: NameFilter, group: str) -> None:
        """Somebody here wants it no more."""
        self.own.remove(name_filter, group)
        self._tell_soon()

    def _counted(self) -> list[NodeId]:
        """Return the brokers that have to confirm."""
        peers = self._peers
        return [each for each in peers.peers() if each not in self._deaf and peers.may_live(each)]

    def _check(self) -> None:
        """Tell those whose subscriptions are confirmed now."""
        if not self._waiting:
            return
        confirmed = self.own.confirmed(self._counted())
        while self._waiting and self._waiting[0][0] <= confirmed:
            heappop(self._waiting)[2]()

    # -- telling

    def begin(self) -> None:
        """There are clients that have to do with live messages: find out what others want."""
        if not self._is_in_use:
            self._is_in_use = True
            now_ms = self._clock.now_ms()
            for node in self._peers.peers():
                self.standing(node, now_ms)

    def _tell_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            # More of the same turn may follow.
            self._clock.call_soon(self._tell_all)

    def _tell_all(self) -> None:
        self._is_due = False
        for node in self._peers.peers():
            self._tell(node)
        self._check()

    def _tell(self, node: NodeId) -> None:
        told = self._told.setdefault(node, _Told())
        if told.is_asking or not self._peers.is_linked(node):
            return
        news = self.own.news_since(told.sent)
        if news:
            told.is_asking = True
            link, number = told.link, self.own.number
            self._caller.ask(
                node,
                TellInterest(news=pack_news(news)),
                InterestKnown,
                TELL_TIMEOUT_MS,
                lambda outcome: self._on_told(node, link, number, outcome),
            )

    def _on_told(
        self,
        node: NodeId,
        link: int,
        number: int,
        outcome: InterestKnown | RequestRefused | PeerUnreachable,
    ) -> None:
        told = self._told[node]
        if told.link != link:
            return
        told.is_asking = False
        if isinstance(outcome, InterestKnown):
            told.sent = number if outcome.number >= 0 else None
            if told.sent is not None:
                self.own.on_confirmed(node, outcome.number)
                self._check()
            self._tell_changes(node)
        elif isinstance(outcome, PeerUnreachable | RequestTimedOut):
            told.sent = None
            self.own.on_lost(node)
            self._clock.call_later(RETRY_MS, lambda: self._tell_changes(node))
        else:
            self._deaf.add(node)
            self._check()

    def _tell_changes(self, node: NodeId) -> None:
        """Tell what there is, unless that never was anything."""
        if self.own.number and node not in self._deaf:
            self._tell(node)

    def on_link_up(self, node: NodeId) -> None:
        """A broker can be told: it may have missed anything."""
        told = self._told.setdefault(node, _Told())
        told.link += 1
        told.sent = None
        told.is_asking = False
        self._deaf.discard(node)
        self._asked_ms.pop(node, None)
        self.own.on_lost(node)
        self._tell_changes(node)
        if self._is_in_use:
            self.standing(node, self._clock.now_ms())

    def on_sweep(self, now_ms: int) -> None:
        """Do what is due from time to time."""
        self._check()
        if now_ms - self._narrowed_ms >= NARROW_MS:
            self._narrowed_ms = now_ms
            number = self.own.number
            self.own.narrow()
            if self.own.number != number:
                self._tell_soon()

    # -- hearing

    def serve_tell(self, node: NodeId, request: TellInterest) -> InterestKnown:
        """Take in what another broker tells."""
        self.begin()
        process = self._peers.incarnation(node)
        if self._heard.get(node) != process:
            self.theirs.forget(node)
            self._heard[node] = process
        number = -1
        for packed in request.news:
            applied = self.theirs.apply(node, unpack_news(packed))
            if applied is None:
                return InterestKnown(number=-1)
            number = applied
        return InterestKnown(number=number)

    def serve_ask(self, node: NodeId) -> Done:
        """Tell another broker all, even if that is nothing."""
        told = self._told.setdefault(node, _Told())
        if not told.is_asking:
            told.sent = None
            self._tell(node)
        return Done()

    # -- what is known of another broker

    def standing(self, node: NodeId, now_ms: int) -> Standing:
        """Return what is known of a broker; ask it for what it wants if that is missing."""
        peers = self._peers
        if peers.is_gone(node, HOLD_MS):
            return Standing.GONE
        process = peers.incarnation(node)
        if process is None or self._heard.get(node) != process or not self.theirs.knows(node):
            self._maybe_ask(node, now_ms)
            return Standing.GONE if node in self._deaf else Standing.UNKNOWN
        is_leased = peers.has_heard_us(node, now_ms - self._lease_ms)
        return Standing.CURRENT if is_leased else Standing.UNKNOWN

    def _maybe_ask(self, node: NodeId, now_ms: int) -> None:
        asked_ms = self._asked_ms.get(node)
        is_due = asked_ms is None or now_ms - asked_ms >= ASK_AGAIN_MS
        if is_due and node not in self._deaf and self._peers.is_linked(node):
            self._asked_ms[node] = now_ms
            self._caller.ask(
                node,
                AskInterest(),
                Done,
                TELL_TIMEOUT_MS,
                lambda outcome: self._on_asked(node, outcome),
            )

    def _on_asked(self, node: NodeId, outcome: Done | RequestRefused | PeerUnreachable) -> None:
        if isinstance(outcome, RequestRefused) and not isinstance(outcome, RequestTimedOut):
            self._deaf.add(node)
