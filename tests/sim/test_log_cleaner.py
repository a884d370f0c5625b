"""Which log is compacted next, how fast, and what stops a run."""

from collections.abc import Callable

import pytest

from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.upkeep import log_cleaner
from kafkaesque.broker.upkeep.log_cleaner import LogCleaner
from kafkaesque.model.options import OptionValue
from kafkaesque.sim.agreement import read_table
from kafkaesque.sim.clients.topic_load import TopicLoad, TopicSpec
from kafkaesque.sim.options import SimOptions
from tests.sim.scenario import TOPIC, Scenario

OPTIONS = SimOptions(brokers=1, replicas=1, activities=("compaction",))
ENABLE = "log.cleaner.enable"
RATE = "log.cleaner.io.max.bytes.per.second"


class Cleaning:
    """One broker with a compacted topic, and the cleaner in it, which rests at first."""

    def __init__(self, seed: int, records: int) -> None:
        self.scenario = Scenario(seed, OPTIONS, compacts=True)
        self.loop = self.scenario.loop
        self.set(ENABLE, False)
        self.scenario.write(records)
        self.scenario.settle()

    @property
    def cleaner(self) -> LogCleaner:
        return self.scenario.broker("b1").log_cleaner

    def set(self, name: str, value: OptionValue) -> None:
        self.scenario.broker("b1").options.values[name] = value

    def partition(self, topic: str) -> Partition:
        broker = self.scenario.broker("b1")
        found = broker.partitions.get(broker.state.topic(topic).partitions[0].group)
        assert found is not None
        return found

    def write_until(self, is_enough: Callable[[], bool]) -> None:
        """Have the producers go on for a while."""
        load = self.scenario.load
        for producer in load.producers:
            producer.is_stopped = False
            producer._next(0)
        self.loop.run_until(is_enough, 60_000)
        load.stop_producing()
        self.loop.run_until(lambda: load.is_acknowledged)

    def add_topic(self, name: str, records: int, **configs: str) -> TopicLoad:
        """Make another compacted topic, and write so much into it."""
        named = {key.replace("_", "."): value for key, value in configs.items()}
        spec = TopicSpec(
            name=name,
            replicas=1,
            configs={"cleanup.policy": "compact", **named},
            compacts=True,
        )
        scenario = self.scenario
        load = TopicLoad(scenario.env, scenario.cluster.addresses, spec, scenario.findings)
        self.loop.run_until(lambda: load.is_made)
        load.start()
        self.loop.run_until(lambda: len(load.observations.acknowledged) >= records)
        load.stop_producing()
        self.loop.run_until(lambda: load.is_acknowledged)
        return load


def test_nothing_is_compacted_where_that_is_switched_off() -> None:
    cleaning = Cleaning(1, 600)
    cleaning.loop.run_for(5_000)
    assert cleaning.cleaner.count == 0
    before = cleaning.partition(TOPIC).log.size_bytes
    cleaning.set(ENABLE, True)
    cleaning.loop.run_until(lambda: cleaning.cleaner.count > 0)
    cleaning.loop.run_for(1_000)
    assert cleaning.partition(TOPIC).log.size_bytes < before / 2


def test_a_run_begins_within_one_backoff_of_the_closing_of_a_segment() -> None:
    backoff_ms = 20_000
    cleaning = Cleaning(10, 10)
    cleaning.set("log.cleaner.backoff.ms", backoff_ms)
    cleaning.set(ENABLE, True)
    cleaning.loop.run_for(2 * backoff_ms + 5_000)
    log = cleaning.partition(TOPIC).log
    cleaning.write_until(lambda: log.segments.last_base > 0)
    assert cleaning.cleaner.count == 0
    cleaning.loop.run_until(lambda: cleaning.cleaner.is_running, backoff_ms + 1_000)


def test_each_backoff_brings_one_checkpoint_however_often_segments_are_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cleaning = Cleaning(11, 10)
    cleaning.set("log.cleaner.backoff.ms", 5_000)
    monkeypatch.setattr(LogCleaner, "_begin", lambda *_: False)
    store = cleaning.scenario.broker("b1").store
    request, asked = store.request_checkpoint, 0

    def count() -> None:
        nonlocal asked
        asked += 1
        request()

    monkeypatch.setattr(store, "request_checkpoint", count)
    log = cleaning.partition(TOPIC).log
    cleaning.set(ENABLE, True)
    begun_ns, closed = cleaning.loop.now_ns, len(log.segments.segments)
    cleaning.write_until(lambda: cleaning.loop.now_ns - begun_ns > 30_000_000_000)
    assert len(log.segments.segments) > closed + 10
    assert 3 <= asked <= 30 // 5 + 1


def test_a_run_that_is_under_way_ends_when_compaction_is_switched_off() -> None:
    cleaning = Cleaning(2, 300)
    cleaning.set(RATE, 10_000.0)
    cleaning.set(ENABLE, True)
    cleaning.loop.run_until(lambda: cleaning.cleaner.is_running)
    cleaning.set(ENABLE, False)
    cleaning.loop.run_until(lambda: not cleaning.cleaner.is_running)
    cleaning.loop.run_for(5_000)
    assert cleaning.cleaner.count == 0
    disk = cleaning.scenario.broker("b1").env.disk
    directory = cleaning.partition(TOPIC).log.identity.directory
    assert not [name for name in disk.list_dir(directory) if name.endswith(".cleaned")]


def test_a_run_that_waits_for_long_ends_when_it_is_void() -> None:
    cleaning = Cleaning(8, 300)
    cleaning.set(RATE, 1.0)
    cleaning.set(ENABLE, True)
    cleaning.loop.run_until(lambda: cleaning.cleaner.is_running)
    cleaning.loop.run_for(5_000)
    assert cleaning.cleaner.is_running, "the next step is due in an hour"
    cleaning.set(ENABLE, False)
    cleaning.loop.run_until(lambda: not cleaning.cleaner.is_running, 3_000)
    cleaning.loop.run_for(5_000)
    assert cleaning.cleaner.count == 0


def test_a_run_that_waits_for_long_goes_on_when_it_may_be_faster() -> None:
    cleaning = Cleaning(9, 300)
    cleaning.set(RATE, 1.0)
    cleaning.set(ENABLE, True)
    cleaning.loop.run_until(lambda: cleaning.cleaner.is_running)
    cleaning.loop.run_for(5_000)
    cleaning.set(RATE, 1e9)
    cleaning.loop.run_until(lambda: cleaning.cleaner.count > 0, 3_000)


def test_compaction_reads_and_writes_no_more_per_second_than_it_may() -> None:
    cleaning = Cleaning(3, 600)
    log = cleaning.partition(TOPIC).log
    cleaning.set(RATE, 20_000.0)
    cleaning.set(ENABLE, True)
    cleaning.loop.run_until(lambda: cleaning.cleaner.is_running)
    before, begun_ns = log.size_bytes, cleaning.loop.now_ns
    cleaning.loop.run_until(lambda: not cleaning.cleaner.is_running)
    seconds = (cleaning.loop.now_ns - begun_ns) / 1e9
    closed = before - log.segments.segments[-1].size
    # All of it is read twice, and something is written.
    assert 2 * closed / 20_000 * 0.9 <= seconds <= 3 * closed / 20_000 + 0.5


def test_a_log_that_is_dirtier_again_and_again_does_not_keep_others_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cleaning = Cleaning(4, 400)
    calm = cleaning.add_topic("calm", 400)
    cleaning.set(ENABLE, True)
    cleaning.loop.run_until(
        lambda: cleaning.partition("calm").log.clean_state.end_offset > 0, 20_000
    )
    cleaning.set(ENABLE, False)
    cleaning.loop.run_until(lambda: not cleaning.cleaner.is_running)
    for load in (cleaning.scenario.load, calm):
        for producer in load.producers:
            producer.is_stopped = False
            producer._next(0)
    busy = cleaning.scenario.load.observations.acknowledged
    wanted = len(busy) + 800
    cleaning.loop.run_until(lambda: len(calm.observations.acknowledged) > 500)
    calm.stop_producing()
    cleaning.loop.run_until(lambda: len(busy) > wanted)
    cleaning.scenario.load.stop_producing()
    cleaning.scenario.broker("b1").store.request_checkpoint()
    cleaning.loop.run_for(1_000)

    begun: list[str] = []

    def begin(_: LogCleaner, partition: Partition, __: object) -> bool:
        # As if it were as dirty again by the end of its run.
        begun.append(partition.state.topic)
        return True

    monkeypatch.setattr(LogCleaner, "_begin", begin)

    def look(times: int) -> list[str]:
        begun.clear()
        for _ in range(times):
            cleaning.cleaner._look(cleaning.scenario.broker("b1").env.clock.now_ms(), may_ask=True)
        return list(begun)

    found = look(20)
    assert found[0] == TOPIC, "the dirtiest is the first"
    assert 2 <= found.count("calm") <= 10
    monkeypatch.setattr(log_cleaner, "PASSED_OVER_RATIO", 0.0)
    assert "calm" not in look(20)[1:], "it is this that lets it come to its turn"


def test_a_damaged_log_is_put_aside_and_the_others_are_compacted() -> None:
    cleaning = Cleaning(5, 300)
    cleaning.add_topic("other", 200)
    cleaning.scenario.damage("b1", batch=2, byte=80)
    cleaning.set(ENABLE, True)
    cleaning.loop.run_until(lambda: bool(cleaning.scenario.told("was not compacted")), 20_000)
    cleaning.loop.run_until(
        lambda: cleaning.partition("other").log.clean_state.end_offset > 0, 20_000
    )
    cleaning.loop.run_for(30_000)
    assert len(cleaning.scenario.told("was not compacted")) == 1, "not again and again"
    assert cleaning.partition(TOPIC).log.clean_state.end_offset == 0


def test_no_run_begins_without_space_and_one_is_dropped() -> None:
    cleaning = Cleaning(6, 300)
    drive = cleaning.scenario.world.machines["b1"].drive
    drive.faults.capacity_bytes = drive.used_bytes() + 1024 * 1024
    cleaning.set(ENABLE, True)
    cleaning.loop.run_for(5_000)
    assert cleaning.cleaner.count == 0
    drive.faults.capacity_bytes = None
    cleaning.set(RATE, 10_000.0)
    cleaning.loop.run_until(lambda: cleaning.cleaner.is_running)
    drive.faults.capacity_bytes = drive.used_bytes() + 1024 * 1024
    cleaning.loop.run_until(lambda: not cleaning.cleaner.is_running)
    assert cleaning.cleaner.count == 0
    assert cleaning.scenario.told("was not compacted, trying again in 1 min")
    drive.faults.capacity_bytes = None
    cleaning.loop.run_until(lambda: cleaning.cleaner.count > 0, 90_000)


def test_a_topic_can_be_deleted_while_it_is_compacted() -> None:
    cleaning = Cleaning(7, 50)
    other = cleaning.add_topic("other", 400)
    cleaning.set(RATE, 20_000.0)
    cleaning.set(ENABLE, True)
    cleaning.loop.run_until(
        lambda: cleaning.partition("other").log.is_replacing or cleaning.cleaner.count > 2
    )
    other.stop()
    other.delete()
    cleaning.loop.run_until(lambda: other.is_deleted)
    cleaning.loop.run_until(lambda: not cleaning.cleaner.is_running)
    cleaning.scenario.write(300)
    cleaning.set(RATE, 1e9)
    before = cleaning.cleaner.count
    cleaning.loop.run_until(lambda: cleaning.cleaner.count > before)
    table = read_table(cleaning.partition(TOPIC))
    cleaning.scenario.load.observations.check_table("b1", 0, table)
    assert cleaning.scenario.findings.anomalies == []
