"""A group that has lost its quorum is recovered with the members that are left (ADR 16)."""

from __future__ import annotations

from kafkaesque.model.ids import NodeId
from kafkaesque.raft.configuration import Configuration
from kafkaesque.raft.formation import first_term, formation_of
from tests.unit.raft.arbiter import Arbiter
from tests.unit.raft.harness import Cluster


def recover(cluster: Cluster, arbiter: Arbiter, *nodes: int) -> None:
    """Let these members go through a whole recovery."""
    arbiter.begin()
    for node in nodes:
        arbiter.follow(node)
        cluster.sync(node)
        arbiter.tell(node)
    assert arbiter.decide()
    for node in nodes:
        arbiter.follow(node)
    cluster.flow()


def pass_time(cluster: Cluster, ticks: int = 20) -> None:
    """Let everybody go on without faults."""
    for _ in range(ticks):
        cluster.flow()
        cluster.tick()
    cluster.flow()


def test_of_two_replicas_the_one_that_is_left_goes_on_and_takes_the_other_in_again() -> None:
    cluster = Cluster(2, wanted=(1, 2))
    cluster.elect(1)
    entry = cluster.propose(1)
    cluster.flow()
    cluster.crash(1)
    cluster.notice_all()
    arbiter = Arbiter(cluster)

    recover(cluster, arbiter, 2)

    assert cluster[2].is_leader
    assert cluster[2].configuration.voters == (2,)
    assert formation_of(cluster[2].term) == 1
    cluster.propose(2)
    cluster.flow()
    assert cluster[2].commit_index == cluster[2].log.last_index > entry.last_index

    cluster.start(1)
    arbiter.follow(1)
    arbiter.follow(1)
    cluster.notice_all()
    pass_time(cluster)
    assert sorted(cluster[2].configuration.voters) == [1, 2]
    assert cluster[1].log.last_index == cluster[2].log.last_index


def test_what_the_old_leader_appended_alone_is_cut_off_when_it_returns() -> None:
    cluster = Cluster(4, wanted=(1, 2, 3, 4))
    cluster.elect(1)
    cluster.propose(1)
    cluster.flow()
    cluster.cut(1, 2)
    cluster.notice_all()
    lost = [cluster.propose(1) for _ in range(3)]
    cluster.flow()
    assert cluster[1].commit_index < lost[0].last_index
    arbiter = Arbiter(cluster)

    recover(cluster, arbiter, 3, 4)
    leader = cluster.leader
    assert leader in (3, 4)
    kept = cluster.propose(leader)
    cluster.flow()
    assert cluster[leader].commit_index == kept.last_index

    cluster.heal()
    for node in (1, 2):
        arbiter.follow(node)
        arbiter.follow(node)
    cluster.notice_all()
    pass_time(cluster)
    assert sorted(cluster[leader].configuration.voters) == [1, 2, 3, 4]
    assert {cluster[node].log.last_index for node in (1, 2, 3, 4)} == {
        cluster[leader].log.last_index
    }


def test_who_has_entered_a_formation_serves_no_earlier_one_even_after_a_restart() -> None:
    cluster = Cluster(2)
    cluster.elect(1)
    arbiter = Arbiter(cluster)
    arbiter.begin()
    arbiter.follow(2)
    assert not arbiter.has_news(2)  # not durable yet
    cluster.sync(2)
    assert arbiter.has_news(2)
    cluster.crash(2)
    cluster.start(2)
    assert cluster[2].term == first_term(1)
    entry = cluster.propose(1)
    cluster.notice_all()
    cluster.flow()
    assert cluster[1].commit_index < entry.last_index
    assert not cluster[1].is_leader


def test_nobody_stands_for_election_in_a_formation_that_is_not_founded() -> None:
    cluster = Cluster(3)
    cluster.elect(1)
    arbiter = Arbiter(cluster)
    arbiter.begin()
    for node in (1, 2, 3):
        arbiter.follow(node)
    pass_time(cluster, 50)
    assert cluster.leader is None
    assert all(cluster[node].is_quiet for node in (1, 2, 3))


def test_who_has_founded_a_formation_may_not_found_the_next_one_by_the_same_word() -> None:
    cluster = Cluster(2, wanted=(1, 2))
    cluster.elect(1)
    cluster.crash(1)
    cluster.notice_all()
    arbiter = Arbiter(cluster)
    recover(cluster, arbiter, 2)
    cluster.start(1)
    arbiter.follow(1)
    arbiter.follow(1)
    cluster.notice_all()
    pass_time(cluster)
    assert sorted(cluster[2].configuration.voters) == [1, 2]
    arbiter.begin()
    arbiter.follow(2)
    pass_time(cluster, 50)
    # Its own vote was enough the first time.
    assert not cluster[2].is_leader
    assert cluster[2].term == first_term(2)


def test_a_log_is_taken_over_only_when_it_is_known_how_the_formation_was_decided() -> None:
    """It may have been done uncleanly: then a member compares nothing that it has committed."""
    cluster = Cluster(4, wanted=(1, 2, 3, 4))
    cluster.elect(1)
    cluster.propose(1)
    cluster.flow()
    cluster.crash(1)
    cluster.notice_all()
    arbiter = Arbiter(cluster)
    arbiter.begin()
    arbiter.follow(2)
    end = cluster[2].log.last_index
    for node in (3, 4):
        arbiter.follow(node)
        cluster.sync(node)
        arbiter.tell(node)
    assert arbiter.decide()
    arbiter.follow(3)
    arbiter.follow(4)
    pass_time(cluster)

    assert cluster[3].is_leader
    assert cluster[2].formation == 1
    assert cluster[2].log.last_index == end < cluster[3].log.last_index
    assert 2 in cluster[3].configuration.learners

    cluster.crash(2)
    cluster.start(2)
    cluster.notice_all()
    pass_time(cluster)
    assert cluster[2].log.last_index == end, "nor does it after a restart"

    arbiter.follow(2)
    pass_time(cluster, 40)
    assert 2 in cluster[3].configuration.voters


def test_who_was_moved_away_since_is_not_taken_in_by_a_leader_that_has_not_heard_of_it() -> None:
    cluster = Cluster(4, wanted=(1, 2))
    cluster.elect(1)
    arbiter = Arbiter(cluster)
    recover(cluster, arbiter, 1, 2, 3, 4)
    pass_time(cluster)
    first = cluster.leader
    assert first is not None
    for node in (1, 2, 3, 4):
        cluster[node].set_wanted_voters(())
    cluster[first].change_configuration(Configuration(voters=(NodeId(3), NodeId(4))))
    pass_time(cluster, 40)
    leader = cluster.leader
    assert leader in (3, 4)
    late = 7 - leader
    cluster[late].set_wanted_voters((NodeId(1), NodeId(2)))
    cluster[leader].transfer_leadership(NodeId(late))
    pass_time(cluster, 60)
    assert cluster.leader == late
    assert sorted(cluster[late].configuration.members) == [3, 4]
