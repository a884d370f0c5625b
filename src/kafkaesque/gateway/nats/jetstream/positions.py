"""How far a stream is with its origins, as its own records say it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from kafkaesque.model.message_headers import PREFIX
from kafkaesque.model.records import Record

#: Of a record that a stream has from an origin: which origin, and the offset behind it there.
ORIGIN: Final = PREFIX + "nats-origin"
_DIGITS_MAX: Final = 19


class Position(NamedTuple):
    """How far a stream is with one origin."""

    next_offset: int
    #: Where that is said, when it was written, and how many bytes the log had then.
    sequence: int
    at_ms: int
    at_bytes: int


def read_origins(record: Record) -> Iterator[tuple[bytes, int]]:
    """Yield which origins a record speaks of, and how far the stream is with them."""
    for name, value in record.headers:
        if name == ORIGIN and value is not None:
            key, _, digits = value.rpartition(b" ")
            if digits.isdigit() and len(digits) <= _DIGITS_MAX:
                yield key, int(digits)
