"""A partition loses its majority, and its leader lives on, on a broker that leads no controllers.

Brokers without a replica learn from nobody else that this leader leads no more.
"""

import pytest

from kafkaesque.broker.broker import Broker
from kafkaesque.broker.listeners import KAFKA
from kafkaesque.broker.peers.messages import (
    ALL_LED,
    LeaderReport,
    SectionKind,
    read_leaders,
    read_sections,
    write_section,
)
from kafkaesque.gateway.kafka.cluster_view import ClusterView
from kafkaesque.model.ids import CONTROLLER_GROUP, NO_NODE, NodeId
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.sim.options import SimOptions
from tests.sim.scenario import Scenario
from tests.sim.seeds import first_of
from tests.sim.test_recovery import is_whole
from tests.sim.test_unclean_election import ask, is_in_sync

SESSION_MS = 1_000


class Survivor:
    """A partition whose leader is to be the last of its replicas, and who else there is."""

    def __init__(
        self,
        seed: int,
        replicas: int,
        *,
        session_ms: int = SESSION_MS,
        configs: dict[str, str] | None = None,
    ) -> None:
        options = SimOptions(
            brokers=replicas + 2,
            replicas=replicas,
            controllers=replicas + 2,
            session_timeout_ms=session_ms,
        )
        self.scenario = scenario = Scenario(seed, options, configs)
        scenario.write(100)
        self.leader = scenario.leader
        names = scenario.cluster.names
        nodes = scenario.partition(self.leader).state.replicas
        self.others = [names[node - 1] for node in nodes if names[node - 1] != self.leader]
        self.bystanders = [name for name in names if name not in (self.leader, *self.others)]
        scenario.loop.run_until(
            lambda: {scenario.end(name) for name in self.others} == {scenario.end(self.leader)}
        )
        self._move_controller(NodeId(names.index(self.bystanders[0]) + 1))

    def _move_controller(self, to: NodeId) -> None:
        scenario = self.scenario

        brokers = [scenario.broker(name) for name in scenario.cluster.names]
        for _ in range(100):
            leading = [each for each in brokers if each.controller.is_leader]
            if [each.node for each in leading] == [to]:
                return
            for each in leading:
                each.driver.transfer_leadership(CONTROLLER_GROUP, to)
            scenario.loop.run_for(200)
        raise AssertionError("the controller does not move")

    @property
    def views(self) -> list[Broker]:
        """The brokers that run."""
        return [self.scenario.broker(name) for name in self.scenario.running()]

    def known(self) -> set[NodeId | None]:
        """Return whom the brokers that run take for the leader."""
        return {each.leaders.leader(self.scenario.group) for each in self.views}

    def lose_others(self) -> None:
        """End all other replicas, and wait until the leader leads no more."""
        for name in self.others:
            self.scenario.kill(name)
        self.scenario.loop.run_until(lambda: not self.scenario.leaders(), 10_000)

    def check_all_is_there(self) -> None:
        """Nothing that was acknowledged is lost."""
        scenario = self.scenario
        scenario.write(50)
        scenario.loop.run_until(lambda: scenario.load.is_read, 30_000)
        scenario.load.observations.check()
        assert not scenario.findings.anomalies


@pytest.mark.parametrize("seed", first_of(range(3), 1))
def test_a_leader_that_is_left_alone_is_formed_anew(seed: int) -> None:
    survivor = Survivor(seed, 2)
    scenario = survivor.scenario
    survivor.lose_others()
    scenario.loop.run_until(lambda: scenario.leaders() == [survivor.leader], 10 * SESSION_MS)
    scenario.boot(survivor.others[0])
    survivor.check_all_is_there()
    scenario.loop.run_until(lambda: is_whole(scenario), 30_000)


def test_all_brokers_know_soon_that_it_has_no_leader_and_tell_clients_what_they_know() -> None:
    survivor = Survivor(3, 2, session_ms=600_000)
    survivor.lose_others()
    survivor.scenario.loop.run_for(400)
    assert survivor.known() == {None}
    survivor.scenario.loop.run_for(20_000)
    assert survivor.known() == {None}
    for broker in survivor.views:
        partition = broker.state.partitions_by_group[survivor.scenario.group]
        place = ClusterView(broker.doors, KAFKA).place(partition)
        gone = tuple(each for each in partition.replicas if not broker.peers.is_alive(each))
        assert (place.error_code, place.leader) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
        assert place.in_sync
        assert place.offline == gone


@pytest.mark.parametrize("is_allowed", [True, False])
def test_one_of_three_goes_on_where_it_may_or_when_an_administrator_says_so(
    is_allowed: bool,
) -> None:
    configs = {"unclean.leader.election.enable": "true"} if is_allowed else {}
    survivor = Survivor(4, 3, configs=configs)
    scenario = survivor.scenario
    survivor.lose_others()
    if not is_allowed:
        scenario.loop.run_for(1_000)
        assert ask(scenario, survivor.bystanders[1]).code == ErrorCode.NONE
    scenario.loop.run_until(lambda: scenario.leaders() == [survivor.leader], 10 * SESSION_MS)
    for name in survivor.others:
        scenario.boot(name)
    scenario.loop.run_until(lambda: is_in_sync(scenario, survivor.leader, 3), 60_000)
    survivor.check_all_is_there()


@pytest.mark.parametrize("away_ms", [100, 3_000])
def test_a_follower_of_two_that_comes_back_without_its_copy_gets_it_anew(away_ms: int) -> None:
    survivor = Survivor(5, 2)
    scenario, (other,) = survivor.scenario, survivor.others
    scenario.kill(other)
    scenario.world.machines[other].drive.volume.clear()
    scenario.loop.run_for(away_ms)
    scenario.boot(other)
    scenario.loop.run_until(lambda: is_whole(scenario), 60_000)
    survivor.check_all_is_there()


@pytest.mark.parametrize("is_blocked_one_way", [True, False])
def test_who_did_not_hear_of_the_end_hears_of_it_when_the_link_comes_back(
    is_blocked_one_way: bool,
) -> None:
    survivor = Survivor(6, 2, session_ms=600_000)
    scenario, bystander = survivor.scenario, survivor.bystanders[1]
    wire, broker = scenario.world.wire, scenario.broker(bystander)
    leader = scenario.broker(survivor.leader).node
    wire.block(survivor.leader, bystander)
    if not is_blocked_one_way:
        wire.block(bystander, survivor.leader)
    survivor.lose_others()
    scenario.loop.run_for(5_000)
    report = broker.leaders.get(scenario.group)
    assert report is not None
    assert report.leader == leader
    wire.heal()
    scenario.loop.run_until(lambda: broker.peers.is_alive(leader), 10_000)
    scenario.loop.run_for(1_000)
    assert survivor.known() == {None}


def test_who_missed_the_last_leader_does_not_go_back_to_the_one_before() -> None:
    """A bystander that cannot hear of the leader hears from the former one that it is none."""
    survivor = Survivor(7, 2, session_ms=600_000)
    scenario, bystander = survivor.scenario, survivor.bystanders[1]
    (other,) = survivor.others
    wire, broker = scenario.world.wire, scenario.broker(bystander)
    for pair in ((other, bystander), (bystander, other)):
        wire.block(*pair)
    scenario.loop.run_until(lambda: not broker.peers.is_alive(scenario.broker(other).node), 10_000)
    scenario.broker(survivor.leader).driver.transfer_leadership(
        scenario.group, scenario.broker(other).node
    )
    scenario.loop.run_until(lambda: scenario.leaders() == [other], 10_000)
    scenario.loop.run_for(1_000)
    assert broker.leaders.leader(scenario.group) is None


def test_an_earlier_release_takes_no_note_of_an_end() -> None:
    """It believes reports of the sender's own leadership, and reads all others."""
    told = [ALL_LED, LeaderReport(7, 3, 2, (2,)), LeaderReport(8, 3, NO_NODE, ())]
    _, body = next(read_sections(b"".join(write_section(SectionKind.LEADERS, told))))
    assert [each for each in read_leaders(body) if each.leader == 2] == told[1:2]
