"""What went wrong with queues under faults, one by one, as seeds of the simulator found it."""

from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST
from kafkaesque.broker.queues.bodies import OnRead
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.commands import Done
from kafkaesque.broker.requests.queue_commands import DeleteQueue
from kafkaesque.model.errors import NotLeader, RequestRefused, RequestTimedOut
from tests.sim.queue_scenario import PLENTY, QUEUE, QueueScenario, values

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


def test_messages_whose_bodies_a_deposed_leader_cannot_read_may_have_been_taken() -> None:
    """Asked again for others, a consumer would have these in flight for ever, unheard of."""
    queues = QueueScenario(4)
    queues.put(b"one", b"two")
    leader = queues.queue_leader()
    host = queues.host(leader)
    assert host is not None
    readers: list[OnRead] = []
    host.bodies.locate = lambda _, on_read: readers.append(on_read)
    host.bodies.forget()
    outcomes: list[object] = []
    request = q.TakeMessages(log_id=queues.queue().topic_id, bytes_max=PLENTY)
    door = queues.broker(leader).doors.queues
    door.ask(request, q.TakenMessages, 10_000, outcomes.append)
    queues.loop.run_until(lambda: readers != [], 2_000)
    host.on_following()
    readers[0](NotLeader("another broker leads"))
    queues.loop.run_for(100)
    assert [type(each) for each in outcomes] == [RequestTimedOut]


def test_what_is_moved_is_there_once_and_in_order_whoever_dies() -> None:
    for killed_after_ms in (0, 50, 100):
        queues = QueueScenario(5)
        queues.create("there")
        for first in range(0, 500, 50):
            queues.put(*(b"%d" % number for number in range(first, first + 50)))
        queues.ask(q.RedriveQueue(log_id=queues.queue().topic_id, target="there"), Done)
        queues.loop.run_for(killed_after_ms)
        for name in (QUEUE, "there"):
            leader = queues.queue_leader(name)
            queues.kill(leader)
            queues.loop.run_for(200)
            queues.boot(leader)
            queues.loop.run_for(2_000)
        queues.loop.run_for(15_000)
        assert queues.counts().removed["redriven"] == 500
        moved = values(queues.take(1_000, name="there"))
        assert moved == [b"%d" % number for number in range(500)], killed_after_ms


def test_dead_letters_go_to_a_queue_that_was_made_again() -> None:
    queues = QueueScenario(6)
    queues.create("dead")
    queues.create("work", {"delivery.limit": "1", "dead.letter.queue": "dead"})
    queues.put(b"one", b"two", b"three", name="work")
    for _ in range(2):
        queues.fail(*queues.take(name="work"), name="work")
    assert values(queues.take(5, name="dead", wait_ms=5_000)) != []
    queues.submit(DeleteQueue(vhost=DEFAULT_VHOST, name="dead"))
    queues.create("dead")
    queues.fail(*queues.take(name="work"), name="work")
    assert values(queues.take(5, name="dead", wait_ms=5_000)) == [b"three"]
