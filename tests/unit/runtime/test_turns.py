import os
import socket
from collections.abc import Callable

import pytest

from kafkaesque.runtime.poller import READABLE, Poller
from kafkaesque.runtime.turns import Turns
from tests.unit.env.worlds import RealWorld


@pytest.fixture
def turns(world: RealWorld) -> Turns:
    return Turns(world.loop)


def _noting(seen: list[str], what: str) -> Callable[[], None]:
    return lambda: seen.append(what)


def test_what_is_left_for_the_end_comes_after_what_was_asked_for(
    world: RealWorld, turns: Turns
) -> None:
    seen: list[str] = []
    turns.call_last(_noting(seen, "last"))
    turns.call_soon(_noting(seen, "soon"))
    turns.call_soon(lambda: turns.call_last(_noting(seen, "last of soon")))
    assert seen == []
    world.run_until(lambda: len(seen) == 3)
    assert seen == ["soon", "last", "last of soon"]


def test_the_end_of_a_turn_needs_no_further_turn(world: RealWorld, turns: Turns) -> None:
    seen: list[str] = []
    turns.call_soon(lambda: turns.call_last(_noting(seen, "last")))
    # Asked for after the turn, so it comes after all of it.
    world.loop.call_soon(_noting(seen, "the loop's next"))
    world.run_until(lambda: len(seen) == 2)
    assert seen == ["last", "the loop's next"]


def test_whoever_asks_again_and_again_lets_the_loop_go_on(world: RealWorld, turns: Turns) -> None:
    count = {"soon": 0, "last": 0}
    seen: list[tuple[int, int]] = []

    def soon() -> None:
        count["soon"] += 1
        turns.call_soon(soon)

    def last() -> None:
        count["last"] += 1
        turns.call_last(last)

    def loop() -> None:
        seen.append((count["soon"], count["last"]))
        if len(seen) < 10:
            world.loop.call_soon(loop)

    turns.call_soon(soon)
    turns.call_last(last)
    world.loop.call_soon(loop)
    world.run_until(lambda: len(seen) == 10)
    assert seen == [(number, number) for number in range(1, 11)]


def test_what_stands_behind_a_defect_is_not_lost(world: RealWorld, turns: Turns) -> None:
    seen: list[str] = []

    def broken() -> None:
        raise RuntimeError("a defect")

    turns.call_soon(broken)
    turns.call_soon(_noting(seen, "soon"))
    turns.call_last(_noting(seen, "last"))
    world.run_until(lambda: len(seen) == 2)
    assert seen == ["soon", "last"]
    assert [str(error) for error in world.fatal] == ["a defect"]
    world.fatal.clear()


def test_the_turn_ends_when_all_events_at_hand_are_dealt_with(
    world: RealWorld, turns: Turns
) -> None:
    poller = Poller(world.loop, turns)
    pairs = [socket.socketpair() for _ in range(2)]
    seen: list[str] = []

    def on_events(name: str, theirs: socket.socket) -> Callable[[int], None]:
        def note(_: int) -> None:
            theirs.recv(1)
            seen.append(f"event {name}")
            turns.call_soon(_noting(seen, f"soon {name}"))
            turns.call_last(_noting(seen, f"last {name}"))

        return note

    for name, (ours, theirs) in zip("ab", pairs, strict=True):
        poller.add(theirs.fileno(), READABLE, on_events(name, theirs))
        os.write(ours.fileno(), b"x")
    world.run_until(lambda: len(seen) == 6)
    assert seen == ["event a", "event b", "soon a", "soon b", "last a", "last b"]
    poller.close()
    for pair in pairs:
        for sock in pair:
            sock.close()


def test_a_defect_in_an_event_is_told_before_anything_else_is_done(
    world: RealWorld, turns: Turns
) -> None:
    poller = Poller(world.loop, turns)
    ours, theirs = socket.socketpair()
    told: list[int] = []

    def broken(_: int) -> None:
        poller.remove(theirs.fileno())
        turns.call_soon(lambda: told.append(len(world.fatal)))
        raise RuntimeError("a defect")

    poller.add(theirs.fileno(), READABLE, broken)
    ours.send(b"x")
    world.run_until(lambda: bool(told))
    assert told == [1]
    world.fatal.clear()
    poller.close()
    ours.close()
    theirs.close()
