"""The bytes of the write-ahead log: blocks of records, and how far they can be believed.

Theory of operation. What one commit writes is one block: a header with a checksum over everything,
then records, padded to a sector. A block counts as a whole or not at all; since nothing of a commit
is acknowledged before all of it is synced, dropping a torn one loses nothing. Files are reused, so
old blocks may follow the newest one: the checksum begins with the number of the file and the
position, which no two blocks ever share, and block numbers go up by one. The first record of a file
says where the file before it ended. So three things that look alike can be told apart: the torn
last block (ends the log), the end of a file (the next one says so), and damage in the middle
(something newer and whole lies behind it).

The next file is there before it is needed, and the current one says so before anything goes into
the next: with one commit the next file is made, its size and a block of its own (`PREPARED`, number
0, outside of the sequence) are synced; the last block of the current file, in a later commit, ends
with a record that the next one follows (`NEXT`); only then blocks go there. So a file that follows,
and what it had durably before its first commit, can be missed like all that was synced.
"""

from collections.abc import Iterator, Sequence
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from kafkaesque.env.disk import Buffer, File
from kafkaesque.model.checksum import crc32c, shifted

#: Magic, checksum, block number, bytes of all records, number of records.
BLOCK = Struct("<IIQII")
#: Group, kind, term, first index, last index, index before it, payload bytes.
RECORD = Struct("<IBIQQQI")
SALT = Struct("<QQ")
MAGIC = 0x4B514C57
MAGIC_BYTES = MAGIC.to_bytes(4, "little")
#: Blocks begin at multiples of this: what is durable is never in the sector of what is not.
ALIGNMENT = 512
#: Magic and checksum are what the checksum does not cover.
CHECKED_FROM = 8
#: Number of the block with which a file is made: it is none of the sequence.
PREPARED_BLOCK = 0
#: Smaller blocks are put together before they are written.
JOIN_BYTES_MAX = 64 * 1024
#: What is read at once in recovery.
READ_BYTES = 1024 * 1024
#: No block is longer; what claims to be is not a block.
BLOCK_BYTES_MAX = 2**31
#: What may be a block, and is no longer, is checksummed where it is found.
SHORT_BYTES_MAX = 8 * 1024
#: Longer ones that are looked at together.
CANDIDATES_MAX = 64 * 1024


class RecordKind(IntEnum):
    """What a record says; the first three are `EntryKind`."""

    DATA = 0
    NOOP = 1
    CONFIG = 2
    #: `term`, `last_index` = vote, as `write_node` writes it.
    HARD_STATE = 3
    #: Everything after `last_index` is void.
    TRUNCATE = 4
    #: `first_index` = start offset, `last_index` = last index that is gone.
    START = 5
    #: The payload is the new beginning.
    RESET = 6
    #: The payload is the identity.
    CREATE = 7
    DELETE = 8
    #: A write-caching log went on in a segment with the base offset `first_index`; `last_index` =
    #: when it was made, or 0.
    SEGMENT = 9
    #: `term` begins at `first_index`.
    TERM = 10
    #: First of a file (behind `PREPARED`): `first_index` = number of the file before, `last_index`
    #: = where it ended, `prev_index` = the bytes that this file was given before anything was
    #: written to it, or 0.
    FILE = 11
    #: The payload says which segments were replaced by which (`segment_swap`).
    REPLACE = 12
    #: `first_index` = the number of the loss after which all of the log was copied; 0: it is over.
    AMNESIA = 13
    #: The batch at `first_index`, whose record may stand before this one, was the first of a
    #: segment; `last_index` = when that was made. It decides where files end, and nothing else.
    ROLL = 14
    #: Alone in the block with which a file was made before it was needed: `first_index` = number of
    #: the file before, `last_index` = up to where that one was durable then, `prev_index` = the
    #: bytes that this file was given.
    PREPARED = 15
    #: Last of a file: the file `first_index` follows. It is durable, with its `PREPARED`.
    NEXT = 16


#: What is said of files, and not of a log.
FILE_KINDS = frozenset((RecordKind.FILE, RecordKind.PREPARED, RecordKind.NEXT))


class WalRecord(NamedTuple):
    """One record."""

    group: int
    kind: int
    term: int
    first_index: int
    last_index: int
    #: The log's last index before this record.
    prev_index: int
    payload: memoryview


class Block(NamedTuple):
    """One commit."""

    number: int
    position: int
    size_bytes: int
    records: list[WalRecord]


class _Candidate(NamedTuple):
    """What looks like the header of a block: where it stands and ends, and the checksum in it."""

    position: int
    end: int
    stated: int


def padded(size_bytes: int) -> int:
    """Return the size with padding."""
    return -(-size_bytes // ALIGNMENT) * ALIGNMENT


def write_block(
    file_number: int, position: int, number: int, count: int, parts: Sequence[Buffer]
) -> tuple[list[Buffer], int]:
    """Return a block's buffers and its size; `parts` are record headers and payloads in turn."""
    size = sum(map(len, parts))
    joined: Sequence[Buffer] = parts if size > JOIN_BYTES_MAX else (b"".join(parts),)
    header = BLOCK.pack(MAGIC, 0, number, size, count)
    checksum = crc32c(header[CHECKED_FROM:], crc32c(SALT.pack(file_number, position)))
    for part in joined:
        checksum = crc32c(part, checksum)
    header = BLOCK.pack(MAGIC, checksum, number, size, count)
    total = padded(BLOCK.size + size)
    padding = bytes(total - BLOCK.size - size)
    return [header, *joined, padding], total


class WalReader:
    """Reads one file's blocks, in order; for recovery and offline tools.

    The block with which the file was made is none of them.
    """

    def __init__(self, file: File, file_number: int) -> None:
        self._file = file
        self._number = file_number
        self.size = file.size()
        self._window = memoryview(b"")
        self._window_at = 0
        #: After the last good block.
        self.position = 0
        #: What the block with which the file was made says, if there is a whole one.
        self.prepared = self._read_prepared()

    def _bytes(self, position: int, length: int) -> memoryview:
        start = position - self._window_at
        if start < 0 or start + length > len(self._window):
            data = self._file.read_blocking(position, max(length, READ_BYTES))
            self._window = memoryview(data)
            self._window_at, start = position, 0
        return self._window[start : start + length]

    def block_at(self, position: int) -> Block | None:
        """Return the block that begins here, or None if there is no whole one."""
        if position + BLOCK.size > self.size:
            return None
        header = self._bytes(position, BLOCK.size)
        magic, stated, number, size, count = BLOCK.unpack(header)
        if magic != MAGIC or size > min(BLOCK_BYTES_MAX, self.size - position - BLOCK.size):
            return None
        whole = self._bytes(position, BLOCK.size + size)
        checksum = crc32c(whole[CHECKED_FROM:], crc32c(SALT.pack(self._number, position)))
        if checksum != stated:
            return None
        records = _read_records(whole[BLOCK.size :], count)
        return None if records is None else Block(number, position, len(whole), records)

    def _read_prepared(self) -> WalRecord | None:
        # Whatever else is at the beginning is longer, as a rule, and need not be read twice.
        header = self._bytes(0, BLOCK.size)
        if len(header) < BLOCK.size or BLOCK.unpack(header)[3:] != (RECORD.size, 1):
            return None
        block = self.block_at(0)
        if block is None or block.records[0].kind != RecordKind.PREPARED:
            return None
        self.position = padded(block.size_bytes)
        return block.records[0]

    def blocks(self, number: int | None) -> Iterator[Block]:
        """Read until the first block that is not whole, or not the next after `number` - 1."""
        while True:
            block = self.block_at(self.position)
            if block is None or (number is not None and block.number != number):
                return
            yield block
            number = block.number + 1
            self.position += padded(block.size_bytes)

    def newer_block_after(self, position: int, number: int) -> Block | None:
        """Look from a broken place on for a whole block with a number above `number`.

        Nothing is known of what lies there: it may be what a producer has sent, full of headers of
        blocks that seem to go on to the file's end. However many there are, each byte is read a few
        times, and the answer is exact.
        """
        position = padded(position)
        while position < self.size:
            candidates: list[_Candidate] = []
            while position < self.size and len(candidates) < CANDIDATES_MAX:
                for candidate in self._candidates(position, number):
                    if candidate.end - candidate.position > SHORT_BYTES_MAX:
                        candidates.append(candidate)
                    elif (block := self.block_at(candidate.position)) is not None:
                        return block
                position += READ_BYTES
            for candidate in self._with_their_checksums(candidates):
                block = self.block_at(candidate.position)
                if block is not None:
                    return block
        return None

    def _candidates(self, position: int, number: int) -> Iterator[_Candidate]:
        """Find what looks like headers of blocks with a number above `number`, in one piece."""
        data = self._file.read_blocking(position, READ_BYTES)
        at = data.find(MAGIC_BYTES)
        while 0 <= at <= len(data) - BLOCK.size:
            if at % ALIGNMENT == 0:
                _, stated, found, size, _ = BLOCK.unpack_from(data, at)
                end = position + at + BLOCK.size + size
                if found > number and size <= BLOCK_BYTES_MAX and end <= self.size:
                    yield _Candidate(position + at, end, stated)
            at = data.find(MAGIC_BYTES, padded(at + 1))

    def _with_their_checksums(self, candidates: Sequence[_Candidate]) -> Iterator[_Candidate]:
        """Keep those that have the checksum that they state; all bytes are read once.

        It follows from the checksums of what lies before their beginnings and before their ends.
        """
        begins = [each.position + CHECKED_FROM for each in candidates]
        sums = self._sums(sorted({*begins, *(each.end for each in candidates)}))
        for each, begin in zip(candidates, begins, strict=True):
            salt = crc32c(SALT.pack(self._number, each.position))
            if shifted(salt ^ sums[begin], each.end - begin) ^ sums[each.end] == each.stated:
                yield each

    def _sums(self, places: Sequence[int]) -> dict[int, int]:
        """Return the checksum of what lies between the first of some places and each of them."""
        sums: dict[int, int] = {}
        at, value = places[0] if places else 0, 0
        for place in places:
            while at < place:
                length = min(place - at, READ_BYTES)
                value = crc32c(self._bytes(at, length), value)
                at += length
            sums[place] = value
        return sums


def _read_records(body: memoryview, count: int) -> list[WalRecord] | None:
    records: list[WalRecord] = []
    at = 0
    for _ in range(count):
        if at + RECORD.size > len(body):
            return None
        group, kind, term, first, last, before, length = RECORD.unpack_from(body, at)
        at += RECORD.size
        if at + length > len(body):
            return None
        records.append(WalRecord(group, kind, term, first, last, before, body[at : at + length]))
        at += length
    return records if at == len(body) else None
