"""Two processes of one broker id: the one that came later stops, and disturbs nobody."""

from collections.abc import Callable
from copy import deepcopy

import pytest

from kafkaesque.broker.broker import Broker
from kafkaesque.broker.controller.planning import Planning
from kafkaesque.broker.metadata.features import KNOWN
from kafkaesque.broker.requests.commands import Done, RegisterBroker
from kafkaesque.model.errors import DuplicateBroker
from kafkaesque.model.ids import NodeId
from tests.sim.gossiping import PORT, Cluster

THREE = NodeId(3)


class Twins(Cluster):
    """Brokers 1 to 3, and a machine `twin` for another process that says it is 3."""

    def __init__(self, *, gossips: bool) -> None:
        super().__init__()
        self._gossips = gossips
        for node in (1, 2, 3):
            self.run(node)
        if gossips:
            self.until_whole()
        else:
            self.loop.run_until(self.is_whole, 30_000)
        self.loop.run_for(1_000)

    def run(self, node: int, machine: str = "") -> Broker:
        """Start a broker as its file says, with the secret or without one."""
        if self._gossips:
            return self.start(node, [1, 2], machine=machine)
        return self.start(node, machine=machine, secrets=(), knows=True)

    def is_whole(self) -> bool:
        return all(
            broker.life.is_ready and all(broker.peers.is_alive(NodeId(each)) for each in (1, 2, 3))
            for broker in self.brokers.values()
        )

    def copy_disk(self) -> None:
        """Give the twin a copy of broker 3's directory."""
        twin = self.world.add_machine("twin")
        root = deepcopy(self.world.machines["b3"].drive.volume.root)
        twin.drive.volume.root.entries.update(root.entries)
        twin.drive.volume.root.durable.update(root.durable)

    def registered(self) -> set[str]:
        """Return where the brokers think that broker 3 is."""
        return {broker.state.brokers[THREE].host for broker in self.brokers.values()}

    def until(self, is_so: Callable[[], bool], ms: int) -> None:
        self.loop.run_until(is_so, ms, every_ms=10)


@pytest.fixture(params=[True, False], ids=["gossip", "files"])
def twins(request: pytest.FixtureRequest) -> Twins:
    return Twins(gossips=request.param)


@pytest.mark.parametrize("is_copy", [False, True], ids=["empty", "copied"])
def test_a_newcomer_with_the_id_of_a_living_broker_stops_before_it_takes_part(
    twins: Twins, is_copy: bool
) -> None:
    if is_copy:
        twins.copy_disk()
    terms = [broker.metadata_store.group_state().term for broker in twins.brokers.values()]
    said = {name: len(lines) for name, lines in twins.reports.items()}
    newcomer = twins.run(3, "twin")
    twins.until(lambda: twins.contested != [], 1_000)
    twins.loop.run_for(10_000)
    assert twins.contested == ["twin"]
    (sentence,) = twins.told("twin", "is already running")
    assert "stops: give it an id and a data directory of its own" in sentence
    assert "at b3:9190. Two processes" in sentence
    assert not newcomer.life.is_ready
    assert newcomer.controller.replica is None
    # Nobody has noticed anything.
    for name, count in said.items():
        assert not [line for line in twins.reports[name][count:] if "broker 3" in line]
    assert terms == [broker.metadata_store.group_state().term for broker in twins.brokers.values()]
    assert twins.is_whole()
    assert twins.registered() == {"b3"}


@pytest.mark.parametrize("end", ["kill", "power"])
def test_a_dead_brokers_successor_elsewhere_with_its_directory_starts_at_once(
    twins: Twins, end: str
) -> None:
    twins.copy_disk()
    machine = twins.world.machines["b3"]
    if end == "kill":
        machine.kill()
    else:
        machine.cut_power()
    del twins.brokers["b3"]
    successor = twins.run(3, "twin")
    # Without gossip the others dial where it was until that attempt has failed.
    twins.until(lambda: successor.life.is_ready, 1_000 if end == "kill" else 7_000)
    twins.until(twins.is_whole, 3_000)
    twins.until(lambda: twins.registered() == {"twin"}, 1_000)
    assert twins.contested == []


def test_a_restart_after_a_power_cut_that_nobody_has_noticed_is_let_in(twins: Twins) -> None:
    twins.world.machines["b3"].cut_power()
    back = twins.run(3)
    twins.until(lambda: back.life.is_ready, 4_000)
    twins.until(twins.is_whole, 4_000)
    assert twins.contested == []


def test_of_two_that_start_at_once_one_at_most_goes_on(twins: Twins) -> None:
    twins.kill(3)
    twins.loop.run_for(2_000)
    twins.run(3)
    twins.run(3, "twin")
    twins.loop.run_for(10_000)
    assert len([name for name in twins.brokers if name in ("b3", "twin")]) <= 1
    assert twins.contested
    assert twins.told(twins.contested[0], "is already running")


def test_a_process_that_was_paused_for_long_stops_when_another_one_has_its_place(
    twins: Twins,
) -> None:
    twins.copy_disk()
    machine = twins.world.machines["b3"]
    machine.pause()
    twins.loop.run_for(4_000)
    old = twins.brokers.pop("b3")
    successor = twins.run(3, "twin")
    twins.until(lambda: successor.life.is_ready, 10_000)
    twins.brokers["b3"] = old
    machine.resume()
    twins.until(lambda: twins.contested != [], 3_000)
    assert twins.contested == ["b3"]
    assert twins.told("b3", "is already running")
    assert not twins.told("b1", "has lost contact with broker 3")[1:]
    twins.until(twins.is_whole, 10_000)
    twins.until(lambda: twins.registered() == {"twin"}, 1_000)


def test_a_newcomer_that_meets_only_who_is_cut_off_asks_the_broker_itself(twins: Twins) -> None:
    for other in ("b3", "b2"):
        twins.world.wire.block("b1", other)
        twins.world.wire.block(other, "b1")
    twins.world.add_machine("twin")
    twins.world.wire.block("twin", "b2")
    twins.world.wire.block("b2", "twin")
    twins.loop.run_for(10_000)
    twins.run(3, "twin")
    twins.loop.run_for(3_000)
    assert twins.contested == ["twin"]
    assert twins.told("twin", "it answers at b3:9190")


def test_a_registration_that_another_process_has_overwritten_is_made_anew(
    twins: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger = RegisterBroker(
        node=3, host="dead", kafka_port=9092, text_port=0, peer_host="dead", peer_port=PORT,
        rack=None, incarnation=7, directory_id="x", features=dict(KNOWN),
    )  # fmt: skip
    outcomes: list[object] = []
    leader = twins.brokers["b1"].controller_client.leader()
    controller = twins.brokers[f"b{leader}"].controller
    controller.submit(stranger, outcomes.append)
    twins.until(lambda: outcomes != [], 5_000)
    assert isinstance(outcomes[0], DuplicateBroker)
    assert twins.registered() == {"b3"}

    # A controller of an earlier release takes it.
    with monkeypatch.context() as patch:
        patch.setattr(Planning, "_incarnation_of", lambda *_: None)
        controller.submit(stranger, outcomes.append)
        twins.until(lambda: len(outcomes) > 1, 5_000)
    assert outcomes[1] == Done()
    twins.until(lambda: twins.told("b3", "has registered") != [], 5_000)
    twins.until(lambda: twins.registered() == {"b3"}, 5_000)
    (sentence,) = twins.told("b3", "has registered as broker 3")
    assert "another process, at dead:9190" in sentence
    assert twins.is_whole()


def test_a_stranger_who_asks_outdates_no_greeting(twins: Twins) -> None:
    twins.copy_disk()
    twins.run(3, "twin")
    twins.loop.run_for(2_000)
    # The link is made anew, with greetings of a life before the newcomer's.
    twins.world.wire.block("b3", "b1")
    twins.world.wire.block("b1", "b3")
    twins.loop.run_for(3_000)
    twins.world.wire.unblock("b3", "b1")
    twins.world.wire.unblock("b1", "b3")
    twins.until(twins.is_whole, 10_000)
    assert twins.contested == ["twin"]
