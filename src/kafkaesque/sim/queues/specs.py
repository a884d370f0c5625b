"""Queues that a run may have, and which of them it has."""

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from kafkaesque.sim.queues.history import QueueSpec

#: Longer than any clock jumps.
_WEEK_MS: Final = str(7 * 24 * 60 * 60 * 1000)

#: A topic that every run has.
TOPIC: Final = "events"
#: What belongs together: a queue, and those that its dead letters go to.
FAMILIES: Final = (
    (
        QueueSpec(
            name="plain",
            options={"visibility.timeout.ms": "2000"},
            is_plain=True,
            lock_ms_min=1_000,
            changes={"visibility.timeout.ms": ("1000", "3000"), "max.in.flight": ("0", "20")},
            consumers=1,
        ),
    ),
    (
        QueueSpec(
            name="retried",
            options={
                "visibility.timeout.ms": "1500",
                "delivery.limit": "3",
                "dead.letter.queue": "dead",
                "delayed.retry.min.ms": "50",
                "delayed.retry.max.ms": "400",
            },
            limit=3,
            dead_letters_to="dead",
            lock_ms_min=1_500,
            changes={"delayed.retry.min.ms": ("0", "50")},
            consumers=1,
        ),
        QueueSpec(
            name="dead",
            options={
                "visibility.timeout.ms": "1500",
                "delivery.limit": "2",
                "dead.letter.queue": "buried",
            },
            limit=2,
            dead_letters_to="buried",
            lock_ms_min=1_500,
            publishers=0,
            workers=1,
        ),
        QueueSpec(name="buried", publishers=0, workers=0),
    ),
    (
        QueueSpec(
            name="ordered",
            options={
                "visibility.timeout.ms": "1500",
                "ordered.groups": "true",
                "delivery.limit": "5",
                "dead.letter.queue": "unordered",
            },
            is_ordered=True,
            limit=5,
            dead_letters_to="unordered",
            lock_ms_min=1_500,
            workers=3,
        ),
        QueueSpec(name="unordered", publishers=0, workers=0),
    ),
    (
        QueueSpec(
            name="unique",
            options={"visibility.timeout.ms": "2000", "deduplication.ms": _WEEK_MS},
            is_unique=True,
            lock_ms_min=2_000,
        ),
    ),
    (
        QueueSpec(
            name="short",
            options={
                "visibility.timeout.ms": "1000",
                "max.length": "12",
                "overflow": "reject-publish",
            },
            lock_ms_min=1_000,
            changes={
                "max.length": ("5", "12", "40"),
                "max.length.in.flight": ("true", "false"),
            },
        ),
    ),
    (
        QueueSpec(
            name="ranked",
            options={"visibility.timeout.ms": "1500", "max.priority": "9"},
            priorities=10,
            lock_ms_min=1_500,
        ),
    ),
    (
        QueueSpec(
            name="single",
            options={"visibility.timeout.ms": "1500", "sharing": "single-active"},
            is_single=True,
            lock_ms_min=1_500,
            workers=0,
            consumers=2,
        ),
    ),
    (
        QueueSpec(
            name="late",
            options={
                "visibility.timeout.ms": "1500",
                "dead.letter.queue": "too-late",
            },
            has_lives=True,
            dead_letters_to="too-late",
            lock_ms_min=1_500,
            changes={"message.ttl.ms": ("0", "1500", "4000"), "delay.ms": ("0", "300")},
        ),
        QueueSpec(name="too-late", publishers=0, workers=1, lock_ms_min=30_000),
    ),
    (
        QueueSpec(
            name="purged",
            options={"visibility.timeout.ms": "1500"},
            lock_ms_min=1_500,
            is_purged=True,
            consumers=1,
        ),
    ),
    (
        QueueSpec(
            name="over-events",
            options={
                "visibility.timeout.ms": "1500",
                "source.topic": TOPIC,
                "source.start": "earliest",
            },
            topic=TOPIC,
            lock_ms_min=1_500,
            publishers=0,
            workers=4,
            take_max=40,
        ),
    ),
)
#: So many of them a run has: each queue has a log of its own, that all brokers keep.
FAMILIES_MAX: Final = 3


def draw_queues(seed: int) -> dict[str, QueueSpec]:
    """Return the queues of a run, by name; dead letters come after what they come from."""
    chance = random.Random(f"{seed}/queues")
    families = chance.sample(FAMILIES, chance.randint(1, FAMILIES_MAX))
    return {spec.name: spec for family in families for spec in family}


def sealed(specs: Mapping[str, QueueSpec]) -> dict[str, QueueSpec]:
    """Return queues that hold messages as encrypted ones, and others as they are."""
    return {
        name: spec
        if spec.topic
        else replace(spec, options={**spec.options, "encryption": "aes256-gcm"})
        for name, spec in specs.items()
    }
