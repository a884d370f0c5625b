"""What went wrong with cursors over topics under faults."""

from typing import Any

import msgspec
import pytest

from kafkaesque.broker.partitions.partition_tables import PartitionTable, PartitionTables
from kafkaesque.broker.queues.cursor_host import AGAIN_MS, CursorHost, _arrival_of
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.commands import EARLIEST, FetchResult
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.errors import RequestRefused, StorageFailed
from kafkaesque.model.ids import Offset
from kafkaesque.model.records import Record
from kafkaesque.queues.runs import Run
from kafkaesque.tables.logged import Logged
from tests.sim.queue_scenario import PLENTY
from tests.sim.test_cursors import CursorScenario

#: A decision that is longer says what has arrived.
SEEK_BYTES_MAX = 6


def leader_of_cursor(cursor: CursorScenario) -> str:
    found: list[str] = []

    def is_led() -> bool:
        found[:] = [name for name in cursor.running() if host_of(cursor, name).queue.is_leading]
        return len(found) == 1

    cursor.loop.run_until(is_led, 30_000)
    return found[0]


def host_of(cursor: CursorScenario, name: str) -> CursorHost:
    host = cursor.broker(name).queue_hosts._hosts[cursor.log_id, 0]
    assert isinstance(host, CursorHost)
    return host


def test_who_waits_for_long_is_served_when_a_message_comes_at_last() -> None:
    cursor = CursorScenario(31)
    outcomes: list[q.TakenMessages | RequestRefused] = []
    request = q.TakeMessages(log_id=cursor.log_id, bytes_max=PLENTY, wait_ms=25_000)
    door = cursor.any().doors.queues
    door.ask(request, q.TakenMessages, 40_000, outcomes.append)
    cursor.loop.run_for(12_000)
    cursor.write(1)
    cursor.loop.run_for(1_000)
    assert [type(each) for each in outcomes] == [q.TakenMessages]


def test_what_was_read_ahead_and_could_not_be_decided_is_read_again() -> None:
    cursor = CursorScenario(32)
    cursor.write(20)
    host = host_of(cursor, leader_of_cursor(cursor))
    tables = host._tables
    assert tables is not None
    refused: list[Logged] = []

    class FullDisk(PartitionTables):
        """Takes nothing, once."""

        def propose(self, author: PartitionTable, logged: Logged) -> tuple[Offset, Offset]:
            if not refused and any(len(each) > SEEK_BYTES_MAX for each in logged.decisions):
                refused.append(logged)
                raise StorageFailed("the disk is full")
            return super().propose(author, logged)

    full = FullDisk(tables.all, tables._note_control)
    full.replica, full._log = tables.replica, tables._log
    host._tables = full
    host.on_wanted()
    cursor.loop.run_for(2_000)
    assert refused
    found = cursor.acquire_all()
    found |= {each.offset: each.value for each in cursor.acquire(wait_ms=40_000)}
    assert sorted(found) == list(range(cursor.stable_end))


def test_holes_that_compaction_has_left_are_no_messages() -> None:
    records = [Record(offset, 0, b"k", b"v", ()) for offset in (10, 11, 14, 17)]
    read = FetchResult(
        records=bytes(encode_batch(records)), aborted=[], last_stable_offset=18, log_start_offset=0
    )
    arrival, next_offset = _arrival_of(read, 11, has_groups=False)
    assert arrival is not None
    assert arrival.runs == (Run(11, 12), Run(14, 15), Run(17, 18))
    assert next_offset == 18


def test_what_is_not_settled_comes_again_when_the_topic_has_lost_its_tail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cursor = CursorScenario(35)
    cursor.write(20)
    taken = cursor.acquire(5)
    assert cursor.accept(taken[:3]) == []
    host = host_of(cursor, leader_of_cursor(cursor))
    assert host.queue.state.end > 15, "all is read ahead"
    fetch = host._parts.forwarder.fetch

    def shorter(source: Any, offset: int, *more: Any, **options: Any) -> None:
        if offset == EARLIEST:
            told = FetchResult(records=b"", aborted=[], last_stable_offset=15, log_start_offset=0)
            host._parts.clock.call_soon(lambda: more[2](told))
        else:
            fetch(source, offset, *more, **options)

    monkeypatch.setattr(host._parts.forwarder, "fetch", shorter)
    host._skip_gone()
    cursor.loop.run_for(2_000)
    assert sorted(cursor.acquire_all())[:12] == list(range(3, 15))


def test_what_is_damaged_where_the_topic_is_led_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not at once, and until another broker leads the topic, which is to have it whole."""
    cursor = CursorScenario(36)
    cursor.write(1)
    host = host_of(cursor, leader_of_cursor(cursor))
    fetch: Any = host._parts.forwarder.fetch
    clock = host._parts.clock
    asked, until_ms = 0, clock.now_ms() + 3_000

    def damaged(source: Any, offset: int, *more: Any, **options: Any) -> None:
        def on_fetched(outcome: FetchResult | RequestRefused) -> None:
            nonlocal asked
            if isinstance(outcome, FetchResult) and outcome.records and clock.now_ms() < until_ms:
                asked += 1
                outcome = msgspec.structs.replace(outcome, records=b"?" * len(outcome.records))
            more[2](outcome)

        fetch(source, offset, *more[:2], on_fetched, **options)

    monkeypatch.setattr(host._parts.forwarder, "fetch", damaged)
    cursor.write(5)
    outcomes: list[q.TakenMessages | RequestRefused] = []
    take = q.TakeMessages(log_id=cursor.log_id, bytes_max=PLENTY, wait_ms=25_000)
    cursor.any().doors.queues.ask(take, q.TakenMessages, 40_000, outcomes.append)
    cursor.loop.run_for(2_000)
    assert 1 < asked < 2_000 / AGAIN_MS + 2
    cursor.loop.run_for(5_000)
    (taken,) = outcomes
    assert isinstance(taken, q.TakenMessages)
    offsets = [each.offset for each in taken.messages]
    assert sorted([*offsets, *cursor.acquire_all()]) == list(range(cursor.stable_end))
