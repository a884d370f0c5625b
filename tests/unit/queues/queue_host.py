"""A queue on one replica, driven as a partition drives it: turns, the log, commits, new leaders."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafkaesque.model import message_headers as names
from kafkaesque.model.batch import read_batch_header
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.batch_filter import filter_batch
from kafkaesque.model.ids import Offset
from kafkaesque.model.live_offsets import LiveRecords
from kafkaesque.model.records import Record, decode_columns
from kafkaesque.queues.policy import Policy
from kafkaesque.queues.requests import (
    Answer,
    Attach,
    Claim,
    Configure,
    Deliver,
    Effect,
    Move,
    Request,
    Settle,
    Take,
    Taken,
)
from kafkaesque.queues.table import QueueTable
from kafkaesque.tables.log_table import Instant, RequestToken, Respond
from kafkaesque.tables.logged import Logged, read_logged, write_logged

TABLE = 5


class Entry(NamedTuple):
    """A batch in a log; entries of one place are equal if their terms are."""

    term: int
    base_offset: int
    next_offset: int
    data: bytes


class Message(NamedTuple):
    """What a publisher says."""

    value: bytes = b"v"
    priority: int = 0
    group: bytes = b""
    not_before_ms: int = 0
    not_after_ms: int = 0
    identity: bytes = b""


PLAIN = Message()


def encode(messages: list[Message], wall_ms: int) -> bytes:
    """Return a batch as a queue's own log has it."""
    records = [
        Record(number, wall_ms, None, message.value, _headers(message))
        for number, message in enumerate(messages)
    ]
    return bytes(encode_batch(records))


def _headers(message: Message) -> tuple[tuple[str, bytes | None], ...]:
    said = (
        (names.PRIORITY, message.priority),
        (names.GROUP, message.group),
        (names.NOT_BEFORE, message.not_before_ms),
        (names.NOT_AFTER, message.not_after_ms),
        (names.IDENTITY, message.identity),
    )
    return tuple(
        (name, value if isinstance(value, bytes) else b"%d" % value)
        for name, value in said
        if value
    )


def feed(table: QueueTable, entry: Entry) -> None:
    header = read_batch_header(entry.data)
    logged = read_logged(header, entry.data)
    table.apply(header, entry.data, Offset(entry.base_offset), logged)


def entry_at(term: int, base_offset: int, data: bytes | bytearray) -> Entry:
    header = read_batch_header(data)
    return Entry(term, base_offset, base_offset + header.last_offset_delta + 1, bytes(data))


@dataclass
class QueueHost:
    """See the module; every turn is committed at once unless `commits` is unset."""

    policy: Policy = field(default_factory=Policy)
    has_own_log: bool = True
    commits: bool = True
    now_ms: int = 1_000
    wall_ms: int = 1_700_000_000_000
    log: list[Entry] = field(default_factory=list)
    answers: dict[int, Answer] = field(default_factory=dict)
    deliveries: list[Deliver] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._last_token = 0
        self.committed = 0
        self.table = QueueTable(TABLE, has_own_log=self.has_own_log)
        self.lead()
        self.ask(Configure, policy=self.policy)

    @property
    def end(self) -> int:
        return self.log[-1].next_offset if self.log else 0

    @property
    def instant(self) -> Instant:
        return Instant(self.now_ms, self.wall_ms)

    def lead(self) -> None:
        self.table.lead(self.instant)
        self._log_snapshot()
        self.end_turn()

    def ask(self, kind: Callable[..., Request], **fields: Any) -> Answer | None:
        """Ask, end the turn, and return the answer if it is there."""
        self._last_token += 1
        token = RequestToken(self._last_token)
        self.table.decide(kind(token=token, **fields), self.instant)
        self.end_turn()
        return self.answers.get(token)

    def take(self, count: int = 1, **fields: Any) -> tuple[Claim, ...]:
        """Take messages, and return what is given."""
        answer = self.ask(Take, messages_max=count, **fields)
        assert isinstance(answer, Taken), answer
        return answer.claims

    def take_offsets(self, count: int = 1, **fields: Any) -> list[int]:
        return [
            offset for each in self.take(count, **fields) for offset in range(each.first, each.end)
        ]

    def settle(self, *claims: Claim, **fields: Any) -> Answer | None:
        return self.ask(Settle, claims=claims, **fields)

    def attach(self, session: bytes) -> Answer | None:
        return self.ask(Attach, session=session)

    def put(self, *messages: Message) -> list[int]:
        """Append messages as one batch, and return their offsets."""
        entry = entry_at(0, self.end, encode(list(messages), self.wall_ms))
        self.log.append(entry)
        feed(self.table, entry)
        self.end_turn()
        return list(range(entry.base_offset, entry.next_offset))

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        self.wall_ms += ms
        self.end_turn()

    def end_turn(self) -> None:
        """Do what is due, log what was decided, and commit it."""
        for _ in range(1_000):
            due_ms = self.table.next_deadline_ms()
            if due_ms is not None and due_ms <= self.now_ms:
                self.table.tick(self.instant)
            logged = self.table.turn()
            if logged is not None:
                self._log(logged)
                self._log_snapshot()
            if self.commits:
                self.commit()
            due_ms = self.table.next_deadline_ms()
            if due_ms is None or due_ms > self.now_ms:
                return
        raise AssertionError("there is always something to do")

    def commit(self) -> None:
        self.committed = self.end
        self.table.commit(Offset(self.end))
        for effect in (*self.table.take_ready(), *self.table.take_unconfirmed()):
            self._take_effect(effect)

    def new_leader(self) -> None:
        """Another replica leads that has what is committed and nothing else."""
        while self.log and self.log[-1].next_offset > self.committed:
            self.log.pop()
        self.table = QueueTable(TABLE, has_own_log=self.has_own_log)
        for entry in self.log:
            feed(self.table, entry)
        self.table.commit(Offset(self.end))
        self.lead()

    def _take_effect(self, effect: Effect) -> None:
        self.effects.append(effect)
        match effect:
            case Respond():
                assert effect.token not in self.answers, "answered twice"
                self.answers[effect.token] = effect.result
            case Deliver():
                self.deliveries.append(effect)
            case Move():
                self.moves.append(effect)

    def _log(self, logged: Logged) -> None:
        entry = entry_at(0, self.end, write_logged(logged))
        self.log.append(entry)
        self.table.on_logged(logged, Offset(entry.base_offset), Offset(entry.next_offset))

    def _log_snapshot(self) -> None:
        for part in self.table.snapshot_parts():
            self._log(part)


def cleaned(entry: Entry, live: LiveRecords) -> Entry | None:
    """Return what the cleaner leaves of a batch; None: nothing."""
    header = read_batch_header(entry.data)
    if header.is_control:
        return None if read_logged(header, entry.data) else entry
    columns = decode_columns(entry.data, 1 << 20)
    rows = [row for row, offset in enumerate(columns.offsets) if offset in live.offsets]
    if len(rows) == header.record_count:
        return entry
    if not rows:
        return None
    latest = max(columns.timestamps_ms[row] for row in rows)
    return entry._replace(data=bytes(filter_batch(header, columns.payload, rows, latest)))
