"""The keys of a closed segment, and the blocks in which each of them stands: a file beside it.

A block is a run of whole batches. Who wants few of a segment's keys reads the blocks that have them
and passes over the others. Batches of transactions, and control batches, count as wanted by
everybody: what a reader makes of a transaction is in all of its batches.

The file is never needed. One that is missing, damaged, of another format or of another segment says
nothing, and neither does one of a segment with too many keys: then the segment is read.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from struct import Struct
from typing import Final, NamedTuple

from kafkaesque.env.disk import Buffer
from kafkaesque.model.checksum import crc32c

KEY_INDEX_SUFFIX: Final = ".keys"
#: The file while it is being written. Of no worth after a crash.
NEW_SUFFIX: Final = ".new"

#: A block is closed by the batch with which it is as long.
BLOCK_BYTES: Final = 16 * 1024
#: With more keys than this, or with a longer file, a segment has no index.
KEYS_MAX: Final = 65_536
FILE_BYTES_MAX: Final = 32 * 1024 * 1024
#: With more than this to decode for all keys that are wanted, the whole segment counts as wanted.
PLACES_BYTES_MAX: Final = 1024 * 1024

_MAGIC: Final = b"KQKI"
_FORMAT: Final = 1
#: Magic, format, checksum, base offset, end offset, size, position and checksum of the last batch's
#: header, number of blocks, number of keys, bytes of keys, bytes of places. The first places are
#: those that everybody wants, and belong to no key.
_HEAD: Final = Struct("<4sHxxIqqqqIIIII")
_NO_CHECKSUM: Final = 0
#: A number of blocks that no segment has: there are too many keys.
_TOO_MANY: Final = 2**32 - 1
_WORD_BYTES: Final = 4
_OFFSET_BYTES: Final = 8


def key_index_paths(path: str) -> tuple[str, str]:
    """Return what an index is called, and what while it is being written."""
    return path, path + NEW_SUFFIX


class SegmentMark(NamedTuple):
    """Which segment an index was made of.

    The last batch's header has its offset and its leader epoch. Where two logs have these two in
    common they have had all before it in common, so what is left is what compaction takes out: and
    that changes the size.
    """

    base_offset: int
    end_offset: int
    size_bytes: int
    last_position: int
    last_header_checksum: int


class WantedRuns:
    """Where in a segment there may be something wanted: rising offsets, as runs."""

    __slots__ = ("ends", "firsts", "mark")

    def __init__(self, mark: SegmentMark, firsts: array[int], ends: array[int]) -> None:
        self.mark: Final = mark
        #: The first offset of each run.
        self.firsts: Final = firsts
        #: The offset after each run.
        self.ends: Final = ends

    @property
    def size_bytes(self) -> int:
        """About what it takes in memory."""
        return 2 * _OFFSET_BYTES * len(self.firsts) + 200


def write_key_index(
    mark: SegmentMark,
    block_offsets: array[int],
    for_all: Buffer,
    places: dict[bytes, bytearray],
) -> bytes | None:
    """Return the file's contents, or None if it would be too long.

    `block_offsets` are the offsets of the blocks' first batches. `places` are numbers of blocks as
    `add_place` writes them, `for_all` those of blocks that everybody wants.
    """
    keys = sorted(places)
    lists = [for_all, *(places[key] for key in keys)]
    key_lengths = array("I", map(len, keys))
    list_lengths = array("I", map(len, lists))
    body = b"".join(
        (*map(_little, (block_offsets, key_lengths, list_lengths)), b"".join(keys), *lists)
    )
    counts = (len(block_offsets), len(keys), sum(key_lengths), sum(list_lengths))
    if _HEAD.size + len(body) > FILE_BYTES_MAX:
        return None
    return _with_checksum(mark, counts, body)


def write_too_many(mark: SegmentMark) -> bytes:
    """Return the contents of the file of a segment that has too many keys."""
    return _with_checksum(mark, (_TOO_MANY, 0, 0, 0), b"")


def _with_checksum(mark: SegmentMark, counts: tuple[int, int, int, int], body: bytes) -> bytes:
    head = _HEAD.pack(_MAGIC, _FORMAT, _NO_CHECKSUM, *mark, *counts)
    checksum = crc32c(body, crc32c(head))
    return _HEAD.pack(_MAGIC, _FORMAT, checksum, *mark, *counts) + body


def add_place(places: bytearray, before: int, block: int) -> None:
    """Add a block behind the last one, `before`, which is -1 for the first."""
    step = block - before
    while step > 0x7F:
        places.append(step & 0x7F | 0x80)
        step >>= 7
    places.append(step)


def select(data: Buffer, may_want: Callable[[bytes], bool]) -> WantedRuns | None:
    """Return where keys may stand that are wanted; None if the segment has too many keys.

    `may_want` is asked once for each key; a record without one counts as one with an empty one.

    Raises:
        ValueError: the file is damaged, or of another format.
    """
    found = _read(data)
    if found is None:
        return None
    mark, block_offsets, lists = found
    wanted = [next(lists)[1], *(places for key, places in lists if may_want(key))]
    if sum(map(len, wanted)) > PLACES_BYTES_MAX:
        blocks: Sequence[int] = range(len(block_offsets))
    else:
        blocks = sorted(set().union(*map(_blocks, wanted)))
    return _runs(mark, block_offsets, blocks)


def _runs(mark: SegmentMark, block_offsets: array[int], blocks: Sequence[int]) -> WantedRuns:
    firsts, ends = array("q"), array("q")
    count, before = len(block_offsets), -2
    for block in blocks:
        end = block_offsets[block + 1] if block + 1 < count else mark.end_offset
        if block == before + 1:
            ends[-1] = end
        else:
            firsts.append(block_offsets[block])
            ends.append(end)
        before = block
    return WantedRuns(mark, firsts, ends)


def _blocks(places: bytes) -> Iterator[int]:
    if places.isascii():  # every step is one byte
        steps = accumulate(places, initial=-1)
        next(steps)
        return steps
    return _long_blocks(places)


def _long_blocks(places: bytes) -> Iterator[int]:
    block, step, shift = -1, 0, 0
    for byte in places:
        step |= (byte & 0x7F) << shift
        if byte & 0x80:
            shift += 7
        else:
            block += step
            yield block
            step = shift = 0


def _read(
    data: Buffer,
) -> tuple[SegmentMark, array[int], Iterator[tuple[bytes, bytes]]] | None:
    """Return whose index it is, where blocks begin, and lists of places by key."""
    if not _HEAD.size <= len(data) <= FILE_BYTES_MAX:
        raise ValueError(f"an index of keys of {len(data)} bytes")
    magic, version, stated, *rest = _HEAD.unpack_from(data)
    mark, (block_count, key_count, key_bytes, list_bytes) = SegmentMark(*rest[:5]), rest[5:]
    if magic != _MAGIC or version != _FORMAT:
        raise ValueError("not an index of keys of this format")
    is_full = block_count == _TOO_MANY
    at = _HEAD.size
    ends = list(
        accumulate(
            (
                0 if is_full else block_count * _OFFSET_BYTES,
                key_count * _WORD_BYTES,
                0 if is_full else (key_count + 1) * _WORD_BYTES,
                key_bytes,
                list_bytes,
            ),
            initial=at,
        )
    )
    head = _HEAD.pack(_MAGIC, _FORMAT, _NO_CHECKSUM, *rest)
    view = memoryview(data)
    # The bytes that only fill up are zero, or it is not what was written.
    if ends[-1] != len(data) or bytes(view[6:8]) != b"\0\0":
        raise ValueError("an index of keys is longer or shorter than it says")
    if crc32c(view[at:], crc32c(head)) != stated:
        raise ValueError("the checksum of an index of keys does not fit")
    if is_full:
        return None
    parts = [bytes(view[begin:end]) for begin, end in pairwise(ends)]
    block_offsets, key_lengths, list_lengths = (
        _words(kind, part) for kind, part in zip("qII", parts, strict=False)
    )
    if sum(key_lengths) != key_bytes or sum(list_lengths) != list_bytes:
        raise ValueError("the lengths in an index of keys do not add up")
    keys, places = parts[3], parts[4]
    return mark, block_offsets, _lists(key_lengths, list_lengths, keys, places)


def _lists(
    key_lengths: array[int], list_lengths: array[int], keys: bytes, places: bytes
) -> Iterator[tuple[bytes, bytes]]:
    at = list_lengths[0]
    yield b"", places[:at]
    begin = 0
    for key_length, length in zip(key_lengths, list_lengths[1:], strict=True):
        yield keys[begin : begin + key_length], places[at : at + length]
        begin += key_length
        at += length


def _little(words: array[int]) -> bytes:
    if sys.byteorder == "big":
        words = array(words.typecode, words)
        words.byteswap()
    return words.tobytes()


def _words(kind: str, data: bytes) -> array[int]:
    words: array[int] = array(kind)
    words.frombytes(data)
    if sys.byteorder == "big":
        words.byteswap()
    return words
