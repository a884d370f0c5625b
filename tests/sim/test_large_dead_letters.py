"""A dead letter that its target does not take is parked, and holds up none that come after it."""

from __future__ import annotations

import pytest

from kafkaesque.broker.metadata.queue_planner import MESSAGE_BYTES_MAX
from kafkaesque.broker.requests import queue_requests as q
from tests.sim.queue_scenario import QueueScenario

#: With what a dead letter says of its history, it is larger than a queue's messages may be.
ALMOST_TOO_LARGE = MESSAGE_BYTES_MAX - 150


@pytest.mark.parametrize(("kind", "size"), [("queue", ALMOST_TOO_LARGE), ("topic", 1_100_000)])
def test_one_that_is_too_large_is_parked_and_the_next_ones_arrive(kind: str, size: int) -> None:
    scenario = QueueScenario(1)
    if kind == "queue":
        scenario.create("dead")
    else:
        scenario.make_topic("dead")
    scenario.create("jobs", {f"dead.letter.{kind}": "dead"})

    def arrived() -> list[bytes | None]:
        if kind == "topic":
            return [each.value for each in scenario.records_of("dead")]
        return [each.value for each in scenario.take(9, name="dead")]

    for body in (b"1", b"x" * size, b"2", b"x" * size, b"3"):
        scenario.put(body, name="jobs")
        (message,) = scenario.take(1, name="jobs", wait_ms=1_000)
        reject = q.RejectMessages(log_id=scenario.queue("jobs").topic_id, claims=[message.claim])
        scenario.ask(reject, q.ClaimsResult)
        scenario.loop.run_for(2_000)
    assert arrived() == [b"1", b"2", b"3"]
    counts = scenario.counts("jobs")
    assert (counts.parked, counts.moving) == (2, 0)
