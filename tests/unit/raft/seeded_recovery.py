"""Seeded runs in which a group loses its quorum again and again, and is recovered."""

from __future__ import annotations

from collections.abc import Callable

from kafkaesque.model.ids import NodeId
from kafkaesque.raft.recovery import find_founding
from tests.unit.raft.arbiter import Arbiter, Find
from tests.unit.raft.checker import Violation
from tests.unit.raft.seeded import SeededRun, is_settled, report


class RecoveryRun(SeededRun):
    """Everything that a `SeededRun` does, and an arbiter that is in a hurry."""

    def __init__(self, seed: int, *, find: Find = find_founding) -> None:
        super().__init__(seed)
        nodes = tuple(self.cluster.members)
        for node in nodes:
            self.cluster[node].set_wanted_voters(nodes)
        self.cluster.wanted = nodes
        self.arbiter = Arbiter(self.cluster, find)
        more: tuple[tuple[Callable[[], None], float], ...] = (
            (self.begin, 0.6),
            (self.follow, 8),
            (self.tell, 6),
            (self.decide, 4),
        )
        for action, weight in more:
            self.actions.append(action)
            self.weights.append(weight)
        for action, factor in ((self.crash, 2), (self.cut, 4)):
            self.weights[self.actions.index(action)] *= factor

    def begin(self) -> None:
        # The next may begin before the last was decided, or founded.
        if self.arbiter.formation < 20:
            self.arbiter.begin()

    def follow(self) -> None:
        if (node := self._node()) is not None:
            self.arbiter.follow(node)

    def tell(self) -> None:
        if (node := self._node()) is not None and self.arbiter.has_news(node):
            self.arbiter.tell(node)

    def decide(self) -> None:
        self.arbiter.decide()

    def lose_disk(self) -> None:
        # Later it may be the one disk that a formation was to be founded from.
        if not self.arbiter.decisions:
            super().lose_disk()

    def restart(self) -> None:
        before = set(self._up())
        super().restart()
        for node in sorted(set(self._up()) - before):
            # It may know less of the decisions than before; what it has promised is on its disk.
            known = self.arbiter.followed.get(node, 0)
            self.arbiter.followed[node] = self.dice.choice((known, self.dice.randint(0, known)))
            self.arbiter.follow_again(node)

    def run(self, steps: int) -> None:
        for action in self.dice.choices(self.actions, self.weights, k=steps):
            action()
        self._come_together()

    def _come_together(self, rounds: int = 300) -> None:
        cluster, arbiter = self.cluster, self.arbiter
        cluster.heal()
        cluster.full.clear()
        for node, member in cluster.members.items():
            if member.core is None:
                cluster.start(node)
                arbiter.follow_again(node)
        without = 0
        for _ in range(rounds):
            cluster.notice_all()
            cluster.flow()
            self._arbitrate()
            leader = cluster.leader
            if leader is not None and is_settled(cluster, leader):
                return
            without = 0 if leader is not None else without + 1
            if without > 40:
                without = 0
                arbiter.begin()
            cluster.tick()
        raise Violation(f"no agreement after {rounds} ticks without faults: {report(cluster)}")

    def _arbitrate(self) -> None:
        cluster, arbiter = self.cluster, self.arbiter
        for node in cluster.members:
            while arbiter.followed.get(NodeId(node), 0) < len(arbiter.decisions):
                arbiter.follow(node)
            cluster.sync(node)
            if arbiter.has_news(node):
                arbiter.tell(node)
        if arbiter.is_open and len(arbiter.told) == sum(
            not member.up.amnesia for member in cluster.members.values()
        ):
            arbiter.decide()
