"""Makes the index of a closed segment's keys, in steps, where nobody is disturbed."""

from __future__ import annotations

from array import array
from collections.abc import Generator
from typing import Final, NamedTuple

from kafkaesque.env.disk import BlockingDisk
from kafkaesque.model.batch import BatchHeader
from kafkaesque.model.checksum import crc32c
from kafkaesque.storage.batch_header import HEADER_BYTES
from kafkaesque.storage.key_index import (
    BLOCK_BYTES,
    FILE_BYTES_MAX,
    KEY_INDEX_SUFFIX,
    KEYS_MAX,
    NEW_SUFFIX,
    SegmentMark,
    add_place,
    write_key_index,
    write_too_many,
)
from kafkaesque.storage.key_table import columns_of, keys_of, pieces


class KeyIndexPlan(NamedTuple):
    """A closed segment whose index is to be made."""

    directory: str
    base_offset: int
    #: The offset after it: where the next segment begins.
    end_offset: int
    size_bytes: int
    #: What has to be free beside the file.
    free_bytes_min: int

    @property
    def path(self) -> str:
        """The segment's own file."""
        return f"{self.directory}/{self.base_offset:020d}.log"

    @property
    def index_path(self) -> str:
        """Where the index is to be; it is written as that and `NEW_SUFFIX`."""
        return f"{self.directory}/{self.base_offset:020d}{KEY_INDEX_SUFFIX}"


def build_key_index(disk: BlockingDisk, plan: KeyIndexPlan) -> Generator[int, None, bool]:
    """Write the file under its new name; yield the bytes of each step. False: nothing was written.

    That is where some batch is sealed, which nobody is to learn keys of, and where there is little
    space. It is buffered, and may be of a segment that is not there any more: whoever gives it its
    name has to look.

    Raises:
        StorageCorrupt: the segment is damaged.
        FileNotFoundError: it was removed meanwhile.
        DiskFailed: the device refused.
    """
    keys = _Keys()
    position = last_position = 0
    last_header = b""
    for data, batches in pieces(disk, plan.path, plan.size_bytes):
        for header in batches:
            if header.is_sealed:
                return False
            if not keys.is_full:
                keys.add(plan.path, data, header)
        if batches:
            last = batches[-1]
            last_position = position + last.at
            last_header = data[last.at : last.at + HEADER_BYTES]
            position += last.end
        yield len(data)
    if not last_header:
        return False
    mark = SegmentMark(
        plan.base_offset, plan.end_offset, plan.size_bytes, last_position, crc32c(last_header)
    )
    content = keys.write(mark)
    if disk.free_bytes() < plan.free_bytes_min + len(content):
        return False
    file = disk.open(plan.index_path + NEW_SUFFIX, create=True)
    try:
        file.truncate(0)
        file.write_at(0, [content])
    finally:
        file.close()
    return True


class _Keys:
    """What is known of a segment's keys so far."""

    __slots__ = ("_block_bytes", "_block_keys", "_last", "_offsets", "_places", "_size",
                 "_special", "_special_last", "is_full")  # fmt: skip

    def __init__(self) -> None:
        #: There are too many keys: what comes is not looked at any more.
        self.is_full = False
        self._offsets: Final = array("q")
        self._places: Final[dict[bytes, bytearray]] = {}
        #: Per key the last block in which it stands.
        self._last: Final[dict[bytes, int]] = {}
        self._special: Final = bytearray()
        self._special_last = -1
        #: Of the block that is open.
        self._block_keys: Final[set[bytes]] = set()
        self._block_bytes = BLOCK_BYTES
        self._size = 0

    def add(self, path: str, data: bytes, header: BatchHeader) -> None:
        """Note a batch."""
        if self._block_bytes >= BLOCK_BYTES:
            self._close_block()
            self._offsets.append(header.base_offset)
            self._block_bytes = 0
        self._block_bytes += header.size_bytes
        if header.is_control or header.is_transactional:
            block = len(self._offsets) - 1
            if self._special_last != block:
                add_place(self._special, self._special_last, block)
                self._special_last = block
        elif header.record_count:
            self._block_keys.update(keys_of(columns_of(path, data, header)))

    def _close_block(self) -> None:
        block, last, places = len(self._offsets) - 1, self._last, self._places
        for key in self._block_keys:
            before = last.get(key)
            if before is None:
                before = -1
                places[key] = bytearray()
                self._size += len(key)
            last[key] = block
            if block - before < 0x80:
                places[key].append(block - before)
            else:
                add_place(places[key], before, block)
        self._size += len(self._block_keys)
        self._block_keys.clear()
        if len(places) > KEYS_MAX or self._size > FILE_BYTES_MAX:
            self.is_full = True

    def write(self, mark: SegmentMark) -> bytes:
        """Return the file's contents."""
        self._close_block()
        content = None
        if not self.is_full:
            content = write_key_index(mark, self._offsets, self._special, self._places)
        return write_too_many(mark) if content is None else content
