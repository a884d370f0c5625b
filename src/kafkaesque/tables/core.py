"""The skeleton of a table that lives in a partition's log, for as long as its broker leads there.

Theory of operation. A table is *loading* while the log is replayed into it (`restore`), *active*
from `activate` on, and *unloaded* for good when leadership is lost (`unload`); a new leader makes a
new table from the log. Everything that happens is `step`, `tick`, or a report of work done; what is
to be done comes out of `take_ready`, in order. A kind of table says how a record is replayed, how
an event is handled and how one is refused; its life, its deadlines and its writes are the same for
all, and are here.
"""

from collections.abc import Iterable
from enum import Enum, auto
from typing import Generic, NamedTuple, Protocol, TypeVar

from kafkaesque.model.errors import InvariantBroken
from kafkaesque.tables.log_table import BadTableRecord, Instant, WriteFailure, WriteToken
from kafkaesque.tables.write_queue import WriteQueue

ErrorT = TypeVar("ErrorT")
EventT = TypeVar("EventT")
WorkT = TypeVar("WorkT")


class TableState(Enum):
    """The life of a table; there is no way back."""

    LOADING = auto()
    ACTIVE = auto()
    UNLOADED = auto()


class Deadlines(Protocol):
    """Something with deadlines of its own."""

    def next_deadline_ms(self) -> int | None:
        """Return when the first is due, or None."""


class TableErrors(NamedTuple, Generic[ErrorT]):
    """What a kind of table tells those whose requests it cannot take, in the domain's own words."""

    none: ErrorT
    is_loading: ErrorT
    not_here: ErrorT
    of_write: dict[WriteFailure, ErrorT]


class TableContext(Generic[ErrorT, WorkT]):
    """What the handlers of one table share: the time, the writes under way, and the way out."""

    __slots__ = ("now", "ready", "writes")

    def __init__(self, writes: WriteQueue[ErrorT]) -> None:
        self.now = Instant(0, 0)
        self.writes = writes
        self.ready: list[WorkT] = []


class TableCore(Generic[EventT, ErrorT, WorkT]):
    """See the module; a kind of table fills in what raises `NotImplementedError` here."""

    __slots__ = ("_deadlines", "_errors", "_next_expiry_ms", "_records_skipped", "_shared", "state")

    def __init__(
        self,
        shared: TableContext[ErrorT, WorkT],
        errors: TableErrors[ErrorT],
        deadlines: tuple[Deadlines, ...],
    ) -> None:
        """`deadlines` are all but the writes' and the regular look for what has expired."""
        #: Where in its life the table is.
        self.state = TableState.LOADING
        self._shared = shared
        self._errors = errors
        self._deadlines: tuple[Deadlines, ...] = (*deadlines, shared.writes)
        self._records_skipped = 0
        self._next_expiry_ms: int | None = None

    # -- what a kind fills in

    def _replay(self, key: bytes, value: bytes | None) -> None:
        """Take a committed record; one that cannot be read raises `BadTableRecord`."""
        raise NotImplementedError

    def _on_active(self) -> None:
        """Everything is replayed: make what is there live."""
        raise NotImplementedError

    def _on_unloaded(self) -> None:
        """Tell everybody who waits that this is not the place any more."""
        raise NotImplementedError

    def _handle(self, event: EventT) -> None:
        """Take an event, which an active table may take."""
        raise NotImplementedError

    def _refuse(self, event: EventT, error: ErrorT) -> None:
        """Answer an event with nothing but an error, if anybody waits for an answer."""
        raise NotImplementedError

    def _on_due(self) -> None:
        """Do what is due by the kind's own deadlines."""
        raise NotImplementedError

    def _expire(self) -> None:
        """Look for what has not been used for long."""
        raise NotImplementedError

    @property
    def _expiry_interval_ms(self) -> int:
        """How often `_expire` is called."""
        raise NotImplementedError

    # -- life

    @property
    def records_skipped(self) -> int:
        """How many records `restore` could not read; each is a loss to be reported."""
        return self._records_skipped

    def restore(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """Replay committed (key, value) records in the order of the log; may be called again.

        The last value of a key wins; no value deletes it. Records that cannot be read are skipped
        and counted.
        """
        self._expect(TableState.LOADING)
        for key, value in records:
            try:
                if key is None:
                    raise BadTableRecord("a record without a key")
                self._replay(key, value)
            except BadTableRecord:
                self._records_skipped += 1

    def activate(self, now: Instant) -> None:
        """Begin to serve: what is replayed counts from now."""
        self._expect(TableState.LOADING)
        self.state = TableState.ACTIVE
        self._shared.now = now
        self._on_active()
        self._schedule_expiry()

    def unload(self) -> None:
        """Give up: leadership is lost. Whoever waits is told to look for the new coordinator.

        Writes in flight may or may not be committed; nothing is made of their reports any more.
        """
        if self.state is not TableState.UNLOADED:
            self.state = TableState.UNLOADED
            self._on_unloaded()

    # -- events

    def step(self, event: EventT, now: Instant) -> None:
        """Take one event; its answer comes out of `take_ready` now or later."""
        if self.state is not TableState.ACTIVE:
            errors = self._errors
            is_loading = self.state is TableState.LOADING
            self._refuse(event, errors.is_loading if is_loading else errors.not_here)
            return
        self._shared.now = now
        self._handle(event)

    def tick(self, now: Instant) -> None:
        """Do what is due; needed only when `next_deadline_ms` has come."""
        if self.state is not TableState.ACTIVE:
            return
        self._shared.now = now
        self._on_due()
        self._shared.writes.expire(now.now_ms)
        if self._next_expiry_ms is not None and self._next_expiry_ms <= now.now_ms:
            self._expire()
            self._schedule_expiry()

    def on_appended(self, token: WriteToken, now: Instant) -> None:
        """Take the report that an `Append` is committed."""
        self._end_write(token, self._errors.none, now)

    def on_append_failed(self, token: WriteToken, failure: WriteFailure, now: Instant) -> None:
        """Take the report that an `Append` is not in the log and never will be."""
        self._end_write(token, self._errors.of_write[failure], now)

    def take_ready(self) -> list[WorkT]:
        """Return what is to be done since the last call, in order."""
        ready = self._shared.ready
        self._shared.ready = []
        return ready

    def next_deadline_ms(self) -> int | None:
        """Return when `tick` is needed next, or None for never."""
        if self.state is not TableState.ACTIVE:
            return None
        first = self._next_expiry_ms
        for each in self._deadlines:
            due_ms = each.next_deadline_ms()
            if due_ms is not None and (first is None or due_ms < first):
                first = due_ms
        return first

    # -- inside

    def _end_write(self, token: WriteToken, outcome: ErrorT, now: Instant) -> None:
        if self.state is TableState.ACTIVE:
            self._shared.now = now
            self._shared.writes.end(token, outcome)

    def _schedule_expiry(self) -> None:
        self._next_expiry_ms = self._shared.now.now_ms + self._expiry_interval_ms

    def _expect(self, state: TableState) -> None:
        if self.state is not state:
            raise InvariantBroken(f"a table that is {self.state.name} is not {state.name}")
