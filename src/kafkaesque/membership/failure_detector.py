"""Finds out who does not answer.

Theory of operation. SWIM (Das, Gupta, Motivala 2002), as Lifeguard (2018) changed it. In every
period a member pings two others: the next one in the ring of live ids, so that each member has one
that looks after it and a failure is noticed within a period, and one by lot, through all of them in
a random order that is drawn anew after each round. Who does not answer in time is pinged by a few
others on its behalf. They say what came of it in any case: one that hears nothing from them either
has to think that it is itself cut off or slow, and its delays grow (`health`). A suspect is told
with the ping that it is one.

At the same time the driver is asked to knock at the place: a machine whose process is gone refuses
the connection at once, while one that is only slow, or paused, takes it. A refusal says more than
any silence.
"""

from bisect import bisect_right
from typing import Final, Protocol

from kafkaesque.env.dice import Dice
from kafkaesque.env.network import Address
from kafkaesque.membership.config import MembershipConfig
from kafkaesque.membership.entries import Member, MemberState
from kafkaesque.membership.health import LocalHealth
from kafkaesque.membership.lots import drawn
from kafkaesque.membership.messages import Outcome, Ping, ProbeRequest, ProbeResult
from kafkaesque.membership.post import Post
from kafkaesque.membership.ready import Knock, Outbox
from kafkaesque.membership.view import ClusterView
from kafkaesque.model.ids import NodeId

#: A helper says that it hears nothing in this part of the time that the asker waits.
_HELP_PERCENT: Final = 80


class Judge(Protocol):
    """Who is told of members that do not answer."""

    def accuse(self, node: NodeId, life: int, by: NodeId, *, refused: bool) -> None:
        """`by` has had no answer from a life of a node, or was refused by its machine."""


class _Probe:
    """A ping that has not been answered."""

    __slots__ = ("deadline_ms", "helpers", "is_indirect", "life", "node", "reports")

    def __init__(self, member: Member, deadline_ms: int) -> None:
        self.node = member.node
        #: Another life than this one has not been asked.
        self.life = member.life
        self.deadline_ms = deadline_ms
        self.is_indirect = False
        #: Who was asked for help, and has not said what came of it; and how many have.
        self.helpers: set[NodeId] = set()
        self.reports = 0


class _Relay:
    """A ping on somebody's behalf."""

    __slots__ = ("asker", "asker_sequence", "deadline_ms", "node", "source")

    def __init__(
        self, asker: NodeId, source: Address, request: ProbeRequest, deadline_ms: int
    ) -> None:
        self.asker = asker
        self.source = source
        self.asker_sequence = request.sequence
        self.node = request.node
        self.deadline_ms = deadline_ms


class FailureDetector:
    """Probes for one member; see the module."""

    __slots__ = (
        "_config",
        "_dice",
        "_health",
        "_judge",
        "_node",
        "_outbox",
        "_period_ms",
        "_post",
        "_probes",
        "_relays",
        "_round",
        "_sequence",
        "_view",
        "is_stopped",
    )

    def __init__(
        self,
        *,
        node: NodeId,
        config: MembershipConfig,
        dice: Dice,
        view: ClusterView,
        post: Post,
        health: LocalHealth,
        outbox: Outbox,
        judge: Judge,
        now_ms: int,
    ) -> None:
        self._node: Final = node
        self._config: Final = config
        self._dice: Final = dice
        self._view: Final = view
        self._post: Final = post
        self._health: Final = health
        self._outbox: Final = outbox
        self._judge: Final = judge
        #: By the sequence number of the ping.
        self._probes: Final[dict[int, _Probe]] = {}
        self._relays: Final[dict[int, _Relay]] = {}
        #: Who is still to be probed by lot in this round.
        self._round: list[NodeId] = []
        self._sequence = dice.below(1 << 32)
        # Members that were started together do not all probe at the same moment.
        self._period_ms = now_ms + dice.below(config.probe_ms)
        self.is_stopped = False

    # -- time

    def next_ms(self) -> int:
        """Return when `tick` has something to do."""
        next_ms = self._period_ms
        for probe in self._probes.values():
            next_ms = min(next_ms, probe.deadline_ms)
        for relay in self._relays.values():
            next_ms = min(next_ms, relay.deadline_ms)
        return next_ms

    def tick(self, now_ms: int) -> None:
        """End what has waited long enough, and begin a period if it is time."""
        for sequence, probe in list(self._probes.items()):
            if probe.deadline_ms <= now_ms:
                self._on_silence(sequence, probe, now_ms)
        for sequence, relay in list(self._relays.items()):
            if relay.deadline_ms <= now_ms:
                del self._relays[sequence]
                self._report(relay, Outcome.SILENT)
        if self._period_ms <= now_ms:
            self._period_ms = now_ms + self._config.probe_ms * self._health.multiplier
            if not self.is_stopped:
                for node in self._targets():
                    self._probe(node, now_ms)

    def forgive(self, late_ms: int) -> None:
        """This member was held up itself: answers may well have come that it has not read."""
        late_ms += self._config.ack_ms
        for probe in self._probes.values():
            probe.deadline_ms += late_ms
        for relay in self._relays.values():
            relay.deadline_ms += late_ms

    # -- probing

    def _targets(self) -> list[NodeId]:
        """Return the next one in the ring, and one by lot."""
        live = self._view.live()
        if len(live) < 2:
            return []
        successor = live[bisect_right(live, self._node) % len(live)]
        by_lot = self._next_by_lot(live)
        return [node for node in dict.fromkeys((successor, by_lot)) if node != self._node]

    def _next_by_lot(self, live: tuple[NodeId, ...]) -> NodeId:
        while self._round:
            node = self._round.pop()
            member = self._view.member(node)
            if member is not None and member.is_live:
                return node
        others = [node for node in live if node != self._node]
        self._round = drawn(others, len(others), self._dice)
        return self._round.pop()

    def _probe(self, node: NodeId, now_ms: int) -> None:
        member = self._view.member(node)
        if member is None or any(probe.node == node for probe in self._probes.values()):
            return
        deadline_ms = now_ms + self._config.ack_ms * self._health.multiplier
        self._probes[self._ping(member)] = _Probe(member, deadline_ms)

    def _ping(self, member: Member) -> int:
        self._sequence += 1
        first = (member,) if member.state is MemberState.SUSPECT else ()
        self._post.send(member.node, member.address, Ping(self._sequence), first)
        return self._sequence

    def _on_silence(self, sequence: int, probe: _Probe, now_ms: int) -> None:
        member = self._view.member(probe.node)
        if member is None or not member.is_live or member.life != probe.life:
            del self._probes[sequence]
        elif not probe.is_indirect:
            self._outbox.knocks.append(Knock(member.node, member.life, member.address))
            self._ask_helpers(sequence, probe, member)
            probe.is_indirect = True
            probe.deadline_ms = now_ms + self._config.indirect_ms * self._health.multiplier
        else:
            del self._probes[sequence]
            asked = len(probe.helpers) + probe.reports
            self._health.worsen(len(probe.helpers) if asked else 1)
            self._judge.accuse(probe.node, probe.life, self._node, refused=False)

    def _ask_helpers(self, sequence: int, probe: _Probe, member: Member) -> None:
        able = [node for node in self._view.live() if node not in (self._node, member.node)]
        for node in drawn(able, self._config.helpers, self._dice):
            helper = self._view.member(node)
            if helper is not None and helper.state is MemberState.ALIVE:
                probe.helpers.add(node)
                request = ProbeRequest(sequence, member.node, member.address)
                self._post.send(node, helper.address, request)

    # -- what comes in

    def on_ack(self, sender: NodeId, sequence: int) -> None:
        """A ping was answered."""
        probe = self._probes.get(sequence)
        if probe is not None and probe.node == sender:
            del self._probes[sequence]
            self._health.improve()
        relay = self._relays.get(sequence)
        if relay is not None and relay.node == sender:
            del self._relays[sequence]
            self._report(relay, Outcome.ANSWERED)

    def on_probe_request(
        self, sender: NodeId, source: Address, request: ProbeRequest, now_ms: int
    ) -> None:
        """Somebody asks this member to probe another."""
        if len(self._relays) >= self._config.relays_max or request.node == self._node:
            return
        known = self._view.member(request.node)
        target = Member(request.node, request.address, 1, 1) if known is None else known
        wait_ms = max(1, self._config.indirect_ms * _HELP_PERCENT // 100)
        self._relays[self._ping(target)] = _Relay(sender, source, request, now_ms + wait_ms)
        self._outbox.knocks.append(Knock(target.node, target.life, target.address))

    def on_probe_result(self, sender: NodeId, result: ProbeResult) -> None:
        """A helper says what came of it."""
        probe = self._probes.get(result.sequence)
        if probe is None or sender not in probe.helpers:
            return
        probe.helpers.remove(sender)
        probe.reports += 1
        if result.outcome is Outcome.ANSWERED:
            del self._probes[result.sequence]
            self._health.improve()
        elif result.outcome is Outcome.REFUSED:
            self._judge.accuse(probe.node, probe.life, sender, refused=True)

    def on_refused(self, node: NodeId, life: int) -> None:
        """Nobody listens where this life of a node should be."""
        # That is an answer, too, and in time: nothing speaks for this member's being slow.
        for sequence, probe in list(self._probes.items()):
            if probe.node == node:
                del self._probes[sequence]
        for sequence, relay in list(self._relays.items()):
            if relay.node == node:
                del self._relays[sequence]
                self._report(relay, Outcome.REFUSED)
        self._judge.accuse(node, life, self._node, refused=True)

    def _report(self, relay: _Relay, outcome: Outcome) -> None:
        result = ProbeResult(relay.asker_sequence, outcome)
        self._post.send(relay.asker, relay.source, result)
