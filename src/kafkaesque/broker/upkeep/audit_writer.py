"""Writes this broker's audit log: its chain, in the topic `__audit` that all brokers share.

Theory of operation. At each sweep, what waits in the trail becomes entries of the chain, and those
batches. One batch at a time is brought to the partition's leader, wherever that is, until it is
committed. A batch of which nobody knows whether it was written is written again: the same bytes,
which readers take for one. So no entry is lost as long as this process lives; what it had noted
and not yet written when it was killed, is. The trail's bounds hold meanwhile.

The first event brings the topic into being. From then on there is a checkpoint every few minutes:
how far other chains have come, and a new entry of this one even where nothing happens, so that a
log whose end was cut off is soon seen to lack an entry.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from kafkaesque.access.audit import AuditChain, AuditEvent, AuditKind
from kafkaesque.access.audit_trail import AuditTrail
from kafkaesque.access.audit_verifier import chain_name, write_head
from kafkaesque.broker.controller.internal_topic import KnownMetadata, TopicMaker
from kafkaesque.broker.metadata.internal_topics import sealing_of_internal_topics
from kafkaesque.broker.metadata.topic_names import AUDIT_TOPIC
from kafkaesque.broker.options.encryption import NONE
from kafkaesque.broker.requests.commands import CreateTopic, ProduceResult
from kafkaesque.broker.upkeep.audit_heads import AuditHeads, Fetch
from kafkaesque.env.clock import Clock
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import NodeId, TopicPartition
from kafkaesque.model.records import Record

AUDIT_PARTITION: Final = TopicPartition(AUDIT_TOPIC, 0)
CHECKPOINT_MS: Final = 300_000
#: Chains that one checkpoint names; the next one names others.
CHECKPOINT_HEADS_MAX: Final = 16
#: Of one batch; a longer entry has one of its own.
BATCH_BYTES_MAX: Final = 256 * 1024
WRITE_MS_MAX: Final = 10_000
CREATE_MS_MAX: Final = 5_000
CREATE_AGAIN_MS: Final = 500
#: A broker that stops waits so long for its last entries to be written.
CLOSE_MS_MAX: Final = 1_000
SEGMENT_BYTES: Final = 64 * 1024 * 1024


class Produce(Protocol):
    """`Forwarder.produce`."""

    def __call__(
        self,
        where: TopicPartition,
        records: bytes,
        acks: int,
        timeout_ms: int,
        on_done: Callable[[ProduceResult | RequestRefused], None],
        is_wanted: Callable[[], bool],
    ) -> None:
        """Append a batch at the partition's leader."""


class AuditWriter:
    """One for each broker; without events it does nothing."""

    def __init__(
        self,
        *,
        node: NodeId,
        incarnation: int,
        clock: Clock,
        trail: AuditTrail,
        metadata: KnownMetadata,
        controller: TopicMaker,
        produce: Produce,
        fetch: Fetch,
        replication_factor: int,
        retention_ms: int,
        retention_bytes: int,
        encryption: str = NONE,
        report: Callable[[str], None],
    ) -> None:
        self._clock: Final = clock
        self._trail: Final = trail
        self._metadata: Final = metadata
        self._controller: Final = controller
        self._produce: Final = produce
        self._replication_factor: Final = replication_factor
        self._retention_ms: Final = retention_ms
        self._retention_bytes: Final = retention_bytes
        self._encryption: Final = encryption
        self._chain = AuditChain(broker=node, name=f"{incarnation:012x}")
        self._key: Final = chain_name(node, self._chain.name).encode()
        self._heads: Final = AuditHeads(AUDIT_PARTITION, fetch, report)
        #: By chain the number that a checkpoint of this one has named.
        self._named: dict[str, int] = {}
        #: Batches that are not known to be committed, the first of them under way.
        self._unwritten: Final[deque[bytes]] = deque()
        self._is_writing = False
        self._is_creating = False
        self._is_reading = False
        self._checkpoint_due_ms = 0
        self._is_closed = False
        #: Once the last entry is made: what is called when it is written.
        self._on_written: Callable[[], None] | None = None
        #: Since the start; batches that were written again.
        self.rewrites = 0

    # -- from time to time

    def on_sweep(self, now_ms: int) -> None:
        """Write what there is to write."""
        if self._is_closed:
            return
        self._maybe_checkpoint(now_ms)
        self._go_on()

    def close(self, on_done: Callable[[], None]) -> None:
        """Write what is left, and the chain's end; `on_done` is called soon, whatever comes of it.

        What is told from then on is not written; nor is anything if the topic is not there yet.
        """
        has_begun = self._chain.number > 0 or len(self._trail) > 0
        # A broker that stops does not wait for a topic of which nobody leads the partition yet.
        if self._is_closed or not has_begun or AUDIT_TOPIC not in self._metadata.state.topics:
            self._is_closed = True
            on_done()
            return
        events = self._trail.take(self._clock.now_ms(), self._clock.wall_ms(), is_last=True)
        self._append([*events, AuditEvent(at_ms=self._clock.wall_ms(), kind=AuditKind.END)])
        self._is_closed = True

        def finish() -> None:
            if self._on_written is not None:
                self._on_written = None
                timer.cancel()
                on_done()

        timer = self._clock.call_later(CLOSE_MS_MAX, finish)
        self._on_written = finish
        self._write_next()

    # -- entries

    def _go_on(self) -> None:
        if self._is_writing:
            return
        if not self._unwritten:
            events = self._trail.take(self._clock.now_ms(), self._clock.wall_ms())
            if events:
                self._append(events)
        if self._unwritten:
            self._write_next()

    def _append(self, events: list[AuditEvent]) -> None:
        """Make entries and batches of events."""
        if self._chain.number == 0:
            kinds = ", ".join(sorted(self._trail.kinds))
            begin = AuditEvent(
                at_ms=events[0].at_ms, kind=AuditKind.BEGIN, detail={"events": kinds}
            )
            events = [begin, *events]
            self._checkpoint_due_ms = self._clock.now_ms() + CHECKPOINT_MS
        records: list[Record] = []
        size = 0
        for event in events:
            written, self._chain = self._chain.append(event)
            if records and size + len(written) > BATCH_BYTES_MAX:
                self._unwritten.append(bytes(encode_batch(records)))
                records, size = [], 0
            records.append(Record(len(records), event.at_ms, self._key, written))
            size += len(written)
        self._unwritten.append(bytes(encode_batch(records)))

    def _write_next(self) -> None:
        if self._is_writing or not self._unwritten:
            return
        if AUDIT_TOPIC not in self._metadata.state.topics:
            self._create_topic()
            return
        self._is_writing = True
        self._produce(
            AUDIT_PARTITION,
            self._unwritten[0],
            -1,
            WRITE_MS_MAX,
            self._on_outcome,
            lambda: not self._is_closed or self._on_written is not None,
        )

    def _on_outcome(self, outcome: ProduceResult | RequestRefused) -> None:
        self._is_writing = False
        if isinstance(outcome, RequestRefused):
            # Maybe it is written all the same. With the next sweep it is again.
            self.rewrites += 1
            if self._on_written is not None:
                self._clock.call_later(50, self._write_next)
            return
        self._unwritten.popleft()
        if self._unwritten:
            # It may have been called at once, within `_write_next`.
            self._clock.call_soon(self._write_next)
        elif self._on_written is not None:
            self._on_written()

    def _create_topic(self) -> None:
        if self._is_creating:
            return
        self._is_creating = True
        expected = self._controller.expected_brokers(self._metadata.state)
        command = CreateTopic(
            name=AUDIT_TOPIC,
            partition_count=1,
            replication_factor=min(self._replication_factor, expected),
            configs={
                "cleanup.policy": "delete",
                "retention.ms": str(self._retention_ms),
                "retention.bytes": str(self._retention_bytes),
                "segment.bytes": str(SEGMENT_BYTES),
                **sealing_of_internal_topics(self._encryption, self._metadata.state),
            },
        )

        def allow_again() -> None:
            self._is_creating = False

        def on_done(_: object) -> None:
            # It is seen in the metadata; or there are too few brokers yet.
            self._clock.call_later(CREATE_AGAIN_MS, allow_again)

        self._controller.submit(command, CREATE_MS_MAX, on_done)

    # -- checkpoints

    def _maybe_checkpoint(self, now_ms: int) -> None:
        if self._chain.number == 0 or now_ms < self._checkpoint_due_ms or self._is_reading:
            return
        self._checkpoint_due_ms = now_ms + CHECKPOINT_MS
        self._is_reading = True

        def on_read() -> None:
            self._is_reading = False
            if not self._is_closed and len(self._unwritten) == 0:
                self._append([self._checkpoint()])
                self._go_on()

        self._heads.read(on_read)

    def _checkpoint(self) -> AuditEvent:
        own = chain_name(self._chain.broker, self._chain.name)
        moved = {
            name: head
            for name, head in self._heads.heads.items()
            if name != own and head.number > self._named.get(name, -1)
        }
        # Those that were never named, or not for longest.
        turns = {name: turn for turn, name in enumerate(self._named)}
        chosen = sorted(moved, key=lambda name: turns.get(name, -1))[:CHECKPOINT_HEADS_MAX]
        told = {name: moved[name] for name in chosen}
        kept = self._named.keys() & self._heads.heads.keys() - told.keys()
        self._named = {
            **{name: number for name, number in self._named.items() if name in kept},
            **{name: head.number for name, head in told.items()},
        }
        return AuditEvent(
            at_ms=self._clock.wall_ms(),
            kind=AuditKind.CHECKPOINT,
            detail={name: write_head(head) for name, head in told.items()},
        )
