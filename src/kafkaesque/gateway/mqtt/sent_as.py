"""How messages were sent that the client has not acknowledged, where nothing else says so any more.

What is sent again is what was sent (4.4.0-1, 3.10.4-3): with the same QoS, flag and identifiers,
though its subscription is gone or has other options now. So before a subscription changes, a note
in the session's queue says how each message under way was sent that it may concern. It ends with
the last of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

import msgspec

from kafkaesque.gateway.mqtt.feed import Taken
from kafkaesque.gateway.mqtt.subscriptions import Match
from kafkaesque.routing.names import NameKey

#: Numbers before the identifiers: an offset, the QoS, the flag, and how many identifiers there are.
_HEAD: Final = 4

#: Finds out whether a message is still in the session's queue, and calls if it is not.
OnGone = Callable[[], None]
Find = Callable[[Taken, int, OnGone], None]


class Sent(msgspec.Struct, frozen=True, eq=False):
    """A message of the session's queue that the client has, or is about to get."""

    taken: Taken
    key: NameKey
    match: Match


class _Note:
    """One note."""

    __slots__ = ("open", "taken")

    def __init__(self, offsets: Iterable[int]) -> None:
        #: Offsets of messages that are not acknowledged.
        self.open: Final = set(offsets)
        #: The note, once it has come back.
        self.taken: Taken | None = None


class SentAs:
    """Of one connection."""

    __slots__ = ("_find", "_matches", "_notes")

    def __init__(self, find: Find) -> None:
        self._find: Final = find
        #: By offset.
        self._matches: Final[dict[int, Match]] = {}
        #: By their first offset: no message is noted twice.
        self._notes: Final[dict[int, _Note]] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nothing is noted of any message."""
        return not self._notes and not self._matches

    def match(self, offset: int) -> Match | None:
        """Return how a message was sent, if that is noted."""
        return self._matches.get(offset)

    def add(self, sent: Sequence[Sent]) -> list[int]:
        """Return what a note has to say of messages; nothing, if others say it already."""
        found = {each.taken.offset: each.match for each in sent}
        for offset in self._matches:
            found.pop(offset, None)
        if not found:
            return []
        self._matches.update(found)
        self._notes[min(found)] = _Note(found)
        return _numbers_of(found)

    def remove(self, numbers: Sequence[int]) -> None:
        """A note could not be kept."""
        found = _read(numbers)
        for offset in found:
            self._matches.pop(offset, None)
        self._notes.pop(min(found), None)

    def take(self, numbers: Sequence[int], taken: Taken) -> None:
        """A note has come back from the queue, of this connection or of one before."""
        found = _read(numbers)
        if not found:
            taken.feed.settle(taken)
            return
        note = self._notes.get(min(found))
        if note is None:
            note = self._notes[min(found)] = _Note(found)
            self._matches.update(found)
            for offset in found:
                # That it was acknowledged may not have been heard of.
                self._find(taken, offset, partial(self.forget, offset))
        note.taken = taken
        self._maybe_end()

    def forget(self, offset: int) -> None:
        """The client is done with a message."""
        if self._matches.pop(offset, None) is not None:
            for note in self._notes.values():
                note.open.discard(offset)
            self._maybe_end()

    def _maybe_end(self) -> None:
        for first, note in list(self._notes.items()):
            if not note.open and note.taken is not None:
                del self._notes[first]
                note.taken.feed.settle(note.taken)


def _numbers_of(matches: dict[int, Match]) -> list[int]:
    numbers: list[int] = []
    for offset, match in matches.items():
        numbers += (offset, match.qos, int(match.as_published), len(match.identifiers))
        numbers += match.identifiers
    return numbers


def _read(numbers: Sequence[int]) -> dict[int, Match]:
    """Return what a note says; of one that is cut short, what there is."""
    found: dict[int, Match] = {}
    at = 0
    while at + _HEAD <= len(numbers):
        offset, qos, is_retained, count = numbers[at : at + _HEAD]
        at += _HEAD
        found[offset] = Match(qos, bool(is_retained), tuple(numbers[at : at + count]))
        at += count
    return found
