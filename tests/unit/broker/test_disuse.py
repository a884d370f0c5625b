"""For how long nobody has used a queue: what its leaders count, one after the other."""

from __future__ import annotations

import pytest

from kafkaesque.broker.queues.disuse import FIRST_MS, GRACE_MS, STEPS, DisuseClock
from kafkaesque.queues import requests as r
from kafkaesque.queues.snapshot import read_state, write_state
from kafkaesque.tables.log_table import RequestToken
from tests.unit.queues.queue_host import QueueHost

HOUR_MS = 3_600_000
EXPIRY_MS = 100 * HOUR_MS
#: As often as the sweep asks.
SWEEP_MS = 5 * 60_000


class Counted:
    """A queue, and what its leaders count, whose clocks may differ."""

    def __init__(self) -> None:
        self.queue = QueueHost()
        self.notes = 0
        self.clock = DisuseClock(lambda: RequestToken(1), self._note)
        self.lead()

    def _note(self, note: r.NoteDisuse) -> None:
        self.notes += 1
        self.queue.ask(
            r.NoteDisuse, unused_ms=note.unused_ms, wall_ms=note.wall_ms, step_ms=note.step_ms
        )
        self.clock.on_noted()

    def lead(self, *, ahead_ms: int = 0) -> None:
        """Let another broker lead, whose calendar's clock is ahead of the last one's."""
        self.queue.wall_ms += ahead_ms
        self.queue.now_ms += 12_345_678
        self.queue.new_leader()
        self.clock.begin(self.queue.table, self.queue.instant, is_first=False)

    def says_so(self) -> bool:
        """Tell whether the queue's log says for how long nobody has used it."""
        return self.queue.table.state.disuse is not None

    @property
    def is_over(self) -> bool:
        return not self.clock.left_ms(self.queue.table, self.queue.instant, EXPIRY_MS)

    def lasts_ms(self, *, at_most_ms: int, leader_ms: int = 0, ahead_ms: int = 0) -> int:
        """Return after how long it is over, if another broker leads every now and then."""
        for passed_ms in range(0, at_most_ms, SWEEP_MS):
            if leader_ms and passed_ms and passed_ms % leader_ms == 0:
                self.lead(ahead_ms=ahead_ms)
            if self.is_over:
                return passed_ms
            self.queue.pass_time(SWEEP_MS)
        raise AssertionError("it is never over")


def test_one_leader_writes_down_little() -> None:
    counted = Counted()
    assert counted.lasts_ms(at_most_ms=2 * EXPIRY_MS) == EXPIRY_MS
    assert counted.notes == STEPS


@pytest.mark.parametrize("hours", [1, 7, 24, 60])
def test_the_time_goes_on_under_the_next_leaders(hours: int) -> None:
    counted = Counted()
    lasts_ms = counted.lasts_ms(at_most_ms=2 * EXPIRY_MS, leader_ms=hours * HOUR_MS)
    assert EXPIRY_MS <= lasts_ms <= EXPIRY_MS + GRACE_MS + SWEEP_MS
    assert counted.notes <= STEPS + 1


@pytest.mark.parametrize("ahead_ms", [-1000 * HOUR_MS, -HOUR_MS, HOUR_MS, 1000 * HOUR_MS])
def test_clocks_that_differ_change_it_by_a_step_for_each_leader(ahead_ms: int) -> None:
    counted = Counted()
    lasts_ms = counted.lasts_ms(at_most_ms=2 * EXPIRY_MS, leader_ms=60 * HOUR_MS, ahead_ms=ahead_ms)
    most_ms = min(abs(ahead_ms), EXPIRY_MS // STEPS) + GRACE_MS + SWEEP_MS
    assert abs(lasts_ms - EXPIRY_MS) <= most_ms


def test_who_could_not_come_for_want_of_a_leader_has_a_minute() -> None:
    counted = Counted()
    counted.queue.pass_time(95 * HOUR_MS)
    assert not counted.is_over
    counted.queue.wall_ms += 50 * HOUR_MS
    counted.lead()
    assert not counted.is_over
    counted.queue.pass_time(GRACE_MS - 1)
    assert not counted.is_over
    counted.queue.pass_time(1)
    assert counted.is_over


@pytest.mark.parametrize("use", ["attach", "take", "say so"])
def test_whoever_uses_it_has_all_of_the_time_under_the_next_leader(use: str) -> None:
    counted = Counted()
    counted.queue.pass_time(99 * HOUR_MS)
    assert not counted.is_over
    assert counted.says_so()
    if use == "attach":
        counted.queue.attach(b"session")
        assert not counted.is_over
    elif use == "take":
        counted.queue.take(wait_ms=0)
    else:
        counted.queue.ask(r.NoteUse)
    assert not counted.says_so()
    counted.lead()
    assert counted.lasts_ms(at_most_ms=2 * EXPIRY_MS) == EXPIRY_MS


def test_nothing_is_written_down_of_what_is_in_use_or_was_a_moment_ago() -> None:
    counted = Counted()
    counted.queue.attach(b"session")
    for _ in range(3):
        counted.queue.pass_time(EXPIRY_MS)
        assert not counted.is_over
    counted.queue.ask(r.Detach, session=b"session")
    counted.clock.note_use(counted.queue.now_ms)
    counted.queue.pass_time(FIRST_MS - 1)
    assert not counted.is_over
    assert not counted.notes
    # A note that comes too late says nothing.
    counted.queue.attach(b"another")
    counted.queue.ask(r.NoteDisuse, unused_ms=1, wall_ms=1, step_ms=1)
    assert not counted.says_so()


def test_a_snapshot_has_what_is_written_down() -> None:
    counted = Counted()
    counted.queue.ask(r.NoteDisuse, unused_ms=7, wall_ms=8, step_ms=9)
    state = counted.queue.table.state
    assert state.disuse == (7, 8, 9)
    assert read_state(write_state(state)).disuse == state.disuse
