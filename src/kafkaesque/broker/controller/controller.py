"""The controller: the cluster's metadata, kept by the Raft group 0.

Every broker runs one of these and applies what the group commits to its own copy of the state. On
the leader, commands are taken one after the other: planned against the applied state, proposed,
and answered when their records are committed and applied; so a plan never works on stale state.
A refusal, and whatever else is answered without a record, waits until a majority has confirmed that
this broker leads still: one that was deposed without knowing might say of a topic that there is
none, or that there is one. Elsewhere a command is passed on to the leader.

A leader begins to plan only after its own term's first entry is committed, because only then has
it applied everything that earlier leaders promised.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.plan import Plan
from kafkaesque.broker.metadata.records import (
    AnyMetadataRecord,
    read_metadata_record,
    write_metadata_record,
)
from kafkaesque.broker.replication.replica import Appended, AppendedBatch
from kafkaesque.broker.requests.commands import ControllerCommand, ControllerResult
from kafkaesque.model.batch import BatchHeader, read_batch_header
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.errors import (
    InvariantBroken,
    NotController,
    OverBound,
    RequestRefused,
    RequestTimedOut,
)
from kafkaesque.model.ids import NodeId, Offset
from kafkaesque.model.records import Record, decode_batch

#: Commands that wait their turn on the leader.
COMMANDS_MAX = 10_000
#: A metadata record batch is never larger.
METADATA_BATCH_BYTES_MAX = 64 * 1024 * 1024

Outcome = ControllerResult | RequestRefused
OnOutcome = Callable[[Outcome], None]


class ControllerReplica(Protocol):
    """What the controller needs of its group's replica."""

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads the controller group."""

    @property
    def leader(self) -> NodeId | None:
        """Who leads it, as far as is known."""

    @property
    def term_committed(self) -> bool:
        """Whether an entry of the leader's own term is committed."""

    def append(self, data: bytearray, batch: BatchHeader) -> Appended:
        """Propose a batch; raises `NotLeader`."""

    def confirm(self, on_done: Callable[[bool], None]) -> None:
        """Find out whether this broker leads still; tell it in a later turn, exactly once."""


class Controller:
    """This broker's part in the controller group."""

    def __init__(
        self,
        *,
        state: ClusterState,
        applied_offset: Offset,
        planner: Callable[[ClusterState, ControllerCommand], Plan],
        on_record: Callable[[AnyMetadataRecord], None],
        on_snapshot_loaded: Callable[[ClusterState], None],
        on_leading: Callable[[bool], None],
        save_snapshot: Callable[[bytes, Offset, Callable[[], None]], None],
        snapshot: bytes,
        wall_ms: Callable[[], int],
        on_caught_up: Callable[[], None],
    ) -> None:
        self.state = state
        self.applied_offset = applied_offset
        #: All that this broker may have applied before it was started is before this offset.
        self._known_offset = applied_offset
        self._on_caught_up = on_caught_up
        #: Told when more of the log is in the state.
        self.on_applied: Callable[[], None] = _nothing
        self.replica: ControllerReplica | None = None
        self._planner = planner
        self._on_record = on_record
        self._on_snapshot_loaded = on_snapshot_loaded
        self._on_leading = on_leading
        self._save_snapshot = save_snapshot
        #: The state at the log's start, for a replica that is further behind; and up to where it
        #: is. That is later where the process died between the two: it was saved, and the log not
        #: yet given up before it.
        self.snapshot = snapshot
        self.snapshot_offset = applied_offset
        self._wall_ms = wall_ms
        self._unapplied: deque[AppendedBatch] = deque()
        self._commands: deque[tuple[ControllerCommand, OnOutcome]] = deque()
        #: The command under way: the offset after its records, its result, who waits.
        self._pending: tuple[Offset, ControllerResult, OnOutcome] | None = None
        #: How many answers wait until it is known that this broker leads still.
        self._unconfirmed = 0

    @property
    def is_caught_up(self) -> bool:
        """Whether the state is at least what it was when this broker was stopped."""
        return self.applied_offset >= self._known_offset

    def restore(self, batches: Sequence[AppendedBatch]) -> None:
        """Take what the log holds when it is opened; some of it may never have been committed."""
        self.on_appended(batches)
        if batches:
            self._known_offset = max(self._known_offset, batches[-1].next_offset)

    # -- commands, on the leader

    @property
    def is_leader(self) -> bool:
        """Whether this broker's controller decides at the moment."""
        return self.replica is not None and self.replica.is_leader

    def submit(self, command: ControllerCommand, on_done: OnOutcome) -> None:
        """Carry out a command here; `on_done` gets the result when it is committed, or why not."""
        if not self.is_leader:
            on_done(NotController("this broker's controller does not lead"))
            return
        if len(self._commands) + self._unconfirmed >= COMMANDS_MAX:
            on_done(OverBound(f"{COMMANDS_MAX} commands wait already"))
            return
        self._commands.append((command, on_done))
        self._advance()

    def _advance(self) -> None:
        """Plan and propose the next commands, until one has to wait for its commit."""
        while self._commands and self._pending is None:
            replica = self.replica
            if replica is None or not replica.is_leader or not replica.term_committed:
                return
            command, on_done = self._commands.popleft()
            try:
                planned = self._planner(self.state, command)
            except RequestRefused as refusal:
                # Its frames hold it: thousands of them would stay until they are collected.
                self._answer_confirmed(replica, refusal.with_traceback(None), on_done)
                continue
            if not planned.records:
                self._answer_confirmed(replica, planned.result, on_done)
                continue
            self._propose(replica, planned, on_done)

    def _answer_confirmed(
        self, replica: ControllerReplica, outcome: Outcome, on_done: OnOutcome
    ) -> None:
        """Answer from the state alone, if this broker leads still."""

        def answer(is_leader: bool) -> None:
            self._unconfirmed -= 1
            on_done(outcome if is_leader else NotController("the controller has changed"))

        self._unconfirmed += 1
        replica.confirm(answer)

    def _propose(self, replica: ControllerReplica, planned: Plan, on_done: OnOutcome) -> None:
        timestamp_ms = self._wall_ms()
        records = [
            Record(number, timestamp_ms, None, write_metadata_record(record), ())
            for number, record in enumerate(planned.records)
        ]
        data = encode_batch(records)
        try:
            appended = replica.append(data, read_batch_header(data))
        except RequestRefused as refusal:
            on_done(refusal)
            return
        self._pending = (appended.next_offset, planned.result, on_done)

    # -- what happens in the group

    def on_leading(self, term: int) -> None:
        """See `ReplicaListener`."""
        self._on_leading(True)

    def on_following(self, term: int, leader: NodeId | None) -> None:
        """See `ReplicaListener`."""
        pending, self._pending = self._pending, None
        if pending is not None:
            # Its records may or may not be committed by the next leader.
            pending[2](RequestTimedOut("the controller changed while the command was under way"))
        commands, self._commands = self._commands, deque()
        for _, on_done in commands:
            on_done(NotController("the controller has changed"))
        self._on_leading(False)

    def on_appended(self, batches: Sequence[AppendedBatch]) -> None:
        """See `ReplicaListener`."""
        self._unapplied.extend(batches)

    def on_truncated(self, end_offset: Offset) -> None:
        """See `ReplicaListener`."""
        while self._unapplied and self._unapplied[-1].next_offset > end_offset:
            self._unapplied.pop()
        if end_offset < self._known_offset:
            was_caught_up = self.is_caught_up
            self._known_offset = end_offset
            self._maybe_caught_up(was_caught_up)

    def _maybe_caught_up(self, was_caught_up: bool) -> None:
        if self.is_caught_up and not was_caught_up:
            self._on_caught_up()

    def on_start_capped(self, end_offset: Offset) -> None:
        """See `ReplicaListener`; this group's log keeps its start."""

    def on_durable(self, end_offset: Offset) -> None:
        """See `ReplicaListener`."""

    def on_committed(self, high_watermark: Offset) -> None:
        """See `ReplicaListener`."""
        was_caught_up = self.is_caught_up
        while self._unapplied and self._unapplied[0].next_offset <= high_watermark:
            batch = self._unapplied.popleft()
            if batch.next_offset > self.applied_offset:
                self._apply(batch)
        self._maybe_caught_up(was_caught_up)
        self.on_applied()
        pending = self._pending
        if pending is not None and pending[0] <= self.applied_offset:
            self._pending = None
            pending[2](pending[1])
        self._advance()

    def _apply(self, batch: AppendedBatch) -> None:
        for record in decode_batch(batch.data, METADATA_BATCH_BYTES_MAX):
            if record.value is None:
                raise InvariantBroken("the controller's log holds a record without a value")
            change = read_metadata_record(record.value)
            self.state.apply(change)
            self._on_record(change)
        self.applied_offset = batch.next_offset

    def on_failed(self, error: Exception) -> None:
        """See `ReplicaListener`."""
        self.on_following(0, None)

    def write_snapshot(self, start_offset: Offset) -> tuple[Offset, bytes]:
        """See `ReplicaListener`."""
        return max(start_offset, self.snapshot_offset), self.snapshot

    def on_snapshot(
        self, payload: bytes, term: int, start_offset: Offset, install: Callable[[], None]
    ) -> None:
        """See `ReplicaListener`."""
        self.state = ClusterState.read_snapshot(payload)
        self.applied_offset = start_offset
        self._unapplied.clear()
        kept = bytes(payload)

        def install_with_snapshot() -> None:
            # From now on the log begins where this snapshot ends: so it is what others get.
            self.snapshot, self.snapshot_offset = kept, start_offset
            install()

        self._save_snapshot(kept, start_offset, install_with_snapshot)
        self._on_snapshot_loaded(self.state)
        self.on_applied()


def _nothing() -> None:
    """Nobody wants to know."""
