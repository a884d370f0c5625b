"""Dead letters of one request that go to several partitions of a queue."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kafkaesque.broker.queues.mover import Mover
from kafkaesque.broker.requests.queue_requests import MovedResult, MoveMessages
from kafkaesque.model.errors import LeaderNotAvailable, MessageTooLarge, RequestRefused
from kafkaesque.model.ids import TopicId

Outcome = MovedResult | RequestRefused
GONE, LARGE = LeaderNotAvailable("no leader"), MessageTooLarge("too large")


@pytest.mark.parametrize(
    ("outcomes", "told"),
    [
        ([(0, MovedResult(2)), (1, MovedResult(1))], MovedResult(3)),
        ([(0, MovedResult(1)), (1, MovedResult(1))], MovedResult(2)),
        ([(0, MovedResult(2)), (1, LARGE)], MovedResult(1)),
        ([(0, GONE), (1, LARGE)], GONE),
        ([(1, LARGE), (0, GONE)], GONE),
        ([(1, LARGE), (0, MovedResult(0))], MovedResult(0)),
        ([(1, GONE), (0, LARGE)], LARGE),
    ],
)
def test_what_counts_is_what_became_of_the_first_ones(
    monkeypatch: pytest.MonkeyPatch, outcomes: list[tuple[int, Outcome]], told: Outcome
) -> None:
    """Of three letters the second goes to another partition: parked is who is refused himself."""
    waiting: dict[int, Callable[[Outcome], None]] = {}

    def ask(
        request: MoveMessages, _: type, timeout_ms: int, on_done: Callable[[Outcome], None]
    ) -> None:
        waiting[request.partition] = on_done

    nothing: Any = None
    calls: Any = SimpleNamespace(ask=ask)
    mover = Mover(clock=nothing, metadata=nothing, calls=calls, forwarder=nothing, options=nothing)
    seen: list[Outcome] = []
    monkeypatch.setattr(Mover, "_on_sent", lambda self, lane, outcome: seen.append(outcome))
    lane: Any = SimpleNamespace(gap=None)
    target: Any = SimpleNamespace(topic_id=TopicId(b"t" * 16), partitions=(0, 1))
    mover._send_shares(lane, target, {0: [(0, b"a"), (2, b"c")], 1: [(1, b"b")]}, 3)
    for partition, outcome in outcomes:
        waiting[partition](outcome)
    assert seen == [told]
