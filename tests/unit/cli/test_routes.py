"""`kafkaesque route`: names of MQTT as bindings of `amq.topic`, and where a name goes."""

from __future__ import annotations

import pytest

from kafkaesque.cli.exchange_requests import EXCHANGE, QUEUE, TOPIC
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.routes import (
    FILTER,
    KEY_LEVELS,
    LONGEST_MATCH,
    Destination,
    Found,
    binding_of,
    destinations,
    read_name,
    replaced,
    same_place,
    shown_names,
    topics_of,
)

LONGEST = {LONGEST_MATCH: True}


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
    made = binding_of(names, "readings", None, beside=True)
    assert made == ("amq.topic", TOPIC, "readings", key, {})
    assert shown_names(key) == shown
    assert binding_of(shown, "readings", 2, beside=True).key == key
    made = binding_of(names, "readings", 2, beside=False)
    assert made.arguments == {KEY_LEVELS: 2, LONGEST_MATCH: True}
    made = binding_of(names, None, None, beside=False)
    assert made == ("amq.topic", EXCHANGE, "amq.topic", key, LONGEST)


def test_what_mqtt_cannot_say_is_shown_as_it_is() -> None:
    assert shown_names("#.error") == "#.error"


@pytest.mark.parametrize("names", ["", "a/#/b", "a+"])
def test_what_is_no_filter_is_refused(names: str) -> None:
    with pytest.raises(CommandFailed):
        binding_of(names, "readings", None, beside=False)


def test_a_name_goes_to_each_place_once() -> None:
    bindings = [
        Found("house.#", TOPIC, "readings", {}),
        Found("house.kitchen.*", TOPIC, "readings", {}),
        Found("*.kitchen.#", QUEUE, "alarms", {FILTER: "value > 7"}),
        Found("house.#", QUEUE, "alarms", {}),
        Found("#", EXCHANGE, "more", {FILTER: "x = 1"}),
        Found("garden.#", QUEUE, "other", {}),
    ]
    assert destinations(read_name("house/kitchen/heat"), bindings) == [
        Destination("topic", "readings", "house/#", ""),
        Destination("queue", "alarms", "house/#", ""),
        Destination("exchange", "more", "#", "x = 1"),
    ]
    assert destinations(read_name("house"), bindings)[0].name == "readings"
    with pytest.raises(CommandFailed):
        read_name("a/#")


def test_the_longest_route_counts_and_others_beside_it() -> None:
    bindings = [
        Found("#", TOPIC, "all", LONGEST),
        Found("house.#", TOPIC, "house", LONGEST),
        Found("house.debug.#", EXCHANGE, "amq.topic", LONGEST),
        Found("house.hot.#", TOPIC, "hot", {**LONGEST, FILTER: "value > 7"}),
        Found("#", TOPIC, "audit", {}),
    ]

    def found(name: str) -> list[tuple[str, str]]:
        return [(each.kind, each.name) for each in destinations(read_name(name), bindings)]

    assert found("garden") == [("topic", "all"), ("topic", "audit")]
    assert found("house/hall") == [("topic", "house"), ("topic", "audit")]
    assert found("house/debug/x") == [("live only", "-"), ("topic", "audit")]
    # Which of the two it is depends on the message.
    assert found("house/hot") == [("topic", "house"), ("topic", "hot"), ("topic", "audit")]


def test_a_route_that_is_said_in_another_way_takes_the_place_of_the_first() -> None:
    bindings = [
        Found("house.#", TOPIC, "house", LONGEST),
        Found("house.#", TOPIC, "house", {**LONGEST, KEY_LEVELS: 2}),
        Found("house.#", TOPIC, "house", {"x-transformation": "short"}),
        Found("house.#", TOPIC, "house", {FILTER: "value > 7"}),
        Found("house.#", TOPIC, "other", {}),
    ]
    made = binding_of("house", "house", 2, beside=False)
    assert replaced(made, bindings) == [bindings[0].as_binding()]
    assert same_place(made, bindings) == [each.as_binding() for each in bindings[:4]]


def test_routes_of_the_same_names_all_count() -> None:
    bindings = [
        Found("house.#", EXCHANGE, "amq.topic", LONGEST),
        Found("house.#", TOPIC, "b", LONGEST),
        Found("house.#", TOPIC, "a", {}),
        Found("house.#", QUEUE, "queue", {}),
        Found("#", TOPIC, "all", LONGEST),
    ]
    assert topics_of("house.#", bindings) == ["a", "b"]
    assert topics_of("#.x", bindings) == []
