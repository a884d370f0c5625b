"""`kafkaesque route`: names of MQTT as bindings of `amq.topic`, and where a name goes."""

from __future__ import annotations

import pytest

from kafkaesque.cli.exchange_requests import EXCHANGE, QUEUE, TOPIC
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.routes import (
    FILTER,
    KEY_LEVELS,
    Destination,
    binding_of,
    destinations,
    read_name,
    shown_names,
)


@pytest.mark.parametrize(
    ("names", "key", "shown"),
    [
        ("house", "house.#", "house/#"),
        ("house/kitchen", "house.kitchen.#", "house/kitchen/#"),
        ("plant/+/line", "plant.*.line", "plant/+/line"),
        ("plant/+/#", "plant.*.#", "plant/+/#"),
        ("#", "#", "#"),
        ("a.b/c", "a%2Eb.c.#", "a.b/c/#"),
    ],
)
def test_names_are_patterns_of_the_exchange(names: str, key: str, shown: str) -> None:
    made = binding_of(names, "readings", None)
    assert made == ("amq.topic", TOPIC, "readings", key, {})
    assert shown_names(key) == shown
    assert binding_of(shown, "readings", 2).key == key
    assert binding_of(names, "readings", 2).arguments == {KEY_LEVELS: 2}


def test_what_mqtt_cannot_say_is_shown_as_it_is() -> None:
    assert shown_names("#.error") == "#.error"


@pytest.mark.parametrize("names", ["", "a/#/b", "a+"])
def test_what_is_no_filter_is_refused(names: str) -> None:
    with pytest.raises(CommandFailed):
        binding_of(names, "readings", None)


def test_a_name_goes_to_each_place_once() -> None:
    bindings: list[tuple[str, int, str, dict[str, object]]] = [
        ("house.#", TOPIC, "readings", {}),
        ("house.kitchen.*", TOPIC, "readings", {}),
        ("*.kitchen.#", QUEUE, "alarms", {FILTER: "value > 7"}),
        ("house.#", QUEUE, "alarms", {}),
        ("#", EXCHANGE, "more", {FILTER: "x = 1"}),
        ("garden.#", QUEUE, "other", {}),
    ]
    assert destinations(read_name("house/kitchen/heat"), bindings) == [
        Destination("topic", "readings", "house/#", ""),
        Destination("queue", "alarms", "house/#", ""),
        Destination("exchange", "more", "#", "x = 1"),
    ]
    assert destinations(read_name("house"), bindings)[0].name == "readings"
    with pytest.raises(CommandFailed):
        read_name("a/#")
