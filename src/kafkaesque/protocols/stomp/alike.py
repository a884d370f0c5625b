"""Frames that came together and say the same but for a few headers and their bodies.

Theory of operation. A client that sends many messages writes the same head each time, with another
receipt or another length. Once one head was read, those that follow are compared with it piece by
piece: what stands between the values that may differ has to be the same bytes. So the values are
cut out, and nothing else is read again. Whatever is not certain to be read like this ends the run,
and is left to those who read frame by frame, and tell what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kafkaesque.protocols.stomp.heads import ODD, PLAIN_HEAD_BYTES_MAX

#: Frames of one run; what follows is another one.
RUN_FRAMES_MAX: Final = 512
_LENGTH: Final = "content-length"


class Alike(NamedTuple):
    """What frames that are alike say, one after the other."""

    #: Where the last one ends.
    end: int
    #: What each frame says, by the names of headers that may differ: of those that they have.
    values: dict[str, list[str]]
    bodies: list[bytes]


class _Head:
    """A head in pieces: before each but the first one stands a value that may differ."""

    __slots__ = ("first", "length_at", "names", "others")

    def __init__(self, head: bytes, varying: Sequence[str]) -> None:
        places = [(head.find(f"\n{name}:".encode()), name) for name in varying]
        found = sorted([each for each in places if each[0] >= 0])
        self.names: Final = [name for _, name in found]
        #: The number of the length among the values; negative: it is not said.
        self.length_at: Final = self.names.index(_LENGTH) if _LENGTH in self.names else -1
        pieces: list[bytes] = []
        at = 0
        for place, name in found:
            start = place + len(name) + 2
            pieces.append(head[at:start])
            at = head.find(b"\n", start)
        pieces.append(head[at:])
        self.first: Final = pieces[0]
        self.others: Final = pieces[1:]

    def match(self, data: bytearray, at: int, bytes_max: int) -> tuple[int, list[str]] | None:
        """Return where a head like this one ends, and the values in it; None: it is another one."""
        if not data.startswith(self.first, at):
            return None
        limit = at + bytes_max
        at += len(self.first)
        values: list[str] = []
        for piece in self.others:
            end = data.find(b"\n", at, limit)
            if end < 0 or not data.startswith(piece, end) or ODD.search(data, at, end) is not None:
                return None
            values.append(data[at:end].decode("ascii"))
            at = end + len(piece)
        return (at, values) if at <= limit else None


def cut_alike(
    data: bytearray,
    at: int,
    head: bytes,
    varying: Sequence[str],
    *,
    head_bytes_max: int,
    body_bytes_max: int,
) -> Alike | None:
    """Return the whole frames at a place of `data` whose head is `head`, or nearly so.

    `head` is plain, and ends with an empty line; the first header of each name of `varying` may
    differ. None: there is no such frame. `content-length` has to be among `varying`.
    """
    like = _Head(head, varying)
    head_bytes_max = min(head_bytes_max, PLAIN_HEAD_BYTES_MAX)
    length_at = like.length_at
    said: list[list[str]] = []
    bodies: list[bytes] = []
    with memoryview(data) as view:
        while len(bodies) < RUN_FRAMES_MAX:
            start = at
            while data.startswith(b"\n", start):
                start += 1
            found = like.match(data, start, head_bytes_max)
            if found is None:
                break
            body_at, values = found
            if length_at < 0:
                end = data.find(b"\0", body_at, body_at + body_bytes_max + 1)
            else:
                end = _end_of(data, body_at, values[length_at], body_bytes_max)
            if end < 0:
                break
            said.append(values)
            bodies.append(view[body_at:end].tobytes())
            at = end + 1
    if not bodies:
        return None
    columns = map(list, zip(*said, strict=True))
    return Alike(at, dict(zip(like.names, columns, strict=True)), bodies)


def _end_of(data: bytearray, at: int, text: str, bytes_max: int) -> int:
    """Return where a body ends; -1: not all of it is there, or its length is to be looked at."""
    # It is ASCII, and as a broker would write it: so it can be told from the body.
    if not text.isdigit() or (text[0] == "0" and len(text) > 1):
        return -1
    length = int(text)
    end = at + length
    return end if length <= bytes_max and data.startswith(b"\0", end) else -1
