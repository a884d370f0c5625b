"""Who is suspected, and until when.

Theory of operation. A suspect that does not refute is dead after a while. Lifeguard (section IV.B):
the while begins long and shrinks with every other member that comes to the same suspicion by
itself, logarithmically, so that one member that is slow accuses in vain, and a suspect that all
accuse does not get all the time that there is. What a member has missed while it was held up itself
does not count.

Beside that, refusals: where so many members that a single firewall is no explanation are refused a
connection by the machine itself, no process listens, and nothing has to be waited for.
"""

import math
from typing import Final

from kafkaesque.membership.config import MembershipConfig
from kafkaesque.membership.entries import Member
from kafkaesque.membership.view import ClusterView
from kafkaesque.model.ids import NodeId


class _Suspicion:
    __slots__ = ("deadline_ms", "incarnation", "since_ms")

    def __init__(self, incarnation: int, since_ms: int) -> None:
        self.incarnation = incarnation
        self.since_ms = since_ms
        self.deadline_ms = since_ms


class SuspicionTable:
    """The suspects of one member."""

    __slots__ = ("_config", "_suspicions")

    def __init__(self, config: MembershipConfig) -> None:
        self._config: Final = config
        self._suspicions: Final[dict[NodeId, _Suspicion]] = {}

    def add(self, member: Member, now_ms: int) -> None:
        """A member is a suspect from now on, if it was none; `judge` sets its time."""
        suspicion = self._suspicions.get(member.node)
        if suspicion is None or suspicion.incarnation != member.incarnation:
            self._suspicions[member.node] = _Suspicion(member.incarnation, now_ms)

    def judge(self, view: ClusterView, now_ms: int) -> None:
        """Set every suspect's time anew: there is a suspect, an accuser or a member more or less.

        Who is suspected cannot confirm a refusal, and none is waited for from it. It may still
        confirm a silence: a member that is slow suspects all others, and is not to be in a hurry.
        """
        if not self._suspicions:
            return
        needed = max(1, min(self._config.refusals, view.alive))
        others = len(view.live()) - 2
        for node, suspicion in self._suspicions.items():
            suspect = view.member(node)
            if suspect is None:
                continue
            refusals = sum(each.refused for each in suspect.accusers)
            if refusals >= needed:
                suspicion.deadline_ms = now_ms
            else:
                delay_ms = self._delay_ms(len(suspect.accusers) - 1, others)
                suspicion.deadline_ms = suspicion.since_ms + delay_ms

    def _delay_ms(self, confirmations: int, others: int) -> int:
        """Return how long a suspect has that some of the `others`, who could confirm it, have."""
        least, most = self._config.suspicion_ms_min, self._config.suspicion_ms_max
        wanted = min(self._config.suspicion_confirmations, others)
        if confirmations >= wanted:
            return least
        return round(most - (most - least) * math.log(confirmations + 1) / math.log(wanted + 1))

    def drop(self, node: NodeId) -> None:
        """It is a suspect no more; harmless if it was none."""
        self._suspicions.pop(node, None)

    def due(self, now_ms: int) -> list[tuple[NodeId, int]]:
        """Return whose time is up, with the suspected incarnation, and forget them."""
        due = [
            (node, suspicion.incarnation)
            for node, suspicion in self._suspicions.items()
            if suspicion.deadline_ms <= now_ms
        ]
        for node, _ in due:
            del self._suspicions[node]
        return due

    def next_ms(self) -> int | None:
        """Return when the next one's time is up."""
        return min((each.deadline_ms for each in self._suspicions.values()), default=None)

    def forgive(self, late_ms: int) -> None:
        """This member was held up itself."""
        for suspicion in self._suspicions.values():
            suspicion.since_ms += late_ms
            suspicion.deadline_ms += late_ms
