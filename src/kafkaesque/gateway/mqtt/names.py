"""Topics of MQTT as routing keys of `amq.topic`, which all protocols share, and back."""

from __future__ import annotations

from typing import Final

from kafkaesque.routing.names import (
    AMQP,
    MANY,
    MQTT,
    ONE,
    FilterLevels,
    NameFilter,
    NameKey,
    key_of_routing_key,
    levels_of_key,
)

#: Topics whose keys are not worked out again.
_REMEMBERED_MAX: Final = 1_024
_keys: dict[str, str] = {}


def routing_key_of(topic: str) -> str:
    """Return the routing key that a topic's name is for AMQP and all others.

    Raises:
        BadName: it has too many levels, or is too long.
    """
    found = _keys.get(topic)
    if found is None:
        found = AMQP.write_name(MQTT.read_name(topic))
        if len(_keys) >= _REMEMBERED_MAX:
            _keys.clear()
        _keys[topic] = found
    return found


def key_of_topic(topic: str) -> NameKey:
    """Return the key of a topic's name.

    Raises:
        BadName: it has too many levels, or is too long.
    """
    return MQTT.key_of(topic)


def topic_of(key: NameKey) -> str | None:
    """Return a name as MQTT writes it; None if it cannot."""
    try:
        key.encode()
    except UnicodeEncodeError:
        return None
    return str(key)


def key_of_record(routing_key: bytes | None) -> NameKey:
    """Return the name of a record of a queue, by its key."""
    return key_of_routing_key((routing_key or b"").decode("utf-8", "surrogateescape"))


def binding_key_of(name_filter: NameFilter) -> str:
    """Return a key by which a queue gets all that a filter wants, and maybe more.

    What AMQP cannot say is said wider: who reads the queue has to look again.
    """
    levels = tuple(ONE if each in ("*", "#") else each for each in name_filter.levels)
    while True:
        text = _written(levels)
        if len(text.encode(errors="surrogateescape")) <= AMQP.name_bytes_max:
            return text
        levels = (*levels[: max(0, len(levels) - 2)], MANY)


def _written(levels: FilterLevels) -> str:
    (text,) = AMQP.write_filters(NameFilter(levels=levels))
    return text


__all__ = [
    "binding_key_of",
    "key_of_record",
    "key_of_topic",
    "levels_of_key",
    "routing_key_of",
    "topic_of",
]
