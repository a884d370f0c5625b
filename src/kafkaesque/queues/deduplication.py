"""Identities of messages that have arrived of late, so that none is put in twice.

The window is cut into slices, and is forgotten a slice at a time: so an identity is remembered for
the window's length, and for an eighth more at most.
"""

from typing import NamedTuple

from kafkaesque.queues.runs import Reader, Writer

_SLICES = 8


class _Slice(NamedTuple):
    start_ms: int
    offsets: dict[bytes, int]


class Identities:
    """Which identity is at which offset."""

    __slots__ = ("_slices", "count")

    def __init__(self) -> None:
        self._slices: tuple[_Slice, ...] = ()
        self.count = 0

    def find(self, identity: bytes, wall_ms: int, window_ms: int) -> int | None:
        """Return where a message of this identity is, if it has come within the window."""
        for start_ms, offsets in reversed(self._slices):
            if not _is_past(start_ms, wall_ms, window_ms):
                offset = offsets.get(identity)
                if offset is not None:
                    return offset
        return None

    def count_within(self, wall_ms: int, window_ms: int) -> int:
        """Return how many have come within the window: what is past is forgotten with the next."""
        return sum(
            len(offsets)
            for start_ms, offsets in self._slices
            if not _is_past(start_ms, wall_ms, window_ms)
        )

    def begin(self, wall_ms: int, window_ms: int) -> "tuple[_Slice, ...]":
        """Forget what is past, and begin a slice if it is time; return what `end` takes back."""
        before = self._slices
        if not before or wall_ms >= before[-1].start_ms + window_ms // _SLICES:
            kept = tuple(each for each in before if not _is_past(each.start_ms, wall_ms, window_ms))
            self._slices = (*kept, _Slice(wall_ms, {}))
            self.count = sum(len(each.offsets) for each in kept)
        return before

    def end(self, before: "tuple[_Slice, ...]") -> None:
        """Take back a `begin`."""
        self._slices = before
        self.count = sum(len(each.offsets) for each in before)

    def note(self, identity: bytes, offset: int) -> int | None:
        """Remember one; return what was remembered in its place in the newest slice."""
        offsets = self._slices[-1].offsets
        before = offsets.get(identity)
        offsets[identity] = offset
        self.count += before is None
        return before

    def take_back(self, identity: bytes, before: int | None) -> None:
        """Take back a `note`."""
        offsets = self._slices[-1].offsets
        if before is None:
            del offsets[identity]
            self.count -= 1
        else:
            offsets[identity] = before

    def write(self, writer: Writer) -> None:
        writer.number(len(self._slices))
        for start_ms, offsets in self._slices:
            writer.number(start_ms)
            writer.number(len(offsets))
            for identity, offset in sorted(offsets.items()):
                writer.bytes(identity)
                writer.number(offset)

    def read(self, reader: Reader) -> None:
        slices = []
        for _ in range(reader.count()):
            start_ms = reader.number()
            pairs = [(reader.bytes(), reader.number()) for _ in range(reader.count())]
            slices.append(_Slice(start_ms, dict(pairs)))
        self._slices = tuple(slices)
        self.count = sum(len(each.offsets) for each in slices)


def _is_past(start_ms: int, wall_ms: int, window_ms: int) -> bool:
    return start_ms + window_ms + window_ms // _SLICES <= wall_ms
