"""The arbiter of a group: what the controller does for it, as one line of decisions (ADR 16).

What it decides is a log that every member follows at its own pace; what a member told of itself
may arrive late. A member knows after a restart how far it had followed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kafkaesque.model.ids import NodeId
from kafkaesque.raft.configuration import Configuration
from kafkaesque.raft.core import RaftCore
from kafkaesque.raft.recovery import Founding, Survivor, find_founding
from tests.unit.raft.harness import Cluster

Find = Callable[[list[Survivor], list[tuple[int, Configuration]]], Founding | None]


@dataclass(frozen=True)
class Begun:
    """A formation has begun: whoever hears of it enters it, and tells what it has."""

    formation: int


@dataclass(frozen=True)
class Decided:
    """A formation is to be founded so."""

    formation: int
    founding: Founding
    end: tuple[int, int]


@dataclass
class Arbiter:
    """Decides only cleanly."""

    cluster: Cluster
    find: Find = find_founding
    decisions: list[Begun | Decided] = field(default_factory=list)
    followed: dict[NodeId, int] = field(default_factory=dict)
    told: dict[NodeId, Survivor] = field(default_factory=dict)

    @property
    def formation(self) -> int:
        return self.decisions[-1].formation if self.decisions else 0

    @property
    def is_open(self) -> bool:
        """Whether a formation has begun and is not decided."""
        return bool(self.decisions) and isinstance(self.decisions[-1], Begun)

    def begin(self) -> None:
        self.decisions.append(Begun(self.formation + 1))
        self.told = {}

    def follow(self, node: int) -> None:
        """Let a member take note of one more decision."""
        at = self.followed.get(NodeId(node), 0)
        if at < len(self.decisions):
            self.followed[NodeId(node)] = at + 1
            self._act(node, self.decisions[at])

    def follow_again(self, node: int) -> None:
        """A member was started: it knows what it had taken note of."""
        for decision in self.decisions[: self.followed.get(NodeId(node), 0)]:
            self._act(node, decision)

    def _act(self, node: int, decision: Begun | Decided) -> None:
        core = self.cluster[node]
        core.enter_formation(decision.formation, is_decided=isinstance(decision, Decided))
        if isinstance(decision, Decided) and decision.founding.leader == node:
            if (core.log.last_index, core.log.last_term) == decision.end:
                voters = decision.founding.voters
                core.found(decision.formation, Configuration(voters=voters))
        self.cluster.settle(node)

    def has_news(self, node: int) -> bool:
        """Whether a member could tell what it has."""
        return self.is_open and NodeId(node) not in self.told and self._may_tell(self.cluster[node])

    def _may_tell(self, core: RaftCore) -> bool:
        log = core.log
        has_entered = core.formation == self.formation and core.has_entered
        return has_entered and log.synced_index == log.last_index and not core.amnesia

    def tell(self, node: int) -> None:
        """A member says what it has."""
        core = self.cluster[node]
        log = core.log
        self.told[NodeId(node)] = Survivor(
            node=NodeId(node),
            last_index=log.last_index,
            last_term=log.last_term,
            configuration=core.configuration,
        )

    def decide(self) -> bool:
        """Decide, if that can be done cleanly."""
        decided = [
            (each.formation, Configuration(voters=each.founding.voters))
            for each in self.decisions
            if isinstance(each, Decided)
        ]
        survivors = [self.told[node] for node in sorted(self.told)]
        founding = self.find(survivors, decided)
        if not self.is_open or founding is None or not founding.is_clean:
            return False
        best = self.told[founding.leader]
        end = (best.last_index, best.last_term)
        self.decisions.append(Decided(self.formation, founding, end))
        return True
