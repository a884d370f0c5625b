"""A run of the harness in which a seed decides what happens."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from kafkaesque.model.errors import NotLeader
from kafkaesque.model.ids import NodeId
from kafkaesque.raft.config import RaftConfig
from kafkaesque.raft.configuration import Configuration
from kafkaesque.raft.entries import EntryKind
from kafkaesque.raft.errors import ConfigurationChangeRefused, TransferRefused
from tests.unit.raft.checker import Violation
from tests.unit.raft.harness import Cluster

SMALL = RaftConfig(
    election_ticks=4,
    retry_ticks=2,
    snapshot_retry_ticks=6,
    in_sync_lag_ticks=8,
    inflight_messages_max=3,
    inflight_bytes_max=64,
    append_bytes_max=16,
)
SMALL_EAGER = RaftConfig(
    election_ticks=4,
    retry_ticks=2,
    snapshot_retry_ticks=6,
    in_sync_lag_ticks=8,
    inflight_messages_max=3,
    inflight_bytes_max=64,
    append_bytes_max=16,
    tell_commit_at_once=True,
)


class SeededRun:
    """Random events for a while; then the faults end, and the cluster must come together."""

    def __init__(self, seed: int, *, reads: bool = False) -> None:
        """With `reads` leaders are deposed often, and ask often whether they lead still."""
        dice = self.dice = Random(seed)
        nodes = dice.choice((1, 2, 3, 3, 3, 4, 5))
        voters = nodes if nodes < 3 else dice.randint(2, nodes)
        self.cluster = Cluster(
            nodes,
            voters=range(1, voters + 1),
            learners=range(voters + 1, nodes + 1) if dice.random() < 0.5 else (),
            config=dice.choice((SMALL, SMALL_EAGER)),
            jitter=dice.randrange,
            via_wire=dice.random() < 0.1,
            is_lazy=dice.random() < 0.3,
            wanted=range(1, voters + 1) if dice.random() < 0.5 else (),
        )
        self.actions: list[Callable[[], None]] = []
        weights = []
        for action, weight in (
            (self.deliver, 50.0),
            (self.sync, 14),
            (self.tick, 12),
            (self.propose, 10),
            (self.notice, 6),
            (self.work, 6),
            (self.duplicate, 2),
            (self.drop, 2),
            (self.restart, 2),
            (self.crash, 1),
            (self.lose_disk, 0.3),
            (self.cut, 0.5),
            (self.heal, 1.5),
            (self.sync_disk, 2),
            (self.compact, 0.7),
            (self.remove, 1),
            (self.transfer, 0.5),
            (self.campaign, 0.5),
            (self.change_configuration, 0.8),
            (self.set_min_insync, 0.3),
            (self.fill_or_empty, 0.5),
        ):
            self.actions.append(action)
            weights.append(weight)
        if dice.random() < 0.3:  # little but elections, by members that hardly live
            for action, factor in ((self.campaign, 10), (self.crash, 6), (self.restart, 6)):
                weights[self.actions.index(action)] *= factor
        if dice.random() < 0.2:
            weights[self.actions.index(self.lose_disk)] *= 8
        if reads:
            self.actions.append(self.confirm)
            weights.append(15)
            for action, factor in ((self.transfer, 20), (self.cut, 4), (self.campaign, 10)):
                weights[self.actions.index(action)] *= factor
        self.weights = weights

        if dice.random() < 0.8:
            self.cluster.elect(dice.randint(1, voters))

    def run(self, steps: int) -> None:
        for action in self.dice.choices(self.actions, self.weights, k=steps):
            action()
        converge(self.cluster)

    def _up(self) -> list[NodeId]:
        return [n for n, member in self.cluster.members.items() if member.core is not None]

    def _node(self) -> NodeId | None:
        up = self._up()
        return self.dice.choice(up) if up else None

    def _position(self) -> int:
        # Mostly in order, as TCP delivers; sometimes anything.
        wire = self.cluster.wire
        return 0 if self.dice.random() < 0.7 else self.dice.randrange(len(wire))

    def deliver(self) -> None:
        if self.cluster.wire:
            self.cluster.deliver(self._position())

    def duplicate(self) -> None:
        if self.cluster.wire:
            self.cluster.deliver(self._position(), keep=True)

    def drop(self) -> None:
        if self.cluster.wire:
            self.cluster.wire.pop(self._position())

    def sync(self) -> None:
        if (node := self._node()) is not None:
            self.cluster.sync(node)

    def sync_disk(self) -> None:
        if (node := self._node()) is not None:
            self.cluster.sync_disk(node)

    def tick(self) -> None:
        if (node := self._node()) is not None:
            self.cluster.tick(node, times=self.dice.choice((1, 1, 1, 3)))

    def notice(self) -> None:
        if pairs := self.cluster.unnoticed():
            self.cluster.notice(*self.dice.choice(pairs))

    def work(self) -> None:
        node = self._node()
        if node is None:
            return
        member = self.cluster.members[node]
        if member.installing is not None:
            self.cluster.install(node)
        elif member.work:
            self.cluster.work(node)

    def propose(self) -> None:
        for node in self._up():
            if self.cluster[node].is_leader:
                try:
                    self.cluster.propose(node, self.dice.choice((1, 1, 2, 5)))
                except NotLeader:
                    pass  # handing over

    def confirm(self) -> None:
        for node in self._up():
            if self.cluster[node].is_leader:
                self.cluster.confirm(node)

    def crash(self) -> None:
        if (node := self._node()) is not None:
            self.cluster.crash(node)

    def lose_disk(self) -> None:
        node = self.dice.choice(list(self.cluster.members))
        if self.cluster.has_enough_without(node):
            self.cluster.lose_disk(node)

    def restart(self) -> None:
        down = [n for n, member in self.cluster.members.items() if member.core is None]
        if down:
            self.cluster.start(self.dice.choice(down))

    def cut(self) -> None:
        nodes = list(self.cluster.members)
        self.cluster.cut(*self.dice.sample(nodes, self.dice.randrange(len(nodes))))

    def fill_or_empty(self) -> None:
        self.cluster.full ^= {self.dice.choice(list(self.cluster.members))}

    def heal(self) -> None:
        self.cluster.heal()

    def compact(self) -> None:
        node = self._node()
        if node is None or self.cluster.members[node].installing is not None:
            return
        member = self.cluster.members[node]
        upto = min(member.commit_index, member.up.log.synced_index)
        done = [entry.last_index for entry in member.live.entries if entry.last_index <= upto]
        if done:
            self.cluster.compact(node, self.dice.choice(done))

    def remove(self) -> None:
        node = self._node()
        if node is None:
            return
        member = self.cluster.members[node]
        done = [
            entry.last_index
            for entry in member.live.entries[:-1]
            if entry.last_index <= member.commit_index and entry.kind is not EntryKind.CONFIG
        ]
        if done:
            self.cluster.remove(node, self.dice.choice(done))

    def transfer(self) -> None:
        leader, node = self.cluster.leader, self._node()
        if leader is not None and node is not None:
            try:
                self.cluster[leader].transfer_leadership(node)
            except TransferRefused:
                return
            self.cluster.settle(leader)

    def campaign(self) -> None:
        if (node := self._node()) is not None:
            self.cluster[node].campaign()
            self.cluster.settle(node)

    def change_configuration(self) -> None:
        leader = self.cluster.leader
        if leader is None:
            return
        nodes = list(self.cluster.members)
        self.dice.shuffle(nodes)
        voters = self.dice.randint(1, len(nodes))
        learners = self.dice.randint(voters, len(nodes))
        lost = [n for n in nodes[:voters] if self.cluster.members[n].durable.amnesia]
        if 2 * len(lost) >= voters:
            return  # nobody could be elected
        target = Configuration(voters=tuple(nodes[:voters]), learners=tuple(nodes[voters:learners]))
        try:
            self.cluster[leader].change_configuration(target)
        except ConfigurationChangeRefused:
            return
        self.cluster.settle(leader)

    def set_min_insync(self) -> None:
        min_insync = self.dice.randint(1, 3)
        for node, member in self.cluster.members.items():
            member.min_insync = min_insync
            if member.core is not None:
                member.core.set_min_insync(min_insync)
                self.cluster.settle(node)


def converge(cluster: Cluster, rounds: int = 150) -> None:
    """End all faults; then there must be one leader, one log, and quiet."""
    cluster.heal()
    cluster.full.clear()
    for node, member in cluster.members.items():
        if member.core is None:
            cluster.start(node)
    for _ in range(rounds):
        cluster.notice_all()
        cluster.flow()
        leader = cluster.leader
        if leader is not None and is_settled(cluster, leader):
            return
        cluster.tick()
    raise Violation(f"no agreement after {rounds} ticks without faults: {report(cluster)}")


def is_settled(cluster: Cluster, leader: int) -> bool:
    core = cluster[leader]
    members = [cluster[node] for node in core.configuration.members]
    return (
        not core.configuration.is_joint
        and all(member.is_quiet for member in members)
        and all(member.leader == leader for member in members)
        and all(member.log.last_index == core.log.last_index for member in members)
        and all(member.commit_index == core.log.last_index for member in members)
    )


def report(cluster: Cluster) -> list[str]:
    """Return a line on each live member."""
    return [
        f"{node}: {core.role.value} t{core.term} leader {core.leader} log"
        f" {core.log.start_index}..{core.log.last_index} synced {core.log.synced_index} commit"
        f" {core.commit_index} {core.configuration} quiet {core.is_quiet}"
        for node, member in cluster.members.items()
        if (core := member.core) is not None
    ]
