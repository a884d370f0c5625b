"""Who is reported as in sync: never more than is known, and nobody is refused for want of it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kafkaesque.model.ids import NodeId, Term
from kafkaesque.raft.config import RaftConfig
from kafkaesque.raft.errors import TransferRefused
from kafkaesque.raft.messages import AppendRequest, NotHere, TimeoutNow
from tests.unit.raft.harness import GROUP, Cluster

LAG_TICKS = 10
STEPS_MAX = 100


def make_cluster() -> Cluster:
    """Return three members that node 1 leads, in sync, with something in their logs."""
    cluster = Cluster(3, config=RaftConfig(in_sync_lag_ticks=LAG_TICKS))
    cluster.elect(1)
    cluster.propose(1)
    cluster.flow()
    cluster.tick(1)
    cluster.flow()
    return cluster


def tell(cluster: Cluster, term: int, in_sync: Sequence[int], *observers: int) -> None:
    for observer in observers:
        cluster[observer].on_in_sync_told(Term(term), [NodeId(node) for node in in_sync])


def say_not_here(cluster: Cluster, leader: int, node: int) -> None:
    """Let a node answer as a broker does that cannot open the group."""
    core = cluster[leader]
    core.step(NotHere(GROUP, NodeId(node), NodeId(leader), core.term))
    cluster.settle(leader)


def win(cluster: Cluster, node: int) -> None:
    """Let a node win an election, and stop before anybody has answered its first append."""
    core = cluster[node]
    if core.leader is None:
        core.campaign()
    else:  # nobody would leave a leader that lives, unless it asks for that
        core.step(TimeoutNow(GROUP, core.leader, NodeId(node), core.term))
    cluster.settle(node)
    for _ in range(STEPS_MAX):
        if cluster[node].is_leader:
            return
        for member in cluster.members.values():
            if member.core is not None and not cluster[node].is_leader:
                cluster.sync(member.node)
        if cluster.wire and not cluster[node].is_leader:
            cluster.deliver()
    raise AssertionError(f"node {node} was not elected")


def test_all_that_live_are_in_sync_with_a_log_in_which_nothing_ever_was() -> None:
    cluster = Cluster(3)
    win(cluster, 1)
    assert list(cluster[1].in_sync) == [1, 2, 3]


def test_a_term_begins_with_those_that_the_last_leader_told_and_that_still_live() -> None:
    cluster = make_cluster()
    tell(cluster, 1, [1, 2, 3], 2, 3)
    cluster.crash(1)
    cluster.notice_all()
    win(cluster, 2)
    assert list(cluster[2].in_sync) == [2, 3]


def test_a_living_node_that_the_last_leader_did_not_tell_is_not_in_sync_until_it_answers() -> None:
    cluster = make_cluster()
    tell(cluster, 1, [1, 2], 2)
    win(cluster, 2)
    assert list(cluster[2].in_sync) == [1, 2]
    assert cluster[2].in_sync_expected == 3, "nobody is refused while it may still answer"
    cluster.flow()
    assert list(cluster[2].in_sync) == [1, 2, 3]


def test_without_a_word_from_the_last_leader_only_answers_count() -> None:
    cluster = make_cluster()
    win(cluster, 2)
    assert list(cluster[2].in_sync) == [2]
    assert cluster[2].in_sync_expected == 3
    cluster.flow()
    assert list(cluster[2].in_sync) == [1, 2, 3]


def test_what_a_leader_told_counts_no_more_after_entries_of_a_later_one() -> None:
    cluster = make_cluster()
    tell(cluster, 1, [1, 2, 3], 3)
    win(cluster, 2)
    cluster.flow()
    assert cluster[3].log.last_term > 1
    win(cluster, 3)
    assert list(cluster[3].in_sync) == [3]


def test_an_older_word_does_not_replace_a_newer_one() -> None:
    cluster = make_cluster()
    tell(cluster, 5, [2, 3], 2)
    tell(cluster, 1, [1, 2, 3], 2)
    win(cluster, 2)
    assert list(cluster[2].in_sync) == [2, 3]


def test_who_was_lost_since_it_was_told_has_to_answer() -> None:
    cluster = make_cluster()
    tell(cluster, 1, [1, 2, 3], 2)
    cluster.crash(3)
    cluster.notice_all()
    cluster.start(3)
    cluster.notice_all()
    win(cluster, 2)
    assert list(cluster[2].in_sync) == [1, 2]


def test_a_leader_that_leads_again_knows_what_it_knew() -> None:
    cluster = make_cluster()
    cluster.cut(3)
    cluster.propose(1)
    cluster.flow()
    cluster.tick(1, times=LAG_TICKS + 1)
    assert list(cluster[1].in_sync) == [1, 2]
    cluster[1].resign()
    cluster.settle(1)
    cluster.wire.clear()
    win(cluster, 1)
    assert list(cluster[1].in_sync) == [1, 2]


def test_a_node_that_comes_back_is_in_sync_when_it_answers_and_not_before() -> None:
    """Nothing is written meanwhile: what it once acknowledged does not prove that it has it."""
    cluster = make_cluster()
    cluster.crash(3)
    cluster.notice_all()
    cluster.start(3)
    cluster.notice_all()
    cluster.wire.clear()
    cluster.tick(1, times=2)
    assert list(cluster[1].in_sync) == [1, 2]
    cluster.tick(1, times=5)
    cluster.flow()
    assert list(cluster[1].in_sync) == [1, 2, 3]


def test_who_says_that_the_group_is_not_there_is_offline_at_once_and_asked_again() -> None:
    cluster = make_cluster()
    say_not_here(cluster, 1, 3)
    assert list(cluster[1].in_sync) == [1, 2]
    assert list(cluster[1].offline) == [3]
    assert cluster[1].in_sync_expected == 2
    assert list(cluster[2].offline) == []
    assert not cluster.is_quiet(1)
    for _ in range(3):
        cluster.tick(1, times=5)
        assert cluster.on_wire(AppendRequest)
        cluster.wire.clear()
        say_not_here(cluster, 1, 3)
        assert list(cluster[1].in_sync) == [1, 2]
    cluster.tick(1, times=5)
    cluster.flow()  # it is there again
    assert list(cluster[1].in_sync) == [1, 2, 3]
    assert list(cluster[1].offline) == []


def test_an_offline_node_that_is_lost_is_no_longer_the_leaders_to_report() -> None:
    cluster = make_cluster()
    say_not_here(cluster, 1, 3)
    cluster.crash(3)
    cluster.notice_all()
    assert list(cluster[1].offline) == []
    say_not_here(cluster, 1, 3)  # late
    assert list(cluster[1].offline) == []


def test_leadership_is_not_handed_to_a_node_where_the_group_is_not() -> None:
    cluster = make_cluster()
    say_not_here(cluster, 1, 2)
    with pytest.raises(TransferRefused):
        cluster[1].transfer_leadership(NodeId(2))
    cluster[1].resign()
    cluster.settle(1)
    cluster.flow()
    assert cluster.leads(3)


def test_each_change_of_who_is_offline_is_announced() -> None:
    cluster = make_cluster()
    core = cluster[1]
    core.step(NotHere(GROUP, NodeId(3), NodeId(1), core.term))
    ready = core.take_ready()
    assert ready is not None
    assert ready.in_sync == (1, 2)
    core.step(NotHere(GROUP, NodeId(3), NodeId(1), core.term))
    assert core.take_ready() is None
    core.step(NotHere(GROUP, NodeId(9), NodeId(1), core.term))
    assert core.take_ready() is None


def test_only_early_in_a_term_is_hope_enough() -> None:
    cluster = make_cluster()
    win(cluster, 2)
    cluster.cut(1, 3)  # silently
    cluster.tick(2, times=LAG_TICKS)
    assert cluster[2].in_sync_expected == 3
    cluster.tick(2)
    assert cluster[2].in_sync_expected == 1


def test_a_member_without_room_takes_no_records_and_nobody_waits_for_it() -> None:
    cluster = make_cluster()
    last_index = cluster[3].log.last_index
    cluster.full.add(NodeId(3))
    for _ in range(3):
        cluster.propose(1, size_bytes=100)
        cluster.flow()
    assert list(cluster[1].in_sync) == [1, 2]
    assert list(cluster[1].offline) == [3]
    assert cluster[1].commit_index == cluster[1].log.last_index
    assert cluster[3].log.last_index == last_index
    # It is asked again without the records, and does not come and go by that.
    for _ in range(3):
        cluster.tick(1, times=cluster.config.retry_ticks)
        assert not any(isinstance(m, AppendRequest) and m.entries for m in cluster.wire)
        cluster.flow()
        assert list(cluster[1].offline) == [3]
    cluster.full.clear()
    cluster.tick(1, times=cluster.config.retry_ticks)
    cluster.flow()
    assert list(cluster[1].offline) == []
    assert list(cluster[1].in_sync) == [1, 2, 3]
    assert cluster[3].log.last_index == cluster[1].log.last_index


def test_a_member_without_room_that_has_everything_takes_part() -> None:
    cluster = make_cluster()
    cluster.full.add(NodeId(3))
    win(cluster, 2)  # its term begins with a mark
    cluster.flow()
    cluster.tick(2, times=2)
    cluster.flow()
    assert list(cluster[2].in_sync) == [1, 2, 3]
    assert list(cluster[2].offline) == []
    assert cluster[3].commit_index == cluster[2].commit_index == cluster[2].log.last_index
    cluster.crash(3)
    cluster.notice_all()
    cluster.start(3)
    cluster.notice_all()
    cluster.flow()
    cluster.tick(2, times=2)
    cluster.flow()
    assert list(cluster[2].in_sync) == [1, 2, 3]
    assert cluster[3].commit_index == cluster[2].commit_index


def test_a_member_without_room_learns_what_is_committed_of_what_it_has() -> None:
    cluster = make_cluster()
    cluster.propose(1, size_bytes=100)
    cluster.flow()
    cluster.crash(3)  # before it was told that this is committed
    cluster.start(3)
    last_index = cluster[3].log.last_index
    cluster.full.add(NodeId(3))
    cluster.propose(1, size_bytes=100)
    cluster.notice_all()
    cluster.flow()
    assert list(cluster[1].offline) == [3]
    assert cluster[3].log.last_index == last_index
    assert cluster[3].commit_index == last_index
