"""Messages on their way to queues: what waits for what, what goes together, and who is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kafkaesque.broker.doors import publish_lanes
from kafkaesque.broker.doors.publish_lanes import BATCH_MAX, REQUESTS_MAX, PublishLanes
from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.requests.queue_requests import PutResult
from kafkaesque.model.errors import InvalidTopic, OverBound, RequestRefused
from kafkaesque.model.ids import TopicId
from kafkaesque.sim.env import World

LOG, OTHER = TopicId(b"l" * 16), TopicId(b"o" * 16)


class Queues:
    """Leaders: what they were sent, and what tests let them answer."""

    def __init__(self) -> None:
        self.sent: list[tuple[TopicId, list[bytes | None]]] = []
        self.answers: list[Callable[[Any], None]] = []
        #: Whether the order is certain as soon as something is sent.
        self.is_here = True
        self.encoded = 0

    def encode(self, messages: Sequence[NewMessage]) -> list[NewMessage]:
        self.encoded += 1
        return list(messages)

    def put_encoded(
        self,
        log_id: TopicId,
        records: Any,
        _: int,
        on_done: Callable[[Any], None],
        *,
        has_references: bool,
    ) -> bool:
        self.sent.append((log_id, [each.value for each in records]))
        self.answers.append(on_done)
        return self.is_here

    def is_lost(self, _: TopicId) -> bool:
        return False


class Ground:
    def __init__(self) -> None:
        self.world = World(1)
        self.queues = Queues()
        self.told: list[Any] = []
        none: Any = None
        self.lanes = PublishLanes(
            clock=self.world.add_machine("b").boot().clock,
            cluster=none,
            queues=self.queues,  # type: ignore[arg-type]
            publishing=none,
        )

    def publish(self, value: bytes, *logs: TopicId) -> None:
        message = NewMessage(value)
        ticket = self.lanes.open(len(logs), message, self.told.append)
        for log in logs if ticket else ():
            self.lanes.to_queue(log, [message], ticket)  # type: ignore[arg-type]

    def run(self, values: Sequence[bytes], *logs: TopicId) -> bool:
        messages = [NewMessage(each) for each in values]
        ticket = self.lanes.open_run(len(logs), messages, self.told.append)
        for log in logs if ticket else ():
            self.lanes.to_queue(log, messages, ticket)  # type: ignore[arg-type]
        return ticket is not None

    def turn(self) -> list[list[bytes | None]]:
        self.world.loop.run_for(1)
        sent, self.queues.sent = self.queues.sent, []
        return [values for _, values in sent]

    def answer(self, outcome: PutResult | RequestRefused) -> None:
        self.queues.answers.pop(0)(outcome)


@pytest.fixture
def ground() -> Ground:
    return Ground()


def test_what_comes_in_one_turn_goes_together(ground: Ground) -> None:
    ground.publish(b"a", LOG)
    ground.publish(b"b", LOG)
    assert ground.turn() == [[b"a", b"b"]]


def test_what_comes_later_does_not_wait_for_a_commit(ground: Ground) -> None:
    ground.publish(b"a", LOG)
    assert ground.turn() == [[b"a"]]
    ground.publish(b"b", LOG)
    assert ground.turn() == [[b"b"]]
    ground.answer(PutResult([0]))
    ground.answer(PutResult([1]))
    assert ground.told == [1, 1]


def test_nothing_overtakes_what_may_be_asked_for_again(ground: Ground) -> None:
    ground.queues.is_here = False
    ground.publish(b"a", LOG)
    assert ground.turn() == [[b"a"]]
    ground.publish(b"b", LOG)
    ground.publish(b"c", LOG)
    assert ground.turn() == []
    ground.answer(PutResult([0]))
    assert ground.turn() == [[b"b", b"c"]]


def test_requests_under_way_have_a_bound(ground: Ground) -> None:
    for number in range(REQUESTS_MAX + 2):
        ground.publish(b"%d" % number, LOG)
        ground.turn()
    assert len(ground.queues.answers) == REQUESTS_MAX
    ground.answer(PutResult([0]))
    assert ground.turn() == [[b"%d" % each for each in (REQUESTS_MAX, REQUESTS_MAX + 1)]]


def test_a_run_is_told_of_once_with_the_messages_that_are_not_there(ground: Ground) -> None:
    assert ground.run([b"a", b"b", b"c"], LOG, OTHER)
    assert ground.turn() == [[b"a", b"b", b"c"]] * 2
    assert ground.queues.encoded == 1
    ground.answer(PutResult([0, -1, 1]))
    assert ground.told == []
    ground.answer(PutResult([0, 1, 2]))
    (refused,) = ground.told
    assert list(refused) == [1]
    assert isinstance(refused[1], OverBound)


def test_a_long_run_is_several_requests(ground: Ground) -> None:
    values = [b"%d" % each for each in range(BATCH_MAX + 3)]
    assert ground.run(values, LOG)
    assert ground.turn() == [values[:BATCH_MAX], values[BATCH_MAX:]]
    refusal = InvalidTopic("no")
    ground.answer(PutResult(list(range(BATCH_MAX))))
    ground.answer(refusal)
    assert ground.told == [dict.fromkeys(range(BATCH_MAX, BATCH_MAX + 3), refusal)]


def test_a_request_has_a_bound_of_bytes(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish_lanes, "BATCH_BYTES_MAX", 10)
    assert ground.run([b"aaaa", b"bbb", b"cccc"], LOG)
    ground.publish(b"d" * 11, LOG)
    assert ground.turn() == [[b"aaaa", b"bbb"], [b"cccc"], [b"d" * 11]]


def test_a_run_that_has_no_room_is_not_begun(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish_lanes, "UNDER_WAY_MAX", 3)
    assert ground.run([b"a", b"b"], LOG)
    assert not ground.run([b"c", b"d"], LOG)
    ground.publish(b"e", LOG)
    ground.publish(b"f", LOG)
    assert ground.turn() == [[b"a", b"b", b"e"]]
    assert isinstance(ground.told[0], OverBound)
    ground.answer(PutResult([0, 1, 2]))
    assert ground.told[1:] == [{}, 1]
    assert ground.run([b"g", b"h"], LOG)


def test_a_queue_that_is_gone_is_not_asked_without_a_turn_in_between(ground: Ground) -> None:
    ground.queues.is_here = False
    ground.publish(b"a", LOG)
    ground.turn()
    ground.publish(b"b", LOG)
    ground.answer(InvalidTopic("no"))
    assert ground.queues.sent == []
    assert ground.turn() == [[b"b"]]
