"""A leader that was deposed and does not know it is not believed."""

from __future__ import annotations

import pytest

from kafkaesque.model.errors import NotLeader
from kafkaesque.model.ids import NodeId
from tests.unit.raft.harness import Cluster


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
