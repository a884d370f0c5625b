"""Where a CONS is to begin: a word, one offset for all partitions, or one for each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

from kafkaesque.protocols.text.errors import BadCommand
from kafkaesque.protocols.text.examples import CONSUME_NEXT
from kafkaesque.protocols.text.subscription import PARTITION_END, PARTITIONS_MAX

#: Offsets are 63 bits long.
OFFSET_END = 1 << 63

_EXAMPLE = f"{CONSUME_NEXT} (or earliest, latest, 42 for all partitions, 0:42,1:17 for each)"


class Place(Enum):
    """Places that have a name."""

    #: The first message that there still is.
    EARLIEST = "earliest"
    #: After the last message.
    LATEST = "latest"
    #: After what the group has been given.
    NEXT = "next"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where to begin; exactly one of the three is given."""

    place: Place | None = None
    offset: int | None = None
    #: Partition -> offset.
    offsets: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))


def read_start(text: str) -> Start:
    """Return where to begin.

    Raises:
        BadCommand: it is neither a place's name nor an offset nor a list of both.
    """
    word = text.lower()
    for place in Place:
        if word == place.value:
            return Start(place=place)
    if ":" not in text:
        return Start(offset=_read_number(text, OFFSET_END, text))
    offsets: dict[int, int] = {}
    for piece in text.split(","):
        partition_text, _, offset_text = piece.partition(":")
        partition = _read_number(partition_text, PARTITION_END, text)
        if partition in offsets:
            raise BadCommand(f"{text!r} names partition {partition} twice", _EXAMPLE)
        offsets[partition] = _read_number(offset_text, OFFSET_END, text)
        if len(offsets) > PARTITIONS_MAX:
            raise BadCommand(f"more than {PARTITIONS_MAX} partitions are named", _EXAMPLE)
    return Start(offsets=offsets)


def _read_number(digits: str, end: int, text: str) -> int:
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= len(str(end))
    if not is_number or int(digits) >= end:
        raise BadCommand(f"{text!r} is not an offset to begin at", _EXAMPLE)
    return int(digits)


def write_offsets(offsets: Mapping[int, int]) -> str:
    """Return a start at these offsets, as short as it can be."""
    distinct = set(offsets.values())
    if len(distinct) == 1:
        return str(distinct.pop())
    return ",".join(f"{partition}:{offset}" for partition, offset in offsets.items())
