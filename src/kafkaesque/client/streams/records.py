"""Records of topics, as they are sent and as they are read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from kafkaesque.client.message import Headers


class Sent(NamedTuple):
    """Where a record is that was acknowledged."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Event:
    """A record that is to be sent: something that has happened, or what follows from another."""

    topic: str
    value: Any
    key: Any = None
    headers: Headers = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRecord:
    """A record that was read."""

    topic: str
    partition: int
    offset: int
    #: Unix time in milliseconds.
    timestamp_ms: int
    key: Any
    value: Any
    #: By name; the last one of a name counts.
    headers: Mapping[str, bytes | None]
    #: As they came.
    raw_key: bytes | None
    raw_value: bytes | None

    def text(self) -> str:
        """Return the value's bytes as text; raise UnicodeDecodeError for what is no UTF-8."""
        return (self.raw_value or b"").decode()

    @property
    def time(self) -> datetime:
        """When it was written, by its producer's clock or the broker's, as the topic has it."""
        return datetime.fromtimestamp(self.timestamp_ms / 1000, UTC)
