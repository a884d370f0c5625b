"""A cluster of Raft cores driven by Hypothesis: it looks for the shortest story that goes wrong."""

from __future__ import annotations

from random import Random

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from kafkaesque.model.errors import NotLeader
from kafkaesque.model.ids import NodeId
from kafkaesque.raft.configuration import Configuration
from kafkaesque.raft.errors import ConfigurationChangeRefused, TransferRefused
from tests.unit.raft.harness import Cluster
from tests.unit.raft.seeded import SMALL, converge

NODES = st.integers(1, 4)


class RaftMachine(RuleBasedStateMachine):
    """Four nodes, of which the first three begin as voters; the checker looks at every step."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster(1)
        #: Who then draws the same numbers as the others again and again is never elected.
        self.is_over = False

    @initialize(jitter=st.lists(st.integers(0, 7), min_size=4, max_size=8), wired=st.booleans())
    def begin(self, jitter: list[int], wired: bool) -> None:
        draws = 0
        chance = Random(1)

        def turn(bound: int) -> int:
            nonlocal draws
            draws += 1
            if self.is_over:
                return chance.randrange(bound)
            return (jitter[draws % len(jitter)] + draws // len(jitter)) % bound

        self.cluster = Cluster(
            4, voters=(1, 2, 3), wanted=(1, 2, 3), config=SMALL, jitter=turn, via_wire=wired
        )

    def is_up(self, node: int) -> bool:
        return self.cluster.members[NodeId(node)].core is not None

    @rule(node=NODES)
    def tick(self, node: int) -> None:
        if self.is_up(node):
            self.cluster.tick(node, times=4)

    @rule(node=NODES)
    def campaign(self, node: int) -> None:
        if self.is_up(node):
            self.cluster[node].campaign()
            self.cluster.settle(node)

    @rule(node=NODES)
    def sync(self, node: int) -> None:
        if self.is_up(node):
            self.cluster.sync(node)

    @rule()
    def flow(self) -> None:
        self.cluster.flow()

    @precondition(lambda self: self.cluster.wire)
    @rule(position=st.integers(0, 50), keep=st.booleans())
    def deliver(self, position: int, keep: bool) -> None:
        self.cluster.deliver(position % len(self.cluster.wire), keep=keep)

    @precondition(lambda self: self.cluster.wire)
    @rule(position=st.integers(0, 50))
    def drop(self, position: int) -> None:
        self.cluster.wire.pop(position % len(self.cluster.wire))

    @rule(width=st.integers(1, 5))
    def propose(self, width: int) -> None:
        leader = self.cluster.leader
        if leader is not None:
            try:
                self.cluster.propose(leader, width)
            except NotLeader:
                pass

    @rule(node=NODES)
    def crash(self, node: int) -> None:
        if self.is_up(node):
            self.cluster.crash(node)

    @rule(node=NODES)
    def lose_disk(self, node: int) -> None:
        if self.cluster.has_enough_without(NodeId(node)):
            self.cluster.lose_disk(node)

    @rule(node=NODES)
    def start(self, node: int) -> None:
        if not self.is_up(node):
            self.cluster.start(node)

    @rule(node=NODES)
    def cut(self, node: int) -> None:
        self.cluster.cut(node)

    @rule()
    def heal(self) -> None:
        self.cluster.heal()

    @rule()
    def notice(self) -> None:
        self.cluster.notice_all()

    @rule(node=NODES)
    def compact(self, node: int) -> None:
        if self.is_up(node):
            core = self.cluster[node]
            upto = min(core.commit_index, core.log.synced_index)
            entries = self.cluster.members[NodeId(node)].live.entries
            done = [entry.last_index for entry in entries if entry.last_index <= upto]
            if done:
                self.cluster.compact(node, done[-1])

    @rule(node=NODES)
    def transfer(self, node: int) -> None:
        leader = self.cluster.leader
        if leader is not None:
            try:
                self.cluster[leader].transfer_leadership(NodeId(node))
            except TransferRefused:
                return
            self.cluster.settle(leader)

    @rule(voters=st.lists(NODES, min_size=1, unique=True), learners=st.lists(NODES, unique=True))
    def change_configuration(self, voters: list[int], learners: list[int]) -> None:
        leader = self.cluster.leader
        if leader is None:
            return
        target = Configuration(
            voters=tuple(NodeId(node) for node in voters),
            learners=tuple(NodeId(node) for node in learners if node not in voters),
        )
        lost = [n for n in target.voters if self.cluster.members[n].durable.amnesia]
        if 2 * len(lost) >= len(target.voters):
            return  # nobody could be elected
        try:
            self.cluster[leader].change_configuration(target)
        except ConfigurationChangeRefused:
            return
        self.cluster.settle(leader)

    @invariant()
    def what_is_committed_is_on_some_disk(self) -> None:
        durable = {node: member.durable for node, member in self.cluster.members.items()}
        holders = sum(image.has(*self.cluster.checker.commit) for image in durable.values())
        assert holders >= 1

    def teardown(self) -> None:
        self.is_over = True
        converge(self.cluster)


TestRaftCluster = RaftMachine.TestCase
