"""Reads all committed records of a partition on this broker, off the loop, in bounded pieces."""

from collections.abc import Callable

from kafkaesque.broker.partitions.batch_reader import BatchReader
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.env.disk import Disk
from kafkaesque.model.batch import BatchHeader
from kafkaesque.model.buffers import Buffer
from kafkaesque.model.ids import Offset
from kafkaesque.model.records import Record, decode_batch

#: What one batch may decompress to.
DECOMPRESSED_BYTES_MAX = 256 * 1024 * 1024


class LogReader(BatchReader):
    """One pass over a partition, from its start up to a given end."""

    def __init__(
        self,
        *,
        partition: Partition,
        disk: Disk,
        end: Offset,
        on_batch: Callable[[BatchHeader, list[Record]], None],
        on_done: Callable[[Exception | None], None],
    ) -> None:
        super().__init__(
            log=partition.log,
            disk=disk,
            position=partition.log_start_offset,
            end=end,
            on_batch=lambda header, data: on_batch(
                header, decode_batch(self._in_clear(header, data), DECOMPRESSED_BYTES_MAX)
            ),
            on_done=on_done,
        )
        self._sealing = partition.sealing

    def _in_clear(self, header: BatchHeader, data: Buffer) -> Buffer:
        return self._sealing.open_one(data) if header.is_sealed else data
