"""A replica takes over a log while its partition is recovered, or gets another leader."""

import pytest

from kafkaesque.broker.requests.commands import ProduceResult
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.ids import Offset
from kafkaesque.model.records import Record
from kafkaesque.raft.core import RaftCore
from kafkaesque.raft.ready import Role
from kafkaesque.sim.options import SimOptions
from tests.sim.scenario import Scenario
from tests.sim.seeds import first_of
from tests.sim.test_log_starts import (
    delete_before,
    has_yet_to_grow,
    lead_uncleanly,
    one_that_lags,
    put,
    put_by,
    replicas_of,
)
from tests.sim.test_unclean_election import Ask, ask_until_done, is_in_sync, recovery_of

EIGHT = SimOptions(brokers=8, replicas=5, session_timeout_ms=1_000, controllers=8)
#: A group of them is recovered only when an administrator asks.
PATIENT = SimOptions(brokers=8, replicas=5, session_timeout_ms=600_000, controllers=8)


def put_of(scenario: Scenario, name: str, producer_id: int) -> Offset:
    """Write the one batch of a producer, or write it again; return where it is."""
    done = list[object]()
    now_ms = scenario.broker(name).env.clock.wall_ms()
    options = BatchOptions(producer_id=producer_id, producer_epoch=0, base_sequence=0)
    data = encode_batch([Record(0, now_ms, b"k", b"once", ())], options)
    scenario.partition(name).produce(data, acks=-1, timeout_ms=30_000, on_done=done.append)
    scenario.loop.run_until(lambda: done != [], 60_000)
    (outcome,) = done
    assert isinstance(outcome, ProduceResult)
    return Offset(outcome.base_offset)


def cut(scenario: Scenario, some: list[str], others: list[str]) -> None:
    """Let nothing pass between these and those."""
    for one in some:
        for other in others:
            scenario.world.wire.block(one, other)
            scenario.world.wire.block(other, one)


def join(scenario: Scenario, some: list[str], others: list[str]) -> None:
    """Let everything pass again."""
    for one in some:
        for other in others:
            scenario.world.wire.unblock(one, other)
            scenario.world.wire.unblock(other, one)


def core_of(scenario: Scenario, name: str) -> RaftCore:
    replica = scenario.partition(name).replica
    assert replica is not None
    return replica.core


def put_once_more(scenario: Scenario, number: int) -> Offset:
    """Write a record by a producer of its own; return where it is."""
    return put_of(scenario, scenario.leader, 1_000 + number)


@pytest.mark.parametrize("seed", first_of(range(2), 1))
def test_an_empty_copy_that_takes_over_a_log_that_is_given_up_is_made_anew(seed: int) -> None:
    """Its own log is empty still when it hears of the decision: what is to come counts."""
    scenario, left, (leader, other) = one_that_lags(seed)
    if scenario.leader != leader:
        leader, other = other, leader
    delete_before(scenario, Offset(scenario.partition(leader).high_watermark - 5))
    scenario.kill(other)
    scenario.cluster.readmit(other)
    scenario.loop.run_until(lambda: scenario.find(other) is not None, 60_000)
    faults = scenario.world.machines[other].drive.faults
    faults.slowness = 20_000.0
    core = core_of(scenario, other)
    scenario.loop.run_until(lambda: core.is_installing, 60_000)
    scenario.kill(leader)
    scenario.boot(left)
    lead_uncleanly(scenario, left)
    faults.slowness = 1.0
    scenario.loop.run_for(3_000)
    for _ in range(60):
        put_by(scenario, left, 10)
    scenario.boot(leader)
    scenario.loop.run_until(lambda: is_in_sync(scenario, left, 3), 60_000)
    scenario.loop.run_for(1_000)
    assert len({scenario.committed(name) for name in (left, leader, other)}) == 1


@pytest.mark.parametrize("seed", first_of(range(2), 1))
def test_what_an_unclean_leader_knows_of_producers_outlasts_a_restart(seed: int) -> None:
    """A copy that takes over its log has it, and has yet to grow to where it was told."""
    scenario = Scenario(seed, EIGHT)
    scenario.write(100)
    names = replicas_of(scenario)
    scenario.loop.run_until(lambda: len({scenario.end(name) for name in names}) == 1)
    follower, left, *gone = sorted(names, key=lambda name: name == scenario.leader)
    scenario.kill(follower)
    scenario.write(100)
    first = put_of(scenario, scenario.leader, 777)
    scenario.write(200)
    scenario.loop.run_until(lambda: scenario.end(left) == scenario.end(scenario.leader))
    delete_before(scenario, Offset(scenario.partition(scenario.leader).high_watermark - 5))
    scenario.loop.run_for(1_000)
    assert first < scenario.partition(left).log_start_offset
    for name in gone:
        scenario.kill(name)
    scenario.loop.run_for(3_000)
    scenario.boot(follower)
    scenario.loop.run_until(lambda: scenario.find(follower) is not None, 60_000)
    Ask(scenario, next(name for name in scenario.running() if name not in (left, follower)))
    scenario.loop.run_until(lambda: has_yet_to_grow(scenario, follower), 60_000)
    assert scenario.leaders() == [left]
    unclean = recovery_of(scenario, left).unclean
    assert unclean is not None
    assert len(unclean.voters) == 2
    scenario.kill(follower)
    scenario.boot(follower)
    scenario.loop.run_until(lambda: scenario.end(follower) == scenario.end(left), 60_000)
    scenario.loop.run_for(2_000)
    scenario.broker(left).driver.transfer_leadership(scenario.group, scenario.broker(follower).node)
    scenario.loop.run_until(lambda: scenario.leaders() == [follower], 30_000)
    assert put_of(scenario, follower, 777) == first, "the same batch is there twice"


def test_who_takes_over_a_log_that_a_majority_has_lost_commits_what_is_in_that_one() -> None:
    """With `write.caching` what is committed here may be more than the others have now."""
    scenario = Scenario(2, configs={"write.caching": "true"})
    put(scenario, 40)
    scenario.loop.run_for(20_000)  # so much is synced
    for _ in range(200):
        put(scenario, 1)
    scenario.settle()
    scenario.loop.run_for(1_000)
    keeper = next(name for name in scenario.running() if name != scenario.leader)
    others = [name for name in scenario.cluster.names if name != keeper]
    held = scenario.partition(keeper).high_watermark
    assert held == 240
    wire = scenario.world.wire
    for name in others:
        wire.block(name, keeper)
        wire.block(keeper, name)
        scenario.world.machines[name].cut_power()
    for name in others:
        scenario.boot(name)
    scenario.loop.run_until(lambda: any(name in scenario.leaders() for name in others), 60_000)
    leader = next(name for name in scenario.leaders() if name != keeper)
    assert scenario.end(leader) < 200, "nothing was lost"
    put_by(scenario, leader, 10)
    partition, done = scenario.partition(leader), list[object]()
    start = partition.high_watermark
    scenario.broker(leader).log_starts.delete(partition, start, 10_000, done.append)
    scenario.loop.run_until(lambda: done != [], 20_000)
    put_by(scenario, leader, 10)
    for name in others:
        wire.unblock(name, keeper)
        wire.unblock(keeper, name)
    scenario.loop.run_until(lambda: scenario.end(keeper) == scenario.end(leader), 60_000)
    scenario.loop.run_for(1_000)
    kept = scenario.partition(keeper)
    assert kept.log_start_offset == start, "it was not given a snapshot"
    scenario.broker(leader).driver.transfer_leadership(scenario.group, scenario.broker(keeper).node)
    scenario.loop.run_until(lambda: scenario.leaders() == [keeper], 30_000)
    for name in others:
        wire.block(name, keeper)
        wire.block(keeper, name)
    acked = list[object]()
    data = encode_batch([Record(0, 1_700_000_000_000, None, b"x", ())])
    kept.produce(data, acks=-1, timeout_ms=30_000, on_done=acked.append)
    scenario.loop.run_for(500)
    assert acked == [], "acknowledged by its leader alone"


@pytest.mark.parametrize("seed", first_of(range(2), 1))
def test_who_has_committed_what_an_unclean_leader_has_not_follows_it(seed: int) -> None:
    """It was copying older terms still; the newest term of the other's log is of nothing."""
    scenario = Scenario(seed, PATIENT)
    put(scenario, 20)
    leader = scenario.leader
    names = replicas_of(scenario)
    scenario.loop.run_until(lambda: len({scenario.end(name) for name in names}) == 1)
    friend, *rest = [name for name in names if name != leader]
    cut(scenario, [leader, friend], rest)
    for _ in range(60):
        data = encode_batch([Record(0, 1_700_000_000_000, None, bytes(200_000), ())])
        scenario.partition(leader).produce(
            data, acks=1, timeout_ms=30_000, on_done=lambda outcome: None
        )
    scenario.loop.run_until(lambda: scenario.end(friend) == scenario.end(leader) == 80, 10_000)
    cut(scenario, [leader], [friend])
    # One is elected, and nobody hears of it.
    scenario.loop.run_until(
        lambda: any(core_of(scenario, name).role is Role.CANDIDATE for name in rest), 60_000
    )
    other = next(name for name in rest if core_of(scenario, name).role is Role.CANDIDATE)
    rest.remove(other)
    core = core_of(scenario, other)
    scenario.loop.run_until(lambda: all(core_of(scenario, n).term == core.term for n in rest))
    for name in rest:
        scenario.world.wire.block(other, name)
    scenario.loop.run_until(lambda: core.is_leader, 10_000)
    scenario.loop.run_for(100)
    behind, third = rest
    scenario.kill(other)
    scenario.kill(behind)
    assert scenario.end(third) == 20
    join(scenario, [leader, friend], rest)
    join(scenario, [leader], [friend])
    several = [leader, friend, third]
    scenario.loop.run_until(
        lambda: all(scenario.partition(name).high_watermark == 80 for name in several), 60_000
    )
    scenario.boot(behind)
    scenario.loop.run_until(lambda: scenario.find(behind) is not None, 60_000)
    scenario.loop.run_until(lambda: scenario.partition(behind).high_watermark > 30, 60_000)
    cut(scenario, [behind], several)
    for name in several:
        scenario.kill(name)
    join(scenario, [other], names)
    scenario.boot(other)
    scenario.loop.run_until(lambda: scenario.find(other) is not None, 60_000)
    scenario.loop.run_for(3_000)
    ask_until_done(scenario, next(n for n in scenario.running() if n not in (other, behind)))
    scenario.loop.run_for(5_000)
    put(scenario, 10)
    join(scenario, [behind], several)
    for name in several:
        scenario.boot(name)
    scenario.loop.run_until(lambda: is_in_sync(scenario, scenario.leader, 5), 60_000)
    scenario.loop.run_for(1_000)
    assert len({scenario.committed(name) for name in names}) == 1


@pytest.mark.parametrize("seed", first_of(range(2), 1))
def test_what_is_synced_late_of_a_log_that_was_taken_away_counts_for_nothing(seed: int) -> None:
    """The log that takes its place ends earlier, and has yet to be durable."""
    scenario = Scenario(seed, PATIENT)
    put(scenario, 20)
    leader = scenario.leader
    names = replicas_of(scenario)
    scenario.loop.run_until(lambda: len({scenario.end(name) for name in names}) == 1)
    scenario.loop.run_for(1_000)
    friend, *rest = [name for name in names if name != leader]
    cut(scenario, [leader, friend], rest)
    faults = scenario.world.machines[friend].drive.faults
    faults.slowness = 30_000.0
    for _ in range(100):
        data = encode_batch([Record(0, 1_700_000_000_000, None, b"x", ())])
        scenario.partition(leader).produce(
            data, acks=1, timeout_ms=30_000, on_done=lambda outcome: None
        )
    core = core_of(scenario, friend)
    scenario.loop.run_until(lambda: scenario.end(friend) == 120, 10_000)
    cut(scenario, [leader], [friend])
    scenario.loop.run_until(lambda: any(n in scenario.leaders() for n in rest), 60_000)
    other = next(n for n in rest if n in scenario.leaders())
    put_by(scenario, other, 20)
    partition, done = scenario.partition(other), list[object]()
    start = partition.high_watermark
    scenario.broker(other).log_starts.delete(partition, start, 10_000, done.append)
    scenario.loop.run_until(lambda: done != [], 20_000)
    join(scenario, rest, [friend])
    scenario.loop.run_until(lambda: core.is_installing, 60_000)
    scenario.loop.run_until(lambda: not core.is_installing, 60_000)
    faults.slowness = 1.0
    scenario.loop.run_until(lambda: len(core_of(scenario, other).in_sync) == 4, 30_000)
    scenario.broker(other).driver.transfer_leadership(scenario.group, scenario.broker(friend).node)
    scenario.loop.run_until(lambda: scenario.leaders() == [friend], 30_000)
    scenario.loop.run_for(1_000)
    faults.slowness = 1_000.0
    acked, data = list[object](), encode_batch([Record(0, 1_700_000_000_000, None, b"x", ())])
    scenario.partition(friend).produce(data, acks=1, timeout_ms=30_000, on_done=acked.append)
    scenario.loop.run_for(10)
    assert core.log.synced_index < core.log.last_index
    assert acked == [], "acknowledged before it is durable"
    scenario.loop.run_until(lambda: acked != [], 30_000)


@pytest.mark.parametrize("seed", [0, 3])
def test_who_is_about_to_take_over_a_log_does_not_lead_before_it_has(seed: int) -> None:
    """With `write.caching` those who had that log may have lost it, and vote for this one."""
    scenario = Scenario(seed, configs={"write.caching": "true"})
    put(scenario, 40)
    names = scenario.cluster.names
    scenario.loop.run_until(lambda: len({scenario.end(name) for name in names}) == 1)
    scenario.loop.run_for(20_000)  # so much is synced
    leader = scenario.leader
    behind, other = (name for name in names if name != leader)
    cut(scenario, [behind], [leader, other])
    scenario.loop.run_for(9_000)  # until nothing is sent any more
    for number in range(50):
        put_once_more(scenario, number)
    partition = scenario.partition(leader)
    scenario.loop.run_until(lambda: scenario.partition(other).high_watermark == 90, 10_000)
    cut(scenario, [leader], [other])
    scenario.broker(leader).partitions.advance_start(partition, partition.high_watermark)
    scenario.loop.run_for(20)
    assert partition.log_start_offset == 90
    join(scenario, [behind], [leader])
    core = core_of(scenario, behind)
    faults = scenario.world.machines[behind].drive.faults
    scenario.loop.run_until(lambda: core.is_installing, 10_000)
    faults.slowness = 100_000.0
    scenario.loop.run_for(1)
    faults.slowness = 1.0  # for what is begun from now on
    assert core.is_installing
    scenario.kill(leader)
    scenario.world.machines[other].cut_power()
    scenario.boot(other)
    join(scenario, [behind], [other])
    scenario.loop.run_until(lambda: scenario.find(other) is not None, 60_000)
    assert scenario.end(other) <= 40, "it has lost nothing"
    scenario.loop.run_until(lambda: behind in scenario.leaders() or not core.is_installing, 90_000)
    scenario.loop.run_until(lambda: scenario.leaders() != [], 60_000)
    offset = put_by(scenario, scenario.leader, 1)
    scenario.loop.run_until(lambda: not core.is_installing, 120_000)
    scenario.loop.run_for(5_000)
    assert scenario.end(scenario.leader) > offset
    log = scenario.partition(scenario.leader).log
    assert log.term_before(offset + 1) > 1, "what was acknowledged is lost"
    scenario.boot(leader)
    join(scenario, [leader], [other])
    scenario.loop.run_until(lambda: is_in_sync(scenario, scenario.leader, 3), 60_000)
    assert len({scenario.end(name) for name in names}) == 1


def test_lost_producers_are_not_believed_when_their_offsets_come_again() -> None:
    """A copy was told of them as of a place that it has yet to grow to; others come there."""
    scenario = Scenario(5, configs={"write.caching": "true"})
    names = scenario.cluster.names
    put(scenario, 40)
    leader = scenario.leader
    scenario.loop.run_until(lambda: len({scenario.end(name) for name in names}) == 1)
    scenario.loop.run_for(20_000)  # so much is synced
    behind, other = (name for name in names if name != leader)
    others = [leader, other]
    cut(scenario, [behind], others)
    scenario.loop.run_for(9_000)  # until nothing is sent any more
    for number in range(1, 201):
        put_once_more(scenario, number)
    end = scenario.partition(leader).high_watermark
    partition, done = scenario.partition(leader), list[object]()
    scenario.broker(leader).log_starts.delete(partition, end - 5, 10_000, done.append)
    scenario.loop.run_until(lambda: done != [], 20_000)
    join(scenario, [behind], [leader])
    core = core_of(scenario, behind)
    scenario.loop.run_until(lambda: core.is_installing, 10_000)
    cut(scenario, [behind], [leader])
    for name in others:
        scenario.world.machines[name].cut_power()
    for name in others:
        scenario.boot(name)
    scenario.loop.run_until(lambda: all(scenario.find(name) for name in others), 60_000)
    scenario.loop.run_for(10_000)
    join(scenario, [behind], others)
    scenario.loop.run_until(lambda: scenario.leaders() != [], 60_000)
    assert scenario.end(scenario.leader) < end, "nothing was lost"
    while scenario.end(scenario.leader) <= end:
        put_by(scenario, scenario.leader, 10)
    scenario.loop.run_until(lambda: is_in_sync(scenario, scenario.leader, 3), 60_000)
    scenario.broker(scenario.leader).driver.transfer_leadership(
        scenario.group, scenario.broker(behind).node
    )
    scenario.loop.run_until(lambda: scenario.leaders() == [behind], 30_000)
    # The last of them knows nothing of an answer, and sends again what was lost.
    assert put_once_more(scenario, 200) == scenario.end(behind) - 1, "acknowledged, and not there"
