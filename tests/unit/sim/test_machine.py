import pytest

from kafkaesque.env import Env
from kafkaesque.sim import loop
from kafkaesque.sim.clock import EPOCH_MS
from kafkaesque.sim.env import World
from kafkaesque.sim.loop import SimStuck


def test_a_killed_process_takes_its_timers_along() -> None:
    world = World(1)
    machine = world.add_machine("alpha")
    seen: list[str] = []
    env = machine.boot()
    env.clock.call_later(10, lambda: seen.append("timer"))
    env.clock.call_soon(lambda: seen.append("soon"))
    env.disk.run(lambda: seen.append("work"), lambda *_: seen.append("result"))
    file = env.disk.open("log", create=True)
    env.disk.sync([file], lambda _: seen.append("synced"))
    machine.kill()
    assert not machine.running
    second = machine.boot()
    second.clock.call_later(20, lambda: seen.append("second life"))
    world.loop.run_for(100)
    assert seen == ["second life"]


def test_a_paused_process_gets_what_it_missed_in_order() -> None:
    world = World(1)
    machine = world.add_machine("alpha")
    clock = machine.boot().clock
    seen: list[tuple[str, int]] = []
    for delay in (5, 10, 15):
        clock.call_later(delay, lambda delay=delay: seen.append((str(delay), clock.now_ms())))  # type: ignore[misc]
    cancelled = clock.call_later(12, lambda: seen.append(("cancelled", 0)))
    world.loop.run_for(7)
    machine.pause()
    assert machine.paused
    world.loop.run_for(93)
    assert seen == [("5", 5)]
    cancelled.cancel()
    machine.resume()
    world.loop.run_for(1)
    assert seen == [("5", 5), ("10", 100), ("15", 100)]


def test_clocks_drift_and_jump_but_never_go_back() -> None:
    world = World(1)
    fast, true = world.add_machine("fast"), world.add_machine("true")
    fast_clock, true_clock = fast.boot().clock, true.boot().clock
    fast.oscillator.set_rate(1.25)
    rang: list[int] = []
    fast_clock.call_later(100, lambda: rang.append(true_clock.now_ms()))
    world.loop.run_for(1000)
    assert rang == [80]
    assert (fast_clock.now_ms(), true_clock.now_ms()) == (1250, 1000)
    fast.oscillator.set_rate(0.5)
    assert fast_clock.now_ms() == 1250
    world.loop.run_for(1000)
    assert (fast_clock.now_ms(), true_clock.now_ms()) == (1750, 2000)
    fast.oscillator.jump_wall(-3_600_000)
    assert fast_clock.wall_ms() == EPOCH_MS + 1750 - 3_600_000
    assert fast_clock.now_ms() == 1750
    assert true_clock.wall_ms() == EPOCH_MS + 2000


@pytest.mark.parametrize("rate", [0.8, 0.95, 1.05, 1.25, 1 / 3])
def test_a_timer_never_comes_too_early_by_its_own_clock(rate: float) -> None:
    world = World(1)
    machine = world.add_machine("alpha")
    clock = machine.boot().clock
    machine.oscillator.set_rate(rate)
    world.loop.run_for(12.345)
    for delay in (1, 7, 33, 0.2):
        start = clock.now_ms()
        rang: list[int] = []
        clock.call_later(delay, lambda rang=rang: rang.append(clock.now_ms()))  # type: ignore[misc]
        world.loop.run_until(lambda rang=rang: bool(rang))  # type: ignore[misc]
        assert rang[0] - start >= delay


def test_a_defect_ends_the_run_at_once() -> None:
    world = World(1)

    def program(env: Env) -> None:
        raise RuntimeError("a defect")

    world.add_machine("alpha").start(program)
    with pytest.raises(RuntimeError, match="a defect"):
        world.loop.run_for(10)
    assert any("defect: RuntimeError: a defect" in line for line in world.loop.history.lines())


def test_waiting_in_vain_and_standing_still_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "EVENTS_PER_INSTANT_MAX", 1_000)
    world = World(1)
    clock = world.add_machine("alpha").boot().clock
    with pytest.raises(SimStuck, match="nothing more"):
        world.loop.run_until(lambda: False)
    clock.call_later(1000, lambda: None)
    with pytest.raises(SimStuck, match="within 10 ms"):
        world.loop.run_until(lambda: False, 10)

    def again() -> None:
        clock.call_soon(again)

    again()
    with pytest.raises(SimStuck, match="time stands still"):
        world.loop.run_for(10)


def test_every_run_and_every_machine_has_dice_of_its_own() -> None:
    drawn = []
    for seed in (1, 1, 2):
        world = World(seed)
        alpha, beta = world.add_machine("alpha"), world.add_machine("beta")
        draws = [alpha.boot().dice.unique_bytes(8), beta.boot().dice.unique_bytes(8)]
        alpha.kill()
        draws.append(alpha.boot().dice.unique_bytes(8))
        assert len(set(draws)) == 3
        drawn.append(draws)
    assert drawn[0] == drawn[1]
    assert not set(drawn[1]) & set(drawn[2])
