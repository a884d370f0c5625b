"""What answers to CONS say, read without the code that writes them."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kafkaesque.sim.text.link import Answer

_MESSAGE: Final = re.compile(r"MSG (\d+) (\d+) (?:-|\d+|[-\d]+T[:.\d]+Z) (\{.*\})")
_LAST: Final = re.compile(r"OK (\d+) messages?; go on with: CONS (\S+) (\S+) (\S+?)(?:; (.*))?")
#: The group goes on, and no offsets are named.
NEXT: Final = "next"


class Shown(NamedTuple):
    """A message."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes


class Consumed(NamedTuple):
    """What a CONS has shown."""

    messages: list[Shown]
    #: Where to go on, as it was written.
    start: str
    note: str

    def of(self, partition: int) -> list[Shown]:
        """Return a partition's messages."""
        return [each for each in self.messages if each.partition == partition]

    @property
    def partitions(self) -> list[int]:
        """The partitions, in the order in which they are shown."""
        return [each.partition for each in self.messages]


def read_consumed(answer: Answer, topic: str, subscription_id: str) -> Consumed | None:
    """Return what an OK to CONS has shown; None if it is not as it should be."""
    last = _LAST.fullmatch(answer.last)
    if last is None or (last[2], last[3]) != (topic, subscription_id):
        return None
    messages = []
    for line in answer.lines:
        shown = _read_message(line)
        if shown is None:
            return None
        messages.append(shown)
    if len(messages) != int(last[1]):
        return None
    return Consumed(messages=messages, start=last[4], note=last[5] or "")


def _read_message(line: str) -> Shown | None:
    found = _MESSAGE.fullmatch(line)
    if found is None:
        return None
    try:
        message = json.loads(found[3])
    except ValueError:
        return None
    key, body = message.get("Key"), message.get("Body")
    if not isinstance(body, str) or not isinstance(key, str | None):
        return None
    return Shown(
        partition=int(found[1]),
        offset=int(found[2]),
        key=None if key is None else key.encode(),
        value=body.encode(),
    )


def read_start(start: str, partitions: Sequence[int]) -> Mapping[int, int] | None:
    """Return where each partition goes on; None if it is not said for each."""
    if start.isdecimal():
        return dict.fromkeys(partitions, int(start))
    pairs = [each.partition(":") for each in start.split(",")]
    if not all(place.isdecimal() and offset.isdecimal() for place, _, offset in pairs):
        return None
    found = {int(place): int(offset) for place, _, offset in pairs}
    return found if sorted(found) == sorted(partitions) else None


def write_start(positions: Mapping[int, int]) -> str:
    """Return where to begin."""
    return ",".join(f"{partition}:{offset}" for partition, offset in positions.items())
