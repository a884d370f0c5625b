"""Leaders of a queue of several partitions are killed while much is in flight."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.queues import mover, whole_numbers
from kafkaesque.broker.queues.calls import QueueCalls
from kafkaesque.broker.queues.whole_numbers import part_of
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.commands import Done
from kafkaesque.model.errors import LeaderNotAvailable, RequestRefused, RequestTimedOut
from kafkaesque.model.ids import GroupId
from kafkaesque.sim.queues.kills import KillReport, kill_leaders
from kafkaesque.sim.queues.promises import PROMISES
from tests.sim.queue_scenario import PLENTY, QUEUE, QueueScenario

ResultT = TypeVar("ResultT")

PARTED = {"partitions": "3", "ordered.groups": "true"}
COUNT = 500

IN_FLIGHT = 90
KILLS = 3


def kept(kills: int = KILLS) -> KillReport:
    return kill_leaders(1, kills, IN_FLIGHT, partitions=3)


@pytest.mark.extended
def test_nothing_is_lost_or_doubled_when_leaders_of_partitions_are_killed() -> None:
    report = kept()
    assert report.anomalies == []
    assert report.broken == dict.fromkeys(PROMISES, 0)
    assert report.kills == KILLS
    assert report.in_flight_least > IN_FLIGHT // 2
    for what in ("settled", "failed", "released", "dead letters"):
        assert report.counts[what], what


@pytest.mark.extended
def test_groups_that_are_in_any_partition_are_out_of_order(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = itertools.count()
    monkeypatch.setattr(
        whole_numbers, "partition_for", lambda headers, count, otherwise: next(turns) % count
    )
    assert kept().broken["out of order in a group"]


def moved(killed_after_ms: int) -> list[bytes | None]:
    """Move what three partitions have to three others, and kill leaders of both; in order."""
    queues = QueueScenario(5, PARTED)
    queues.create("there", PARTED)
    for first in range(0, COUNT, 50):
        groups = [b"%d" % (number % 7) for number in range(first, first + 50)]
        queues.put(
            *(NewMessage(b"%d" % (first + at), group=each) for at, each in enumerate(groups))
        )
    redrive = q.RedriveQueue(log_id=queues.queue().topic_id, target="there")
    ask_whole(queues, redrive, Done)
    queues.loop.run_for(killed_after_ms)
    for name, number in ((QUEUE, 0), ("there", 1), (QUEUE, 2)):
        state = queues.queue(name).partitions[number]
        leader = next(each for each in queues.running() if leads(queues, each, state.group))
        queues.kill(leader)
        queues.loop.run_for(200)
        queues.boot(leader)
        queues.loop.run_for(2_000)
    queues.loop.run_for(15_000)
    counts = ask_whole(queues, q.AskQueue(log_id=queues.queue().topic_id), q.QueueCounts)
    assert counts.removed["redriven"] == COUNT
    found: list[bytes | None] = []
    for number in range(3):
        part = queues.queue("there").topic_id
        peek = q.PeekMessages(
            log_id=part, partition=number, messages_max=2 * COUNT, bytes_max=PLENTY
        )
        peeked = queues.ask(peek, q.PeekedMessages)
        assert peeked.messages, f"partition {number} has nothing"
        found += [each.message.value for each in peeked.messages]
    return found


def leads(queues: QueueScenario, broker: str, group: GroupId) -> bool:
    partition = queues.broker(broker).partitions.get(group)
    return partition is not None and partition.is_leader


def ask_whole(
    queues: QueueScenario, request: q.AnyQueueRequest, result_type: type[ResultT]
) -> ResultT:
    outcomes: list[ResultT | RequestRefused] = []
    door = queues.any().doors.queues
    door.ask_whole(request, result_type, 10_000, outcomes.append)
    queues.loop.run_until(lambda: outcomes != [], 20_000)
    assert isinstance(outcomes[0], result_type), outcomes
    return outcomes[0]


@pytest.fixture
def lost_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what is moved to a partition, one of ten is refused, and one answer of ten is lost."""
    ask, turns = QueueCalls.ask, itertools.count()

    def lose(
        calls: QueueCalls, request: Any, kind: Any, timeout_ms: int, on_done: Callable[[Any], None]
    ) -> None:
        turn = next(turns) % 10 if isinstance(request, q.MoveMessages) else -1
        if turn == 1:
            on_done(LeaderNotAvailable("refused"))
        elif turn == 5:
            ask(calls, request, kind, timeout_ms, lambda _: on_done(RequestTimedOut("lost")))
        else:
            ask(calls, request, kind, timeout_ms, on_done)

    monkeypatch.setattr(QueueCalls, "ask", lose)


@pytest.mark.usefixtures("lost_answers")
def test_what_is_moved_is_there_once_and_groups_are_in_order() -> None:
    found = [int(each or b"") for each in moved(20)]
    assert sorted(found) == list(range(COUNT))
    for group in range(7):
        ours = [each for each in found if each % 7 == group]
        assert ours == sorted(ours), group


def test_messages_of_many_groups_are_moved_many_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    ask = QueueCalls.ask

    def note(calls: QueueCalls, request: Any, *more: Any) -> None:
        if isinstance(request, q.MoveMessages):
            asked.append(len(request.batches))
        ask(calls, request, *more)

    monkeypatch.setattr(QueueCalls, "ask", note)
    queues = QueueScenario(7)
    queues.create("there", PARTED)
    groups = [NewMessage(b"%d" % number, group=b"%d" % (number % 7)) for number in range(140)]
    queues.put(*groups)
    log_id, there = (queues.queue(name).topic_id for name in (QUEUE, "there"))
    ask_whole(queues, q.RedriveQueue(log_id=log_id, target="there"), Done)
    queues.loop.run_for(5_000)
    assert ask_whole(queues, q.AskQueue(log_id=there), q.QueueCounts).arrived == sum(asked) == 140
    assert len(asked) <= 3 * 3


def test_dead_letters_go_through_an_exchange_to_the_partitions_of_their_groups() -> None:
    queues = QueueScenario(6)
    queues.create("there", PARTED)
    way = {"dead.letter.exchange": "amq.default", "dead.letter.routing.key": "there"}
    queues.create("work", {"partitions": "3", "fair.groups": "true", **way})
    groups = [b"%d" % (number % 7) for number in range(70)]
    queues.put(*(NewMessage(b"%d" % at, group=each) for at, each in enumerate(groups)), name="work")
    log_id, left = queues.queue("work").topic_id, 70
    while left:
        take = q.TakeMessages(log_id=log_id, messages_max=70, bytes_max=PLENTY, wait_ms=1_000)
        taken = ask_whole(queues, take, q.TakenMessages).messages
        claims = [each.claim for each in taken]
        reject = q.RejectMessages(log_id=log_id, claims=claims)
        assert ask_whole(queues, reject, q.ClaimsResult).stale == []
        left -= len(taken)
    there = queues.queue("there").topic_id

    def counted() -> q.QueueCounts:
        return ask_whole(queues, q.AskQueue(log_id=there), q.QueueCounts)

    queues.loop.run_for(5_000)
    assert counted().arrived == 70
    peek = q.PeekMessages(log_id=there, messages_max=100, bytes_max=PLENTY)
    peeked = [each.message for each in ask_whole(queues, peek, q.PeekedMessages).messages]
    assert sorted(int(each.value or b"") for each in peeked) == list(range(70))
    homes = {(int(each.value or b"") % 7, part_of(each.offset)[0]) for each in peeked}
    assert len(homes) == 7
    assert len({partition for _, partition in homes}) > 1


@pytest.mark.extended
@pytest.mark.usefixtures("lost_answers")
def test_what_goes_to_another_partition_when_it_is_tried_again_is_doubled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns = itertools.count()
    monkeypatch.setattr(mover, "partition_in", lambda *_: next(turns) // 64 % 3)
    assert len(moved(20)) > COUNT
