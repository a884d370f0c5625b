"""Looks into running brokers for what clients might never notice.

*Two leaders* in one term; *divergence*: a replica has something else committed at an offset than
another one had. Looked at every now and then, what is new since the last time only. An unclean
election begins another history: replicas are compared with those that have heard of the same one.
"""

from collections.abc import Iterator
from typing import Final

from kafkaesque.broker.broker import Broker
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.replication.raft_driver import Replica
from kafkaesque.model.batch import BatchHeader, scan_batches
from kafkaesque.model.checksum import crc32c
from kafkaesque.model.ids import CONTROLLER_GROUP, GroupId, Offset
from kafkaesque.model.records import decode_batch
from kafkaesque.sim.clients.findings import Findings
from kafkaesque.sim.cluster import SimCluster
from kafkaesque.sim.unclean.eras import Eras

READ_BYTES: Final = 64 * 1024
RECORDS_BYTES_MAX: Final = 1 << 24

#: A group, and an era of it.
_Group = tuple[GroupId, int]


class Witness:
    """Remembers who led, and what was committed."""

    def __init__(self, cluster: SimCluster, findings: Findings, eras: Eras) -> None:
        self._cluster: Final = cluster
        self._eras: Final = eras
        self._findings: Final = findings
        self._leaders: Final[dict[tuple[GroupId, int], str]] = {}
        #: group and era -> base offset -> checksum and epoch of the batch; or, where batches lose
        #: records, the offset, checksum and epoch of each record
        self._committed: Final[dict[_Group, dict[int, tuple[int, int]]]] = {}
        #: machine -> its broker, and up to where each of its groups was looked at
        self._looked: Final[dict[str, tuple[Broker, dict[_Group, int]]]] = {}

    def look(self) -> None:
        """Compare what is new."""
        self._eras.look()
        with self._cluster.unhindered():
            self._eras.keep_inherited()
            self._look()

    def _look(self) -> None:
        for name, broker in self._cluster.trusted():
            known = self._looked.get(name)
            if known is None or known[0] is not broker:
                # It may have lost something: all of it is looked at again.
                known = self._looked[name] = (broker, {})
            for replica in broker.driver.replicas():
                self._look_at_leader(name, replica)
                self._look_at_log(name, broker, replica, known[1])

    def _look_at_leader(self, name: str, replica: Replica) -> None:
        if replica.is_leader:
            leader = self._leaders.setdefault((replica.group, replica.term), name)
            if leader != name:
                self._findings.note(
                    f"two leaders: {leader} and {name} lead group {replica.group} in term "
                    f"{replica.term}"
                )

    def _look_at_log(
        self, name: str, broker: Broker, replica: Replica, looked: dict[_Group, int]
    ) -> None:
        group, log = replica.group, replica.log
        era = self._eras.era_of(broker, replica)
        if era is None:
            return
        here = group, era
        end = _committed_end(broker, replica)
        if end <= looked.get(here, 0):
            return
        committed = self._committed.setdefault(here, {})
        partition = broker.partitions.get(group)
        is_compacted = partition is not None and (
            partition.config.is_compacted or partition.tables is not None
        )
        if partition is not None and not partition.sealing.is_ready:
            return  # It has just been started, and its keys are still being unwrapped.
        position = max(looked.get(here, 0), log.start_offset)
        while position < end:
            ranges = log.locate_blocking(Offset(position), READ_BYTES, end)
            if not ranges:
                break
            data = b"".join(r.file.read_blocking(r.position, r.length) for r in ranges)
            scan = scan_batches(data)
            if scan.end != len(data):
                self._findings.note(f"{name}: group {group} is damaged after offset {position}")
                return
            for batch in scan.batches:
                for offset, found in _said(batch, data, partition, is_compacted=is_compacted):
                    known = committed.setdefault(offset, found)
                    if known != found:
                        self._findings.note(
                            f"divergence: {name} has another batch committed in group {group} at "
                            f"offset {offset} than there was before"
                        )
                position = batch.next_offset
        looked[here] = max(position, looked.get(here, 0))


def _said(
    batch: BatchHeader, data: bytes, partition: Partition | None, *, is_compacted: bool
) -> Iterator[tuple[int, tuple[int, int]]]:
    epoch = batch.partition_leader_epoch
    if not is_compacted:
        yield batch.base_offset, (batch.crc, epoch)
        return
    opened = partition.sealing.open(data, [batch]) if partition and batch.is_sealed else None
    records = (
        decode_batch(data, RECORDS_BYTES_MAX, at=batch.at)
        if opened is None
        else decode_batch(opened, RECORDS_BYTES_MAX)
    )
    for record in records:
        yield record.offset, (crc32c(b"%r %r" % (record.key, record.value)), epoch)


def _committed_end(broker: Broker, replica: Replica) -> Offset:
    if replica.group == CONTROLLER_GROUP:
        # A snapshot that takes the log's place is applied before that is done.
        committed = replica.log.offset_after(replica.core.commit_index)
        return min(broker.controller.applied_offset, committed)
    partition = broker.partitions.get(replica.group)
    return Offset(0) if partition is None else partition.high_watermark
