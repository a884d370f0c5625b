"""Who waits for a commit while the partition gets another leader is answered by what it commits."""

import pytest

from kafkaesque.broker.broker import SWEEP_MS
from kafkaesque.broker.partitions.waiting_produces import HANDOVER_MS
from kafkaesque.broker.requests.commands import ProduceResult
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.errors import NotLeader, RequestRefused
from kafkaesque.model.records import Record
from tests.sim.scenario import Scenario
from tests.sim.seeds import first_of

TIMEOUT_MS = 30_000


def append(scenario: Scenario, name: str, outcomes: list[ProduceResult | RequestRefused]) -> bool:
    """Append a batch at a broker; return whether it was taken."""
    data = encode_batch([Record(0, 1_700_000_000_000, None, b"x", ())])
    try:
        scenario.partition(name).produce(
            data, acks=-1, timeout_ms=TIMEOUT_MS, on_done=outcomes.append
        )
    except RequestRefused:
        return False
    return True


#: Without that, what waits with seed 64 is refused.
@pytest.mark.parametrize("seed", first_of(range(62, 67), 1))
def test_what_waits_while_leadership_is_handed_over_is_committed(seed: int) -> None:
    scenario = Scenario(seed)
    scenario.write(10)
    scenario.settle()
    old = scenario.leader
    new = next(each for each in scenario.running() if each != old)
    outcomes: list[ProduceResult | RequestRefused] = []
    count = 0
    while append(scenario, old, outcomes):
        count += 1
        if count == 20:
            node = scenario.broker(new).node
            scenario.broker(old).driver.transfer_leadership(scenario.group, node)
        scenario.loop.run_for(0.2)
    scenario.loop.run_until(lambda: new in scenario.leaders(), HANDOVER_MS)
    scenario.loop.run_until(lambda: len(outcomes) == count, HANDOVER_MS)
    assert [each for each in outcomes if isinstance(each, RequestRefused)] == []
    offsets = [each.base_offset for each in outcomes if isinstance(each, ProduceResult)]
    assert offsets == list(range(offsets[0], offsets[0] + count))


def deposed_with_a_record() -> tuple[Scenario, str, list[ProduceResult | RequestRefused]]:
    """A leader that was cut off with a record that nobody else has: it, and what comes of that."""
    scenario = Scenario(2)
    scenario.write(10)
    scenario.settle()
    old, wire = scenario.leader, scenario.world.wire
    for other in scenario.running():
        if other != old:
            wire.block(old, other)
            wire.block(other, old)
    outcomes: list[ProduceResult | RequestRefused] = []
    assert append(scenario, old, outcomes)
    scenario.loop.run_until(lambda: old not in scenario.leaders(), 30_000)
    assert outcomes == []
    return scenario, old, outcomes


@pytest.mark.parametrize("is_healed", [False, True])
def test_what_the_next_leader_has_not_is_refused(is_healed: bool) -> None:
    """By the next leader's log, if it comes to be known in time; else when the time is over."""
    scenario, _, outcomes = deposed_with_a_record()
    if is_healed:
        scenario.world.wire.heal()
        scenario.loop.run_until(lambda: outcomes != [], HANDOVER_MS)
        assert scenario.leaders()
    else:
        scenario.loop.run_until(lambda: outcomes != [], HANDOVER_MS + 2 * SWEEP_MS)
    (outcome,) = outcomes
    assert isinstance(outcome, NotLeader)


def test_what_waits_while_a_follower_is_closed_is_answered_at_once() -> None:
    scenario, old, outcomes = deposed_with_a_record()
    scenario.broker(old).driver.close_group(scenario.group)
    (outcome,) = outcomes
    assert isinstance(outcome, NotLeader)
