"""Who wants a message now, here and on other brokers, and how it comes to them.

Theory of operation. A message is given to subscribers here at once, and goes once to each other
broker that wants it: one of each group's members is chosen, here if there is one. As long as it is
not known what a broker wants now (`interest_exchange`), nothing is decided for it: the message
waits, in order, until that is known. So what is published after a subscription was confirmed
reaches it.

A broker confirms another one's interest when what it has published before, and is to be retained,
is committed: so a new subscriber finds each retained message, or is given it.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from kafkaesque.broker.config import PeerTimings
from kafkaesque.broker.live.fan_out import FanOut
from kafkaesque.broker.live.interest_exchange import HOLD_MS, InterestExchange, Standing
from kafkaesque.broker.live.peer_lanes import PeerLanes
from kafkaesque.broker.live.subscribers import (
    Copy,
    LiveSubscribers,
    Receiver,
    Subscription,
    is_for_run,
)
from kafkaesque.broker.peers.link import PeerNetwork
from kafkaesque.broker.requests.caller import RemoteCaller
from kafkaesque.broker.requests.commands import Done
from kafkaesque.broker.requests.desk import RequestDesk
from kafkaesque.broker.requests.live_requests import (
    AskInterest,
    DeliverLive,
    Delivery,
    InterestKnown,
    TellInterest,
    pack_message,
    pack_text,
    unpack_message,
    unpack_text,
)
from kafkaesque.env.clock import Clock
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import NodeId
from kafkaesque.routing.live_message import LiveMessage
from kafkaesque.routing.names import NameFilter, NameKey

#: Messages that wait until it is known whether another broker wants them, and their bytes.
UNDECIDED_MAX: Final = 10_000
UNDECIDED_BYTES_MAX: Final = 16 * 1024 * 1024
#: While there are any, it is looked so often whether that is known.
LOOK_MS: Final = 20
#: A group's message is passed on so often where its member has left.
HOPS_MAX: Final = 3


class _Undecided:
    """A message of which it is not known whether some brokers want it."""

    __slots__ = ("due_ms", "hops", "is_for_all", "message", "nodes", "only", "served", "size")

    def __init__(
        self,
        message: LiveMessage,
        nodes: set[NodeId],
        served: set[str],
        due_ms: int,
        only: frozenset[str] | None,
        hops: int,
    ) -> None:
        self.message = message
        self.nodes = nodes
        #: Groups that have it.
        self.served = served
        self.due_ms = due_ms
        #: The groups that are to have it; None: all, and all that share with nobody.
        self.only = only
        self.hops = hops
        self.size = message.size


class LiveHub:
    """The live subscribers of the cluster, as one broker knows them."""

    __slots__ = (
        "_clock",
        "_current",
        "_fan_out",
        "_interest",
        "_is_looking",
        "_lanes",
        "_looked_ms",
        "_peers",
        "_subscribers",
        "_turn",
        "_undecided",
        "_undecided_bytes",
        "_unknown",
        "_when_settled",
        "dropped_here",
        "published",
    )

    def __init__(
        self,
        *,
        clock: Clock,
        peers: PeerNetwork,
        caller: RemoteCaller,
        timings: PeerTimings,
        when_settled: Callable[[Callable[[], None]], None],
    ) -> None:
        """`when_settled` calls when all that waits here to be retained now has its outcome."""
        self._clock: Final = clock
        self._when_settled: Final = when_settled
        self._peers: Final = peers
        self._subscribers: Final = LiveSubscribers()
        self._fan_out: Final = FanOut(clock)
        self._interest: Final = InterestExchange(
            clock=clock, peers=peers, caller=caller, timings=timings
        )
        self._lanes: Final = PeerLanes(clock=clock, peers=peers, caller=caller)
        #: Brokers of which it is known what they want, and the other ones that run.
        self._current: frozenset[NodeId] = frozenset()
        self._unknown: tuple[NodeId, ...] = ()
        #: When that was found out; -1: it is to be found out again.
        self._looked_ms = -1
        self._is_looking = False
        self._undecided: Final[deque[_Undecided]] = deque()
        self._undecided_bytes = 0
        #: Members of groups on other brokers take turns.
        self._turn = 0
        #: Messages that somebody here wanted and that there was no room for.
        self.dropped_here = 0
        #: Messages that were published through this broker and that live subscribers may want.
        self.published = 0

    @property
    def is_busy(self) -> bool:
        """Whether so much waits that publishers should be read no further for now."""
        is_half_full = 2 * self._undecided_bytes > UNDECIDED_BYTES_MAX
        return self._fan_out.is_busy or self._lanes.is_busy or is_half_full

    @property
    def given(self) -> int:
        """Copies that receivers on this broker have got since its start."""
        return self._fan_out.given

    @property
    def dropped(self) -> int:
        """Messages that somebody may have wanted, and did not get, since the broker's start."""
        return self.dropped_here + self._lanes.dropped

    def __len__(self) -> int:
        """How many subscriptions there are on this broker."""
        return len(self._subscribers)

    def begin(self) -> None:
        """There are clients on this broker that may publish and subscribe."""
        self._interest.begin()

    # -- subscriptions

    def subscribe(
        self,
        name_filter: NameFilter,
        receiver: Receiver,
        group: str,
        on_confirmed: Callable[[], None],
    ) -> Subscription:
        """See `Live.subscribe`."""
        made = self._subscribers.add(name_filter, receiver, group, self._on_ended)

        def confirm() -> None:
            if not made.is_over:
                made.is_confirmed = True
                on_confirmed()

        try:
            self._interest.add(name_filter, group, confirm)
        except RequestRefused:
            self._subscribers.remove(made)
            raise
        return made

    def _on_ended(self, subscription: Subscription) -> None:
        self._subscribers.remove(subscription)
        self._interest.remove(subscription.name_filter, subscription.group)

    def wants(self, key: NameKey) -> bool:
        """Tell whether any live subscriber may want a name."""
        if self._subscribers.wants(key):
            return True
        if not self._peers.peers():
            return False
        self._look()
        if self._unknown:
            return True
        theirs, current = self._interest.theirs, self._current
        return not current.isdisjoint(map(NodeId, theirs.wanted_by(key))) or any(
            not current.isdisjoint(map(NodeId, nodes)) for nodes in theirs.groups(key).values()
        )

    # -- publishing

    def publish(self, message: LiveMessage) -> bool:
        """Bring a message to all live subscribers; say whether there may be any."""
        copies, is_wanted = self._send_out(message)
        self._give((message,), copies)
        return is_wanted

    def publish_run(self, messages: Sequence[LiveMessage]) -> None:
        """Bring messages to all live subscribers in their order, as `publish` does each."""
        run: list[LiveMessage] = []
        receivers: list[Copy] = []
        may_wait = False
        for each in messages:
            copies, _ = self._send_out(each)
            if copies is not receivers and copies != receivers:
                if run:
                    self._give(run, receivers)
                    run = []
                may_wait = all(is_for_run(copy) for copy in copies)
            receivers = copies
            if may_wait:
                run.append(each)
            else:
                self._give((each,), copies)
        if run:
            self._give(run, receivers)

    def _send_out(self, message: LiveMessage) -> tuple[list[Copy], bool]:
        """Send a message to other brokers; return who gets it here, and whether anybody may."""
        copies = self._subscribers.copies(message.key)
        is_wanted = bool(copies)
        if self._peers.peers():
            served = set(self._subscribers.groups(message.key))
            is_wanted |= self._to_others(message, served, None, hops=0)
        self.published += is_wanted
        return copies, is_wanted

    def _give(self, messages: Sequence[LiveMessage], copies: list[Copy]) -> None:
        if not self._fan_out.add(messages, copies):
            self.dropped_here += len(messages)

    def _to_others(
        self,
        message: LiveMessage,
        served: set[str],
        only: frozenset[str] | None,
        *,
        hops: int,
        avoid: NodeId | None = None,
    ) -> bool:
        """Send a message to the brokers that want it; say whether there may be any."""
        self._look()
        current = self._current if avoid is None else self._current - {avoid}
        targets = self._targets(message.key, current, served, only)
        if targets:
            packed = pack_message(message)
            for node, (is_for_all, groups) in targets.items():
                self._lanes.add(node, _delivery(packed, groups, is_for_all=is_for_all, hops=hops))
        if self._unknown:
            nodes = set(self._unknown) - {avoid}
            self._wait(message, nodes, served, only, hops)
        return bool(targets or self._unknown)

    def _targets(
        self,
        key: NameKey,
        nodes: frozenset[NodeId],
        served: set[str],
        only: frozenset[str] | None,
    ) -> dict[NodeId, tuple[bool, list[str]]]:
        """Return which of these brokers get a message, and for which groups; these are served."""
        theirs = self._interest.theirs
        targets: dict[NodeId, tuple[bool, list[str]]] = {}
        if only is None:
            for number in theirs.wanted_by(key):
                if NodeId(number) in nodes:
                    targets[NodeId(number)] = (True, [])
        for group, numbers in theirs.groups(key).items():
            if group in served or (only is not None and group not in only):
                continue
            members = [NodeId(each) for each in numbers if NodeId(each) in nodes]
            if members:
                self._turn += 1
                chosen = members[self._turn % len(members)]
                targets.setdefault(chosen, (False, []))[1].append(group)
                served.add(group)
        return targets

    # -- what is not decided

    def _look(self) -> None:
        """Find out what is known of the other brokers, and decide what waits for that."""
        now_ms = self._clock.now_ms()
        if now_ms == self._looked_ms:
            return
        self._looked_ms = now_ms
        current: list[NodeId] = []
        unknown: list[NodeId] = []
        for node in self._peers.peers():
            standing = self._interest.standing(node, now_ms)
            if standing is Standing.CURRENT:
                current.append(node)
            elif standing is Standing.UNKNOWN:
                unknown.append(node)
        self._current, self._unknown = frozenset(current), tuple(unknown)
        if self._undecided:
            self._decide(now_ms)

    def look_again(self) -> None:
        """Something has become known of another broker."""
        self._looked_ms = -1

    def _wait(
        self,
        message: LiveMessage,
        nodes: set[NodeId],
        served: set[str],
        only: frozenset[str] | None,
        hops: int,
    ) -> None:
        if not nodes:
            return
        is_full = (
            len(self._undecided) >= UNDECIDED_MAX
            or self._undecided_bytes + message.size > UNDECIDED_BYTES_MAX
        )
        if is_full:
            self._lanes.dropped += 1
            return
        due_ms = self._clock.now_ms() + HOLD_MS
        item = _Undecided(message, nodes, served, due_ms, only, hops)
        self._undecided.append(item)
        self._undecided_bytes += item.size
        self._look_later()

    def _look_later(self) -> None:
        if not self._is_looking:
            self._is_looking = True
            self._clock.call_later(LOOK_MS, self._on_look)

    def _on_look(self) -> None:
        self._is_looking = False
        if not self._peers.closed:
            self._look()
            if self._undecided:
                self._look_later()

    def _decide(self, now_ms: int) -> None:
        """Send what waits to those brokers of which is known by now what they want, in order."""
        unknown = set(self._unknown)
        left: list[_Undecided] = []
        for item in self._undecided:
            known = item.nodes - unknown
            if known:
                item.nodes -= known
                self._send_decided(item, known & self._current)
                self._lanes.dropped += len(known - self._current)
            if item.nodes and item.due_ms > now_ms:
                left.append(item)
                continue
            self._lanes.dropped += len(item.nodes)
            self._undecided_bytes -= item.size
        self._undecided.clear()
        self._undecided.extend(left)

    def _send_decided(self, item: _Undecided, nodes: Iterable[NodeId]) -> None:
        targets = self._targets(item.message.key, frozenset(nodes), item.served, item.only)
        if targets:
            packed = pack_message(item.message)
            for node, (is_for_all, groups) in targets.items():
                delivery = _delivery(packed, groups, is_for_all=is_for_all, hops=item.hops)
                self._lanes.add(node, delivery)

    # -- other brokers

    def register(self, desk: RequestDesk) -> None:
        """Have the requests of other brokers served."""
        desk.register(TellInterest, self._on_told)
        desk.register(AskInterest, lambda node, _, done: done(self._interest.serve_ask(node)))
        desk.register(DeliverLive, lambda node, request, done: done(self._on_live(node, request)))

    def _on_told(
        self, node: NodeId, request: TellInterest, on_done: Callable[[InterestKnown], None]
    ) -> None:
        # What waits was published before: it is decided when it is looked next, and not before.
        self.look_again()
        known = self._interest.serve_tell(node, request)
        self._when_settled(lambda: on_done(known))

    def _on_live(self, node: NodeId, request: DeliverLive) -> Done:
        for each in self._lanes.news_in(node, request):
            try:
                message = unpack_message(each.message)
            except msgspec.MsgspecError as error:
                raise RequestRefused(f"a message that cannot be read: {error}") from None
            self._on_delivery(node, message, each)
        return Done()

    def _on_delivery(self, node: NodeId, message: LiveMessage, delivery: Delivery) -> None:
        if message.expires_ms and message.expires_ms <= self._clock.wall_ms():
            # It has waited for a link.
            return
        groups = [unpack_text(each) for each in delivery.groups]
        is_for_all = delivery.is_for_all
        copies = self._subscribers.copies(message.key, groups, is_for_all=is_for_all)
        self._give((message,), copies)
        if not groups:
            return
        left = frozenset(groups) - frozenset(self._subscribers.groups(message.key))
        if left and delivery.hops < HOPS_MAX:
            self._to_others(message, set(), left, hops=delivery.hops + 1, avoid=node)

    def on_link_up(self, node: NodeId) -> None:
        """A broker can be reached."""
        self.look_again()
        self._interest.on_link_up(node)
        self._lanes.on_link_up(node)

    def on_peer_changed(self) -> None:
        """A broker has come or gone."""
        self.look_again()

    def on_sweep(self, now_ms: int) -> None:
        """Do what is due from time to time."""
        self._interest.on_sweep(now_ms)
        for node in self._lanes.nodes():
            if self._interest.standing(node, now_ms) is Standing.GONE:
                self._lanes.give_up(node)


def _delivery(
    packed: msgspec.Raw, groups: Iterable[str], *, is_for_all: bool, hops: int
) -> Delivery:
    return Delivery(packed, is_for_all, [pack_text(each) for each in groups], hops)
