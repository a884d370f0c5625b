"""What a broker's admin port says of a partition while it is recovered and afterwards."""

import json
from typing import Any

from kafkaesque.admin.http import Request
from kafkaesque.admin.recoveries import answer_recoveries
from kafkaesque.sim.options import SimOptions
from tests.sim.scenario import TOPIC, Scenario


def told_by(scenario: Scenario, name: str, topic: str = TOPIC) -> dict[str, Any]:
    request = Request(path="/recoveries", query={"topic": [topic]})
    answer = answer_recoveries(scenario.broker(name).doors, request)
    assert answer.status == 200
    found: dict[str, Any] = json.loads(answer.body)
    return found


def test_a_recovery_that_waits_says_for_whom_and_one_that_is_done_how() -> None:
    scenario = Scenario(7, SimOptions(brokers=5, replicas=2, session_timeout_ms=1_000))
    scenario.write(50)
    leader = scenario.leader
    nodes = scenario.partition(leader).state.replicas
    names = [scenario.cluster.names[node - 1] for node in nodes]
    (other,) = [name for name in names if name != leader]
    bystander = next(name for name in scenario.cluster.names if name not in names)
    scenario.loop.run_until(lambda: scenario.end(other) == scenario.end(leader))
    assert told_by(scenario, bystander)["recoveries"] == []
    # One has lost its disk, and the one that remembers is away.
    scenario.kill(other)
    scenario.kill(leader)
    scenario.world.machines[leader].drive.volume.clear()
    scenario.boot(leader)
    scenario.loop.run_until(lambda: told_by(scenario, bystander)["open"] == 1, 60_000)
    scenario.loop.run_for(5_000)
    (waiting,) = told_by(scenario, bystander)["recoveries"]
    assert (waiting["is_open"], waiting["told"], waiting["voters"]) == (True, [], [])
    assert 5_000 <= waiting["open_ms"] < 10_000
    assert waiting["replicas"] == list(nodes)
    assert told_by(scenario, bystander, "another")["count"] == 0
    scenario.boot(other)
    scenario.loop.run_until(lambda: scenario.leaders() == [other], 60_000)
    (done,) = told_by(scenario, bystander)["recoveries"]
    assert (done["is_open"], done["is_clean"], done["unclean_at_ms"]) == (False, True, None)
    assert (done["formation"], done["voters"]) == (1, [scenario.broker(other).node])
    assert done["at_ms"] > 0
