"""Takes that wait for long, and are asked again and again: what their waits are at the leader."""

from __future__ import annotations

from typing import Any

import pytest

from kafkaesque.broker.doors import held_takes
from kafkaesque.broker.doors.held_takes import EXTEND_MS, HELD_MS_MIN, LINGER_MS
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST
from kafkaesque.broker.queues.calls import QueueCalls
from kafkaesque.broker.queues.hosts import QueueHosts
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.queue_commands import ChangeQueue
from kafkaesque.model.errors import RequestRefused, RequestTimedOut
from kafkaesque.queues import requests as r
from kafkaesque.queues.table import QueueTable
from tests.sim.queue_scenario import PLENTY, QUEUE, TIMEOUT_MS, QueueScenario, values

WAIT_MS = 6_000
NEAR = pytest.mark.parametrize("is_at_leader", [True, False])


class Poller:
    """A client that asks again as soon as it is told that there is nothing."""

    def __init__(self, queues: QueueScenario, broker: str, wait_ms: int = WAIT_MS) -> None:
        self._queues = queues
        self._broker = broker
        self._log_id = queues.queue().topic_id
        self._wait_ms = wait_ms
        self.goes_on = True
        self.empty = 0
        self.taken: list[q.QueueMessage] = []
        self.refused: list[RequestRefused] = []
        #: When it has got its messages, or was told that there is none.
        self.told_ms: list[float] = []
        self.ask()

    def ask(self) -> None:
        take = q.TakeMessages(log_id=self._log_id, bytes_max=PLENTY, wait_ms=self._wait_ms)
        door = self._queues.broker(self._broker).doors.queues
        door.ask(take, q.TakenMessages, self._wait_ms + TIMEOUT_MS, self._on_told)

    def _on_told(self, outcome: q.TakenMessages | RequestRefused) -> None:
        self.told_ms.append(self._queues.env.clock.now_ms())
        if isinstance(outcome, RequestRefused):
            self.refused.append(outcome)
            return
        self.taken += outcome.messages
        self.empty += not outcome.messages
        if self.goes_on and not outcome.messages:
            self.ask()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[r.Take]:
    """The takes that leaders were asked for."""
    takes: list[r.Take] = []
    decide = QueueTable.decide

    def watch(table: QueueTable, request: Any, now: Any) -> None:
        if isinstance(request, r.Take):
            takes.append(request)
        decide(table, request, now)

    monkeypatch.setattr(QueueTable, "decide", watch)
    return takes


def made(seed: int, is_at_leader: bool = False) -> tuple[QueueScenario, str]:
    """Return a cluster with a queue, and the broker that is asked."""
    queues = QueueScenario(seed)
    queues.loop.run_for(2_000)
    return queues, queues.queue_leader() if is_at_leader else queues.follower()


def demands(queues: QueueScenario) -> int:
    engine = queues.hosted(queues.queue_leader()).queue._engine
    assert engine is not None
    return len(engine._distributor._demands)


@NEAR
def test_who_asks_again_is_not_brought_to_the_leader_again(
    asked: list[r.Take], is_at_leader: bool
) -> None:
    queues, broker = made(41, is_at_leader)
    pollers = [Poller(queues, broker) for _ in range(5)]
    queues.loop.run_for(4 * WAIT_MS)
    assert [each.empty for each in pollers] == [4] * 5
    assert len(asked) == 5
    assert demands(queues) == 5
    steps = [b - a for a, b in zip(pollers[0].told_ms, pollers[0].told_ms[1:], strict=False)]
    assert all(WAIT_MS <= each < WAIT_MS + 100 for each in steps)
    # What comes then goes to one of them at once, once.
    begun_ms = queues.env.clock.now_ms()
    queues.put(b"1")
    queues.loop.run_for(200)
    assert [(each.value, each.attempt) for poller in pollers for each in poller.taken] == [
        (b"1", 1)
    ]
    assert all(each.told_ms[-1] < begun_ms + 200 for each in pollers if each.taken)


def test_a_wait_stays_at_the_leader_for_a_while_only(
    asked: list[r.Take], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_takes, "STAY_MS_MAX", 3 * WAIT_MS)
    queues, broker = made(49)
    poller = Poller(queues, broker)
    queues.loop.run_for(4 * WAIT_MS + 1_000)
    assert (poller.empty, len(asked)) == (4, 3)
    queues.loop.run_for(LINGER_MS + 500)
    assert demands(queues) == 1


@NEAR
def test_who_asks_no_more_leaves_nobody_who_takes(is_at_leader: bool) -> None:
    queues, broker = made(42, is_at_leader)
    poller = Poller(queues, broker)
    queues.loop.run_for(2 * WAIT_MS + 1_000)
    assert poller.empty == 2
    poller.goes_on = False
    queues.loop.run_for(WAIT_MS)
    assert poller.empty == 3
    assert demands(queues) <= 1
    queues.loop.run_for(LINGER_MS)
    assert demands(queues) == 0
    assert not queues.broker(broker).queues._held._spare
    queues.put(b"1")
    assert [each.attempt for each in queues.take()] == [1]


@NEAR
def test_what_comes_when_nobody_waits_is_given_back_as_not_attempted(is_at_leader: bool) -> None:
    queues, broker = made(43, is_at_leader)
    poller = Poller(queues, broker)
    poller.goes_on = False
    queues.loop.run_for(WAIT_MS + LINGER_MS // 2)
    assert poller.empty == 1
    assert demands(queues) == 1
    queues.put(b"1")
    (message,) = queues.take(wait_ms=1_000)
    assert (message.value, message.attempt, message.failures) == (b"1", 2, 0)
    assert not poller.taken
    assert demands(queues) == 0


def test_a_leader_that_does_not_hear_that_waits_are_longer_is_asked_anew(
    asked: list[r.Take], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QueueHosts, "extend_waits", lambda *_: None)
    queues, broker = made(44)
    poller = Poller(queues, broker)
    queues.loop.run_for(2 * WAIT_MS + 1_000)
    assert poller.empty == 2
    assert poller.told_ms[1] - poller.told_ms[0] >= WAIT_MS
    assert len(asked) > 1
    queues.put(b"1")
    queues.loop.run_for(200)
    assert values(poller.taken) == [b"1"]


def test_where_nobody_leads_nobody_is_told_that_there_is_nothing() -> None:
    queues, broker = made(45)
    for name in queues.running():
        if name != broker:
            queues.kill(name)
    queues.loop.run_for(5_000)
    poller = Poller(queues, broker, HELD_MS_MIN)
    begun_ms = queues.env.clock.now_ms()
    queues.loop.run_for(HELD_MS_MIN + 2 * TIMEOUT_MS)
    assert (poller.empty, len(poller.refused)) == (0, 1)
    assert poller.told_ms[0] <= begun_ms + HELD_MS_MIN + TIMEOUT_MS + 100


def test_the_leaders_answer_is_waited_for_if_another_one_may_lead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queues, broker = made(50)
    monkeypatch.setattr(QueueCalls, "leads", lambda *_: False)
    poller = Poller(queues, broker)
    queues.loop.run_for(WAIT_MS + 1_000)
    assert not poller.told_ms
    queues.loop.run_for(LINGER_MS)
    assert poller.empty == 1


@NEAR
def test_who_waits_hears_that_the_leader_is_another(is_at_leader: bool) -> None:
    queues, broker = made(46, is_at_leader)
    leader = queues.queue_leader()
    poller = Poller(queues, broker)
    queues.loop.run_for(WAIT_MS + 3_000)
    assert poller.empty == 1
    if is_at_leader:
        replica = queues.hosted(leader)._own_partition().replica
        assert replica is not None
        replica.core.resign()
        replica.driver.touch(replica)
    else:
        queues.kill(leader)
    queues.loop.run_for(3_000)
    assert [type(each) for each in poller.refused] == [RequestTimedOut]
    poller.ask()
    queues.put(b"1", broker=broker)
    queues.loop.run_for(1_000)
    assert values(poller.taken) == [b"1"]


def test_a_changed_option_holds_for_who_asks_again(asked: list[r.Take]) -> None:
    queues, broker = made(47)
    poller = Poller(queues, broker)
    queues.loop.run_for(WAIT_MS // 2)
    changes: dict[str, str | None] = {"visibility.timeout.ms": "1000"}
    queues.submit(ChangeQueue(vhost=DEFAULT_VHOST, name=QUEUE, changes=changes))
    queues.loop.run_for(WAIT_MS)
    assert (poller.empty, len(asked)) == (1, 2)
    queues.loop.run_for(LINGER_MS)
    queues.put(b"1")
    queues.loop.run_for(200)
    assert values(poller.taken) == [b"1"]
    queues.loop.run_for(1_500)
    assert [each.attempt for each in queues.take()] == [2]


def test_only_who_asks_the_same_gets_a_wait_of_before(asked: list[r.Take]) -> None:
    queues, broker = made(48)
    poller = Poller(queues, broker)
    poller.goes_on = False
    queues.loop.run_for(WAIT_MS + EXTEND_MS)
    assert poller.empty == 1
    assert queues.take(5, broker=broker, wait_ms=HELD_MS_MIN, lock_ms=7_000) == []
    assert len(asked) == 2


def test_who_was_refused_while_nobody_led_leaves_nobody_who_takes() -> None:
    queues, broker = made(51)
    others = [name for name in queues.running() if name != broker]
    for name in others:
        queues.kill(name)
    queues.loop.run_for(5_000)
    poller = Poller(queues, broker, HELD_MS_MIN)
    for number in range(3):
        queues.loop.run_for(HELD_MS_MIN + TIMEOUT_MS + 100)
        assert len(poller.refused) == number + 1
        if number < 2:
            poller.ask()
    for name in others:
        queues.boot(name)
    queues.loop.run_for(3_000)
    assert demands(queues) == 0


def test_a_wait_at_who_leads_no_more_is_given_to_nobody(
    asked: list[r.Take], monkeypatch: pytest.MonkeyPatch
) -> None:
    queues, broker = made(52)
    poller = Poller(queues, broker)
    poller.goes_on = False
    queues.loop.run_for(WAIT_MS + EXTEND_MS)
    assert (poller.empty, len(asked)) == (1, 1)
    monkeypatch.setattr(QueueCalls, "leads", lambda *_: False)
    poller.ask()
    queues.loop.run_for(EXTEND_MS)
    assert len(asked) == 2


@NEAR
def test_who_asks_again_wants_messages(is_at_leader: bool) -> None:
    queues, broker = made(53, is_at_leader)
    poller = Poller(queues, broker)
    queues.loop.run_for(4 * WAIT_MS + 1_000)
    poller.goes_on = False
    queues.loop.run_for(WAIT_MS + LINGER_MS)
    assert demands(queues) == 0
    assert queues.counts().unwanted_ms < 2 * WAIT_MS


def test_what_would_be_locked_without_end_is_not_given_to_a_wait_without_a_client(
    asked: list[r.Take],
) -> None:
    queues, broker = made(54)
    queues.take(broker=broker, wait_ms=HELD_MS_MIN, lock_ms=0)
    assert [each.name for each in asked] == [None]
    queues.loop.run_for(500)
    assert demands(queues) == 0
