"""What went wrong with queues under faults, one by one, as seeds of the simulator found it."""

from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.model.errors import RequestRefused
from tests.sim.queue_scenario import PLENTY, QueueScenario, values

HOUR_MS = 3_600_000


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


def led_by_one_whose_clock_is_right_again(queues: QueueScenario) -> None:
    """The leader's clock jumps ahead by an hour, it decides something, and another one leads."""
    leader = queues.queue_leader()
    queues.world.machines[leader].oscillator.wall_offset_ms += HOUR_MS
    for message in queues.take():
        queues.fail(message)
    queues.kill(leader)
    assert queues.queue_leader() != leader


def test_a_delay_does_not_wait_for_a_clock_that_was_an_hour_ahead() -> None:
    queues = QueueScenario(2, {"delayed.retry.min.ms": "300"})
    queues.put(b"one")
    led_by_one_whose_clock_is_right_again(queues)
    (again,) = queues.take(wait_ms=5_000)
    assert (again.value, again.failures) == (b"one", 1)


def test_a_message_is_not_as_old_as_a_clock_was_ahead() -> None:
    queues = QueueScenario(3, {"message.ttl.ms": "60000"})
    queues.put(b"one")
    led_by_one_whose_clock_is_right_again(queues)
    queues.put(b"two")
    queues.loop.run_for(2_000)
    assert values(queues.take(5)) == [b"two"]
