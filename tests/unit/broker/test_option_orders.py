"""Options that contradict one another: refused at the start, and of no force where stored."""

import pytest

from kafkaesque.broker.config import BrokerConfig
from kafkaesque.broker.metadata.cluster_state import ALL_BROKERS
from kafkaesque.broker.metadata.dynamic_options import resolve_options
from kafkaesque.broker.options.tables import BROKER_OPTIONS
from kafkaesque.env.network import Address
from kafkaesque.model.errors import ConfigError
from kafkaesque.model.ids import NodeId
from kafkaesque.model.options import OptionValue

ONE, TWO = NodeId(1), NodeId(2)
LAG = "log.cleaner.{}.compaction.lag.ms"


def configure(options: dict[str, OptionValue]) -> BrokerConfig:
    here = Address("127.0.0.1", 9190)
    return BrokerConfig(node=ONE, cluster_id="c", controllers={ONE: here}, options=options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"group.min.session.timeout.ms": 9000, "group.max.session.timeout.ms": 8000},
            "group.min.session.timeout.ms = 9000 is above group.max.session.timeout.ms = 8000",
        ),
        (
            {"group.min.session.timeout.ms": 1_800_001},
            "group.min.session.timeout.ms = 1800001 is above group.max.session.timeout.ms"
            " = 1800000",
        ),
        (
            {"group.consumer.session.timeout.ms": 9000},
            "group.consumer.min.session.timeout.ms = 45000 is above"
            " group.consumer.session.timeout.ms = 9000",
        ),
        (
            {"group.consumer.session.timeout.ms": 60_001},
            "group.consumer.session.timeout.ms = 60001 is above"
            " group.consumer.max.session.timeout.ms = 60000",
        ),
        (
            {"group.consumer.min.session.timeout.ms": 60_001},
            "group.consumer.min.session.timeout.ms = 60001 is above"
            " group.consumer.max.session.timeout.ms = 60000",
        ),
        (
            {"group.consumer.heartbeat.interval.ms": 4999},
            "group.consumer.min.heartbeat.interval.ms = 5000 is above"
            " group.consumer.heartbeat.interval.ms = 4999",
        ),
        (
            {"group.consumer.max.heartbeat.interval.ms": 4999},
            "group.consumer.min.heartbeat.interval.ms = 5000 is above"
            " group.consumer.max.heartbeat.interval.ms = 4999",
        ),
        (
            {
                "group.consumer.min.session.timeout.ms": 5000,
                "group.consumer.session.timeout.ms": 5000,
            },
            "group.consumer.heartbeat.interval.ms = 5000 is not below"
            " group.consumer.session.timeout.ms = 5000",
        ),
        (
            {LAG.format("min"): 9, LAG.format("max"): 8},
            f"{LAG.format('min')} = 9 is above {LAG.format('max')} = 8",
        ),
    ],
)
def test_a_broker_does_not_start_with_options_that_contradict_one_another(
    options: dict[str, OptionValue], said: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        configure(options)
    assert str(refused.value) == said


def test_options_at_their_bounds_are_let_through() -> None:
    configure({"group.min.session.timeout.ms": 8000, "group.max.session.timeout.ms": 8000})
    configure({"group.consumer.session.timeout.ms": 60_000, LAG.format("max"): 1})


def test_what_was_set_at_work_and_contradicts_does_not_hold() -> None:
    static = {**BROKER_OPTIONS.defaults(), LAG.format("max"): 100}
    configs = {
        ALL_BROKERS: {LAG.format("min"): "99", "num.partitions": "3"},
        ONE: {LAG.format("max"): "98"},
        TWO: {LAG.format("max"): "99"},
    }
    found = resolve_options(static, configs, ONE)
    assert found.refused == (f"{LAG.format('min')} = 99 is above {LAG.format('max')} = 98",)
    assert found.values == {**static, "num.partitions": 3}
    assert found.dynamic == {ALL_BROKERS: {"num.partitions": 3}, ONE: {}}
    other = resolve_options(static, configs, TWO)
    assert other.refused == ()
    assert (other.values[LAG.format("min")], other.values[LAG.format("max")]) == (99, 99)


def test_one_contradiction_may_come_from_taking_back_what_made_another() -> None:
    name = "group.consumer.{}session.timeout.ms"
    configs = {ONE: {name.format("min."): "50000", name.format(""): "70000",
                     name.format("max."): "55000"}}  # fmt: skip
    found = resolve_options(BROKER_OPTIONS.defaults(), configs, ONE)
    assert len(found.refused) == 2
    BROKER_OPTIONS.check_orders(found.values.__getitem__)
