"""A table on a partition that only tests have: locks by name, which are let go in time.

A lock has at most one holder; each time that it is given, its attempt is one more. It also counts
the records of its partition, so that it follows more than its own decisions, and keeps the log
from an offset on if it is told to.
"""

from dataclasses import dataclass

import msgspec

from kafkaesque.model.batch import BatchHeader
from kafkaesque.model.buffers import Buffer
from kafkaesque.model.ids import Offset
from kafkaesque.tables.log_table import RequestToken, Respond
from kafkaesque.tables.replicated import ReplicatedTable
from kafkaesque.tables.timers import TimerQueue


@dataclass(frozen=True, slots=True, kw_only=True)
class Acquire:
    token: RequestToken
    name: str
    owner: str
    ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    token: RequestToken
    name: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """Keep the log from here on; it never goes back."""

    token: RequestToken
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    name: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    is_done: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """A lock was let go in time: whoever looks after such things may be told."""

    name: str


Request = Acquire | Release | Keep
Answer = Granted | Busy | Done


class Lock(msgspec.Struct, frozen=True, array_like=True):
    owner: str
    attempt: int
    due_ms: int


class Given(msgspec.Struct, frozen=True, array_like=True, tag="given"):
    name: str
    lock: Lock


class Freed(msgspec.Struct, frozen=True, array_like=True, tag="freed"):
    name: str
    is_expired: bool


class Kept(msgspec.Struct, frozen=True, array_like=True, tag="kept"):
    offset: int


Decision = Given | Freed | Kept
_decoder = msgspec.msgpack.Decoder(Decision)

#: What was there before: the lock, its attempt, the records and the floor.
Undo = tuple[str, Lock | None, int, int, int]


class State(msgspec.Struct, array_like=True):
    locks: dict[str, Lock]
    attempts: dict[str, int]
    records: int
    kept_offset: int


class LockTable(ReplicatedTable[Request, Respond[Answer] | Expired, Undo]):
    __slots__ = ("_timers", "state")

    def _clear(self) -> None:
        self.state = State({}, {}, 0, -1)
        self._timers: TimerQueue[str] = TimerQueue()

    def _apply(self, decision: bytes) -> Undo:
        state, read = self.state, _decoder.decode(decision)
        name = "" if isinstance(read, Kept) else read.name
        undo = self._before(name)
        match read:
            case Given():
                state.locks[name] = read.lock
                state.attempts[name] = read.lock.attempt
                self._timers.schedule(name, read.lock.due_ms)
            case Freed():
                del state.locks[name]
                self._timers.cancel(name)
            case Kept():
                state.kept_offset = read.offset
        return undo

    def _before(self, name: str) -> Undo:
        state = self.state
        lock, attempt = state.locks.get(name), state.attempts.get(name, 0)
        return name, lock, attempt, state.records, state.kept_offset

    def _undo(self, undo: Undo) -> None:
        state = self.state
        name, lock, attempt, state.records, state.kept_offset = undo
        if lock is None:
            state.locks.pop(name, None)
            self._timers.cancel(name)
        else:
            state.locks[name] = lock
            self._timers.schedule(name, lock.due_ms)
        if attempt:
            state.attempts[name] = attempt
        else:
            state.attempts.pop(name, None)

    def _follow(self, header: BatchHeader, data: Buffer, base_offset: Offset) -> Undo:
        undo = self._before("")
        self.state.records += header.record_count
        return undo

    def _write_state(self) -> bytes:
        state = self.state
        ordered = State(
            dict(sorted(state.locks.items())),
            dict(sorted(state.attempts.items())),
            state.records,
            state.kept_offset,
        )
        return msgspec.msgpack.encode(ordered)

    def _read_state(self, data: bytes) -> None:
        self.state = msgspec.msgpack.decode(data, type=State)

    @property
    def _floor(self) -> Offset | None:
        return Offset(self.state.kept_offset) if self.state.kept_offset >= 0 else None

    def _decide(self, request: Request) -> None:
        match request:
            case Acquire():
                self._acquire(request)
            case Release():
                lock = self.state.locks.get(request.name)
                is_held = lock is not None and lock.attempt == request.attempt
                if is_held:
                    self._log(Freed(request.name, False))
                self.release(Respond(request.token, Done(is_done=is_held)))
            case Keep():
                if request.offset > self.state.kept_offset:
                    self._log(Kept(request.offset))
                self.release(Respond(request.token, Done(is_done=True)))

    def _acquire(self, request: Acquire) -> None:
        name = request.name
        if name in self.state.locks:
            self.release(Respond(request.token, Busy(name=name)))
            return
        attempt = self.state.attempts.get(name, 0) + 1
        self._log(Given(name, Lock(request.owner, attempt, self.now.now_ms + request.ms)))
        self.release(Respond(request.token, Granted(name=name, attempt=attempt)))

    def _log(self, decision: Decision) -> None:
        self.log(msgspec.msgpack.encode(decision))

    def _on_leading(self) -> None:
        self._timers = TimerQueue()
        for name, lock in self.state.locks.items():
            self._timers.schedule(name, lock.due_ms)

    def _on_due(self) -> None:
        while (name := self._timers.pop_due(self.now.now_ms)) is not None:
            self._log(Freed(name, True))
            self.release(Expired(name=name))

    def _next_deadline_ms(self) -> int | None:
        return self._timers.next_deadline_ms()
