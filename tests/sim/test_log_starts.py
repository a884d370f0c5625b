"""What was deleted before an election takes nothing of what is acknowledged after it."""

import pytest

from kafkaesque.broker.peers.messages import LeaderReport
from kafkaesque.broker.requests.commands import AdvanceStart, Done, ProduceResult
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.errors import OffsetOutOfRange
from kafkaesque.model.ids import Offset
from kafkaesque.model.records import Record
from kafkaesque.sim.options import SimOptions
from tests.sim.scenario import Scenario
from tests.sim.seeds import first_of
from tests.sim.test_unclean_election import ask, ask_until_done, is_in_sync

FIVE = SimOptions(brokers=5, replicas=3, session_timeout_ms=1_000, controllers=5)


def replicas_of(scenario: Scenario) -> list[str]:
    names = scenario.cluster.names
    return [names[node - 1] for node in scenario.partition(scenario.leader).state.replicas]


def put(scenario: Scenario, count: int) -> Offset:
    """Write records in a batch, by a producer that knows nothing of before; return the first."""
    return put_by(scenario, scenario.leader, count)


def put_by(scenario: Scenario, name: str, count: int) -> Offset:
    done = list[object]()
    now_ms = scenario.broker(name).env.clock.wall_ms()
    data = encode_batch([Record(at, now_ms, b"k", b"v", ()) for at in range(count)])
    scenario.partition(name).produce(
        bytearray(data), acks=-1, timeout_ms=30_000, on_done=done.append
    )
    scenario.loop.run_until(lambda: done != [], 60_000)
    (outcome,) = done
    assert isinstance(outcome, ProduceResult)
    return Offset(outcome.base_offset)


def delete_all(scenario: Scenario) -> tuple[Offset, int]:
    """Delete all that is committed, as by request; return the start, and the term before it."""
    partition = scenario.partition(scenario.leader)
    start = partition.high_watermark
    delete_before(scenario, start)
    return start, partition.log.term_before(start)


def delete_before(scenario: Scenario, start: Offset) -> None:
    """Delete what is before an offset, on the leader and those that are in sync with it."""
    partition, done = scenario.partition(scenario.leader), list[object]()
    starts = scenario.broker(scenario.leader).log_starts
    starts.delete(partition, start, 10_000, done.append)
    scenario.loop.run_until(lambda: done != [], 20_000)
    assert done == [Done()]


def has_yet_to_grow(scenario: Scenario, name: str) -> bool:
    """Tell whether a copy is there, and is to start after its end."""
    copy = scenario.find(name)
    return copy is not None and 0 < copy.log.end_offset < copy.log_start_offset


def one_that_lags(seed: int) -> tuple[Scenario, str, list[str]]:
    """Return a replica that was away when most was written, and where the others are."""
    scenario = Scenario(seed, FIVE)
    scenario.write(100)
    names = replicas_of(scenario)
    scenario.loop.run_until(lambda: len({scenario.end(name) for name in names}) == 1)
    left = next(name for name in names if name != scenario.leader)
    scenario.kill(left)
    scenario.write(300)
    return scenario, left, [name for name in names if name != left]


def lead_uncleanly(scenario: Scenario, left: str, cut_off: str | None = None) -> None:
    scenario.loop.run_until(lambda: scenario.find(left) is not None)
    ask_until_done(scenario, next(n for n in scenario.running() if n not in (left, cut_off)))
    scenario.loop.run_until(lambda: left in scenario.leaders(), 60_000)


@pytest.mark.parametrize("seed", [1, 3, 5])
def test_a_deposed_leader_that_comes_back_tells_nobody_to_delete(seed: int) -> None:
    scenario, left, (leader, other) = one_that_lags(seed)
    if scenario.leader != leader:
        leader, other = other, leader
    delete_all(scenario)
    scenario.kill(other)
    wire = scenario.world.wire
    ways = [(leader, name) for name in scenario.cluster.names if name != leader]
    ways += [(name, leader) for _, name in ways]
    for way in ways:
        wire.block(*way)
    scenario.boot(left)
    scenario.loop.run_for(20_000)
    lead_uncleanly(scenario, left, leader)
    put_by(scenario, left, 50)
    for way in ways:
        wire.unblock(*way)
    scenario.boot(other)
    scenario.loop.run_until(lambda: is_in_sync(scenario, left, 3), 60_000)
    put(scenario, 400)
    scenario.loop.run_for(2_000)
    assert {scenario.partition(name).log_start_offset for name in replicas_of(scenario)} == {0}


@pytest.mark.parametrize("said", ["before", "after", "by an earlier release"])
def test_who_is_elected_uncleanly_deletes_nothing_that_comes_after(said: str) -> None:
    """Whether it was told of the deletion before it led, or the request has come late."""
    scenario, left, gone = one_that_lags(2)
    start, term = delete_all(scenario)
    for name in gone:
        scenario.kill(name)
    scenario.boot(left)
    scenario.loop.run_until(lambda: scenario.find(left) is not None)
    end, starts = scenario.end(left), scenario.broker(left).log_starts
    group = scenario.group
    if said == "before":
        starts.on_leader_report(LeaderReport(group, term, 5, (), start, log_start_term=term))
        assert scenario.partition(left).log_start_offset <= end
    lead_uncleanly(scenario, left)
    if said != "before":
        term = term if said == "after" else -1
        request = AdvanceStart(group=group, start_offset=start, start_term=term)
        outcomes = list[object]()
        starts.serve(request, 10_000, outcomes.append)
        assert [type(outcome) for outcome in outcomes] == [OffsetOutOfRange]
    begin = scenario.partition(left).log_start_offset
    put(scenario, 400)
    scenario.loop.run_for(2_000)
    assert scenario.end(left) > start
    assert scenario.partition(left).log_start_offset == begin <= end


def test_a_leader_that_was_away_deletes_what_the_others_have_deleted() -> None:
    scenario, away, others = one_that_lags(4)
    start, term = delete_all(scenario)
    scenario.boot(away)
    scenario.loop.run_until(lambda: is_in_sync(scenario, scenario.leader, 3), 60_000)
    # As if it had copied all before the others have deleted it.
    leader = scenario.leader
    scenario.broker(leader).driver.transfer_leadership(scenario.group, scenario.broker(away).node)
    scenario.loop.run_until(lambda: scenario.leaders() == [away], 30_000)
    put(scenario, 20)
    scenario.loop.run_for(2_000)
    assert {scenario.partition(name).log_start_offset for name in (away, *others)} == {start}
    assert scenario.partition(away).log.term_before(start) == term


@pytest.mark.parametrize("seed", [2, 3, 5])
def test_what_a_majority_has_lost_is_not_deleted_when_it_is_there_again(seed: int) -> None:
    """Other records have got the offsets of those that were deleted, and then lost."""
    options = SimOptions(brokers=5, replicas=3, controllers=5, session_timeout_ms=60_000)
    scenario = Scenario(seed, options, {"write.caching": "true"})
    put(scenario, 40)
    scenario.loop.run_for(20_000)  # so much is synced
    for _ in range(200):
        put(scenario, 1)
    scenario.loop.run_for(300)
    names = replicas_of(scenario)
    partition, done = scenario.partition(scenario.leader), list[object]()
    starts = scenario.broker(scenario.leader).log_starts
    starts.delete(partition, Offset(200), 10_000, done.append)
    scenario.loop.run_until(lambda: done != [], 20_000)
    survivor = names[-1] if names[-1] != scenario.leader else names[0]
    cut = [name for name in names if name != survivor]
    scenario.kill(survivor)
    for name in cut:
        scenario.world.machines[name].cut_power()
    for name in cut:
        scenario.boot(name)
    scenario.loop.run_until(
        lambda: scenario.leaders() != [] and all(scenario.find(name) for name in cut), 60_000
    )
    assert scenario.end(scenario.leader) < 200, "what was deleted was not lost"
    begin = put(scenario, 1)
    scenario.boot(survivor)
    scenario.loop.run_until(lambda: scenario.find(survivor) is not None, 60_000)
    scenario.loop.run_for(3_000)
    for _ in range(20):
        put(scenario, 1)
    scenario.loop.run_for(5_000)
    assert max(scenario.partition(name).log_start_offset for name in names) <= begin


def test_a_copy_that_has_yet_to_grow_to_its_start_hears_of_a_later_one() -> None:
    """A new leader puts the start of such a copy back to its end; then a late report comes."""
    scenario = Scenario(9)
    leader = scenario.leader
    away, other = (name for name in scenario.cluster.names if name != leader)
    scenario.write(200)
    scenario.kill(away)
    scenario.write(200)
    end = scenario.partition(leader).high_watermark
    delete_before(scenario, Offset(end - 30))
    scenario.cluster.readmit(away)

    scenario.loop.run_until(lambda: has_yet_to_grow(scenario, away), 60_000)
    scenario.world.wire.block(leader, away)
    delete_before(scenario, Offset(end - 20))
    report = scenario.broker(leader).leaders.get(scenario.group)
    assert report is not None
    assert report.log_start_offset == end - 20
    driver = scenario.broker(leader).driver
    driver.transfer_leadership(scenario.group, scenario.broker(other).node)
    scenario.loop.run_until(lambda: not has_yet_to_grow(scenario, away), 30_000)
    assert scenario.end(away) < end - 30
    scenario.broker(away).log_starts.on_leader_report(report)
    scenario.settle()
    scenario.loop.run_for(2_000)
    assert scenario.partition(away).log_start_offset == end - 20


@pytest.mark.parametrize("seed", first_of(range(3), 1))
def test_who_has_yet_to_grow_to_its_start_leads_uncleanly_from_its_end(seed: int) -> None:
    """It has taken over what the leader knew of producers, as of a place that is given up."""
    scenario, left, gone = one_that_lags(seed)
    delete_before(scenario, Offset(scenario.partition(scenario.leader).high_watermark - 5))
    scenario.boot(left)
    scenario.loop.run_until(lambda: has_yet_to_grow(scenario, left), 60_000)
    for name in gone:
        scenario.kill(name)
    lead_uncleanly(scenario, left)
    end = scenario.end(left)
    partition = scenario.partition(left)
    assert (partition.log_start_offset, partition.high_watermark) == (end, end)
    assert put_by(scenario, left, 3) == end
    assert partition.high_watermark == end + 3


def test_who_follows_an_unclean_leader_forgets_producers_of_what_is_given_up() -> None:
    """It has yet to grow to where the leader of before was, and other records come there."""
    options = SimOptions(brokers=8, replicas=5, session_timeout_ms=1_000, controllers=8)
    scenario = Scenario(1, options)
    scenario.write(100)
    names = replicas_of(scenario)
    scenario.loop.run_until(lambda: len({scenario.end(name) for name in names}) == 1)
    follower, leader, *gone = sorted(names, key=lambda name: name == scenario.leader)
    scenario.kill(follower)
    scenario.write(150)
    scenario.loop.run_until(lambda: scenario.end(leader) == scenario.end(scenario.leader))
    scenario.kill(leader)
    scenario.write(150)
    given_up = scenario.partition(scenario.leader).high_watermark
    delete_before(scenario, Offset(given_up - 5))
    scenario.boot(follower)
    scenario.loop.run_until(lambda: has_yet_to_grow(scenario, follower), 60_000)
    for name in gone:
        scenario.kill(name)
    scenario.boot(leader)
    lead_uncleanly(scenario, leader)
    assert scenario.end(follower) <= scenario.end(leader) < given_up - 5
    while scenario.end(leader) <= given_up:
        put_by(scenario, leader, 10)
    scenario.loop.run_until(lambda: scenario.end(follower) == scenario.end(leader), 60_000)
    remembered = [scenario.partition(name).producers.describe() for name in (leader, follower)]
    assert remembered[0] != []
    assert remembered[1] == remembered[0]


@pytest.mark.parametrize("seed", first_of(range(2), 1))
def test_who_is_about_to_take_over_a_log_leads_when_it_has(seed: int) -> None:
    """What it said of its log before would not be true any more when it is asked to lead."""
    scenario, left, gone = one_that_lags(seed)
    delete_before(scenario, Offset(scenario.partition(scenario.leader).high_watermark - 5))
    scenario.boot(left)
    faults = scenario.world.machines[left].drive.faults
    scenario.loop.run_until(lambda: scenario.find(left) is not None)
    faults.slowness = 20_000.0
    core = scenario.partition(left).replica.core  # type: ignore[union-attr]
    scenario.loop.run_until(lambda: core.is_installing, 60_000)
    for name in gone:
        scenario.kill(name)
    ask(scenario, next(name for name in scenario.running() if name != left))
    assert core.is_installing
    assert scenario.leaders() == []
    faults.slowness = 1.0
    lead_uncleanly(scenario, left)
    assert put_by(scenario, left, 3) == scenario.end(left) - 3
