"""Offsets of partitions, and their JSON form, which is that of Spark's own Kafka source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from kafkaesque.spark.errors import WrongOption

#: (topic, partition)
Partition: TypeAlias = tuple[str, int]
Offsets: TypeAlias = dict[Partition, int]
#: What stands in a checkpoint: {"topic": {"0": 23}}.
OffsetsJson: TypeAlias = dict[str, dict[str, int]]

LATEST, EARLIEST = -1, -2
NUMBER_MAX = 2**63 - 1


def to_json(offsets: Mapping[Partition, int]) -> OffsetsJson:
    """Return the form for a checkpoint, in a fixed order."""
    found: OffsetsJson = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def from_json(found: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Return what `to_json` was given."""
    return {
        (topic, int(partition)): offset
        for topic, partitions in found.items()
        for partition, offset in partitions.items()
    }


def parse_offsets(option: str, text: str, *, least: int) -> Offsets:
    """Return the numbers of an option's value {"topic": {"0": 23}}, none less than `least`.

    Raises:
        WrongOption: it is something else.
    """
    wanted = 'a JSON object such as {"topic":{"0":23}}'
    try:
        topics = _object(json.loads(text))
        pairs = [
            ((topic, int(partition)), number)
            for topic, partitions in topics.items()
            for partition, number in _object(partitions).items()
        ]
    except ValueError:
        raise WrongOption(f"the option {option} is {wanted}, not {text!r}") from None
    for (topic, partition), number in pairs:
        is_number = isinstance(number, int) and not isinstance(number, bool)
        if partition < 0 or not is_number or not least <= number <= NUMBER_MAX:
            raise WrongOption(
                f"the option {option} has {number!r} for partition {partition} of {topic!r}; it is"
                f" {wanted}, with numbers of at least {least}"
            )
    return dict(pairs)


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError
    return value


def parse_partitions(option: str, text: str) -> frozenset[Partition]:
    """Return the partitions of an option's value {"topic": [0, 1]}.

    Raises:
        WrongOption: it is something else.
    """
    try:
        pairs = [
            (topic, number)
            for topic, numbers in _object(json.loads(text)).items()
            for number in _numbers(numbers)
        ]
    except ValueError:
        pairs = []
    if not pairs or min(number for _, number in pairs) < 0:
        raise WrongOption(
            f'the option {option} is a JSON object such as {{"topic":[0,1]}}, not {text!r}'
        )
    return frozenset(pairs)


def _numbers(value: Any) -> list[int]:
    if not isinstance(value, list) or any(type(each) is not int for each in value):
        raise ValueError
    return value
