"""One segment: a file of record batches, byte for byte what clients get, and how to search it."""

from collections.abc import Callable
from contextlib import suppress

from kafkaesque.model.errors import DiskFailed
from kafkaesque.storage.batch_header import HEADER_BYTES, BatchPlace, read_place
from kafkaesque.storage.errors import StorageCorrupt
from kafkaesque.storage.key_index import KEY_INDEX_SUFFIX, key_index_paths
from kafkaesque.storage.read_steps import ReadRequest, Steps
from kafkaesque.storage.segment_index import (
    INDEX_HEADER,
    OFFSET_MAGIC,
    TIME_MAGIC,
    SegmentIndex,
    read_index,
    read_index_size,
)

NO_TIMESTAMP = -1
#: What a search reads at once: an index interval, and the header that it ends in.
WALK_BYTES = 4096 + HEADER_BYTES
#: What a scan over a whole segment reads at once.
SCAN_BYTES = 64 * 1024

Stop = Callable[[BatchPlace, int], bool]


class Segment:
    """Where one file of a log begins and ends, and its index as far as it is in memory."""

    __slots__ = (
        "base_offset",
        "created_ms",
        "directory",
        "index",
        "index_interval_bytes",
        "is_removed",
        "max_timestamp",
        "path",
        "size",
        "virtual_base",
    )

    def __init__(
        self, directory: str, base_offset: int, created_ms: int, index_interval_bytes: int
    ) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.path = f"{directory}/{base_offset:020d}.log"
        self.created_ms = created_ms
        self.index_interval_bytes = index_interval_bytes
        self.size = 0
        self.max_timestamp = NO_TIMESTAMP
        #: None: nothing is in memory. Otherwise what is written from now on is indexed.
        self.index: SegmentIndex | None = None
        #: Bytes of the log before this segment, counted since it was opened.
        self.virtual_base = 0
        self.is_removed = False

    @property
    def index_path(self) -> str:
        """The sparse offset index's file."""
        return f"{self.directory}/{self.base_offset:020d}.index"

    @property
    def time_index_path(self) -> str:
        """The sparse time index's file."""
        return f"{self.directory}/{self.base_offset:020d}.timeindex"

    @property
    def key_index_path(self) -> str:
        """The file that says in which blocks each key stands; there may be none."""
        return f"{self.directory}/{self.base_offset:020d}{KEY_INDEX_SUFFIX}"

    def sparse_index_paths(self) -> tuple[str, str]:
        """Return the files of both sparse indexes."""
        return self.index_path, self.time_index_path

    def paths(self) -> tuple[str, ...]:
        """Return all its files, its own first."""
        return (self.path, *self.sparse_index_paths(), *key_index_paths(self.key_index_path))


def walk(
    segment: Segment, position: int, end: int, stop: Stop, read_bytes: int = WALK_BYTES
) -> Steps[tuple[int, BatchPlace | None]]:
    """Go from batch to batch until `stop(place, position)` holds.

    Returns that batch, or (`end`, None), where a batch has to end. Where the log has been cut in
    the meantime, its new end is an end, too.

    Raises:
        StorageCorrupt: there is no batch where one must be, because the file ends early or for
            another reason; or it cannot be the right one: it would reach over the end, or begin
            before the one before it ends.
    """
    floor = segment.base_offset
    while position < end:
        data = yield ReadRequest(segment.path, position, min(read_bytes, end - position))
        at = 0
        while len(data) - at >= HEADER_BYTES:
            place = read_place(data, at)
            if place is None or place.base_offset < floor or place.size_bytes > end - position - at:
                raise StorageCorrupt(_no_batch(segment, position + at))
            if stop(place, position + at):
                return position + at, place
            floor = place.last_offset + 1
            at += place.size_bytes
        if at == 0:
            if segment.size <= position + len(data) < end:
                return position, None  # the log was cut while it was read
            raise StorageCorrupt(_no_batch(segment, position))
        position += at
    return end, None


def _no_batch(segment: Segment, position: int) -> str:
    return (
        f"{segment.path}: no record batch at byte {position}; the file was damaged after it was"
        f" written: check the disk, then stop this broker and remove the directory"
        f" {segment.directory}, so that the replica is copied from another at the next start"
    )


def rebuild_index(segment: Segment, end: int) -> Steps[SegmentIndex]:
    """Return an index of the batches before `end`, from their headers, as far as they are good."""
    index = SegmentIndex()
    latest = NO_TIMESTAMP

    def note(place: BatchPlace, position: int) -> bool:
        nonlocal latest
        add_to_index(index, segment.index_interval_bytes, place.base_offset, position, latest)
        latest = max(latest, place.max_timestamp)
        return False

    with suppress(StorageCorrupt):  # told to whoever wants what is damaged
        yield from walk(segment, 0, end, note, SCAN_BYTES)
    return index


def add_to_index(
    index: SegmentIndex, interval_bytes: int, base_offset: int, position: int, latest: int
) -> None:
    """Add an entry for a batch if the last one is far enough away."""
    positions = index.positions
    if not positions or position - positions[-1] >= interval_bytes:
        index.add(base_offset, position, latest)


def load_index(segment: Segment) -> Steps[SegmentIndex | None]:
    """Return the index from its files, or None if they are missing, broken or of another segment.

    Only a whole segment's index counts, except that batches may have been added since.
    """
    try:
        by_offset = yield from _load_file(segment.index_path, OFFSET_MAGIC)
        by_time = yield from _load_file(segment.time_index_path, TIME_MAGIC)
    except (FileNotFoundError, DiskFailed):
        return None
    if by_offset is None or by_time is None:
        return None
    found = read_index(by_offset, by_time)
    if found is None:
        return None
    index, covered = found
    limit = segment.index.covered_from if segment.index is not None else segment.size
    return index if covered == limit else None


def _load_file(path: str, magic: bytes) -> Steps[bytes | None]:
    header = yield ReadRequest(path, 0, INDEX_HEADER.size)
    size = read_index_size(header, magic)
    if size is None:
        return None
    data = yield ReadRequest(path, 0, size)
    return data
