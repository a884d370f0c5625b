"""Who becomes leader, who must not, and when a leader gives up."""

from __future__ import annotations

from random import Random

import pytest

from kafkaesque.model.errors import NotLeader
from kafkaesque.model.ids import NodeId, Term
from kafkaesque.raft.config import RaftConfig
from kafkaesque.raft.entries import Proposal
from kafkaesque.raft.errors import RaftInvariantBroken, TransferRefused
from kafkaesque.raft.messages import (
    AppendRequest,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from kafkaesque.raft.ready import Role
from tests.unit.raft.harness import GROUP, Cluster


def test_a_group_of_one_elects_itself_and_commits_without_a_message() -> None:
    cluster = Cluster(1)
    cluster.elect(1)
    entry = cluster.propose(1, width=3)
    assert (entry.first_index, entry.last_index) == (2, 4)
    assert cluster[1].commit_index == 1
    cluster.sync(1)
    assert cluster[1].commit_index == 4
    assert not cluster.wire
    assert cluster.is_quiet(1)


def test_a_group_of_one_counts_its_own_vote_only_once_it_is_durable() -> None:
    cluster = Cluster(1)
    cluster[1].campaign()
    cluster.settle(1)
    assert cluster[1].role is Role.CANDIDATE
    cluster.crash(1)
    cluster.start(1)
    assert cluster[1].term == 0
    cluster.elect(1)
    assert cluster.leads(1)


def test_the_voter_whose_timer_runs_out_first_is_elected() -> None:
    numbers = iter([9, 0, 9])
    cluster = Cluster(3, jitter=lambda bound: next(numbers, bound - 1))
    cluster.tick(times=10)
    cluster.flow()
    assert [cluster.leads(node) for node in (1, 2, 3)] == [False, True, False]
    assert [cluster[node].leader for node in (1, 2, 3)] == [2, 2, 2]


def test_votes_are_asked_for_only_once_the_candidates_own_is_durable() -> None:
    cluster = Cluster(3)
    cluster[1].campaign()
    cluster.settle(1)
    while any(message.pre for message in cluster.on_wire(VoteRequest)):  # type: ignore[union-attr]
        cluster.deliver()
    while cluster.wire:
        cluster.deliver()
    assert cluster[1].role is Role.CANDIDATE
    assert not cluster.wire
    cluster.sync(1)
    assert len(cluster.on_wire(VoteRequest)) == 2


def test_a_vote_is_given_only_once_it_is_durable() -> None:
    cluster = Cluster(3)
    request = VoteRequest(GROUP, NodeId(1), NodeId(2), Term(5), 0, Term(0), False, False)
    for _ in range(2):  # asked twice, before the disk has answered
        cluster[2].step(request)
        cluster.settle(2)
        assert not cluster.wire
    cluster.sync(2)
    answers = cluster.on_wire(VoteResponse)
    assert answers
    assert all(answer.granted for answer in answers)  # type: ignore[union-attr]


def test_a_candidate_with_an_older_log_gets_no_vote() -> None:
    cluster = Cluster(3, start=False)
    cluster.given_log(1, 1, 1, 1, 1)
    cluster.given_log(2, 1, 2)
    cluster.given_log(3, 1, 2)
    cluster.start_all()
    cluster[1].campaign()  # a longer log, but its last term is older (§5.4.1)
    cluster.settle(1)
    cluster.flow()
    assert cluster.leader is None
    cluster.elect(2)
    assert cluster.log(1)[:2] == [(1, 1, "1.1"), (2, 2, "2.2")]


def test_a_split_vote_is_resolved_by_jitter() -> None:
    numbers = iter([0, 0, 9, 0, 0, 9])
    cluster = Cluster(3, jitter=lambda bound: next(numbers, 3))
    cluster.crash(3)
    cluster.tick(times=10)
    cluster.flow()
    for _ in range(40):
        cluster.tick(1)
        cluster.flow()
        if cluster.leader:
            break
        cluster.tick(2)
        cluster.flow()
    assert cluster.leader is not None


def test_pre_vote_a_node_that_was_cut_off_does_not_disrupt_on_return() -> None:
    cluster = Cluster(3)
    cluster.elect(1)
    cluster.cut(3)
    cluster.notice_all()
    cluster.tick(3, times=100)
    assert cluster[3].role is Role.PRE_CANDIDATE
    assert cluster[3].term == 1
    cluster.propose(1)
    cluster.flow()
    cluster.heal()
    cluster.notice_all()
    cluster.tick(3, times=100)
    cluster.flow()
    assert cluster.leader == 1
    assert [cluster[node].term for node in (1, 2, 3)] == [1, 1, 1]
    assert cluster[3].leader == 1
    assert cluster[3].commit_index == 2


def test_pre_vote_changes_nothing_at_the_voter() -> None:
    cluster = Cluster(3)
    cluster[2].step(VoteRequest(GROUP, NodeId(1), NodeId(2), Term(9), 0, Term(0), True, False))
    cluster.settle(2)
    [answer] = cluster.on_wire(VoteResponse)
    assert isinstance(answer, VoteResponse)
    assert (answer.granted, answer.term, cluster[2].term) == (True, 9, 0)
    assert not cluster.members[NodeId(2)].journal


def test_leader_lease_a_follower_that_hears_its_leader_ignores_votes_of_higher_terms() -> None:
    cluster = Cluster(3)
    cluster.elect(1)
    request = VoteRequest(GROUP, NodeId(3), NodeId(2), Term(9), 9, Term(9), False, False)
    cluster[2].step(request)
    cluster.settle(2)
    assert not cluster.on_wire(VoteResponse)
    assert cluster[2].term == 1
    cluster.flow()
    assert cluster[2].leader == 1
    assert cluster.is_quiet(2)


def test_a_follower_that_is_asked_for_votes_makes_its_leader_show_itself() -> None:
    cluster = Cluster(3, jitter=Random(1).randrange)
    cluster.elect(1)
    assert cluster.is_quiet(2)
    pre_vote = VoteRequest(GROUP, NodeId(3), NodeId(2), Term(2), 9, Term(1), True, False)
    cluster[2].step(pre_vote)
    cluster.settle(2)
    assert not cluster.is_quiet(2)
    cluster.cut(1)  # the answer does not come, though the leader's node is still held for alive
    cluster.flow()
    for _ in range(60):
        cluster.tick(2, 3)
        cluster.flow()
    assert cluster.leader in (2, 3)


def test_check_quorum_a_leader_without_a_majority_steps_down() -> None:
    cluster = Cluster(3)
    cluster.elect(1)
    cluster.cut(1)
    cluster.notice_all()
    assert not cluster.is_quiet(1)
    cluster.tick(1, times=9)
    assert cluster.leads(1)
    cluster.tick(1)
    assert not cluster.leads(1)
    with pytest.raises(NotLeader):
        cluster.propose(1)


def test_check_quorum_one_live_follower_of_two_is_enough() -> None:
    cluster = Cluster(3)
    cluster.elect(1)
    cluster.crash(3)
    cluster.notice_all()
    cluster.tick(times=200)
    cluster.flow()
    assert cluster.leader == 1
    assert cluster.is_quiet(1)


def without_leader() -> Cluster:
    """A group whose leader was killed, which the others know."""
    cluster = Cluster(3)
    cluster.elect(1)
    cluster.propose(1)
    cluster.flow()
    cluster.crash(1)
    cluster.notice_all()
    return cluster


def test_a_killed_leader_is_replaced_after_a_tick() -> None:
    cluster = without_leader()
    cluster.tick()
    # In group 7 it is this one's turn.
    assert {message.sender for message in cluster.wire} == {3}
    cluster.flow()
    assert cluster.leader == 3
    assert cluster[3].commit_index == 3


def test_the_next_in_line_leads_where_the_first_does_not_ask_for_votes() -> None:
    cluster = without_leader()
    cluster.tick(2, times=3)
    cluster.flow()
    assert cluster.leader is None
    cluster.tick(2)
    cluster.flow()
    assert cluster.leader == 2


def test_a_leader_that_restarts_before_anybody_times_out_is_not_taken_for_leader() -> None:
    cluster = Cluster(3)
    cluster.elect(1)
    cluster.crash(1)
    cluster.start(1)
    cluster.notice_all()
    assert not cluster.is_quiet(2)
    for _ in range(20):
        cluster.tick()
        cluster.flow()
    assert cluster.leader is not None
    assert all(cluster[node].leader == cluster.leader for node in (1, 2, 3))


def test_a_follower_that_restarts_in_quiet_learns_of_its_leader() -> None:
    cluster = Cluster(3)
    cluster.elect(1)
    cluster.propose(1)
    cluster.flow()
    cluster.tick(times=2)
    cluster.flow()
    assert all(cluster.is_quiet(node) for node in (1, 2, 3))
    cluster.crash(3)
    cluster.start(3)
    cluster.notice_all()
    cluster.flow()
    assert cluster[3].leader == 1
    assert cluster[3].commit_index == 2
    assert all(cluster.is_quiet(node) for node in (1, 2, 3))


def test_a_follower_whose_leader_asks_for_votes_forgets_it() -> None:
    cluster = Cluster(3)
    cluster.elect(1)
    cluster[2].step(VoteRequest(GROUP, NodeId(1), NodeId(2), Term(2), 1, Term(1), True, False))
    cluster.settle(2)
    assert cluster[2].leader is None
    [answer] = cluster.on_wire(VoteResponse)
    assert isinstance(answer, VoteResponse)
    assert answer.granted


def test_two_leaders_in_one_term_are_reported() -> None:
    cluster = Cluster(3)
    cluster.elect(1)
    append = AppendRequest(GROUP, NodeId(3), NodeId(2), Term(1), 0, Term(0), 0, (), ())
    with pytest.raises(RaftInvariantBroken, match="nodes 1 and 3 both lead in term 1"):
        cluster[2].step(append)
    with pytest.raises(RaftInvariantBroken, match="both lead"):
        cluster[1].step(AppendRequest(GROUP, NodeId(3), NodeId(1), Term(1), 0, Term(0), 0, (), ()))


def test_an_old_leader_learns_of_the_new_term_from_a_rejected_append() -> None:
    cluster = Cluster(3)
    cluster.elect(1)
    cluster.cut(1)
    cluster.tick(2, times=1)
    cluster[2].on_peer_lost(NodeId(1))
    cluster[3].on_peer_lost(NodeId(1))
    cluster.elect(2)
    assert cluster.leads(1)
    cluster.heal()
    cluster.propose(1)
    cluster.flow()
    assert cluster.leader == 2
    assert not cluster.leads(1)
    assert cluster[1].term == cluster[2].term


# --- leadership transfer -----------------------------------------------------------------------


def test_transfer_waits_until_the_target_has_the_whole_log() -> None:
    cluster = Cluster(3)
    cluster.elect(1)
    cluster.propose(1)
    cluster[1].transfer_leadership(NodeId(2))
    cluster.settle(1)
    assert not cluster.on_wire(TimeoutNow)
    with pytest.raises(NotLeader):
        cluster.propose(1)
    cluster.flow()
    assert cluster.leader == 2
    assert cluster[2].term == 2
    assert cluster[1].leader == 2
    assert cluster[2].commit_index == 3


def test_transfer_needs_no_timeout_although_everybody_hears_the_leader() -> None:
    cluster = Cluster(5)
    cluster.elect(1)
    cluster[1].transfer_leadership(NodeId(4))
    cluster.settle(1)
    cluster.flow()
    assert cluster.leader == 4


def test_transfer_is_given_up_after_an_election_timeout() -> None:
    cluster = Cluster(3)
    cluster.elect(1)
    cluster.propose(1)
    cluster[1].transfer_leadership(NodeId(2))
    cluster.cut(2)  # silently
    cluster.flow()
    assert not cluster.is_quiet(1)
    cluster.tick(1, times=10)
    assert cluster.leader == 1
    cluster.propose(1)
    cluster.flow()
    assert cluster[1].commit_index == 3


@pytest.mark.parametrize("target", [3, 4], ids=["dead", "learner"])
def test_transfer_to_one_that_cannot_lead_is_refused(target: int) -> None:
    cluster = Cluster(4, voters=(1, 2, 3), learners=(4,))
    cluster.elect(1)
    cluster.crash(3)
    cluster.notice_all()
    with pytest.raises(TransferRefused):
        cluster[1].transfer_leadership(NodeId(target))
    cluster.propose(1)


def test_a_second_transfer_is_refused_while_one_is_under_way() -> None:
    cluster = Cluster(3)
    cluster.elect(1)
    cluster.propose(1)
    cluster[1].transfer_leadership(NodeId(2))
    with pytest.raises(TransferRefused, match="already"):
        cluster[1].transfer_leadership(NodeId(3))


def test_only_the_leader_transfers() -> None:
    cluster = Cluster(3)
    cluster.elect(1)
    with pytest.raises(NotLeader) as caught:
        cluster[2].transfer_leadership(NodeId(3))
    assert caught.value.leader == 1
    with pytest.raises(NotLeader):
        cluster[2].propose([Proposal(1, 0, b"")])


def test_a_leader_that_resigns_is_replaced_at_once() -> None:
    cluster = Cluster(3)
    cluster.elect(1)
    cluster.propose(1)
    cluster.flow()
    cluster[1].resign()
    cluster.settle(1)
    assert not cluster.leads(1)
    cluster.flow()
    assert cluster.leader in (2, 3)


def test_a_node_may_be_asked_to_campaign_at_creation() -> None:
    cluster = Cluster(3, config=RaftConfig(election_ticks=1000))
    cluster.elect(3)
    assert cluster.leader == 3
    cluster[1].campaign()  # in vain: everybody hears the leader
    cluster.settle(1)
    cluster.flow()
    assert cluster.leader == 3
    assert cluster[1].leader == 3
