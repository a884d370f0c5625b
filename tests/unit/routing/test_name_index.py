"""Bounds of the index of names, and what its subscribers are."""

import pytest

from kafkaesque.routing.name_index import (
    CACHED_SUBSCRIBERS_MAX,
    SHAPES_MAX,
    NameIndex,
)
from kafkaesque.routing.names import AMQP, MQTT, NATS
from kafkaesque.routing.subscribers import SUBSCRIBER_MAX


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


def test_filters_of_more_shapes_than_are_looked_up_are_found_too() -> None:
    index = NameIndex()
    levels = 10
    texts = [
        "/".join("+" if mask >> at & 1 else "a" for at in range(levels))
        for mask in range(4 * SHAPES_MAX)
    ]
    for number, text in enumerate(texts):
        index.add(MQTT.read_filter(text), number)
    key = MQTT.key_of("/".join("a" * levels))
    assert list(index.match(key)) == list(range(len(texts)))
    for number, text in enumerate(texts):
        assert index.remove(MQTT.read_filter(text), number)
    assert len(index) == 0
    assert list(index.match(key)) == []


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
