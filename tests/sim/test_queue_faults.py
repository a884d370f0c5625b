"""What went wrong with queues under faults, one by one: each was found by a seed of the simulator."""

from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.model.errors import RequestRefused
from tests.sim.queue_scenario import PLENTY, QueueScenario


def test_an_attempt_is_told_as_it_was_decided_however_late_its_commit_is() -> None:
    queues = QueueScenario(1)
    queues.put(b"one")
    leader = queues.queue_leader()
    door = queues.broker(leader).doors.queues
    others = [each for each in queues.running() if each != leader]
    outcomes: list[q.TakenMessages | RequestRefused] = []
    for other in others:
        queues.world.wire.block(other, leader)
    for wait_ms in (0, 5_000):
        request = q.TakeMessages(
            log_id=queues.queue().topic_id, bytes_max=PLENTY, lock_ms=100, wait_ms=wait_ms
        )
        door.ask(request, q.TakenMessages, 10_000, outcomes.append)
        queues.loop.run_for(20)
    queues.loop.run_for(200)  # the first lock ends before anybody has heard of it
    assert outcomes == []
    for other in others:
        queues.world.wire.unblock(other, leader)
    queues.loop.run_until(lambda: len(outcomes) == 2, 5_000)
    told = []
    for outcome in outcomes:
        assert isinstance(outcome, q.TakenMessages), outcome
        told += [(each.attempt, each.failures) for each in outcome.messages]
    assert told == [(1, 0), (2, 1)]
