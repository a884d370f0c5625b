"""When the controller lets a group be recovered, and when not."""

import pytest

from kafkaesque.broker.metadata.features import KNOWN, METADATA
from kafkaesque.broker.metadata.records import RecoveryBegun
from kafkaesque.broker.metadata.recovery_planner import plan_asked
from kafkaesque.broker.requests.commands import (
    AskElection,
    BeginRecovery,
    CreateTopic,
    FinishMove,
    MoveReplicas,
    TakeUpMove,
    WantedReplicas,
)
from kafkaesque.model.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    FeatureUpdateFailed,
    FencedLeaderEpoch,
    UnknownTopicOrPartition,
)
from kafkaesque.model.ids import GroupId, NodeId
from kafkaesque.raft.formation import first_term
from tests.unit.broker.test_move_planner import Moving
from tests.unit.broker.test_planner import Cluster

GROUP = GroupId(1)


@pytest.mark.parametrize("command", [BeginRecovery(groups=[1]), AskElection(group=1, after=0)])
def test_nothing_is_formed_anew_that_brokers_of_an_earlier_release_could_not_read(
    command: BeginRecovery | AskElection,
) -> None:
    old = Cluster(3)  # of a release that says nothing of levels
    old.do(CreateTopic(name="t", assignments=[[1, 2, 3]]))
    assert old.state.level(METADATA) < KNOWN[METADATA][1]
    with pytest.raises(FeatureUpdateFailed, match=r"can be recovered.*kafkaesque cluster upgrade"):
        old.do(command)
    assert not old.state.recoveries
    new = Moving()
    new.do(command)
    assert new.state.recoveries[GROUP].formation == 1


def test_an_election_that_is_asked_for_begins_once() -> None:
    cluster = Moving()
    cluster.do(AskElection(group=GROUP, after=0, at_ms=5))
    recovery = cluster.state.recoveries[GROUP]
    assert (recovery.formation, recovery.begun_ms) == (1, 5)
    for after in (0, 1):  # the one is late; of the other's formation the decision is to come
        cluster.do(AskElection(group=GROUP, after=after, at_ms=6))
        assert cluster.state.recoveries[GROUP] == recovery


def test_who_is_asked_for_an_election_says_why_there_is_none() -> None:
    cluster = Moving()
    command = AskElection(group=GROUP, after=0)
    with pytest.raises(ElectionNotNeeded, match="broker 2 leads t-0"):
        plan_asked(cluster.state, command, alive=[NodeId(2)], leader=lambda group: NodeId(2))
    with pytest.raises(EligibleLeadersNotAvailable, match="start one of 1, 2, 3"):
        plan_asked(cluster.state, command, alive=[NodeId(4)], leader=lambda group: None)
    with pytest.raises(UnknownTopicOrPartition):
        cluster.do(AskElection(group=99, after=0))
    found = plan_asked(cluster.state, command, alive=[NodeId(1)], leader=lambda group: None)
    assert found == [RecoveryBegun(group=GROUP, formation=1)]


def test_a_group_whose_replicas_move_is_formed_anew_and_words_of_before_are_refused() -> None:
    """What a leader of before has changed may not be in the new formation."""
    cluster = Moving()
    wanted = WantedReplicas(topic="t", partition=0, replicas=[1, 2, 4])
    cluster.do(MoveReplicas(partitions=[wanted]))
    move = cluster.state.moving[GROUP].move
    cluster.do(TakeUpMove(group=GROUP, move=move, term=7))
    cluster.do(BeginRecovery(groups=[GROUP]))
    assert cluster.state.recoveries[GROUP].formation == 1
    for command in (
        TakeUpMove(group=GROUP, move=move, term=8),
        FinishMove(group=GROUP, move=move, term=7),
    ):
        with pytest.raises(FencedLeaderEpoch, match=r"term . is over"):
            cluster.do(command)
    later = first_term(1) + 1
    cluster.do(TakeUpMove(group=GROUP, move=move, term=later))
    cluster.do(FinishMove(group=GROUP, move=move, term=later))
    assert cluster.state.partitions_by_group[GROUP].replicas == (1, 2, 4)
