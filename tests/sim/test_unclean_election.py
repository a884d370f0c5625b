"""An administrator has a partition recovered that has lost its majority."""

from typing import Any

import pytest

from kafkaesque.broker.metadata.recovery_state import RecoveryState
from kafkaesque.broker.requests.survivor_report import SurvivorReport
from kafkaesque.broker.upkeep.group_recovery import GroupRecovery
from kafkaesque.broker.upkeep.recovery_watch import RecoveryWatch
from kafkaesque.model.errors import ElectionNotNeeded
from kafkaesque.model.ids import GroupId, NodeId
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.elect_leaders_request import (
    ElectLeadersRequest,
    TopicPartitions,
)
from kafkaesque.sim.clients.kafka_client import BrokerLink
from kafkaesque.sim.options import SimOptions
from tests.sim.scenario import TOPIC, Scenario
from tests.sim.seeds import first_of

UNCLEAN = 1
TIMEOUT_MS = 2_900


class Ask:
    """A request to one broker for an unclean election; with its outcome, once there is one."""

    def __init__(self, scenario: Scenario, name: str) -> None:
        self.code: int | None = None
        self.message: str | None = None
        self.is_over = False
        address = scenario.cluster.addresses[scenario.cluster.names.index(name)]
        asked = [TopicPartitions(topic=TOPIC, partitions=[0])]
        request = ElectLeadersRequest(UNCLEAN, asked, TIMEOUT_MS)
        BrokerLink(scenario.env, address).send(ApiKey.ELECT_LEADERS, 2, request, self._receive)

    def _receive(self, response: Any) -> None:
        self.is_over = True
        if response is not None:
            ((result,),) = [each.partition_result for each in response.replica_election_results]
            self.code, self.message = result.error_code, result.error_message


def ask(scenario: Scenario, name: str) -> Ask:
    found = Ask(scenario, name)
    scenario.loop.run_until(lambda: found.is_over, 30_000)
    return found


def ask_until_done(scenario: Scenario, name: str) -> None:
    """Ask as an administrator does, who asks again where nobody knows whether it was done."""
    for _ in range(10):
        code = ask(scenario, name).code
        if code in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED):
            return
    raise AssertionError("it is not done")


def recovery_of(scenario: Scenario, name: str) -> RecoveryState:
    return scenario.broker(name).state.recoveries[scenario.group]


def one_of_three(seed: int, brokers: int = 5) -> tuple[Scenario, str, list[str], int]:
    """Return who is left of three replicas, who is not, and where the log of the first ends.

    What comes after that is acknowledged, and is on the two that are gone.
    """
    scenario = Scenario(
        seed,
        SimOptions(brokers=brokers, replicas=3, session_timeout_ms=1_000, controllers=brokers),
    )
    scenario.write(100)
    leader = scenario.leader
    names = scenario.cluster.names
    replicas = [names[node - 1] for node in scenario.partition(leader).state.replicas]
    scenario.loop.run_until(lambda: len({scenario.end(name) for name in replicas}) == 1)
    left = next(name for name in replicas if name != leader)
    gone = [name for name in replicas if name != left]
    end = scenario.end(left)
    scenario.kill(left)
    scenario.write(50)
    for name in gone:
        scenario.kill(name)
    scenario.boot(left)
    scenario.loop.run_until(lambda: scenario.find(left) is not None)
    return scenario, left, gone, end


@pytest.mark.parametrize("seed", first_of(range(3), 1))
def test_what_was_formed_anew_at_his_word_is_given_the_time_to_say_who_leads(seed: int) -> None:
    """It had been without a leader for long, and from then on one is enough to form it anew."""
    scenario, left, _, _ = one_of_three(seed)
    scenario.loop.run_for(5_000)
    others = [name for name in scenario.running() if name != left]
    for name in others:
        scenario.world.wire.link(left, name).extra_ms = 400
    ask_until_done(scenario, others[0])
    scenario.loop.run_for(5_000)
    assert recovery_of(scenario, others[0]).formation == 1


@pytest.mark.parametrize("seed", first_of(range(3), 1))
def test_what_is_left_goes_on_at_the_administrators_word_and_says_what_is_lost(seed: int) -> None:
    scenario, left, gone, end = one_of_three(seed)
    scenario.loop.run_for(60_000)
    # The topic allows no unclean election: nothing happens by itself.
    assert scenario.leaders() == []
    bystander = next(name for name in scenario.running() if name != left)
    outcome = ask(scenario, bystander)
    assert (outcome.code, outcome.message) == (ErrorCode.NONE, None)
    assert scenario.leaders() == [left]
    plan = recovery_of(scenario, bystander).unclean
    assert plan is not None
    assert (plan.voters, plan.end_offset) == ((scenario.broker(left).node,), end)
    assert plan.at_ms > 0
    assert [line for line in scenario.told("recovered with replicas") if "unclean election" in line]
    # It is the one word: the group has a leader now.
    assert ask(scenario, bystander).code == ErrorCode.ELECTION_NOT_NEEDED
    lost = count_lost(scenario, left, end)
    assert lost >= 50
    for name in gone:
        scenario.boot(name)
    scenario.loop.run_until(lambda: is_in_sync(scenario, left, 3), 60_000)
    assert recovery_of(scenario, bystander).given_up >= lost
    told = scenario.told("were given up by an unclean election")
    assert told
    assert not [line for line in told if "at least 0 of them" in line]
    scenario.loop.run_for(1_000)
    assert len({scenario.committed(name) for name in [left, *gone]}) == 1


@pytest.mark.parametrize("seed", first_of(range(2), 1))
def test_copies_that_are_being_made_anew_are_nobody_to_go_on_with(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario, left, gone, _ = one_of_three(seed)
    ask_until_done(scenario, next(name for name in scenario.running() if name != left))
    for name in scenario.running():
        scenario.broker(name).options.values["leader.replication.throttled.rate"] = 100
    for name in gone:
        scenario.boot(name)
    scenario.loop.run_until(lambda: all(scenario.find(name) for name in gone), 30_000)
    end = scenario.end(left)
    assert min(scenario.end(name) for name in gone) < end, "the copies are not whole"
    # Now even the topic allows it: of what is not there nothing can begin.
    monkeypatch.setattr(RecoveryWatch, "_may_be_unclean", lambda watch, state: True)
    scenario.kill(left)
    scenario.loop.run_for(10_000)
    assert scenario.leaders() == []
    scenario.boot(left)
    scenario.loop.run_until(lambda: is_in_sync(scenario, left, 3), 60_000)
    assert {scenario.end(name) for name in (left, *gone)} == {end}


def test_who_does_not_know_the_decision_takes_nothing_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was made without this replica, which has what the group has no more."""
    scenario, left, (knowing, _), end = one_of_three(0, brokers=7)
    node, report = scenario.cluster.names.index(knowing) + 1, GroupRecovery._report

    def tell(self: GroupRecovery, group: GroupId, recovery: RecoveryState) -> SurvivorReport | None:
        return None if self._node == node else report(self, group, recovery)

    monkeypatch.setattr(GroupRecovery, "_report", tell)
    monkeypatch.setattr(RecoveryWatch, "_may_be_unclean", lambda watch, state: True)
    wire = scenario.world.wire
    ways = [(name, knowing) for name in scenario.running()]
    ways += [(knowing, name) for name in scenario.running()]
    wire.block(left, knowing)
    wire.block(knowing, left)
    scenario.boot(knowing)
    scenario.loop.run_until(lambda: knows_of_recovery(scenario, knowing), 60_000)
    # From now on it hears of nobody but of the one that is to lead.
    for way in ways:
        wire.unblock(*way) if left in way else wire.block(*way)
    scenario.loop.run_until(lambda: scenario.leaders() == [left], 60_000)
    scenario.loop.run_for(2_000)
    assert recovery_of(scenario, knowing).is_open
    assert scenario.end(knowing) > end
    replica = scenario.partition(left).replica
    assert replica is not None
    assert node in replica.core.configuration.learners
    for way in ways:
        wire.unblock(*way)
    scenario.loop.run_until(lambda: is_in_sync(scenario, left, 2), 60_000)
    scenario.loop.run_for(1_000)
    assert scenario.committed(knowing) == scenario.committed(left)
    assert recovery_of(scenario, left).given_up >= 50


def knows_of_recovery(scenario: Scenario, name: str) -> bool:
    broker = scenario.cluster.brokers.get(name)
    return broker is not None and scenario.group in broker.state.recoveries


def count_lost(scenario: Scenario, left: str, end: int) -> int:
    """Return how many acknowledged records the group has no more; all from before are there."""
    partition = scenario.partition(left)
    assert partition.log_start_offset == 0
    assert partition.high_watermark >= end
    return sum(offset >= end for offset in scenario.load.observations.acknowledged.values())


def is_in_sync(scenario: Scenario, leader: str, count: int) -> bool:
    partition = scenario.find(leader)
    replica = None if partition is None else partition.replica
    return replica is not None and replica.is_leader and len(replica.in_sync()) == count


def test_a_word_that_was_not_done_in_time_does_not_hold_any_longer() -> None:
    scenario, left, gone, _ = one_of_three(3, brokers=7)
    bystander = next(name for name in scenario.running() if name != left)
    scenario.kill(left)
    scenario.loop.run_for(2_000)
    outcome = ask(scenario, bystander)
    assert outcome.code == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert "none of the brokers that hold events-0 is alive" in str(outcome.message)
    scenario.boot(left)
    scenario.loop.run_for(30_000)
    assert scenario.leaders() == []
    for name in gone:
        scenario.boot(name)
    scenario.loop.run_until(lambda: scenario.leaders() != [], 60_000)
    # All three are there: whatever was begun ended cleanly.
    scenario.write(20)
    scenario.loop.run_until(lambda: scenario.load.is_read, 30_000)
    scenario.load.observations.check()
    assert not scenario.findings.anomalies


@pytest.mark.parametrize("replicas", [2, 4])
def test_where_enough_are_left_nothing_is_lost_by_it_and_nobody_has_to_wait(replicas: int) -> None:
    scenario = Scenario(
        4,
        SimOptions(brokers=5, replicas=replicas, session_timeout_ms=600_000, controllers=5),
    )
    scenario.write(100)
    leader = scenario.leader
    nodes = scenario.partition(leader).state.replicas
    names = [scenario.cluster.names[node - 1] for node in nodes]
    others = [name for name in names if name != leader]
    gone, left = [leader, *others[: replicas // 2 - 1]], others[replicas // 2 - 1 :]
    for name in gone:
        scenario.kill(name)
    scenario.loop.run_until(
        lambda: not any(is_heard(scenario, left[0], name) for name in gone), 30_000
    )
    slow = scenario.world.machines[left[-1]] if len(left) > 1 else None
    if slow is not None:
        slow.pause()
    asked = Ask(scenario, left[0])
    scenario.loop.run_for(700)
    if slow is not None:
        slow.resume()
    scenario.loop.run_until(lambda: asked.is_over, 30_000)
    assert asked.code == ErrorCode.NONE
    recovery = recovery_of(scenario, left[0])
    assert recovery.unclean is None
    assert recovery.plan is not None
    assert len(recovery.plan.voters) == len(left)
    for name in gone:
        scenario.boot(name)
    scenario.write(20)
    scenario.loop.run_until(lambda: scenario.load.is_read, 30_000)
    scenario.load.observations.check()
    assert not scenario.findings.anomalies


def is_heard(scenario: Scenario, by: str, name: str) -> bool:
    node = NodeId(scenario.cluster.names.index(name) + 1)
    return scenario.broker(by).peers.is_alive(node)


@pytest.mark.parametrize("seed", first_of(range(10, 14), 1))
def test_the_controller_changes_while_it_is_done(seed: int) -> None:
    scenario, left, _, _ = one_of_three(seed)
    scenario.loop.run_until(
        lambda: scenario.broker(left).controller_client.leader() is not None, 30_000
    )
    controller = scenario.cluster.names[
        int(scenario.broker(left).controller_client.leader() or 1) - 1
    ]
    bystander = next(name for name in scenario.running() if name not in (left, controller))
    under_way = Ask(scenario, bystander)
    scenario.loop.run_for(100 * (seed % 4))
    scenario.kill(controller)
    scenario.loop.run_for(500)
    scenario.boot(controller)
    scenario.loop.run_until(lambda: under_way.is_over, 30_000)
    ask_until_done(scenario, bystander)
    scenario.loop.run_until(lambda: scenario.leaders() == [left], 30_000)


def test_who_does_not_hear_of_the_leader_can_have_nothing_formed_anew() -> None:
    scenario = Scenario(20, SimOptions(brokers=5, replicas=3, controllers=5))
    scenario.write(100)
    leader = scenario.leader
    controller = int(scenario.broker(leader).controller_client.leader() or 1)
    asked = next(
        name
        for name in scenario.cluster.names
        if name not in (leader, scenario.cluster.names[controller - 1])
    )
    scenario.world.wire.block(asked, leader)
    scenario.world.wire.block(leader, asked)
    broker = scenario.broker(asked)
    group = scenario.group
    scenario.loop.run_until(lambda: broker.leaders.leader(group) is None, 30_000)
    outcomes: list[object] = []
    deadline_ms = broker.env.clock.now_ms() + 20_000
    partition = broker.state.partitions_by_group[group]
    broker.unclean_elections.begin(partition, deadline_ms, outcomes.append, None)
    scenario.loop.run_until(lambda: outcomes != [], 30_000)
    assert isinstance(outcomes[0], ElectionNotNeeded)
    assert group not in broker.state.recoveries
    scenario.write(20)
    assert scenario.leaders() == [leader]
