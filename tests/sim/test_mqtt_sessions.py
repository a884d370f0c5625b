"""MQTT while brokers die: what is acknowledged is delivered, and with QoS 2 once."""

from __future__ import annotations

import pytest

from kafkaesque.broker.metadata.topic_names import SESSION_MESSAGES_TOPIC
from kafkaesque.broker.upkeep import session_messages
from kafkaesque.sim.env import Machine
from tests.sim.mqtt_scenario import Scenario, Wanderer
from tests.sim.seeds import first_of

MESSAGES = 30
LISTENS_MAX = 4
#: Longer than a reference may be on its way to its queue.
MARGIN_MS = 40_000


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


@pytest.mark.parametrize("seed", first_of(range(1, 9), 1))
def test_quality_2_is_delivered_once_though_disks_are_damaged(seed: int) -> None:
    scenario = Damaged(seed)
    assert sorted(map(int, run_in(scenario, 2))) == list(range(MESSAGES))
    assert scenario.flips


class Several(Scenario):
    """Three sessions want the same messages, which are kept once; the last one is seldom there."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.subscribers = [self.subscriber, Wanderer(self, "second"), Wanderer(self, "seldom")]

    def kept(self) -> int:
        """Return how many messages stand in the topic."""
        for broker in self.ground.cluster.brokers.values():
            topic = broker.state.topics.get(SESSION_MESSAGES_TOPIC)
            if topic is not None:
                break
        else:
            return -1
        logs = [broker.partitions.get(each.group) for each in topic.partitions]
        return sum(each.high_watermark - each.log_start_offset for each in logs if each is not None)


def run_several(seed: int, qos: int) -> list[list[bytes]]:
    """Return what each subscriber has got of messages that were all acknowledged."""
    scenario = Several(seed)
    for each in scenario.subscribers:
        each.subscribe("field/#")
    chance = scenario.chance
    for number in range(MESSAGES):
        if chance.random() < 0.3:
            scenario.trouble()
        scenario.publisher.publish(f"field/{number % 3}", b"%d" % number, qos)
        if chance.random() < 0.3:
            who = scenario.subscribers[chance.randrange(2)]
            enough = len(who.seen) + 1
            who.listen(lambda: len(who.seen) >= enough or scenario.is_quiet)  # noqa: B023
        if number == MESSAGES // 2:
            scenario.ground.wait(2 * MARGIN_MS)
    scenario.calm()
    last = {b"%d" % number for number in range(MESSAGES)}
    for each in scenario.subscribers:
        each.listen(lambda: last <= set(each.seen))  # noqa: B023
        for _ in range(LISTENS_MAX):
            each.listen(lambda: False)
            if not each.unreleased:
                break
    scenario.ground.loop.run_until(lambda: scenario.kept() == 0, 4 * MARGIN_MS, every_ms=100)
    return [each.seen for each in scenario.subscribers]


@pytest.mark.parametrize("seed", first_of(range(1, 21), 1))
def test_several_sessions_get_what_is_kept_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they have is given up early here: nothing may be that one of them still wants."""
    qos = 1 + seed % 2
    monkeypatch.setattr(session_messages, "MARGIN_MS", MARGIN_MS)
    monkeypatch.setattr(session_messages, "ROUND_MS", 1_000)
    for seen in run_several(seed, qos):
        if qos == 2:
            assert sorted(map(int, seen)) == list(range(MESSAGES))
        else:
            assert {int(each) for each in seen} == set(range(MESSAGES))
