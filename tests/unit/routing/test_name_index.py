"""Bounds of the index of names, and what its subscribers are."""

from typing import Any

import pytest

from kafkaesque.routing import filter_rows, shapes
from kafkaesque.routing.name_index import (
    ALWAYS_MAX,
    CACHED_SUBSCRIBERS_MAX,
    SHAPES_MAX,
    NameIndex,
)
from kafkaesque.routing.names import AMQP, MQTT, NATS, FilterLevels
from kafkaesque.routing.subscribers import SUBSCRIBER_MAX, Subscribers


class _CountedDict(dict[str, Subscribers]):
    look_ups = 0

    def get(self, key: str, default: object = None) -> Any:
        self.look_ups += 1
        return super().get(key, default)


def test_one_index_serves_all_grammars() -> None:
    index = NameIndex()
    index.add(MQTT.read_filter("sensors/+/temperature"), 1)
    index.add(AMQP.read_filter("sensors.#.temperature"), 2)
    index.add(NATS.read_filter("sensors.>"), 3)
    index.add(NATS.read_filter("$SYS.>"), 4)
    index.add(AMQP.read_filter("#"), 5)
    index.add(MQTT.read_filter("#"), 6)
    assert list(index.match(MQTT.key_of("sensors/7/temperature"))) == [1, 2, 3, 5, 6]
    assert list(index.match(AMQP.key_of("sensors.temperature"))) == [2, 3, 5, 6]
    assert list(index.match(NATS.key_of("$SYS.uptime"))) == [4, 5]


@pytest.mark.parametrize("shapes", [ALWAYS_MAX + 1, 4 * ALWAYS_MAX, SHAPES_MAX + ALWAYS_MAX])
def test_filters_of_more_shapes_than_are_looked_up_are_found_too(shapes: int) -> None:
    index = NameIndex()
    levels = 11
    texts = [
        "/".join("+" if mask >> at & 1 else "a" for at in range(levels)) for mask in range(shapes)
    ]
    for number, text in enumerate(texts):
        index.add(MQTT.read_filter(text), number)
    key = MQTT.key_of("/".join("a" * levels))
    assert list(index.match(key)) == list(range(len(texts)))
    for number, text in enumerate(texts):
        assert index.remove(MQTT.read_filter(text), number)
    assert len(index) == 0
    assert list(index.match(key)) == []


def test_only_shapes_with_two_words_of_a_name_are_looked_up() -> None:
    index = NameIndex()
    for mask in range(4 * ALWAYS_MAX):
        for at in range(20):
            words = ["+" if mask >> level & 1 else f"w{at}" for level in range(9)]
            index.add(MQTT.read_filter("/".join(("all", *words))), mask)
    filters = index._filters = _CountedDict(index._filters)
    assert len(index.find(MQTT.key_of("all/" + "/".join(["w1"] * 9)))) == 4 * ALWAYS_MAX
    assert filters.look_ups == 4 * ALWAYS_MAX
    assert len(index.find(MQTT.key_of("all/" + "/".join(["x"] * 9)))) == 0
    assert filters.look_ups < 6 * ALWAYS_MAX


def test_filters_that_nearly_match_are_not_looked_at_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index = NameIndex()
    for mask in range(4 * SHAPES_MAX):
        words = ["+" if mask >> level & 1 else "a" for level in range(13)]
        index.add(MQTT.read_filter("/".join((*words, f"z{mask}"))), mask)
    exactly = []

    def levels_of(text: str) -> FilterLevels:
        exactly.append(text)
        return shapes.levels_of(text)

    monkeypatch.setattr(filter_rows, "levels_of", levels_of)
    beginning = "/".join("a" * 13)
    # Of those in rows, one in 1,024 is expected to have a word of the same slots.
    assert list(index.match(MQTT.key_of(f"{beginning}/y"))) == []
    assert len(exactly) < 40
    assert list(index.match(MQTT.key_of(f"{beginning}/z4000"))) == [4000]


def test_words_between_two_wildcards_for_many_levels_are_anywhere() -> None:
    index = NameIndex()
    for number, text in enumerate(("#.b.*.#", "a.#.b.#.c", "a.#.b.#.b.#.c", "#.c.#", "#.*.b.#")):
        index.add(AMQP.read_filter(text), number)
    assert list(index.match(AMQP.key_of("a.b.c"))) == [0, 1, 3, 4]
    assert list(index.match(AMQP.key_of("a.x.b.x.b.x.c"))) == [0, 1, 2, 3, 4]
    assert list(index.match(AMQP.key_of("b"))) == []
    assert list(index.match(AMQP.key_of("c"))) == [3]


def test_many_subscribers_of_one_filter() -> None:
    index = NameIndex()
    everything = MQTT.read_filter("news/#")
    numbers = range(CACHED_SUBSCRIBERS_MAX + 1)
    for number in numbers:
        assert index.add(everything, number)
        assert not index.add(everything, number)
    key = MQTT.key_of("news/today")
    found = index.match(key)
    assert list(found) == list(numbers)
    index.remove(everything, 0)
    assert list(found) == list(numbers)
    assert list(index.match(key)) == list(numbers)[1:]


@pytest.mark.parametrize("subscriber", [-1, SUBSCRIBER_MAX + 1])
def test_a_number_beyond_its_bounds_is_refused(subscriber: int) -> None:
    with pytest.raises(ValueError, match="is not from 0"):
        NameIndex().add(MQTT.read_filter("a"), subscriber)
