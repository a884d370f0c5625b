"""Brokers whose clocks are ten minutes off, either way: no lock ends early, and no life either."""

import pytest

from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.queues.arrival import identity_of
from tests.sim.queue_scenario import QueueScenario, values

TEN_MINUTES_MS = 600_000
LOCK_MS = 4_000


class Clocks(QueueScenario):
    """Three brokers: the leader's clock is off, and so is the next one's, the other way."""

    def __init__(self, seed: int, ahead_ms: int, options: dict[str, str] | None = None) -> None:
        super().__init__(seed, {"visibility.timeout.ms": str(LOCK_MS), **(options or {})})
        leader = self.queue_leader()
        for name in self.running():
            offset_ms = ahead_ms if name == leader else -ahead_ms
            self.world.machines[name].oscillator.wall_offset_ms += offset_ms
        self.loop.run_for(1_000)

    def lead_elsewhere(self) -> None:
        leader = self.queue_leader()
        self.kill(leader)
        assert self.queue_leader() != leader


AHEAD = pytest.mark.parametrize("ahead_ms", [TEN_MINUTES_MS, -TEN_MINUTES_MS])


@AHEAD
def test_a_lock_does_not_end_early_and_ends(ahead_ms: int) -> None:
    queues = Clocks(1, ahead_ms)
    queues.put(b"one", b"two")
    (first,) = queues.take()
    begun_ns = queues.loop.now_ns
    queues.lead_elsewhere()
    again: list[q.QueueMessage] = []
    while not again:
        again = [each for each in queues.take(5, lock_ms=60_000) if each.value == b"one"]
        passed_ms = (queues.loop.now_ns - begun_ns) // 1_000_000
        assert not again or passed_ms >= LOCK_MS
        assert passed_ms < 60_000, "the lock does not end"
        queues.loop.run_for(100)
    assert (again[0].attempt, again[0].failures) == (first.attempt + 1, 1)


@AHEAD
def test_durations_last_as_long_as_they_say(ahead_ms: int) -> None:
    queues = Clocks(2, ahead_ms)
    now = queues.loop.now_ns
    queues.put(
        NewMessage(b"delayed", delay_ms=3_000),
        NewMessage(b"short", time_to_live_ms=2_000),
        NewMessage(b"long", time_to_live_ms=3_600_000),
    )
    assert values(queues.take(5)) == [b"short", b"long"]
    found: list[q.QueueMessage] = []
    while not found:
        found = [each for each in queues.take(5) if each.value == b"delayed"]
        queues.loop.run_for(100)
    assert 3_000 <= (queues.loop.now_ns - now) // 1_000_000 < 6_000


@AHEAD
def test_ids_are_remembered_when_a_broker_with_another_clock_leads(ahead_ms: int) -> None:
    """Within the window that counts by the slowest clock: those that differ more may forget."""
    queues = Clocks(3, ahead_ms, {"deduplication.ms": str(3 * TEN_MINUTES_MS)})
    (offset,) = queues.put(NewMessage(b"one", identity=identity_of(b"17")))
    queues.lead_elsewhere()
    assert queues.put(NewMessage(b"again", identity=identity_of(b"17"))) == [offset]
    assert values(queues.take(5)) == [b"one"]


@AHEAD
def test_nothing_is_lost_while_brokers_with_such_clocks_lead_in_turn(ahead_ms: int) -> None:
    queues = Clocks(4, ahead_ms, {"message.ttl.ms": str(6 * TEN_MINUTES_MS)})
    for number in range(3):
        queues.put(*(b"%d-%d" % (number, each) for each in range(10)))
        leader = queues.queue_leader()
        queues.lead_elsewhere()
        queues.boot(leader)
        queues.loop.run_for(3_000)
    found: list[bytes | None] = []
    while taken := queues.take(50):
        found += values(taken)
        assert queues.done(*taken) == []
    assert sorted(map(bytes, filter(None, found))) == sorted(
        b"%d-%d" % (number, each) for number in range(3) for each in range(10)
    )
