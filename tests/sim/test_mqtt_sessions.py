"""MQTT while brokers die: what is acknowledged is delivered, and with QoS 2 once."""

from __future__ import annotations

import pytest

from tests.sim.mqtt_scenario import Scenario

MESSAGES = 30


def run(seed: int, qos: int) -> list[bytes]:
    """Return what a subscriber has got of messages that were all acknowledged."""
    scenario = Scenario(seed)
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
    # Nothing more comes.
    subscriber.listen(lambda: False)
    return subscriber.seen


@pytest.mark.parametrize("seed", [1, 133])
def test_quality_1_is_delivered_at_least_once(seed: int) -> None:
    seen = run(seed, 1)
    assert {int(each) for each in seen} == set(range(MESSAGES))


@pytest.mark.parametrize("seed", [3, 131])
def test_quality_2_is_delivered_once(seed: int) -> None:
    seen = run(seed, 2)
    assert sorted(map(int, seen)) == list(range(MESSAGES))
