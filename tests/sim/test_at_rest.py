"""What a cluster costs whose clients rest: nothing happens that nobody waits for."""

from kafkaesque.sim.options import SimOptions
from tests.sim.scenario import Scenario

REST_S = 10
#: Heartbeats and probes of three brokers, on their way from timer to timer; 315 were counted.
EVENTS_PER_SECOND_MAX = 350


def test_three_brokers_at_rest_do_little() -> None:
    scenario = Scenario(1, SimOptions(controllers=3))
    scenario.loop.run_for(5_000)
    before = scenario.loop.history.count
    scenario.loop.run_for(REST_S * 1_000)
    assert (scenario.loop.history.count - before) / REST_S < EVENTS_PER_SECOND_MAX
