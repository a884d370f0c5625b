from collections.abc import Callable

from tests.unit.env.worlds import World


def test_call_soon_keeps_the_order_of_asking(world: World) -> None:
    seen: list[int] = []
    for number in range(50):
        world.env.clock.call_soon(lambda number=number: seen.append(number))  # type: ignore[misc]
    assert seen == []
    world.run_until(lambda: len(seen) == 50)
    assert seen == list(range(50))


def test_what_is_asked_for_within_a_callback_comes_in_a_later_turn(world: World) -> None:
    clock = world.env.clock
    seen: list[str] = []

    def first() -> None:
        clock.call_soon(lambda: seen.append("asked within first"))
        seen.append("first")

    clock.call_soon(first)
    clock.call_soon(lambda: seen.append("second"))
    world.run_until(lambda: len(seen) == 3)
    assert seen == ["first", "second", "asked within first"]


def test_timers_come_in_the_order_of_their_times_and_not_too_early(world: World) -> None:
    clock = world.env.clock
    start = clock.now_ms()
    seen: list[tuple[int, int]] = []

    def note(delay: int) -> Callable[[], None]:
        return lambda: seen.append((delay, clock.now_ms() - start))

    clock.call_later(150, note(150))
    clock.call_later(0.3, note(0))
    for delay in (20, 50, 100):
        clock.call_later(delay, note(delay))
    world.run_until(lambda: len(seen) == 5)
    assert [delay for delay, _ in seen] == [0, 20, 50, 100, 150]
    assert all(passed >= delay for delay, passed in seen)
    assert seen[0][1] >= 1, "0.3 ms is not 'at once'"


def test_a_cancelled_timer_stays_away(world: World) -> None:
    clock = world.env.clock
    seen: list[str] = []
    timer = clock.call_later(5, lambda: seen.append("cancelled"))
    kept = clock.call_later(10, lambda: seen.append("kept"))
    timer.cancel()
    timer.cancel()
    world.run_until(lambda: bool(seen))
    kept.cancel()
    assert seen == ["kept"]


def test_clocks_go_forward_in_their_units(world: World) -> None:
    clock = world.env.clock
    ns, ms, wall = clock.now_ns(), clock.now_ms(), clock.wall_ms()
    done: list[bool] = []
    clock.call_later(20, lambda: done.append(True))
    world.run_until(lambda: bool(done))
    assert clock.now_ns() - ns >= 19_000_000
    assert clock.now_ms() - ms >= 20
    assert clock.wall_ms() - wall >= 19
    assert wall > 1_500_000_000_000


def test_dice(world: World) -> None:
    dice = world.env.dice
    assert {dice.below(3) for _ in range(200)} == {0, 1, 2}
    assert dice.below(1) == 0
    first, second = dice.unique_bytes(16), dice.unique_bytes(16)
    assert len(first) == 16
    assert first != second


def test_a_callback_that_raises_is_reported_as_fatal(world: World) -> None:
    def broken() -> None:
        raise RuntimeError("a defect")

    world.env.clock.call_soon(broken)
    world.run_until(lambda: bool(world.fatal))
    assert [str(error) for error in world.fatal] == ["a defect"]
    world.fatal.clear()
