"""How the members of a group change while it works."""

from __future__ import annotations

from random import Random

import pytest

from kafkaesque.model.errors import NotLeader
from kafkaesque.model.ids import NodeId
from kafkaesque.raft.configuration import Configuration
from kafkaesque.raft.entries import EntryKind
from kafkaesque.raft.errors import ConfigurationChangeRefused
from kafkaesque.raft.ready import Role
from tests.unit.raft.harness import Cluster


def members(voters: list[int], learners: tuple[int, ...] = ()) -> Configuration:
    return Configuration(
        voters=tuple(NodeId(node) for node in voters),
        learners=tuple(NodeId(node) for node in learners),
    )


def change(cluster: Cluster, leader: int, target: Configuration) -> None:
    cluster[leader].change_configuration(target)
    cluster.settle(leader)


def config_entries(cluster: Cluster, node: int) -> int:
    entries = cluster.members[NodeId(node)].live.entries
    return sum(entry.kind is EntryKind.CONFIG for entry in entries)


def test_a_learner_gets_the_log_but_has_no_say() -> None:
    cluster = Cluster(3, voters=(1, 2), learners=(3,))
    cluster.elect(1)
    cluster.propose(1)
    cluster.flow()
    assert cluster.log(3) == cluster.log(1)
    cluster.crash(2)
    cluster.propose(1)
    cluster.flow()
    assert cluster[1].commit_index == 2
    assert cluster[3].log.last_index == 3
    cluster.tick(3, times=100)
    assert cluster[3].role is Role.FOLLOWER


def test_adding_a_learner_takes_one_step_and_promoting_it_two() -> None:
    cluster = Cluster(3, voters=(1, 2))
    cluster.elect(1)
    change(cluster, 1, members([1, 2], (3,)))
    cluster.flow()
    assert config_entries(cluster, 1) == 1
    assert cluster[3].log.last_index == cluster[1].log.last_index
    change(cluster, 1, members([1, 2, 3]))
    assert cluster[1].configuration.is_joint
    cluster.flow()
    assert config_entries(cluster, 1) == 3
    assert cluster[3].configuration == members([1, 2, 3])
    cluster.crash(2)
    cluster.notice_all()
    cluster.propose(1)
    cluster.flow()
    assert cluster[1].commit_index == cluster[1].log.last_index


def test_joint_consensus_needs_a_majority_of_each_half() -> None:
    cluster = Cluster(6, voters=(1, 2, 3))
    cluster.elect(1)
    change(cluster, 1, members([4, 5, 6]))
    cluster.cut(4, 5)  # all old voters can be heard, but one new one only
    cluster.flow()
    joint = cluster[1].configuration
    assert joint.is_joint
    assert cluster[1].commit_index < cluster[1].log.last_index
    cluster.heal()
    cluster.tick(1, times=5)
    cluster.flow()
    assert cluster[4].configuration == members([4, 5, 6])


def test_joint_consensus_elections_need_a_majority_of_each_half() -> None:
    cluster = Cluster(5, voters=(1, 2, 3), jitter=Random(1).randrange)
    cluster.elect(1)
    change(cluster, 1, members([3, 4, 5]))
    for node in (2, 3, 4, 5):  # the joint entry reaches all, but nobody's answer the leader
        cluster.sync(node)
    while cluster.wire:
        cluster.deliver()
        for node in (2, 3, 4, 5):
            cluster.sync_disk(node)
    assert all(cluster[node].configuration.is_joint for node in (2, 3, 4, 5))
    cluster.crash(1)
    cluster.crash(2)
    cluster.notice_all()
    for node in (3, 4, 5):
        cluster.tick(node, times=30)
        cluster.flow()
    # Three of five, but one of the old voters only.
    assert not any(cluster.leads(node) for node in (3, 4, 5))
    cluster.start(2)
    cluster.notice_all()
    for _ in range(30):
        cluster.tick()
        cluster.flow()
    assert cluster.leader is not None
    assert cluster[cluster.leader].configuration == members([3, 4, 5])


def test_a_leader_that_is_not_in_the_new_configuration_finishes_it_and_hands_over() -> None:
    cluster = Cluster(4, voters=(1, 2, 3))
    cluster.elect(1)
    cluster.propose(1)
    cluster.flow()
    change(cluster, 1, members([2, 3, 4]))
    cluster.flow()
    assert cluster.leader in (2, 3, 4)
    assert not cluster.leads(1)
    assert cluster[cluster.leader].configuration == members([2, 3, 4])
    cluster.propose(cluster.leader)
    cluster.flow()
    assert cluster[cluster.leader].commit_index == cluster[cluster.leader].log.last_index


def test_a_removed_leader_does_not_count_itself() -> None:
    cluster = Cluster(2)
    cluster.elect(1)
    change(cluster, 1, members([2]))
    cluster.flow()
    assert not cluster.leads(1)
    assert cluster.leader == 2


def test_a_removed_node_does_not_disrupt() -> None:
    cluster = Cluster(4)
    cluster.elect(1)
    cluster.cut(4)
    change(cluster, 1, members([1, 2, 3]))
    cluster.flow()
    cluster.heal()
    cluster.tick(4, times=200)
    cluster.flow()
    assert cluster.leader == 1
    assert cluster[1].term == 1


def test_a_demoted_voter_becomes_a_learner() -> None:
    cluster = Cluster(3)
    cluster.elect(1)
    change(cluster, 1, members([1, 2], (3,)))
    cluster.flow()
    cluster.propose(1)
    cluster.flow()
    assert cluster.log(3) == cluster.log(1)
    assert list(cluster[1].in_sync) == [1, 2]
    assert cluster[3].configuration == members([1, 2], (3,))


def test_a_new_leader_leaves_the_joint_configuration_that_it_finds() -> None:
    cluster = Cluster(4, voters=(1, 2, 3))
    cluster.elect(1)
    change(cluster, 1, members([1, 2, 4]))
    while cluster.wire:
        cluster.deliver()
        for node in (2, 3, 4):
            cluster.sync(node)
    cluster.crash(1)
    cluster.notice_all()
    cluster.elect(2)
    assert not cluster[2].configuration.is_joint
    assert cluster[2].configuration == members([1, 2, 4])


def test_an_uncommitted_configuration_is_taken_back_with_its_entry() -> None:
    cluster = Cluster(4, voters=(1, 2, 3))
    cluster.elect(1)
    cluster.cut(1)
    change(cluster, 1, members([1, 4]))
    cluster.sync(1)
    assert cluster[1].configuration.is_joint
    cluster.notice_all()
    cluster.elect(2)
    cluster.propose(2)
    cluster.flow()
    cluster.heal()
    cluster.notice_all()
    cluster.flow()
    assert cluster[1].configuration == members([1, 2, 3])
    assert cluster.log(1) == cluster.log(2)


def test_a_voter_that_is_being_removed_can_be_elected_if_only_it_has_the_entry() -> None:
    # Dissertation 4.2.2: it may be needed until the new configuration is committed.
    cluster = Cluster(2, is_lazy=True)
    cluster.elect(1)
    change(cluster, 1, members([2]))
    while cluster[1].configuration != members([2]):
        while cluster.members[NodeId(1)].work:
            cluster.work(1)
        cluster.sync(1)
        cluster.sync(2)
        cluster.deliver()
    cluster.sync(1)  # the final configuration is durable here, and nowhere else
    cluster.crash(1)
    cluster.wire.clear()
    cluster.start(1)
    cluster.notice_all()
    for _ in range(60):
        cluster.tick()
        cluster.flow()
    assert cluster.leader == 2
    assert cluster[2].configuration == members([2])
    assert cluster[2].commit_index == cluster[2].log.last_index


def test_a_snapshot_brings_the_configuration() -> None:
    cluster = Cluster(4, voters=(1, 2, 3))
    cluster.elect(1)
    change(cluster, 1, members([1, 2], (4,)))
    cluster.cut(4)
    cluster.flow()
    last = cluster.propose(1).last_index
    cluster.flow()
    cluster.compact(1, last)
    cluster.heal()
    cluster.notice_all()
    cluster.tick(1, times=5)
    cluster.flow()
    assert cluster[4].log.start_index == last
    assert cluster[4].configuration == members([1, 2], (4,))
    cluster.crash(4)
    cluster.start(4)
    assert cluster[4].configuration == members([1, 2], (4,))


def test_a_second_change_is_refused_while_one_is_under_way() -> None:
    cluster = Cluster(4, voters=(1, 2, 3))
    cluster.elect(1)
    change(cluster, 1, members([1, 2, 4]))
    with pytest.raises(ConfigurationChangeRefused, match="under way"):
        change(cluster, 1, members([1, 2]))
    cluster.flow()
    change(cluster, 1, members([1, 2]))
    cluster.flow()
    assert cluster[1].configuration == members([1, 2])


@pytest.mark.parametrize(
    "target",
    [
        members([]),
        members([1, 1]),
        members([1, 2], (2,)),
        Configuration(voters=(NodeId(1),), voters_outgoing=(NodeId(2),)),
        members([1, 2**32]),
    ],
    ids=["nobody", "twice", "both", "joint", "out-of-range"],
)
def test_an_impossible_target_is_refused(target: Configuration) -> None:
    cluster = Cluster(2)
    cluster.elect(1)
    with pytest.raises(ConfigurationChangeRefused):
        change(cluster, 1, target)
    assert cluster[1].log.last_index == 1


def test_a_change_to_what_is_already_so_does_nothing() -> None:
    cluster = Cluster(2)
    cluster.elect(1)
    change(cluster, 1, members([1, 2]))
    assert cluster[1].log.last_index == 1


def test_only_the_leader_changes_the_members() -> None:
    cluster = Cluster(2)
    cluster.elect(1)
    with pytest.raises(NotLeader):
        change(cluster, 2, members([1]))


def test_a_new_leader_makes_the_learner_a_voter_that_is_to_be_one() -> None:
    """All live since before its election: nothing else happens that would make it look."""
    cluster = Cluster(3, voters=(1, 2), learners=(3,))
    cluster.notice_all()
    for node in (1, 2, 3):
        cluster[node].set_wanted_voters((NodeId(1), NodeId(2), NodeId(3)))
    cluster.elect(1)
    cluster.tick(1, times=20)
    cluster.flow()
    assert cluster[1].configuration == members([1, 2, 3])
    assert cluster.is_quiet(1)
