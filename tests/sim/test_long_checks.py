"""Clusters under faults whose brokers check every batch of a producer off the loop."""

from dataclasses import replace

import pytest

from kafkaesque.broker.config import BrokerConfig
from kafkaesque.broker.metadata.topic_names import INTERNAL_TOPICS
from kafkaesque.broker.options.topic_config import TopicConfig
from kafkaesque.broker.partitions import partition
from kafkaesque.broker.partitions.batch_checks import Checked, LongCheck, Records, check_produced
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.model.batch import BatchHeader
from kafkaesque.sim.cluster import SimCluster
from kafkaesque.sim.runner import SimOptions, run_seed
from tests.sim.seeds import some_of

SEEDS = range(2_000, 2_006)


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[LongCheck]:
    """Make every batch of a client one that takes long; return all checks."""
    made: list[LongCheck] = []

    def check(
        owner: Partition, records: Records, config: TopicConfig, earliest_ms: int | None
    ) -> BatchHeader | LongCheck:
        header = check_produced(owner, records, config, earliest_ms)
        # What a broker itself writes is never compressed.
        if owner.state.topic in INTERNAL_TOPICS or isinstance(header, LongCheck):
            return header
        made.append(LongCheck(owner, records, header, config))
        return made[-1]

    monkeypatch.setattr(partition, "check_produced", check)
    return made


@pytest.mark.timeout(300)
def test_order_and_acknowledgements_hold_when_batches_wait_for_their_checks(
    checks: list[LongCheck],
) -> None:
    for seed in some_of(SEEDS):
        report = run_seed(seed)
        assert report.ok, (seed, report.anomalies, report.lines[-40:])
        assert report.acknowledged > 100
        assert report.faults > 0
    assert len(checks) > 500


def test_a_seed_is_the_same_every_time(checks: list[LongCheck]) -> None:
    options = SimOptions(duration_ms=4_000)
    first, second = (run_seed(SEEDS[0], options).digest for _ in range(2))
    assert first == second
    assert checks


@pytest.mark.extended
@pytest.mark.timeout(300)
@pytest.mark.parametrize("codec", ["zstd", "uncompressed"])
def test_all_holds_where_brokers_compress_anew(monkeypatch: pytest.MonkeyPatch, codec: str) -> None:
    configure = SimCluster._config
    made: list[Checked] = []
    work = LongCheck.work

    def compressing(cluster: SimCluster, name: str) -> BrokerConfig:
        config = configure(cluster, name)
        return replace(config, options={**config.options, "compression.type": codec})

    def noting(check: LongCheck) -> Checked:
        made.append(work(check))
        return made[-1]

    monkeypatch.setattr(SimCluster, "_config", compressing)
    monkeypatch.setattr(LongCheck, "work", noting)
    options = SimOptions(activities=("transactions", "compaction"), in_flight=5)
    for seed in some_of(range(2_100, 2_103)):
        report = run_seed(seed, options)
        assert report.ok, (seed, report.anomalies, report.lines[-40:])
        assert report.acknowledged > 100
    assert any(each.records is not None for each in made) or codec == "uncompressed"
