"""A member that has lost its disk has no say, until the group has re-admitted it."""

from __future__ import annotations

import pytest

from kafkaesque.model.ids import NodeId, Term
from kafkaesque.raft.config import RaftConfig
from kafkaesque.raft.errors import TransferRefused
from kafkaesque.raft.messages import Readmit, TimeoutNow, VoteRequest, VoteResponse
from kafkaesque.raft.ready import Role
from tests.unit.raft.harness import GROUP, Cluster

FEW_TICKS = RaftConfig(election_ticks=4, retry_ticks=2)


def lost_by_two_of_three(*, wanted: tuple[int, ...] = (1, 2, 3)) -> Cluster:
    """Commit an entry on 1 and 2 that 3 lacks; then 1 and 2 die, and 2 loses its disk."""
    cluster = Cluster(3, config=FEW_TICKS, wanted=wanted)
    cluster.elect(1)
    cluster.flow()
    cluster.crash(3)
    cluster.notice_all()
    cluster.propose(1)
    cluster.flow()
    assert cluster[1].commit_index == 2
    cluster.crash(1)
    cluster.lose_disk(2)
    cluster.start(2)
    cluster.start(3)
    cluster.notice_all()
    return cluster


def test_an_empty_disk_and_an_old_log_elect_nobody() -> None:
    cluster = lost_by_two_of_three()
    for _ in range(30):
        cluster.tick()
        cluster.flow()
    assert cluster.leader is None
    assert cluster[2].role is Role.FOLLOWER
    assert cluster[2].is_quiet


def test_when_the_other_returns_nothing_is_lost_and_the_empty_one_votes_again() -> None:
    cluster = lost_by_two_of_three()
    cluster.start(1)
    cluster.notice_all()
    for _ in range(30):
        cluster.tick()
        cluster.flow()
    assert cluster.leader == 1
    assert cluster.log(2) == cluster.log(3) == cluster.log(1)
    assert (2, 1, "1") in cluster.log(2)
    assert cluster[2].amnesia == 0
    assert sorted(cluster[1].configuration.voters) == [1, 2, 3]
    assert sorted(cluster[1].in_sync) == [1, 2, 3]
    assert cluster[1].is_quiet
    cluster.crash(1)
    cluster.notice_all()
    cluster.elect(2)


def test_who_is_not_wanted_as_a_voter_stays_a_learner() -> None:
    cluster = lost_by_two_of_three(wanted=())
    cluster.start(1)
    cluster.notice_all()
    for _ in range(30):
        cluster.tick()
        cluster.flow()
    assert cluster[1].configuration.voters == (1, 3)
    assert cluster[1].configuration.learners == (2,)
    assert cluster[2].amnesia == 0


def test_it_grants_neither_votes_nor_pre_votes_and_does_not_take_over() -> None:
    cluster = lost_by_two_of_three()
    for pre in (True, False):
        request = VoteRequest(GROUP, NodeId(3), NodeId(2), Term(9), 50, Term(8), pre, False)
        cluster[2].step(request)
        cluster.settle(2)
        cluster.sync(2)
        answer = cluster.on_wire(VoteResponse)[-1]
        assert isinstance(answer, VoteResponse)
        assert not answer.granted
    assert cluster[2].term == 9, "it does not hold up those that can vote"
    cluster[2].step(TimeoutNow(GROUP, NodeId(3), NodeId(2), Term(9)))
    cluster[2].campaign()
    cluster.settle(2)
    assert cluster[2].role is Role.FOLLOWER


def lost_under_a_leader() -> Cluster:
    """Let 1 lead, 3 be cut off, and 2 come back with an empty disk."""
    cluster = Cluster(3, config=FEW_TICKS, wanted=(1, 2, 3))
    cluster.elect(1)
    cluster.propose(1)
    cluster.flow()
    cluster.cut(3)
    cluster.lose_disk(2)
    cluster.notice_all()
    cluster.start(2)
    cluster.notice_all()
    return cluster


def test_it_counts_neither_for_a_commit_nor_as_alive_nor_as_in_sync() -> None:
    cluster = lost_under_a_leader()
    cluster.flow()
    committed = cluster[1].commit_index
    cluster.propose(1)
    cluster.flow()
    assert cluster.log(2) == cluster.log(1), "it gets the log"
    assert cluster[1].commit_index == committed
    assert cluster[1].in_sync == (1,)
    assert cluster[2].amnesia
    with pytest.raises(TransferRefused):
        cluster[1].transfer_leadership(NodeId(2))
    cluster.tick(1, times=5)
    assert not cluster.leads(1), "it has no live quorum"


def test_a_restart_does_not_end_it() -> None:
    cluster = lost_under_a_leader()
    cluster.flow()
    cluster.sync(2)
    cluster.crash(2)
    cluster.notice_all()
    cluster.start(2)
    assert cluster[2].log.last_index > 0
    assert cluster[2].amnesia == 1


def test_an_earlier_readmission_does_not_count_for_a_later_loss() -> None:
    cluster = lost_by_two_of_three()
    cluster.start(1)
    cluster.notice_all()
    cluster.tick(times=10)
    cluster.flow()
    cluster.tick(times=10)
    cluster.flow()
    assert cluster[2].amnesia == 0
    index = cluster[1].commit_index
    cluster.lose_disk(2)
    cluster.notice_all()
    cluster.start(2)
    leader = cluster[1].term
    cluster[2].step(Readmit(GROUP, NodeId(1), NodeId(2), leader, 1, 0))
    assert cluster[2].amnesia == 2, "another loss"
    cluster[2].step(Readmit(GROUP, NodeId(1), NodeId(2), leader, 2, index))
    assert cluster[2].amnesia == 2, "its log is not there yet"
    cluster.settle(2)
    # A log that tells of its demotion after the first loss says nothing of the second one.
    cluster.notice_all()
    while cluster[2].log.last_index < index:
        for node in (1, 2):
            cluster.sync(node)
        cluster.deliver()
    assert cluster[2].amnesia == 2


def test_a_learner_too_is_readmitted_only_by_an_entry_after_its_loss() -> None:
    cluster = Cluster(4, voters=(1, 2, 3), learners=(4,), config=FEW_TICKS)
    cluster.elect(1)
    cluster.flow()
    cluster.lose_disk(4)
    cluster.notice_all()
    before = cluster[1].log.last_index
    cluster.start(4)
    cluster.notice_all()
    cluster.tick(times=3)
    cluster.flow()
    assert cluster[4].amnesia == 0
    assert cluster[1].log.last_index == before + 1, "an entry that proves that the leader leads"
    # One that cannot commit anything any more readmits nobody.
    cluster.lose_disk(4)
    cluster.notice_all()
    cluster.cut(1, 4)
    cluster.start(4)
    cluster.notice_all()
    cluster.tick(1, times=2)
    cluster.flow()
    assert cluster[4].amnesia == 2


def test_a_majority_that_has_lost_its_disks_is_not_left_out() -> None:
    cluster = Cluster(3, config=FEW_TICKS, wanted=(1, 2, 3))
    cluster.elect(1)
    cluster.flow()
    for node in (2, 3):
        cluster.lose_disk(node)
        cluster.start(node)
    cluster.notice_all()
    for _ in range(20):
        cluster.tick()
        cluster.flow()
    assert cluster.leader is None
    assert cluster[2].amnesia
    assert cluster[3].amnesia


def test_min_insync_of_all_does_not_prevent_the_readmission() -> None:
    cluster = Cluster(3, config=FEW_TICKS, wanted=(1, 2, 3))
    for node, member in cluster.members.items():
        member.min_insync = 3
        cluster[node].set_min_insync(3)
    cluster.elect(1)
    cluster.flow()
    cluster.lose_disk(2)
    cluster.notice_all()
    cluster.start(2)
    cluster.notice_all()
    for _ in range(10):
        cluster.tick()
        cluster.flow()
    assert cluster[2].amnesia == 0
    assert sorted(cluster[1].configuration.voters) == [1, 2, 3]


def test_it_is_readmitted_by_a_snapshot_too() -> None:
    cluster = Cluster(3, config=FEW_TICKS, wanted=(1, 2, 3))
    cluster.elect(1)
    for _ in range(3):
        cluster.propose(1)
    cluster.flow()
    cluster.compact(1, 3)
    cluster.sync(1)
    cluster.lose_disk(2)
    cluster.notice_all()
    cluster.start(2)
    cluster.notice_all()
    for _ in range(10):
        cluster.tick()
        cluster.flow()
    assert cluster[2].amnesia == 0
    assert cluster[2].log.last_index == cluster[1].log.last_index
    assert sorted(cluster[1].configuration.voters) == [1, 2, 3]
