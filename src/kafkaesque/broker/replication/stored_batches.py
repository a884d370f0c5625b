"""Batches as they lie in a partition's files, which are believed only when they are whole."""

from collections.abc import Iterator

from kafkaesque.env.disk import Buffer, FileRange
from kafkaesque.model.batch import BatchHeader, scan_batches
from kafkaesque.model.ids import Offset
from kafkaesque.storage.errors import StorageCorrupt
from kafkaesque.storage.group_log import GroupLog

#: Bytes that are read in one piece while a broker starts.
REPLAY_BYTES = 8 * 1024 * 1024


def check_stored(
    piece: FileRange, data: Buffer, from_offset: int, end_offset: int
) -> list[BatchHeader]:
    """Return the batches of a piece of a log, the first of which may begin before `from_offset`.

    The offsets of a batch are not part of its checksum: that they follow one another and end
    before `end_offset`, the log's end, is what can be known of them.

    Raises:
        StorageCorrupt: these are not the bytes that were written.
    """
    scan = scan_batches(data)
    if scan.end != len(data):
        wrong = scan.fault.name.lower().replace("_", " ")
        raise StorageCorrupt(_where(piece, scan.end, f"the batch is damaged ({wrong})"))
    expected = -1
    for batch in scan.batches:
        is_first = expected < 0
        follows = batch.next_offset > from_offset if is_first else batch.base_offset >= expected
        if not follows or batch.next_offset > end_offset:
            raise StorageCorrupt(
                _where(piece, batch.at, f"offset {batch.base_offset} has no place there")
            )
        expected = batch.next_offset
    return scan.batches


def replay(
    log: GroupLog, offset: int, end_offset: int | None = None
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield all batches from an offset on, each with its bytes; waits, so for start-up only.

    Up to the log's end, or another one.

    Raises:
        StorageCorrupt: something else is there.
    """
    end_offset = log.end_offset if end_offset is None else end_offset
    while offset < end_offset:
        pieces = log.locate_blocking(Offset(offset), REPLAY_BYTES, end_offset)
        if not pieces:
            return
        for piece in pieces:
            data = memoryview(piece.file.read_blocking(piece.position, piece.length))
            for batch in check_stored(piece, data, offset, log.end_offset):
                yield batch, data[batch.at : batch.end]
                offset = batch.next_offset


def _where(piece: FileRange, at: int, what: str) -> str:
    return (
        f"{piece.file.path}, byte {piece.position + at}: {what}: it was damaged after it was "
        "written; check the disk, then stop this broker and remove the directory "
        f"{piece.file.path.rpartition('/')[0]}, so that the replica is copied from another at the "
        "next start"
    )
