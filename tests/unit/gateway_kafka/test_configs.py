"""DescribeConfigs, IncrementalAlterConfigs and AlterConfigs, asked of real brokers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkaesque.broker.metadata.cluster_state import ALL_BROKERS
from kafkaesque.broker.options.tables import BROKER_OPTIONS, TOPIC_OPTIONS
from kafkaesque.model.ids import NodeId
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages import alter_configs_request as replacing
from kafkaesque.protocols.kafka.messages import incremental_alter_configs_request as changing
from kafkaesque.protocols.kafka.messages.alter_configs_request import AlterConfigsRequest
from kafkaesque.protocols.kafka.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kafkaesque.protocols.kafka.messages.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kafkaesque.protocols.kafka.messages.incremental_alter_configs_request import (
    IncrementalAlterConfigsRequest,
)
from tests.unit.gateway_kafka.live import LiveCluster, versions_of

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
FROM_TOPIC, FROM_BROKER, FROM_ALL_BROKERS, FROM_FILE, FROM_NOWHERE = range(1, 6)


@pytest.fixture
def tuned(tmp_path: Path) -> Iterator[LiveCluster]:
    """One broker whose file sets two options."""
    options = {"log.retention.ms": 5000, "num.partitions": 4}
    cluster = LiveCluster(tmp_path, options=options)
    yield cluster
    cluster.close()


def describe(
    live: LiveCluster,
    resource_type: int,
    name: str,
    *keys: str,
    version: int | None = None,
    synonyms: bool = False,
    documentation: bool = False,
) -> Any:
    """Returns the result for one resource."""
    resource = DescribeConfigsResource(resource_type, name, keys or None)
    request = DescribeConfigsRequest([resource], synonyms, documentation)
    (result,) = live.ask(request, version).results
    return result


def value_of(live: LiveCluster, resource_type: int, name: str, key: str) -> tuple[str | None, int]:
    """Returns an option's value and source."""
    (config,) = describe(live, resource_type, name, key).configs
    return config.value, config.config_source


def change(
    live: LiveCluster,
    resource_type: int,
    name: str,
    *changes: tuple[str, int, str | None],
    version: int | None = None,
    validate_only: bool = False,
) -> Any:
    """Changes options of one resource and returns the result."""
    configs = [changing.AlterableConfig(*one) for one in changes]
    resource = changing.AlterConfigsResource(resource_type, name, configs)
    request = IncrementalAlterConfigsRequest([resource], validate_only)
    (result,) = live.ask(request, version).responses
    return result


# -- DescribeConfigs


@pytest.mark.parametrize("version", versions_of(ApiKey.DESCRIBE_CONFIGS))
def test_all_options_of_a_topic_are_shown(live: LiveCluster, version: int) -> None:
    live.create_topic("orders", configs={"retention.ms": "1000"})
    result = describe(live, TOPIC, "orders", version=version, synonyms=True, documentation=True)
    assert (result.error_code, result.resource_type, result.resource_name) == (0, TOPIC, "orders")
    assert [config.name for config in result.configs] == TOPIC_OPTIONS.names()
    shown = {config.name: config for config in result.configs}
    retention = shown["retention.ms"]
    assert (retention.value, retention.config_source) == ("1000", FROM_TOPIC)
    assert [(s.name, s.value, s.source) for s in retention.synonyms] == [
        ("retention.ms", "1000", FROM_TOPIC),
        ("log.retention.hours", "168", FROM_NOWHERE),
    ]
    assert not retention.read_only
    assert not retention.is_sensitive
    assert shown["write.caching"].value == "false"
    if version >= 3:
        assert retention.config_type == TOPIC_OPTIONS.get("retention.ms").type.value == 5
        assert retention.documentation == TOPIC_OPTIONS.get("retention.ms").doc


def test_synonyms_and_documentation_are_told_only_if_asked_for(live: LiveCluster) -> None:
    live.create_topic("orders", configs={})
    for config in describe(live, TOPIC, "orders").configs:
        assert list(config.synonyms) == []
        assert config.documentation is None


def test_only_the_options_that_are_asked_for_are_shown(live: LiveCluster) -> None:
    live.create_topic("orders", configs={})
    result = describe(live, TOPIC, "orders", "retention.ms", "no.such.option")
    assert [config.name for config in result.configs] == ["retention.ms"]


def test_all_options_of_a_broker_are_shown(tuned: LiveCluster) -> None:
    result = describe(tuned, BROKER, "1")
    names = [config.name for config in result.configs]
    options = BROKER_OPTIONS.names()
    assert names[: len(options)] == options
    # The others are none: they stand in the file beside them.
    others = result.configs[len(options) :]
    assert others[-1].name == "admin.listener"
    assert all(config.read_only for config in others)
    assert value_of(tuned, BROKER, "1", "num.partitions") == ("4", FROM_FILE)
    assert value_of(tuned, BROKER, "1", "group.max.size") == ("10000", FROM_NOWHERE)


def test_a_value_comes_from_the_nearest_place_that_sets_it(tuned: LiveCluster) -> None:
    tuned.create_topic("orders", configs={})
    name, of_broker = "retention.ms", "log.retention.ms"
    assert value_of(tuned, TOPIC, "orders", name) == ("5000", FROM_FILE)
    change(tuned, BROKER, "", (of_broker, SET, "6000"))
    assert value_of(tuned, TOPIC, "orders", name) == ("6000", FROM_ALL_BROKERS)
    change(tuned, BROKER, "1", (of_broker, SET, "7000"))
    assert value_of(tuned, TOPIC, "orders", name) == ("7000", FROM_BROKER)
    change(tuned, TOPIC, "orders", (name, SET, "8000"))
    assert value_of(tuned, TOPIC, "orders", name) == ("8000", FROM_TOPIC)
    assert tuned.partition("orders").config.retention_ms == 8000
    (config,) = describe(tuned, TOPIC, "orders", name, synonyms=True).configs
    assert [(s.name, s.value, s.source) for s in config.synonyms] == [
        (name, "8000", FROM_TOPIC),
        (of_broker, "7000", FROM_BROKER),
        (of_broker, "6000", FROM_ALL_BROKERS),
        (of_broker, "5000", FROM_FILE),
        ("log.retention.hours", "168", FROM_NOWHERE),
    ]


def test_what_is_set_for_all_brokers_is_shown_by_itself(tuned: LiveCluster) -> None:
    assert list(describe(tuned, BROKER, "").configs) == []
    change(tuned, BROKER, "", ("max.connections.per.ip", SET, "7"))
    (config,) = describe(tuned, BROKER, "").configs
    assert (config.name, config.value, config.config_source) == (
        "max.connections.per.ip",
        "7",
        FROM_ALL_BROKERS,
    )
    assert tuned.broker.options.get("max.connections.per.ip") == 7


@pytest.mark.parametrize(
    ("resource_type", "name", "code"),
    [
        (TOPIC, "nothing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (BROKER, "-1", ErrorCode.INVALID_REQUEST),
        (CLIENT_METRICS, "readers", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_not_described(
    live: LiveCluster, resource_type: int, name: str, code: ErrorCode
) -> None:
    result = describe(live, resource_type, name)
    assert (result.error_code, result.resource_type, result.resource_name) == (
        code,
        resource_type,
        name,
    )
    assert result.error_message
    assert list(result.configs) == []


# -- IncrementalAlterConfigs


@pytest.mark.parametrize("version", versions_of(ApiKey.INCREMENTAL_ALTER_CONFIGS))
def test_options_are_changed_one_by_one(live: LiveCluster, version: int) -> None:
    live.create_topic("orders", configs={"segment.ms": "1000", "retention.ms": "1000"})
    changes = (("retention.ms", SET, "2000"), ("segment.ms", DELETE, None))
    result = change(live, TOPIC, "orders", *changes, version=version)
    assert (result.error_code, result.error_message) == (0, None)
    assert (result.resource_type, result.resource_name) == (TOPIC, "orders")
    assert live.broker.state.topic("orders").configs == {"retention.ms": "2000"}
    assert live.partition("orders").config.retention_ms == 2000


def test_a_list_is_added_to_and_taken_from(live: LiveCluster) -> None:
    live.create_topic("orders", configs={})
    policy = "cleanup.policy"
    assert change(live, TOPIC, "orders", (policy, APPEND, "compact")).error_code == 0
    assert value_of(live, TOPIC, "orders", policy) == ("delete,compact", FROM_TOPIC)
    assert change(live, TOPIC, "orders", (policy, SUBTRACT, "delete")).error_code == 0
    assert value_of(live, TOPIC, "orders", policy) == ("compact", FROM_TOPIC)


REFUSED_CHANGES = {
    "unknown option": (("no.such", SET, "1"), ErrorCode.INVALID_CONFIG, "no.such"),
    "out of range": (("retention.ms", SET, "-2"), ErrorCode.INVALID_CONFIG, "retention.ms"),
    "no number": (("retention.ms", SET, "long"), ErrorCode.INVALID_CONFIG, "retention.ms"),
    "no value": (("retention.ms", SET, None), ErrorCode.INVALID_REQUEST, "retention.ms"),
    "no list": (("retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG, "retention.ms"),
    "no such operation": (("retention.ms", 4, "1"), ErrorCode.INVALID_REQUEST, "4"),
}


@pytest.mark.parametrize(
    ("one", "code", "says"), REFUSED_CHANGES.values(), ids=REFUSED_CHANGES.keys()
)
def test_a_mistake_leaves_all_options_as_they_were(
    live: LiveCluster, one: tuple[str, int, str | None], code: ErrorCode, says: str
) -> None:
    live.create_topic("orders", configs={})
    for validate_only in (True, False):
        result = change(
            live, TOPIC, "orders", ("segment.ms", SET, "5"), one, validate_only=validate_only
        )
        assert result.error_code == code
        assert says in result.error_message
    assert live.broker.state.topic("orders").configs == {}


def test_validating_changes_nothing(live: LiveCluster) -> None:
    live.create_topic("orders", configs={})
    result = change(live, TOPIC, "orders", ("segment.ms", SET, "5"), validate_only=True)
    assert result.error_code == 0
    assert live.broker.state.topic("orders").configs == {}


@pytest.mark.parametrize(
    ("resource_type", "name", "code"),
    [
        (TOPIC, "nothing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "", ErrorCode.INVALID_REQUEST),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (CLIENT_METRICS, "readers", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_has_no_options_is_not_changed(
    live: LiveCluster, resource_type: int, name: str, code: ErrorCode
) -> None:
    result = change(live, resource_type, name, ("retention.ms", SET, "5"))
    assert result.error_code == code
    assert result.error_message


def test_an_option_that_stands_twice_is_refused(live: LiveCluster) -> None:
    live.create_topic("orders", configs={})
    twice = ("segment.ms", SET, "5")
    assert change(live, TOPIC, "orders", twice, twice).error_code == ErrorCode.INVALID_REQUEST


def test_each_resource_succeeds_or_fails_by_itself(live: LiveCluster) -> None:
    live.create_topic("orders", configs={})
    config = [changing.AlterableConfig("segment.ms", SET, "5")]
    resources = [
        changing.AlterConfigsResource(TOPIC, name, config)
        for name in ("nothing", "orders", "twice", "twice")
    ]
    answer = live.ask(IncrementalAlterConfigsRequest(resources))
    assert [result.error_code for result in answer.responses] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    ]


# -- AlterConfigs


def replace(
    live: LiveCluster,
    resource_type: int,
    name: str,
    version: int | None = None,
    **configs: str | None,
) -> Any:
    """Replaces all options of one resource; underscores stand for dots."""
    entries = [replacing.AlterableConfig(k.replace("_", "."), v) for k, v in configs.items()]
    resource = replacing.AlterConfigsResource(resource_type, name, entries)
    (result,) = live.ask(AlterConfigsRequest([resource]), version).responses
    return result


@pytest.mark.parametrize("version", versions_of(ApiKey.ALTER_CONFIGS))
def test_all_options_are_replaced(live: LiveCluster, version: int) -> None:
    live.create_topic("orders", configs={"segment.ms": "1000", "retention.ms": "1000"})
    result = replace(live, TOPIC, "orders", version, segment_ms="7")
    assert (result.error_code, result.resource_name) == (0, "orders")
    assert live.broker.state.topic("orders").configs == {"segment.ms": "7"}


def test_what_is_not_replaced(live: LiveCluster) -> None:
    live.create_topic("orders", configs={"segment.ms": "1000"})
    assert replace(live, TOPIC, "orders", segment_ms=None).error_code == ErrorCode.INVALID_REQUEST
    assert replace(live, TOPIC, "orders", no_such="1").error_code == ErrorCode.INVALID_CONFIG
    assert replace(live, CLIENT_METRICS, "readers").error_code == ErrorCode.INVALID_REQUEST
    assert live.broker.state.topic("orders").configs == {"segment.ms": "1000"}


# -- what there is not, and what cannot be changed


@pytest.mark.parametrize("name", [o.name for o in BROKER_OPTIONS if not o.dynamic])
@pytest.mark.parametrize("node", ["", "1"])
def test_what_is_read_at_the_start_only_is_shown_and_refused_as_that(
    live: LiveCluster, name: str, node: str
) -> None:
    (config,) = describe(live, BROKER, "1", name).configs
    assert config.read_only
    value = config.value or "1"
    result = change(live, BROKER, node, (name, SET, value))
    assert result.error_code == ErrorCode.INVALID_CONFIG
    assert f"option {name} can only be changed by restarting the broker" in result.error_message
    entries = [replacing.AlterableConfig(name, value)]
    resource = replacing.AlterConfigsResource(BROKER, node, entries)
    (result,) = live.ask(AlterConfigsRequest([resource])).responses
    assert result.error_code == ErrorCode.INVALID_CONFIG
    key = NodeId(int(node)) if node else ALL_BROKERS
    assert name not in live.broker.state.broker_configs.get(key, {})


@pytest.mark.parametrize(
    ("resource_type", "name"),
    [
        (TOPIC, "message.format.version"),
        (BROKER, "sasl.enabled.mechanisms"),
        (BROKER, "zookeeper.session.timeout.ms"),
        (BROKER, "listeners"),
    ],
)
def test_kafkas_own_options_that_are_not_here_are_refused_with_the_reason(
    live: LiveCluster, resource_type: int, name: str
) -> None:
    live.create_topic("orders")
    resource = "orders" if resource_type == TOPIC else "1"
    result = change(live, resource_type, resource, (name, SET, "1"))
    assert result.error_code == ErrorCode.INVALID_CONFIG
    said = f"{name} is an option of Apache Kafka that Kafkaesque does not have: "
    assert result.error_message.startswith(said)
    assert len(result.error_message) > len(said)


def test_a_topic_is_not_created_with_an_option_that_is_not_here(live: LiveCluster) -> None:
    for name, said in (
        ("message.format.version", "does not have"),
        ("retention.msec", "did you mean"),
    ):
        topic = CreatableTopic("orders", 1, 1, configs=[CreatableTopicConfig(name, "1")])
        (result,) = live.ask(CreateTopicsRequest([topic])).topics
        assert result.error_code == ErrorCode.INVALID_CONFIG
        assert said in result.error_message
    assert "orders" not in live.broker.state.topics


def test_a_stored_value_that_is_no_longer_allowed_does_not_hold_and_is_told(
    live: LiveCluster,
) -> None:
    live.create_topic("orders", configs={})
    broker, rate = live.broker, "log.cleaner.io.max.bytes.per.second"
    broker.controller.state.broker_configs[NodeId(1)] = {rate: "nan", "num.partitions": "3"}
    broker.state.topics["orders"].configs.update({"min.cleanable.dirty.ratio": "nan"})
    broker.metadata_follower.on_snapshot_loaded(broker.state)
    assert broker.options.get(rate) == BROKER_OPTIONS.get(rate).default
    assert value_of(live, BROKER, "1", rate)[1] == FROM_NOWHERE
    assert value_of(live, BROKER, "1", "num.partitions") == ("3", FROM_BROKER)
    assert value_of(live, TOPIC, "orders", "min.cleanable.dirty.ratio") == ("0.5", FROM_NOWHERE)
    for said in (f"is not applied: {rate} = 'nan'", "topic orders is not applied: min.cleanable"):
        assert [line for line in live.reports if said in line]


@pytest.mark.parametrize("node", ["", "1"])
def test_a_rate_that_is_not_a_number_is_refused(live: LiveCluster, node: str) -> None:
    name = "log.cleaner.io.max.bytes.per.second"
    result = change(live, BROKER, node, (name, SET, "nan"))
    assert result.error_code == ErrorCode.INVALID_CONFIG
    assert "a number from 1 to ∞" in result.error_message
