"""MQTT while brokers die: what is acknowledged is delivered, and with QoS 2 once."""

from __future__ import annotations

import pytest

from kafkaesque.sim.env import Machine
from tests.sim.mqtt_scenario import Scenario
from tests.sim.seeds import first_of

MESSAGES = 30
LISTENS_MAX = 4


class Damaged(Scenario):
    """Brokers lose their power; one of them is killed, and bits of its sessions' logs flip."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        #: The first to die. Never two of them: then a record may be lost for good.
        self._victim = ""
        self.flips = 0

    def strike(self, machine: Machine) -> None:
        self._victim = self._victim or machine.name
        if machine.name != self._victim:
            machine.cut_power()
        else:
            machine.kill()
            for path, inode in machine.drive.volume.files():
                if path.startswith("__queue") and path.endswith(".log") and inode.content:
                    machine.drive.flip_bit(path)
                    self.flips += 1


def run(seed: int, qos: int, kind: type[Scenario] = Scenario) -> list[bytes]:
    """Return what a subscriber has got of messages that were all acknowledged."""
    return run_in(kind(seed), qos)


def run_in(scenario: Scenario, qos: int) -> list[bytes]:
    """See `run`."""
    publisher, subscriber = scenario.publisher, scenario.subscriber
    subscriber.subscribe("field/#")
    for number in range(MESSAGES):
        if scenario.chance.random() < 0.3:
            scenario.trouble()
        if scenario.chance.random() < 0.1:
            scenario.chance.choice((publisher, subscriber)).drop()
        publisher.publish(f"field/{number % 3}", b"%d" % number, qos)
        if scenario.chance.random() < 0.3:
            enough = len(subscriber.seen) + 1
            subscriber.listen(lambda: len(subscriber.seen) >= enough or scenario.is_quiet)  # noqa: B023
    scenario.calm()
    last = {b"%d" % number for number in range(MESSAGES)}
    subscriber.listen(lambda: last <= set(subscriber.seen))
    # Nothing more comes. What a broker without power was asked may take longer than patience does.
    for _ in range(LISTENS_MAX):
        subscriber.listen(lambda: False)
        if not subscriber.unreleased:
            break
    # An id that is not released would hide a later message with it.
    assert not subscriber.unreleased
    return subscriber.seen


@pytest.mark.parametrize("seed", [1, 133])
def test_quality_1_is_delivered_at_least_once(seed: int) -> None:
    seen = run(seed, 1)
    assert {int(each) for each in seen} == set(range(MESSAGES))


@pytest.mark.parametrize("seed", [3, 131])
def test_quality_2_is_delivered_once(seed: int) -> None:
    seen = run(seed, 2)
    assert sorted(map(int, seen)) == list(range(MESSAGES))


@pytest.mark.parametrize("seed", first_of(range(1, 9), 2))
def test_quality_2_is_delivered_once_though_disks_are_damaged(seed: int) -> None:
    scenario = Damaged(seed)
    assert sorted(map(int, run_in(scenario, 2))) == list(range(MESSAGES))
    assert scenario.flips
