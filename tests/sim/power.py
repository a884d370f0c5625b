"""Power cuts."""

from __future__ import annotations

from collections.abc import Callable

from tests.sim.scenario import Scenario


def cut_power_of_a_majority(scenario: Scenario, keeper: str, leaders: Callable[[], bool]) -> None:
    """Two lose power and go on together; the third lives, and hears of them again later."""
    others = [name for name in scenario.cluster.names if name != keeper]
    wire = scenario.world.wire
    for name in others:
        wire.block(name, keeper)
        wire.block(keeper, name)
        scenario.world.machines[name].cut_power()
    scenario.loop.run_for(300)
    for name in others:
        scenario.boot(name)
    scenario.loop.run_until(leaders, 60_000)
    for name in others:
        wire.unblock(name, keeper)
        wire.unblock(keeper, name)
