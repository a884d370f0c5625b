"""Lingering begins where it pays, and ends where it does not."""

from __future__ import annotations

import asyncio
import os
import select

import pytest

from kafkaesque.runtime import poller as poller_module
from kafkaesque.runtime.lingering import LINGER_NS, QUICK_MAX, QUICK_MIN, Lingering
from kafkaesque.runtime.poller import READABLE, Poller
from kafkaesque.runtime.turns import Turns


def rounds_until_worth_it(lingering: Lingering, gap_ns: int, at_ns: int = 0) -> int:
    """Returns how many events, each so long after the last, are wanted before it begins."""
    for count in range(1, 4 * QUICK_MAX):
        at_ns += gap_ns
        lingering.on_events(at_ns)
        if lingering.is_worth_it(at_ns):
            return count
    return -1


def test_it_begins_after_a_row_of_quick_events() -> None:
    assert rounds_until_worth_it(Lingering(is_possible=True), LINGER_NS) == QUICK_MIN


def test_slow_events_never_begin_it() -> None:
    assert rounds_until_worth_it(Lingering(is_possible=True), LINGER_NS + 1) == -1


def test_a_slow_event_ends_the_row() -> None:
    lingering = Lingering(is_possible=True)
    assert rounds_until_worth_it(lingering, 1) == QUICK_MIN
    lingering.on_events(10 * LINGER_NS)
    assert not lingering.is_worth_it(10 * LINGER_NS)


def test_it_never_begins_where_nobody_could_send_meanwhile() -> None:
    assert rounds_until_worth_it(Lingering(is_possible=False), 1) == -1


def test_each_time_in_vain_makes_it_rarer_up_to_a_bound() -> None:
    lingering = Lingering(is_possible=True)
    wanted = []
    for _ in range(12):
        wanted.append(rounds_until_worth_it(lingering, 1))
        lingering.on_failure()
    assert wanted[:4] == [QUICK_MIN, 2 * QUICK_MIN, 4 * QUICK_MIN, 8 * QUICK_MIN]
    assert wanted[-1] == QUICK_MAX


def test_successes_make_it_likely_again() -> None:
    lingering = Lingering(is_possible=True)
    for _ in range(12):
        lingering.on_failure()
    for _ in range(2_000):
        lingering.on_success()
    assert rounds_until_worth_it(lingering, 1) < 8 * QUICK_MIN


@pytest.mark.parametrize("wakes_the_loop", [False, True])
def test_a_poller_that_lingers_lets_the_loop_have_its_turn(
    monkeypatch: pytest.MonkeyPatch, wakes_the_loop: bool
) -> None:
    """A pipe that is always readable keeps the poller busy; timers come all the same."""
    monkeypatch.setattr(Lingering, "is_worth_it", lambda *_: True)
    polls = 0
    loop = asyncio.new_event_loop()
    turns = Turns(loop)
    poller = Poller(loop, turns)
    read_end, write_end = os.pipe()

    def on_events(_: int) -> None:
        nonlocal polls
        polls += 1
        os.read(read_end, 1)
        if wakes_the_loop:
            turns.call_soon(lambda: None)
        os.write(write_end, b"x")

    poller.add(read_end, READABLE, on_events)
    os.write(write_end, b"x")
    try:
        loop.run_until_complete(asyncio.wait_for(asyncio.sleep(0.3), 60))
    finally:
        poller.close()
        loop.close()
        os.close(read_end)
        os.close(write_end)
    assert polls > 10


def test_what_comes_while_it_lingers_is_served_without_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Lingering, "is_worth_it", lambda *_: True)
    monkeypatch.setattr(poller_module, "LINGER_NS", 2_000_000_000)
    monkeypatch.setattr(poller_module, "ROW_NS", 60_000_000_000)
    loop = asyncio.new_event_loop()
    poller = Poller(loop, Turns(loop))
    first, second = os.pipe(), os.pipe()
    served: list[str] = []

    def on_first(_: int) -> None:
        os.read(first[0], 1)
        served.append("first")
        os.write(second[1], b"x")

    def on_second(_: int) -> None:
        os.read(second[0], 1)
        served.append("second")
        poller.close()
        monkeypatch.setattr(Lingering, "is_worth_it", lambda *_: False)

    poller.add(first[0], select.EPOLLIN, on_first)
    poller.add(second[0], select.EPOLLIN, on_second)
    os.write(first[1], b"x")
    try:
        loop.run_until_complete(asyncio.wait_for(asyncio.sleep(0.01), 60))
    finally:
        loop.close()
        for end in (*first, *second):
            os.close(end)
    assert served == ["first", "second"]
