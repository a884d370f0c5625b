"""A follower without space fails as a whole, and what it says of that is true."""

from tests.sim.scenario import Scenario


def test_a_follower_without_space_says_that_it_does_not_go_on_by_itself() -> None:
    scenario = Scenario(1)
    leader = scenario.leader
    full, good = (name for name in scenario.cluster.names if name != leader)
    scenario.write(20)
    scenario.settle()
    errors: list[str] = []
    scenario.broker(full).report_error = errors.append
    drive = scenario.world.machines[full].drive
    drive.faults.capacity_bytes = drive.used_bytes()
    scenario.write(1_500)
    scenario.loop.run_until(lambda: bool(errors), 30_000)
    (told,) = errors
    assert "the disk failed: " in told
    assert "No space left on device" in told
    assert "until the broker is restarted" in told
    assert "does not go on by itself" in told
    assert "until then" not in told
    # Space alone changes nothing; a restart does.
    drive.faults.capacity_bytes = None
    scenario.write(10)
    scenario.loop.run_for(5_000)
    assert scenario.cluster.failed() == [full]
    scenario.cluster.restart_failed()
    scenario.loop.run_until(lambda: scenario.running() == scenario.cluster.names, 30_000)
    scenario.loop.run_until(
        lambda: scenario.find(full) is not None and scenario.end(full) == scenario.end(good), 30_000
    )
