"""Messages as they are received."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from kafkaesque.client.errors import KafkaesqueError
from kafkaesque.model import message_headers as names
from kafkaesque.model.records import Record


class BadBody(KafkaesqueError, ValueError):
    """A message's value is not what was asked for."""


class Delivery:
    """A message of a queue: what it says, and which attempt at it this is."""

    __slots__ = (
        "all_headers",
        "attempt",
        "deaths",
        "failures",
        "headers",
        "key",
        "offset",
        "partition",
        "queue",
        "timestamp_ms",
        "value",
    )

    def __init__(
        self, queue: str, record: Record, attempt: int, failures: int, partition: int = 0
    ) -> None:
        self.queue = queue
        #: Of the queue, which may have several.
        self.partition = partition
        #: Its number in the queue's partition.
        self.offset = record.offset
        #: Which time it is given out, from 1 on.
        self.attempt = attempt
        #: How many attempts have failed before.
        self.failures = failures
        #: When it was put: Unix time in milliseconds.
        self.timestamp_ms = record.timestamp_ms
        self.key = record.key
        self.value = record.value or b""
        #: In their order; names may repeat.
        self.all_headers = tuple(each for each in record.headers if not _is_ours(each[0]))
        #: By name; the last one of a name counts.
        self.headers = dict(self.all_headers)
        #: Why it was given up, for each queue that it came from, as brokers tell it.
        self.deaths = [
            json.loads(value) for name, value in record.headers if name == names.DEATH and value
        ]

    @property
    def time(self) -> datetime:
        """When it was put."""
        return datetime.fromtimestamp(self.timestamp_ms / 1000, UTC)

    def text(self) -> str:
        """Return the value as text.

        Raises:
            BadBody: it is not UTF-8.
        """
        try:
            return self.value.decode()
        except UnicodeDecodeError:
            raise BadBody(f"message {self.offset} of {self.queue} is not UTF-8") from None

    def json(self) -> Any:
        """Return the value as JSON.

        Raises:
            BadBody: it is none.
        """
        try:
            return json.loads(self.value)
        except (ValueError, RecursionError) as error:
            raise BadBody(f"message {self.offset} of {self.queue} is not JSON: {error}") from None

    def __repr__(self) -> str:
        return (
            f"<message {self.offset} of {self.queue}, attempt {self.attempt}, "
            f"{len(self.value)} bytes>"
        )


def _is_ours(name: str) -> bool:
    return name.startswith(names.PREFIX)


class Peeked(NamedTuple):
    """A message that was looked at and not taken."""

    message: Delivery
    #: `ready`, `delayed`, `in-flight`, `parked` or `moving`.
    place: str
    #: Unix time in milliseconds; 0: not known, or never.
    not_before_ms: int
    not_after_ms: int


class QueueDescription(NamedTuple):
    """A queue as it is now."""

    name: str
    #: The broker that leads its log; -1: none at the moment.
    leader: int
    replicas: tuple[int, ...]
    #: All options with their values; those that somebody has set are named in `set_options`.
    options: dict[str, str]
    set_options: frozenset[str]
    #: Messages by where they are, such as `ready`, and more; empty if it was not asked for.
    counts: dict[str, int]


def claims_of(deliveries: Sequence[Delivery]) -> list[tuple[int, int, int]]:
    """Return what names messages in a settlement: first offset, end offset, attempt."""
    return [(each.offset, each.offset + 1, each.attempt) for each in deliveries]
