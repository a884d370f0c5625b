"""A leader that was deposed and does not know it is not believed."""

from __future__ import annotations

import pytest

from kafkaesque.model.errors import NotLeader
from kafkaesque.model.ids import NodeId
from kafkaesque.raft.messages import AppendRequest, AppendResponse, ConfirmRequest
from tests.unit.raft.harness import GROUP, Cluster


def make_cluster(nodes: int = 3) -> Cluster:
    """Return a quiet cluster that node 1 leads."""
    cluster = Cluster(nodes)
    cluster.elect(1)
    cluster.propose(1)
    cluster.flow()
    cluster.tick()
    cluster.flow()
    return cluster


def confirmed(cluster: Cluster, node: int) -> int:
    """Return the newest round in which a leader was confirmed."""
    return cluster.members[NodeId(node)].confirmed_round


def is_quiet(cluster: Cluster, node: int) -> bool:
    return cluster[node].is_quiet


def test_a_leader_is_confirmed_when_a_majority_has_answered() -> None:
    cluster = make_cluster()
    assert is_quiet(cluster, 1)
    number = cluster.confirm(1)
    assert confirmed(cluster, 1) < number
    assert not is_quiet(cluster, 1)
    cluster.flow()
    assert confirmed(cluster, 1) == number
    assert is_quiet(cluster, 1)


def test_one_alone_is_confirmed_at_once() -> None:
    cluster = make_cluster(1)
    number = cluster.confirm(1)
    assert confirmed(cluster, 1) == number


def test_who_does_not_lead_is_told_so() -> None:
    cluster = make_cluster()
    with pytest.raises(NotLeader):
        cluster[2].confirm()


def test_those_who_ask_within_a_turn_share_a_round() -> None:
    cluster = make_cluster()
    assert cluster[1].confirm() == cluster[1].confirm()
    number = cluster.confirm(1)  # sent now
    assert cluster[1].confirm() == number + 1


def test_an_answer_that_was_lost_is_asked_for_again() -> None:
    cluster = make_cluster()
    number = cluster.confirm(1)
    cluster.wire.clear()
    cluster.tick(1, times=cluster.config.retry_ticks)
    cluster.flow()
    assert confirmed(cluster, 1) == number


def test_a_deposed_leader_is_never_confirmed_and_learns_of_it() -> None:
    """It hears the others as alive, and nothing of what they say in this group."""
    cluster = make_cluster()
    cluster.cuts = {(NodeId(2), NodeId(1)), (NodeId(3), NodeId(1))}
    for node in (2, 3):
        cluster[node].on_peer_lost(NodeId(1))
    cluster[2].campaign()
    cluster.settle(2)
    cluster.flow()
    assert cluster[2].is_leader
    assert cluster[1].is_leader
    number = cluster.confirm(1)
    cluster.flow()
    assert confirmed(cluster, 1) < number
    cluster.heal()
    cluster.tick(1, times=cluster.config.retry_ticks)
    cluster.flow()
    assert confirmed(cluster, 1) < number
    assert not cluster[1].is_leader


def test_who_has_lost_its_disk_confirms_nothing() -> None:
    cluster = make_cluster()
    cluster.cut(3)
    cluster.notice_all()
    cluster.lose_disk(2)
    cluster.notice_all()
    cluster.start(2)
    cluster.notice_all()
    cluster.wire.clear()  # so that 1 has not heard of it
    number = cluster.confirm(1)
    cluster.flow()
    assert confirmed(cluster, 1) < number


def test_a_leader_is_not_harmed_by_refusals_of_what_it_sent_when_it_led_before() -> None:
    """They come late, in its new term, and while it does not know yet where a log agrees."""
    cluster = make_cluster()
    old_term = cluster[1].term
    for leader, successor in ((1, 2), (2, 1)):
        cluster[leader].transfer_leadership(NodeId(successor))
        cluster.settle(leader)
        cluster.flow()
    term = cluster[1].term
    assert cluster[1].is_leader
    assert term > old_term
    end = cluster[1].log.last_index
    cluster[1].on_peer_lost(NodeId(3))
    cluster[1].on_peer_seen(NodeId(3))  # it is asked where its log agrees
    head = (GROUP, NodeId(1), NodeId(3), old_term)
    cluster[3].step(AppendRequest(*head, end, old_term, 0, (), ()))
    cluster[3].step(ConfirmRequest(*head, 1))
    cluster.settle(3)
    answers = [each for each in cluster.wire if isinstance(each, AppendResponse)]
    assert [(each.rejected, each.term) for each in answers] == [(True, term)] * 2
    cluster.flow()
    cluster.propose(1)
    cluster.flow()
    assert cluster.log(3) == cluster.log(1)
