"""Seals what is appended to one partition and opens what is read from it (ADR 32).

Theory of operation. The leader seals a batch when its offset is known and before anything else
sees it: the replica, the write-ahead log and followers get ciphertext. Each leadership has a salt
of its own, so that an offset that comes again after a change of leaders repeats no nonce. Readers
of a topic that has, or had, keys get their batches opened here, in memory; readers of any other
topic do not come here at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kafkaesque.broker.partitions.partition_tables import PartitionTables
from kafkaesque.broker.partitions.topic_keys import TopicKeys
from kafkaesque.broker.replication.raft_replica import Replica
from kafkaesque.broker.replication.replica import Appended, AppendedBatch
from kafkaesque.broker.replication.stored_batches import check_stored
from kafkaesque.env.dice import Dice
from kafkaesque.env.disk import Disk, FileRange
from kafkaesque.model.batch import BatchHeader, assign_offsets, read_batch_header
from kafkaesque.model.buffers import Buffer
from kafkaesque.model.errors import InvariantBroken, KafkaesqueError, LeaderNotAvailable
from kafkaesque.model.ids import Offset
from kafkaesque.model.record_errors import KeyShredded
from kafkaesque.model.sealed_batch import (
    SALT_BYTES,
    BatchKeys,
    BatchOpener,
    BatchSealer,
    is_sealed,
)
from kafkaesque.storage.compaction_plan import CompactionSealing
from kafkaesque.storage.errors import StorageCorrupt
from kafkaesque.storage.group_log import GroupLog

#: What one read of a sealed partition gives at most, or one batch: it is opened on the loop.
OPENED_BYTES_MAX: Final = 2 * 1024 * 1024


class OpenedBatches(bytearray):
    """Batches in the clear, in place of the range of a file that holds them sealed."""

    @property
    def length(self) -> int:
        """In bytes, as a range has it."""
        return len(self)


Located = FileRange | OpenedBatches


class PartitionSealing:
    """One partition's seals. It is there for every partition, and used by those with keys."""

    __slots__ = ("_dice", "_disk", "_keys", "_opener", "_partition", "_sealer", "_topic_id")

    def __init__(
        self, topic_id: bytes, partition: int, *, keys: TopicKeys, disk: Disk, dice: Dice
    ) -> None:
        self._topic_id = topic_id
        self._partition = partition
        self._keys = keys
        self._disk = disk
        self._dice = dice
        self._sealer: BatchSealer | None = None
        self._opener: BatchOpener | None = None

    @property
    def has_keys(self) -> bool:
        """Whether the topic has keys, so that batches may be sealed."""
        return self._keys.is_known(self._topic_id)

    @property
    def is_ready(self) -> bool:
        """Whether all of the topic's keys are here, if it has any."""
        return self._keys.is_complete(self._topic_id)

    def if_any_is_sealed(self, batches: Sequence[AppendedBatch]) -> PartitionSealing | None:
        """Return itself if one of these batches is sealed."""
        return self if any(is_sealed(each.data) for each in batches) else None

    def on_keys_changed(self) -> None:
        """Keys have come or gone."""
        self._opener = None
        if self._sealer is not None and self._sealer.version != self._batch_keys().newest:
            self._sealer = None

    def begin_leadership(self) -> None:
        """Never use an earlier leadership's salt again; see to it that there is a key."""
        self._sealer = None
        self.want_key()

    def want_key(self) -> None:
        """Have the topic's first key made, if there is none."""
        self._keys.want(self._topic_id)

    def _batch_keys(self) -> BatchKeys:
        versions = self._keys.versions(self._topic_id)
        return BatchKeys(
            topic_id=self._topic_id, partition=self._partition, versions=dict(versions)
        )

    # -- sealing

    def append(
        self,
        replica: Replica,
        records: bytearray | memoryview,
        batch: BatchHeader,
        append_time_ms: int | None,
        tables: PartitionTables | None,
    ) -> tuple[Appended, bytearray]:
        """Seal a batch for the offset that it gets, and propose it; see `Replica.append`.

        What `tables` have to know of it stands beside it in the clear. Returned is the sealed
        batch, too.

        Raises:
            LeaderNotAvailable: the topic's key is being made or unwrapped.
            TopicKeyMissing: this broker has no key keeper.
        """
        sealer = self._sealer or self._make_sealer()
        base_offset = replica.next_offset
        latest_ms = batch.latest_timestamp_ms
        assign_offsets(
            records,
            0,
            base_offset,
            replica.term,
            append_time_ms=append_time_ms,
            max_timestamp_ms=None if latest_ms == batch.max_timestamp_ms else latest_ms,
        )
        plain = read_batch_header(records)
        told = b"" if tables is None else tables.told_of(plain, records)
        sealed, header = sealer.seal(records, plain, told)
        appended = replica.append(sealed, header)
        if appended.base_offset != base_offset:
            raise InvariantBroken(
                f"a batch that was sealed for offset {base_offset} stands at {appended.base_offset}"
            )
        return appended, sealed

    def _make_sealer(self) -> BatchSealer:
        keys = self._batch_keys()
        if not keys.newest:
            if self._keys.keeper is None:
                raise self._keys.missing(self._topic_id, 1)
            self._keys.want(self._topic_id)
            raise LeaderNotAvailable("the topic's key is not here yet")
        self._sealer = BatchSealer(keys, self._dice.unique_bytes(SALT_BYTES))
        return self._sealer

    # -- opening

    def open(self, data: Buffer, batches: list[BatchHeader]) -> OpenedBatches:
        """Return batches in the clear, at least the first one.

        Raises:
            KeyShredded: the key of the first one was removed.
            TopicKeyMissing: it is not here.
            SealDamaged: it does not open.
        """
        opener = self._opener
        if opener is None:
            opener = self._opener = BatchOpener(self._batch_keys())
        try:
            return opener.open_all(data, batches, OpenedBatches)
        except KeyShredded as refusal:
            if self._keys.may_come(self._topic_id, refusal.version):
                raise self._keys.missing(self._topic_id, refusal.version) from None
            raise

    def open_one(self, data: Buffer) -> Buffer:
        """Return one batch in the clear; see `open`."""
        return self.open(data, [read_batch_header(data)])

    def read_now(
        self, log: GroupLog, offset: Offset, bytes_max: int, limit: Offset
    ) -> list[Located] | None:
        """Return what `Partition.read_now` does, in the clear."""
        ranges = log.locate(offset, min(bytes_max, OPENED_BYTES_MAX), limit)
        if ranges is None:
            return None
        found: list[Located] = []
        for piece in ranges:
            data = piece.file.read_cached(piece.position, piece.length)
            if data is None:
                return None
            try:
                found.append(self._open_piece(log, piece, data, offset))
            except StorageCorrupt:
                return None  # `read_later` tells of it
            except KafkaesqueError:
                if not found:
                    raise
                break
        return found

    def read_later(
        self,
        log: GroupLog,
        offset: Offset,
        bytes_max: int,
        limit: Offset,
        on_done: Callable[[list[Located] | Exception], None],
    ) -> None:
        """Do the same off the loop."""
        found: list[Located] = []

        def on_located(ranges: list[FileRange] | Exception) -> None:
            if isinstance(ranges, Exception):
                on_done(ranges)
            else:
                read_next(list(ranges))

        def read_next(left: list[FileRange]) -> None:
            if not left:
                on_done(found)
                return
            piece = left[0]

            def on_read(data: bytes | Exception) -> None:
                try:
                    if isinstance(data, Exception):
                        raise data
                    found.append(self._open_piece(log, piece, data, offset))
                except KafkaesqueError as error:
                    on_done(found or error)
                else:
                    read_next(left[1:])

            self._disk.read(piece.file, piece.position, piece.length, on_read)

        log.locate_async(offset, min(bytes_max, OPENED_BYTES_MAX), limit, on_located)

    def _open_piece(
        self, log: GroupLog, piece: FileRange, data: bytes, offset: Offset
    ) -> OpenedBatches:
        return self.open(data, check_stored(piece, data, offset, log.end_offset))

    # -- compaction

    def for_compaction(self, *, is_encrypted: bool) -> CompactionSealing | None:
        """Return what a run needs to open and to seal; None where that is not here yet."""
        if not self.is_ready:
            return None
        keys = self._batch_keys()
        return CompactionSealing(
            keys=keys,
            salt=self._dice.unique_bytes(SALT_BYTES),
            seals_all=is_encrypted and keys.newest > 0,
        )
