"""The host of a coordinator's table: what becomes of its appends, and when it answers."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kafkaesque.broker.coordinators.table_host import TableHost
from kafkaesque.model.errors import NotEnoughReplicas, RequestRefused
from kafkaesque.model.record_errors import BatchTooLarge
from kafkaesque.tables.log_table import (
    Append,
    LogRecord,
    RequestToken,
    Respond,
    WriteFailure,
    WriteToken,
)

AnyHost = TableHost[Any, Any, Any, Any, Any]

RECORDS = (LogRecord(b"key", b"value"),)


class Table:
    """Says what it was told of its writes."""

    def __init__(self) -> None:
        self.ready: list[Append] = []
        self.written: list[int] = []
        self.failed: list[tuple[int, WriteFailure]] = []

    def on_appended(self, token: WriteToken, _: Any) -> None:
        self.written.append(token)

    def on_append_failed(self, token: WriteToken, failure: WriteFailure, _: Any) -> None:
        self.failed.append((token, failure))

    def take_ready(self) -> list[Append]:
        ready, self.ready = self.ready, []
        return ready

    def next_deadline_ms(self) -> None:
        return None


class Log:
    """A partition that refuses the appends of some numbers, and keeps the others."""

    def __init__(self, refused: dict[int, RequestRefused]) -> None:
        self.on_transaction_ended: Any = None
        self.asked = 0
        self._refused = refused

    def produce(self, records: Any, *, on_done: Callable[[object], None], **_: Any) -> None:
        self.asked += 1
        if self.asked in self._refused:
            raise self._refused[self.asked]
        on_done(SimpleNamespace())


class Clock:
    """Calls nobody before it is told to."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []

    def call_soon(self, work: Callable[[], None]) -> None:
        self.soon.append(work)

    def now_ms(self) -> int:
        return 0

    wall_ms = now_ms

    def run(self) -> None:
        while self.soon:
            self.soon.pop(0)()


def written_by(refused: dict[int, RequestRefused], *appends: Append) -> tuple[Table, Log]:
    """Let a table ask for appends at once; return what it was told, and the log."""
    table, log = Table(), Log(refused)
    clock: Any = Clock()
    kind: Any = SimpleNamespace(
        make_table=lambda _: table,
        take_ready=Table.take_ready,
        make_ended=None,
        on_event=lambda _: None,
    )
    partition: Any = log
    nobody: Any = None
    host: AnyHost = TableHost(partition, kind, clock=clock, disk=nobody, reports=nobody)
    table.ready = list(appends)
    host.run(lambda *_: None)
    clock.run()
    return table, log


def append(token: int, follows: int | None = None) -> Append:
    return Append(WriteToken(token), RECORDS, None if follows is None else WriteToken(follows))


@pytest.mark.parametrize(
    ("refusal", "failure"),
    [
        (BatchTooLarge("long"), WriteFailure.TOO_LARGE),
        (NotEnoughReplicas("few"), WriteFailure.NOT_ENOUGH_REPLICAS),
    ],
    ids=["too large", "too few replicas"],
)
def test_what_follows_an_append_that_is_refused_is_not_appended(
    refusal: RequestRefused, failure: WriteFailure
) -> None:
    table, log = written_by({2: refusal}, append(1), append(2, 1), append(3, 2), append(4, 3))
    assert log.asked == 2
    assert table.written == [1]
    assert table.failed == [(2, failure), (3, failure), (4, failure)]


def test_appends_that_follow_nothing_stand_for_themselves() -> None:
    table, _ = written_by({1: BatchTooLarge("long")}, append(1), append(2), append(3, 2))
    assert table.written == [2, 3]
    assert table.failed == [(1, WriteFailure.TOO_LARGE)]


class Echo(Table):
    """Answers at once, or when its record is committed."""

    def __init__(self) -> None:
        super().__init__()
        self.work: list[Any] = []

    def step(self, event: Any, _: Any) -> None:
        self.work.append(event.work)

    def on_appended(self, token: WriteToken, _: Any) -> None:
        self.work.append(Respond(RequestToken(token), "written"))

    def take_ready(self) -> list[Any]:
        work, self.work = self.work, []
        return work


class Replica:
    """Is asked whether it leads, and answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[Callable[[bool], None]] = []

    def confirm(self, on_done: Callable[[bool], None]) -> None:
        self.asked.append(on_done)


class SlowLog(Log):
    """Commits when it is told to."""

    def __init__(self) -> None:
        super().__init__({})
        self.replica = Replica()
        self.under_way: list[Callable[[object], None]] = []

    def produce(self, records: Any, *, on_done: Callable[[object], None], **_: Any) -> None:
        self.under_way.append(on_done)


class Asked:
    """A host whose final answers are all but "later", and what it has answered."""

    def __init__(self) -> None:
        self.log = SlowLog()
        self.answers: list[tuple[int, Any]] = []
        kind: Any = SimpleNamespace(
            make_table=lambda _: Echo(),
            step=Echo.step,
            take_ready=Echo.take_ready,
            make_ended=None,
            on_event=lambda _: None,
            before_request=lambda *_: None,
            is_final=lambda result: result != "later",
            not_coordinator="not here",
        )
        log: Any = self.log
        clock: Any = Clock()
        nobody: Any = None
        self.host: AnyHost = TableHost(log, kind, clock=clock, disk=nobody, reports=nobody)

    def ask(self, number: int, answer: str | None = None) -> None:
        """Ask for an answer from memory, or for a record."""
        token = RequestToken(number)
        work: Any = append(number) if answer is None else Respond(token, answer)
        event = SimpleNamespace(token=token, work=work)
        self.host.step(event, lambda result: self.answers.append((number, result)))


def test_a_final_answer_from_memory_is_given_when_this_broker_is_known_to_lead() -> None:
    asked = Asked()
    asked.ask(1, "done")
    asked.ask(2, "fenced")
    assert asked.answers == []
    first, second = asked.log.replica.asked
    first(True)
    second(False)
    assert asked.answers == [(1, "done"), (2, "not here")]


def test_a_passing_answer_and_one_whose_record_is_committed_ask_nobody() -> None:
    asked = Asked()
    asked.ask(1, "later")
    asked.ask(2)
    assert asked.answers == [(1, "later")]
    asked.log.under_way[0](SimpleNamespace())
    assert asked.answers == [(1, "later"), (2, "written")]
    assert asked.log.replica.asked == []


def test_what_was_appended_before_the_request_does_not_show_who_leads_now() -> None:
    asked = Asked()
    asked.ask(1)
    asked.ask(2, "done")
    asked.log.under_way[0](SimpleNamespace())
    asked.ask(3, "done")
    assert asked.answers == [(1, "written")]
    assert len(asked.log.replica.asked) == 2
