"""Compares the replicas of a partition in the data directories of several brokers, offline.

Theory of operation. Replicas need not have the same segments: each closes its own, and gives up old
ones by itself. But batches that stand at the same offset with the same epoch are the same batch, to
the byte: Raft's log matching property. So the replicas are read side by side, from the first offset
that all of them have up to the end of the last but one, batch by batch. A replica that differs is
told about once, at the first difference, and read no further.

Where epochs differ, one replica has what its leader could not commit. The next start settles that,
so it is only noted, unless somebody is known to have committed that far. Of a compacted partition
each replica drops records at its own time: there what is missing is passed over, and batches of
other bytes are compared record by record.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kafkaesque.env.disk import Disk
from kafkaesque.model.errors import KafkaesqueError
from kafkaesque.model.record_errors import RecordError
from kafkaesque.model.records import decode_batch
from kafkaesque.storage.checkpoint import ROOT, load_checkpoint
from kafkaesque.storage.directory import PARTITION_METADATA, read_owner, read_partition_metadata
from kafkaesque.storage.entries import LogIdentity
from kafkaesque.storage.offline import DumpedBatch, Finding, Severity, dump_segment
from kafkaesque.storage.positions import LogPositions

#: What one batch may take when it is decompressed.
DECOMPRESSED_BYTES_MAX = 1 << 30
SEGMENT_SUFFIX = ".log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A partition's copy on one broker."""

    #: For people to read.
    broker: str
    disk: Disk
    #: The offset up to which this broker knows that it is committed; it may be much more.
    committed_end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSet:
    """The copies of one partition, two or more."""

    identity: LogIdentity
    replicas: tuple[Replica, ...]


class Difference(NamedTuple):
    """What is wrong with one of the replicas."""

    broker: str
    finding: Finding


def find_replicas(disks: Mapping[str, Disk]) -> list[ReplicaSet]:
    """Return the partitions of which several brokers of the same cluster have a copy.

    `disks` are the brokers' directories by a name for people to read. What cannot be read is left
    out: `verify` tells about that.
    """
    found: dict[tuple[str, LogIdentity], list[Replica]] = {}
    for broker, disk in disks.items():
        try:
            owner = read_owner(disk)
            committed = _committed_ends(disk)
        except KafkaesqueError:
            continue
        if owner is None:
            continue
        for directory in disk.list_dir(ROOT):
            if not disk.exists(f"{directory}/{PARTITION_METADATA}"):
                continue
            identity = read_partition_metadata(disk, directory)
            # What is moved aside, or to be deleted, has another name.
            if identity is not None and identity.directory == directory:
                replica = Replica(
                    broker=broker, disk=disk, committed_end=committed.get(identity, 0)
                )
                found.setdefault((owner.cluster_id, identity), []).append(replica)
    return [
        ReplicaSet(identity=identity, replicas=tuple(replicas))
        for (_, identity), replicas in found.items()
        if len(replicas) > 1
    ]


def _committed_ends(disk: Disk) -> dict[LogIdentity, int]:
    ends = {}
    for log in load_checkpoint(disk).logs:
        positions = LogPositions.restore(log.start, log.marks, log.spans, log.last_index)
        ends[log.identity] = positions.offset_after(log.commit_hint)
    return ends


class _Cursor:
    """A place in one replica."""

    __slots__ = ("_items", "_path", "batch", "replica")

    batch: DumpedBatch

    def __init__(self, replica: Replica, directory: str) -> None:
        self.replica = replica
        self._path = ""
        self._items = self._batches(directory)

    def _batches(self, directory: str) -> Iterator[DumpedBatch]:
        disk = self.replica.disk
        for name in disk.list_dir(directory):
            if not name.endswith(SEGMENT_SUFFIX):
                continue
            self._path = f"{directory}/{name}"
            for item in dump_segment(disk, self._path):
                if isinstance(item, Finding):
                    return  # `verify` tells about it.
                yield item

    def advance(self, offset: int) -> bool:
        """Go to the next batch that does not end before an offset; False if there is none."""
        for batch in self._items:
            if batch.header.last_offset >= offset:
                self.batch = batch
                return True
        return False

    @property
    def place(self) -> str:
        """Where the batch is, for the other replicas' findings."""
        return f"{self.replica.broker}/{self._path} at byte {self.batch.position}"

    def differs(self, severity: Severity, message: str) -> Difference:
        """Return what is wrong here."""
        finding = Finding(
            severity=severity, path=self._path, position=self.batch.position, message=message
        )
        return Difference(self.replica.broker, finding)


def compare(replicas: ReplicaSet, *, is_compacted: bool) -> Iterator[Difference]:
    """Yield where replicas differ, once for each that has not what most of them have."""
    directory = replicas.identity.directory
    cursors = [_Cursor(replica, directory) for replica in replicas.replicas]
    committed_end = max(replica.committed_end for replica in replicas.replicas)
    live = [cursor for cursor in cursors if cursor.advance(0)]
    start = max((cursor.batch.header.base_offset for cursor in live), default=0)
    live = [
        cursor
        for cursor in live
        if cursor.batch.header.last_offset >= start or cursor.advance(start)
    ]
    while len(live) > 1:
        offset = min(cursor.batch.header.base_offset for cursor in live)
        here = [cursor for cursor in live if cursor.batch.header.base_offset == offset]
        model = _most_agreed(here)
        going_on = []
        for cursor in live:
            difference = None
            if cursor in here:
                difference = _difference(cursor, model, committed_end, is_compacted=is_compacted)
            elif not is_compacted:
                message = f"offset {offset} is missing before it; it is in {model.place}"
                difference = cursor.differs(Severity.ERROR, message)
            if difference is None:
                going_on.append(cursor)
            else:
                yield difference
        live = [each for each in going_on if each not in here or each.advance(offset + 1)]


def _most_agreed(cursors: Sequence[_Cursor]) -> _Cursor:
    """Return one that has what most have; where they are as many, with the newest epoch."""
    return max(
        cursors,
        key=lambda cursor: (
            sum(other.batch.data == cursor.batch.data for other in cursors),
            cursor.batch.header.partition_leader_epoch,
        ),
    )


def _difference(
    cursor: _Cursor, model: _Cursor, committed_end: int, *, is_compacted: bool
) -> Difference | None:
    if cursor.batch.data == model.batch.data:
        return None
    header, other = cursor.batch.header, model.batch.header
    epoch, other_epoch = header.partition_leader_epoch, other.partition_leader_epoch
    if epoch != other_epoch:
        message = f"offset {header.base_offset} has epoch {epoch}, and {other_epoch} in"
        if header.base_offset < committed_end:
            return cursor.differs(Severity.ERROR, f"{message} {model.place}")
        message = f"{message} {model.place}: one of them was not committed, the next start drops it"
        return cursor.differs(Severity.NOTE, message)
    if is_compacted and _is_same_records(cursor.batch, model.batch):
        return None
    message = f"the batch of offset {header.base_offset} has other bytes than in {model.place}"
    return cursor.differs(Severity.ERROR, message)


def _is_same_records(batch: DumpedBatch, other: DumpedBatch) -> bool:
    """Return whether batches of a compacted log agree about the records that both still have.

    Each replica seals what it writes anew with a salt of its own, and without keys nobody can
    compare what is sealed: then they are taken for the same.
    """
    if batch.header.is_sealed or other.header.is_sealed:
        return True
    try:
        records = {each.offset: each for each in decode_batch(batch.data, DECOMPRESSED_BYTES_MAX)}
        return all(
            records.get(each.offset, each) == each
            for each in decode_batch(other.data, DECOMPRESSED_BYTES_MAX)
        )
    except RecordError:
        return False
