"""What a queue needs of its log where it is led: a partition has it, and a broker's memory."""

from typing import Protocol

from kafkaesque.broker.partitions.batch_checks import LongCheck
from kafkaesque.broker.partitions.waiting_produces import OnProduced
from kafkaesque.model.ids import Offset


class Numbers(Protocol):
    """What is known of producers."""

    def next_sequence(self, producer_id: int, epoch: int) -> int:
        """Return the number that a producer's next record has."""

    def skip(self, producer_id: int, epoch: int, sequence: int) -> None:
        """Take a number for what follows, though some before it never came here."""


class Extent(Protocol):
    """How far a log goes."""

    @property
    def end_offset(self) -> Offset:
        """The offset after the last record."""

    @property
    def size_bytes(self) -> int:
        """What it takes."""


class QueueLog(Protocol):
    """See `broker.partitions.partition.Partition`, whose promises these are."""

    @property
    def high_watermark(self) -> Offset:
        """What is before it may be handed out."""

    @property
    def log_start_offset(self) -> Offset:
        """The first offset that can still be read."""

    @property
    def producers(self) -> Numbers:
        """What is known of those who append."""

    @property
    def log(self) -> Extent:
        """How far it goes."""

    def produce(
        self,
        records: bytearray | memoryview,
        *,
        acks: int,
        timeout_ms: int,
        on_done: OnProduced,
        checked: LongCheck | None = None,
    ) -> LongCheck | None:
        """Append one batch, or return the check that has to be run before that.

        Raises:
            RequestRefused: nothing was appended; the kind of error says why.
        """
