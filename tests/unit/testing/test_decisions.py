"""What brokers count and tell of their decisions, when something happens to them."""

from collections.abc import Callable

from kafkaesque.broker.activity import Activity
from kafkaesque.broker.replication.decisions import Decisions, committed_lost
from kafkaesque.model.ids import NodeId
from kafkaesque.model.log_line import LogLine
from kafkaesque.raft.ready import Role
from kafkaesque.testing import SimulatedCluster


def told(cluster: SimulatedCluster, words: str) -> list[str]:
    return [line for line in cluster.history() if words in line]


def total(cluster: SimulatedCluster, count: Callable[[Activity], int]) -> int:
    return sum(count(broker.activity) for broker in cluster._cluster.running())


def test_a_broker_that_goes_and_comes_is_told_by_those_who_decide() -> None:
    cluster = SimulatedCluster(4)
    cluster.create_topic("t")
    cluster.produce("t", b"before")
    leader = cluster.leader("t") or 1
    follower = next(each for each in (1, 2, 3) if each != leader)
    shrinks = total(cluster, lambda each: each.in_sync_shrinks)
    cluster.kill(follower)
    cluster.produce("t", b"meanwhile")
    cluster.run_for(60_000)
    assert told(cluster, f"t-0: broker {follower} is out of sync")
    assert told(cluster, f"has lost contact with broker {follower}")
    assert total(cluster, lambda each: each.in_sync_shrinks) > shrinks
    expands = total(cluster, lambda each: each.in_sync_expands)
    cluster.start(follower)
    cluster.wait_until_whole()
    cluster.run_for(10_000)
    assert told(cluster, f"t-0: broker {follower} is in sync")
    assert total(cluster, lambda each: each.in_sync_expands) > expands


def test_an_election_is_told_by_who_wins_it_and_counted() -> None:
    cluster = SimulatedCluster(4)
    cluster.create_topic("t")
    won = total(cluster, lambda each: each.elections_won)
    leader = cluster.leader("t") or 1
    cluster.pause(leader)
    cluster.produce("t", b"meanwhile")
    assert cluster.leader("t") != leader
    cluster.resume(leader)
    cluster.run_for(5_000)
    assert len(told(cluster, "t-0: this broker leads in term")) == 2
    assert told(cluster, "t-0: this broker no longer leads")
    assert total(cluster, lambda each: each.elections_won) > won
    assert total(cluster, lambda each: each.leaderships_lost) > 0


def test_each_decision_has_its_event_and_fields() -> None:
    lines: list[str] = []
    activity = Activity()
    decisions = Decisions(activity, lines.append)
    nodes = [NodeId(number) for number in (1, 2, 3)]
    decisions.on_in_sync("t-0", 5, nodes, nodes[:1], 3)
    decisions.on_in_sync("t-0", 5, [], nodes, 3)  # a term's first word is no change
    decisions.on_role("t-0", Role.CANDIDATE, 6, was_leading=False, leader=None)
    decisions.on_role("t-0", Role.FOLLOWER, 7, was_leading=True, leader=nodes[1])
    decisions.on_truncated("t-0", 7, 4711)
    decisions.on_readmitted("t-0", 7, may_vote=True)
    decisions.on_readmitted("t-0", 7, may_vote=False)
    assert activity.in_sync_shrinks == 2
    assert activity.in_sync_expands == 0
    assert (activity.elections_begun, activity.leaderships_lost, activity.truncations) == (1, 1, 1)
    events = [(each.event, each.fields) for each in lines if isinstance(each, LogLine)]
    assert events == [
        ("isr.shrunk", {"partition": "t-0", "term": 5, "in_sync": "1"}),
        ("isr.shrunk", {"partition": "t-0", "term": 5, "in_sync": "1"}),
        ("leadership.lost", {"partition": "t-0", "term": 7, "leader": 2}),
        ("log.truncated", {"partition": "t-0", "term": 7, "offset": 4711}),
        *[("replica.readmitted", {"partition": "t-0", "term": 7})] * 2,
    ]
    assert ["vote" in each for each in lines[-2:]] == [True, False]
    lost = committed_lost("t-0", 7, 4711, 12)
    assert lost.event == "records.lost"
    assert lost.fields == {"partition": "t-0", "term": 7, "offset": 4711, "count": 12}
