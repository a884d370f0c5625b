"""Topics that are tables, while things go wrong; and a follower that comes back to one."""

import msgspec
import pytest

from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.requests.commands import ProduceResult
from kafkaesque.gateway.kafka.produce import _ProduceOne
from kafkaesque.model.batch import scan_batches
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import Offset
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.sim.agreement import read_committed, read_table
from kafkaesque.sim.nemesis import SURVIVABLE
from kafkaesque.sim.options import SimOptions
from kafkaesque.sim.runner import run_seed
from kafkaesque.storage.compactor import _Cleaner
from tests.sim.scenario import Scenario

KILLS = ("kill", "restart")
#: Seed, what goes wrong, and whether batches are acknowledged from the page cache: not with power
#: cuts.
RUNS = (
    (0, SURVIVABLE, False),
    pytest.param(1, (*KILLS, "power cut", "absence"), False, marks=pytest.mark.extended),
    pytest.param(2, SURVIVABLE, False, marks=pytest.mark.extended),
    pytest.param(3, (*KILLS, "power cut"), False, marks=pytest.mark.extended),
    (4, KILLS, True),
    pytest.param(5, ("power cut",), False, marks=pytest.mark.extended),
)


@pytest.mark.parametrize(("seed", "kinds", "write_caching"), RUNS)
def test_the_last_value_of_each_key_outlives_crashes(
    seed: int, kinds: tuple[str, ...], write_caching: bool
) -> None:
    options = SimOptions(
        activities=("compaction", "commits"),
        kinds=kinds,
        between_ms=600,
        write_caching=write_caching,
    )
    report = run_seed(seed, options)
    assert report.ok, f"{report.anomalies}\n" + "\n".join(report.lines[-40:])
    assert report.acknowledged > 100, "the clients did something"
    assert report.counts["compactions"] > 5, "and the brokers did"


def test_a_compaction_that_loses_keys_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Cleaner, "_clean_values", lambda *_: None)
    options = SimOptions(brokers=1, replicas=1, activities=("compaction",), kinds=("kill",))
    report = run_seed(1, options)
    assert any("lost write" in each for each in report.anomalies)


def test_an_answer_with_a_wrong_offset_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though each of these records has been replaced by a later one: at the latest, by itself."""
    done = _ProduceOne._on_done

    def done_wrongly(self: _ProduceOne, outcome: ProduceResult | RequestRefused) -> None:
        if isinstance(outcome, ProduceResult) and self._name == "table":
            outcome = msgspec.structs.replace(outcome, base_offset=outcome.base_offset - 1)
        done(self, outcome)

    monkeypatch.setattr(_ProduceOne, "_on_done", done_wrongly)
    options = SimOptions(brokers=1, replicas=1, activities=("compaction",), kinds=("kill",))
    report = run_seed(1, options)
    assert any(each.startswith("table: inconsistent offsets") for each in report.anomalies)


def test_a_follower_that_was_away_catches_up_through_holes() -> None:
    options = SimOptions(activities=("compaction",))
    scenario = Scenario(5, options, compacts=True)
    scenario.write(50)
    scenario.settle()
    away = next(name for name in scenario.cluster.names if name != scenario.leader)
    scenario.kill(away)
    others = scenario.running()
    begun = scenario.end(scenario.leader)
    for _ in range(12):
        scenario.write(100)
        scenario.loop.run_for(800)
    leader_log = scenario.partition(scenario.leader).log
    assert leader_log.clean_state.end_offset > begun, "it compacted beyond where it stopped"
    written = leader_log.end_offset - leader_log.start_offset
    assert len(read_table(scenario.partition(scenario.leader))) < written / 6
    scenario.boot(away)
    scenario.loop.run_until(lambda: scenario.find(away) is not None)
    scenario.write(20)
    scenario.settle()
    with scenario.cluster.unhindered():
        tables = [read_table(scenario.partition(name)) for name in (*others, away)]
    assert tables[0] == tables[1] == tables[2]
    scenario.load.observations.check_table(away, 0, tables[-1])
    # It leads, too: readers and the others get all from it.
    for name in others:
        scenario.kill(name)
        scenario.boot(name)
    scenario.write(20)
    scenario.settle()
    reader = scenario.read_from_start()
    end = scenario.end(away)
    scenario.loop.run_until(lambda: reader.position >= end)
    scenario.load.observations.check()
    assert scenario.findings.anomalies == []


def test_a_stopping_broker_ends_its_run_first() -> None:
    scenario = Scenario(
        6, SimOptions(brokers=1, replicas=1, activities=("compaction",)), compacts=True
    )
    scenario.write(300)
    cleaner = scenario.broker("b1").log_cleaner
    for producer in scenario.load.producers:
        producer.is_stopped = False
        producer._next(0)
    scenario.world.machines["b1"].drive.faults.slowness = 20.0
    scenario.loop.run_until(lambda: cleaner.is_running)
    before = cleaner.count
    stopped: list[bool] = []
    scenario.load.stop_producing()
    scenario.broker("b1").stop(lambda: stopped.append(cleaner.is_running))
    scenario.loop.run_until(lambda: bool(stopped))
    assert stopped == [False]
    assert cleaner.count == before, "it was dropped, not waited for"


VICTIM = b"deleted while somebody is away"


def put_one(scenario: Scenario, key: bytes, value: bytes | None) -> None:
    done = list[object]()
    now_ms = scenario.broker(scenario.leader).env.clock.wall_ms()
    data = encode_batch([Record(0, now_ms, key, value, ())])
    partition = scenario.partition(scenario.leader)
    partition.produce(bytearray(data), acks=-1, timeout_ms=30_000, on_done=done.append)
    scenario.loop.run_until(lambda: done != [], 60_000)
    assert isinstance(done[0], ProduceResult)


def tombstones(partition: Partition) -> list[bytes | None]:
    data = read_committed(partition)
    return [
        record.key
        for header in scan_batches(data).batches
        if not header.is_control
        for record in decode_batch(data, 1 << 20, at=header.at)
        if record.value is None
    ]


def keys_deleted_while_away(scenario: Scenario) -> dict[str, bool]:
    """Delete a key while a replica is away for long; return who has the key when it is back."""
    scenario.write(50)
    put_one(scenario, VICTIM, b"there")
    scenario.settle()
    away = next(name for name in scenario.cluster.names if name != scenario.leader)
    scenario.kill(away)
    put_one(scenario, VICTIM, None)
    # Compaction meets the tombstone several times after its 500 ms have passed.
    for _ in range(6):
        scenario.write(100)
        scenario.loop.run_for(800)
    scenario.boot(away)
    scenario.loop.run_until(lambda: scenario.find(away) is not None)
    scenario.write(20)
    scenario.settle()
    with scenario.cluster.unhindered():
        return {name: VICTIM in read_table(scenario.partition(name)) for name in scenario.running()}


def test_a_key_that_was_deleted_stays_deleted_where_a_replica_was_away_for_long() -> None:
    scenario = Scenario(7, SimOptions(activities=("compaction",)), compacts=True)
    found = keys_deleted_while_away(scenario)
    assert len(found) == 3
    assert not any(found.values()), found
    # Once all have it, nobody keeps the tombstone; a follower hears of that with the next records.
    for _ in range(4):
        scenario.write(100)
        scenario.loop.run_for(800)
    with scenario.cluster.unhindered():
        for name in scenario.running():
            assert VICTIM not in tombstones(scenario.partition(name)), name


def test_a_tombstone_that_does_not_wait_for_all_replicas_brings_keys_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Partition, "everywhere_offset", property(lambda _: Offset(2**62)))
    scenario = Scenario(7, SimOptions(activities=("compaction",)), compacts=True)
    assert sum(keys_deleted_while_away(scenario).values()) == 1
