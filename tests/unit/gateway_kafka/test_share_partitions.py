"""One partition of a share session, and what its cursor's answers that are lost have locked."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.gateway.kafka.share_acknowledging import Acknowledge, acknowledge
from kafkaesque.gateway.kafka.share_partitions import SharePartition
from kafkaesque.model.errors import RequestTimedOut
from kafkaesque.model.ids import TopicId
from kafkaesque.queues.requests import Claim


class Cursor:
    """Notes what is asked, and answers when it is told to; it is the clock, too."""

    def __init__(self) -> None:
        self.at_ms = 0
        self.asked: list[Any] = []
        self._waiting: list[Callable[[Any], None]] = []

    def new_consumer(self) -> q.ConsumerName:
        return q.ConsumerName(1, 1, 1)

    def ask(self, request: Any, _: type, __: int, on_done: Callable[[Any], None]) -> None:
        self.asked.append(request)
        self._waiting.append(on_done)

    def now_ms(self) -> int:
        return self.at_ms

    def answer(self, outcome: Any) -> None:
        """Answer what was asked last."""
        self._waiting.pop()(outcome)

    def released(self) -> list[Claim]:
        found = [each for each in self.asked if isinstance(each, q.ReleaseMessages)]
        assert not any(each.is_failed for each in found)
        return [claim for each in found for claim in each.claims]


def partition_that_has_taken_two(cursor: Cursor) -> SharePartition:
    doors = cast(Any, SimpleNamespace(queues=cursor, clock=cursor))
    partition = SharePartition(doors, TopicId(bytes(16)), 0, lambda: None)
    partition.ask(10, 1_000, 100)
    cursor.answer(q.AttachedConsumer(True, []))
    taken = [q.QueueMessage(offset, 1, 0, 0, None, b"", ()) for offset in (0, 1)]
    cursor.answer(q.TakenMessages(taken))
    assert partition.ready == taken
    return partition


def partition_with_two_records(cursor: Cursor) -> SharePartition:
    partition = partition_that_has_taken_two(cursor)
    assert len(partition.hand_out(10)) == 2
    return partition


def test_what_was_taken_and_never_came_is_given_back() -> None:
    cursor = Cursor()
    partition = partition_with_two_records(cursor)
    partition.ask(10, 1_000, 100)
    cursor.answer(RequestTimedOut("it may or may not be done"))
    assert cursor.released() == []
    partition.ask(10, 1_000, 100)
    assert isinstance(cursor.asked[-1], q.AttachConsumer)
    cursor.answer(q.AttachedConsumer(True, [Claim(0, 2, 1), Claim(2, 4, 1)]))
    assert cursor.released() == [Claim(2, 3, 1), Claim(3, 4, 1)]


def test_what_is_being_acknowledged_is_not_given_back() -> None:
    cursor = Cursor()
    partition = partition_with_two_records(cursor)
    partition.ask(10, 1_000, 100)
    cursor.answer(RequestTimedOut("it may or may not be done"))
    partition.acquired.clear()
    partition.ask(10, 1_000, 100)
    partition.settling = 1
    cursor.answer(q.AttachedConsumer(True, [Claim(0, 2, 1)]))
    assert cursor.released() == []


def test_a_cursor_is_not_attached_before_what_is_being_acknowledged_is_settled() -> None:
    cursor = Cursor()
    partition = partition_with_two_records(cursor)
    partition.ask(10, 1_000, 100)
    cursor.answer(RequestTimedOut("it may or may not be done"))
    partition.settling = 1
    asked = len(cursor.asked)
    partition.ask(10, 1_000, 100)
    assert len(cursor.asked) == asked
    partition.settling = 0
    partition.ask(10, 1_000, 100)
    assert isinstance(cursor.asked[-1], q.AttachConsumer)


def test_who_waits_is_woken_when_a_cursor_can_be_attached() -> None:
    cursor = Cursor()
    woken: list[int] = []
    partition = partition_with_two_records(cursor)
    partition.ask(10, 1_000, 100)
    cursor.answer(RequestTimedOut("it may or may not be done"))
    partition._on_records = lambda: woken.append(partition.settling)
    settings = cast(Any, SimpleNamespace(lock_ms=1_000))
    acknowledge(
        partition._doors, partition, {0: Acknowledge.ACCEPT}, settings, lambda _: woken.append(-1)
    )
    assert woken == []
    cursor.answer(q.ClaimsResult([]))
    assert woken == [0, -1]


def test_what_has_waited_for_a_part_of_its_lock_is_taken_anew() -> None:
    cursor = Cursor()
    partition = partition_that_has_taken_two(cursor)
    assert len(partition.hand_out(1)) == 1
    cursor.at_ms = 3_000
    partition.give_back_old(30_000)
    partition.ask(10, 1_000, 100)
    assert (len(partition.ready), cursor.released()) == (1, [])
    cursor.at_ms = 3_001
    partition.give_back_old(30_000)
    assert (partition.ready, cursor.released()) == ([], [Claim(1, 2, 1)])
    partition.ask(10, 1_000, 100)
    assert isinstance(cursor.asked[-1], q.TakeMessages)
    assert partition.acquired == {0: 1}
