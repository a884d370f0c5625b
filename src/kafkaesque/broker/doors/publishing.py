"""Appending to partitions, wherever they are led; the brokers' own topics are refused here."""

from __future__ import annotations

from collections.abc import Callable

from kafkaesque.broker.metadata.topic_names import INTERNAL_TOPICS
from kafkaesque.broker.options.schemas import NONE
from kafkaesque.broker.partitions.batch_checks import LongCheck
from kafkaesque.broker.partitions.forwarder import Forwarder, OnProduced
from kafkaesque.broker.partitions.partition_table import PartitionTable
from kafkaesque.broker.partitions.schema_checks import ProduceChecks
from kafkaesque.broker.partitions.waiting_produces import OnProduced as OnAppended
from kafkaesque.model.errors import InvalidTopic
from kafkaesque.model.ids import TopicPartition
from kafkaesque.storage.log_store import LogStore


class Publishing:
    """Outcomes: a result says appended as far as `acks` asks, a refusal says that nothing was.

    `RequestTimedOut` says that nobody knows. `acks` 0 asks for nothing, 1 for a batch that is
    durable at the leader, -1 for a committed one: synced on a majority, unless the topic has
    `write.caching`.
    """

    __slots__ = ("_checks", "_forwarder", "_partitions", "_store", "run")

    def __init__(
        self,
        partitions: PartitionTable,
        forwarder: Forwarder,
        checks: ProduceChecks,
        store: LogStore,
    ) -> None:
        self._partitions = partitions
        self._forwarder = forwarder
        self._store = store
        self._checks = checks
        #: Does a check that takes long, off the loop, and calls in a later turn.
        self.run: Callable[[LongCheck, Callable[[], None]], None] = checks.run

    @property
    def is_overloaded(self) -> bool:
        """Whether so much waits to be synced that nothing more should be taken from clients."""
        return self._store.over_bound

    def append(
        self,
        where: TopicPartition,
        records: bytearray | memoryview,
        *,
        acks: int,
        timeout_ms: int,
        on_done: OnAppended,
        checked: LongCheck | None = None,
        transactional_id: str | None = None,
    ) -> LongCheck | None:
        """Append a batch to a partition that is led here; see `Partition.produce`.

        Raises:
            InvalidTopic: only brokers write there.
            RequestRefused: nothing was appended; `NotLeader` names who leads.
        """
        if where.topic in INTERNAL_TOPICS:
            raise InvalidTopic(f"{where.topic} is written by brokers only")
        partition = self._partitions.find(where)

        def produce(inner: LongCheck | None) -> LongCheck | None:
            return partition.produce(
                records,
                acks=acks,
                timeout_ms=timeout_ms,
                on_done=on_done,
                checked=inner,
                transactional_id=transactional_id,
            )

        if partition.config.schema_validation == NONE:
            return produce(checked)
        return self._checks.append(partition, records, checked, produce)

    def note_refusal(self, where: TopicPartition, records: bytearray | memoryview) -> None:
        """A batch was not appended and will come again: what was sent after it waits for it.

        Raises:
            RequestRefused: the partition is not here.
        """
        self._partitions.find(where).note_refusal(records)

    def publish(
        self,
        where: TopicPartition,
        records: bytes,
        *,
        acks: int,
        timeout_ms: int,
        on_done: OnProduced,
        is_wanted: Callable[[], bool],
    ) -> None:
        """Append a batch without producer id at the leader, on whatever broker.

        It is tried again while the leader is unknown or has moved, until `is_wanted` says no; it is
        never appended twice by that. `on_done` gets every refusal (`InvalidTopic` where only
        brokers write), and may be called at once.
        """
        if where.topic in INTERNAL_TOPICS:
            on_done(InvalidTopic(f"{where.topic} is written by brokers only"))
            return
        self.publish_as_broker(
            where,
            records,
            acks=acks,
            timeout_ms=timeout_ms,
            on_done=on_done,
            is_wanted=is_wanted,
        )

    def publish_as_broker(
        self,
        where: TopicPartition,
        records: bytes,
        *,
        acks: int,
        timeout_ms: int,
        on_done: OnProduced,
        is_wanted: Callable[[], bool],
    ) -> None:
        """Do the same, also where only brokers write: what is appended is the broker's own."""
        self._forwarder.produce(where, records, acks, timeout_ms, on_done, is_wanted)

    def publish_at(
        self,
        where: TopicPartition,
        end_offset: int,
        records: bytes,
        *,
        timeout_ms: int,
        on_done: OnProduced,
    ) -> None:
        """Append a batch at the leader if its log ends at `end_offset`, and wait for the commit.

        So several brokers may decide by what the log holds, and none decides by less. `on_done`
        gets `LogEndMoved` where it does not end there, maybe by a batch that is not committed; the
        other refusals are those of `publish`. It may be called at once.
        """
        if where.topic in INTERNAL_TOPICS:
            on_done(InvalidTopic(f"{where.topic} is written by brokers only"))
            return
        self._forwarder.append_at(where, end_offset, records, timeout_ms, on_done)
