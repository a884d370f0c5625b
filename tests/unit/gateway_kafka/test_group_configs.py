"""Options of groups by the config APIs, asked of real brokers: shown, changed, and honoured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkaesque.broker.options.groups import GROUP_OPTIONS
from kafkaesque.gateway.kafka.configs import GROUPS_DESCRIBED_MAX
from kafkaesque.model.options import OptionValue
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages import alter_configs_request as replacing
from kafkaesque.protocols.kafka.messages.alter_configs_request import AlterConfigsRequest
from kafkaesque.protocols.kafka.messages.consumer_group_describe_request import (
    ConsumerGroupDescribeRequest,
)
from kafkaesque.protocols.kafka.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
)
from kafkaesque.protocols.kafka.messages.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kafkaesque.protocols.kafka.messages.list_config_resources_request import (
    ListConfigResourcesRequest,
)
from tests.unit.gateway_kafka.live import LiveCluster, versions_of
from tests.unit.gateway_kafka.test_configs import DELETE, GROUP, SET, change, describe, value_of

FROM_GROUP, FROM_NOWHERE, FROM_FILE = 8, 5, 4
SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"
CLIENT_METRICS, BROKER_LOGGER, TOPIC, BROKER = 16, 8, 2, 4

#: So that a member that is silent is missed within the test.
HASTY: dict[str, OptionValue] = {
    "offsets.topic.num.partitions": 1,
    "group.consumer.min.session.timeout.ms": 100,
    "group.consumer.min.heartbeat.interval.ms": 10,
}


@pytest.fixture
def hasty(tmp_path: Path) -> Iterator[LiveCluster]:
    """One broker that lets groups have short session timeouts."""
    cluster = LiveCluster(tmp_path, options=HASTY)
    yield cluster
    cluster.close()


def replace(live: LiveCluster, group: str, **values: str) -> Any:
    """Replaces all options of a group, as AlterConfigs does."""
    configs = [replacing.AlterableConfig(name, value) for name, value in values.items()]
    resource = replacing.AlterConfigsResource(GROUP, group, configs)
    (result,) = live.ask(AlterConfigsRequest([resource])).responses
    return result


def resources(live: LiveCluster, *types: int, version: int | None = None) -> list[tuple[int, str]]:
    """Returns what ListConfigResources lists."""
    answer = live.ask(ListConfigResourcesRequest(types), version)
    assert answer.error_code == 0
    return [(each.resource_type, each.resource_name) for each in answer.config_resources]


# -- shown


@pytest.mark.parametrize("version", versions_of(ApiKey.DESCRIBE_CONFIGS))
def test_all_options_of_a_group_are_shown_whether_it_exists_or_not(
    live: LiveCluster, version: int
) -> None:
    result = describe(live, GROUP, "g", version=version, synonyms=True, documentation=True)
    assert (result.error_code, result.resource_type, result.resource_name) == (0, GROUP, "g")
    assert [config.name for config in result.configs] == GROUP_OPTIONS.names()
    shown = {config.name: config for config in result.configs}
    assert (shown[SESSION].value, shown[SESSION].config_source) == ("45000", FROM_NOWHERE)
    assert [tuple(getattr(s, part) for part in s.__slots__) for s in shown[SESSION].synonyms] == [
        ("group.consumer.session.timeout.ms", "45000", FROM_NOWHERE)
    ]
    assert shown["share.auto.offset.reset"].value == "latest"
    assert not any(config.read_only for config in result.configs)


def test_a_group_without_a_name_has_no_options(live: LiveCluster) -> None:
    assert describe(live, GROUP, "").error_code == ErrorCode.INVALID_REQUEST
    changed = change(live, GROUP, "", (SESSION, SET, "50000"))
    assert changed.error_code == ErrorCode.INVALID_REQUEST


def test_groups_that_are_only_names_do_not_make_the_answer_endless(live: LiveCluster) -> None:
    count = GROUPS_DESCRIBED_MAX + 1
    resources = [DescribeConfigsResource(GROUP, f"g{n}", None) for n in range(count)]
    resources.append(DescribeConfigsResource(BROKER, "1", None))
    results = live.ask(DescribeConfigsRequest(resources)).results
    codes = {each.resource_name: each.error_code for each in results}
    assert codes.pop(f"g{count - 1}") == ErrorCode.INVALID_REQUEST
    assert len(codes) == count
    assert set(codes.values()) == {ErrorCode.NONE}


# -- changed


@pytest.mark.parametrize("version", versions_of(ApiKey.INCREMENTAL_ALTER_CONFIGS))
def test_options_of_a_group_are_changed_and_taken_back(live: LiveCluster, version: int) -> None:
    changed = change(
        live, GROUP, "g", (SESSION, SET, "50000"), (HEARTBEAT, SET, "6000"), version=version
    )
    assert (changed.error_code, changed.error_message) == (0, None)
    (shown,) = describe(live, GROUP, "g", SESSION, synonyms=True).configs
    assert [(s.name, s.value, s.source) for s in shown.synonyms] == [
        (SESSION, "50000", FROM_GROUP),
        ("group.consumer.session.timeout.ms", "45000", FROM_NOWHERE),
    ]
    assert value_of(live, GROUP, "other", SESSION) == ("45000", FROM_NOWHERE)
    assert change(live, GROUP, "g", (SESSION, DELETE, None), version=version).error_code == 0
    assert value_of(live, GROUP, "g", SESSION) == ("45000", FROM_NOWHERE)
    assert value_of(live, GROUP, "g", HEARTBEAT) == ("6000", FROM_GROUP)


def test_a_change_that_is_only_to_be_checked_changes_nothing(live: LiveCluster) -> None:
    changed = change(live, GROUP, "g", (SESSION, SET, "50000"), validate_only=True)
    assert changed.error_code == 0
    assert value_of(live, GROUP, "g", SESSION) == ("45000", FROM_NOWHERE)


def test_alter_configs_replaces_all_options_of_a_group(live: LiveCluster) -> None:
    assert change(live, GROUP, "g", (SESSION, SET, "50000")).error_code == 0
    assert replace(live, "g", **{HEARTBEAT: "6000"}).error_code == 0
    assert value_of(live, GROUP, "g", SESSION) == ("45000", FROM_NOWHERE)
    assert value_of(live, GROUP, "g", HEARTBEAT) == ("6000", FROM_GROUP)
    assert replace(live, "g").error_code == 0
    assert live.broker.state.group_configs == {}


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        (SESSION, "44999", ErrorCode.INVALID_CONFIG),
        (SESSION, "60001", ErrorCode.INVALID_CONFIG),
        (SESSION, "soon", ErrorCode.INVALID_CONFIG),
        (SESSION, None, ErrorCode.INVALID_REQUEST),
        (HEARTBEAT, "4999", ErrorCode.INVALID_CONFIG),
        (HEARTBEAT, "15001", ErrorCode.INVALID_CONFIG),
        ("consumer.assignment.interval.ms", "15001", ErrorCode.INVALID_CONFIG),
        ("consumer.sesion.timeout.ms", "50000", ErrorCode.INVALID_CONFIG),
        ("share.session.timeout.ms", "44999", ErrorCode.INVALID_CONFIG),
        ("share.record.lock.duration.ms", "14999", ErrorCode.INVALID_CONFIG),
        ("share.record.lock.duration.ms", "60001", ErrorCode.INVALID_CONFIG),
        ("share.delivery.count.limit", "11", ErrorCode.INVALID_CONFIG),
        ("share.partition.max.record.locks", "99", ErrorCode.INVALID_CONFIG),
        ("share.partition.max.record.locks", "4001", ErrorCode.INVALID_CONFIG),
        ("share.auto.offset.reset", "EARLIEST", ErrorCode.INVALID_CONFIG),
        ("share.auto.offset.reset", "by_duration:1h", ErrorCode.INVALID_CONFIG),
        ("share.auto.offset.reset", "by_duration:P", ErrorCode.INVALID_CONFIG),
        ("share.isolation.level", "READ_COMMITTED", ErrorCode.INVALID_CONFIG),
        ("streams.num.standby.replicas", "3", ErrorCode.INVALID_CONFIG),
        ("streams.assignor.name", "mine", ErrorCode.INVALID_CONFIG),
        ("errors.deadletterqueue.topic.name", "__dlq", ErrorCode.INVALID_CONFIG),
        ("streams.rack.aware.assignment.tags", "x" * 1_001, ErrorCode.INVALID_CONFIG),
    ],
)
def test_what_kafka_refuses_is_refused(
    live: LiveCluster, name: str, value: str | None, code: ErrorCode
) -> None:
    assert change(live, GROUP, "g", (name, SET, value)).error_code == code
    assert live.broker.state.group_configs == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("share.auto.offset.reset", "by_duration:PT1H30M"),
        ("share.auto.offset.reset", "by_duration:P1DT0.5S"),
        ("share.auto.offset.reset", "earliest"),
        ("share.isolation.level", "read_committed"),
        ("share.renew.acknowledge.enable", "false"),
        ("share.delivery.count.limit", "10"),
        ("streams.num.standby.replicas", "2"),
        ("streams.rack.aware.assignment.tags", "zone,row"),
        ("errors.deadletterqueue.topic.name", "dead.letters"),
        ("consumer.assignment.interval.ms", "500"),
    ],
)
def test_what_kafka_takes_is_taken_kept_and_shown(live: LiveCluster, name: str, value: str) -> None:
    changed = change(live, GROUP, "g", (name, SET, value))
    assert (changed.error_code, changed.error_message) == (0, None)
    assert value_of(live, GROUP, "g", name) == (value, FROM_GROUP)


# -- honoured


def heartbeat(live: LiveCluster, group: str, epoch: int) -> Any:
    """Sends a heartbeat; joins where the epoch is 0."""
    joins = epoch == 0
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=f"m-{group}",
        member_epoch=epoch,
        rebalance_timeout_ms=60_000 if joins else -1,
        subscribed_topic_names=["flights"] if joins else None,
        topic_partitions=[] if joins else None,
    )
    return live.ask_until(request, lambda answer: answer.error_code == 0)


def members(live: LiveCluster, group: str) -> int:
    (found,) = live.ask(ConsumerGroupDescribeRequest([group])).groups
    assert found.error_code == 0, found
    return len(found.members)


def test_a_group_that_exists_and_one_to_come_go_by_their_options(hasty: LiveCluster) -> None:
    hasty.create_topic("flights")
    there, other = heartbeat(hasty, "there", 0), heartbeat(hasty, "other", 0)
    assert there.heartbeat_interval_ms == other.heartbeat_interval_ms == 5000
    for group in ("there", "to-come"):
        changed = change(hasty, GROUP, group, (SESSION, SET, "150"), (HEARTBEAT, SET, "50"))
        assert changed.error_code == 0
    told = heartbeat(hasty, "there", there.member_epoch)
    assert told.heartbeat_interval_ms == 50
    assert heartbeat(hasty, "to-come", 0).heartbeat_interval_ms == 50
    for group in ("there", "to-come"):
        # The silent member is missed.
        hasty.ask_until(
            ConsumerGroupDescribeRequest([group]), lambda answer: not answer.groups[0].members
        )
    assert members(hasty, "other") == 1


def test_a_group_goes_by_the_brokers_options_again(hasty: LiveCluster) -> None:
    hasty.create_topic("flights")
    assert change(hasty, GROUP, "g", (HEARTBEAT, SET, "50")).error_code == 0
    joined = heartbeat(hasty, "g", 0)
    assert joined.heartbeat_interval_ms == 50
    assert change(hasty, GROUP, "g", (HEARTBEAT, DELETE, None)).error_code == 0
    assert heartbeat(hasty, "g", joined.member_epoch).heartbeat_interval_ms == 5000


@pytest.mark.parametrize("snapshot_records", [1, 10_000])
def test_options_are_there_and_hold_after_a_restart(tmp_path: Path, snapshot_records: int) -> None:
    for has_restarted in (False, True):
        cluster = LiveCluster(tmp_path, options=HASTY, snapshot_records=snapshot_records)
        try:
            if not has_restarted:
                cluster.create_topic("flights")
                assert change(cluster, GROUP, "g", (HEARTBEAT, SET, "50")).error_code == 0
                # With a snapshot of each record, this one is not in the log of the next start.
                assert change(cluster, BROKER, "", ("num.partitions", SET, "2")).error_code == 0
            assert value_of(cluster, GROUP, "g", HEARTBEAT) == ("50", FROM_GROUP)
            assert heartbeat(cluster, "g", 0).heartbeat_interval_ms == 50
        finally:
            cluster.close()


def test_the_bounds_are_the_brokers_own(hasty: LiveCluster) -> None:
    assert change(hasty, GROUP, "g", (SESSION, SET, "99")).error_code == ErrorCode.INVALID_CONFIG
    assert change(hasty, GROUP, "g", (HEARTBEAT, SET, "9")).error_code == ErrorCode.INVALID_CONFIG
    # Not above the interval of heartbeats, which is the broker's own here.
    refused = change(hasty, GROUP, "g", (SESSION, SET, "5000"))
    assert refused.error_code == ErrorCode.INVALID_CONFIG
    assert HEARTBEAT in refused.error_message


# -- listed


def test_resources_with_options_are_listed(live: LiveCluster) -> None:
    live.create_topic("flights")
    assert change(live, GROUP, "g", (SESSION, SET, "50000")).error_code == 0
    assert resources(live, GROUP) == [(GROUP, "g")]
    assert resources(live, TOPIC) == [(TOPIC, "flights")]
    assert resources(live, BROKER) == [(BROKER, "1")]
    assert resources(live, CLIENT_METRICS) == resources(live, BROKER_LOGGER) == []
    everything = [(GROUP, "g"), (BROKER, "1"), (TOPIC, "flights")]
    assert resources(live) == resources(live, TOPIC, BROKER, GROUP) == everything
    assert replace(live, "g").error_code == 0
    assert resources(live, GROUP) == []


def test_the_first_version_lists_client_metrics_alone(live: LiveCluster) -> None:
    assert change(live, GROUP, "g", (SESSION, SET, "50000")).error_code == 0
    assert resources(live, version=0) == []


def test_an_unknown_type_of_resource_is_refused(live: LiveCluster) -> None:
    answer = live.ask(ListConfigResourcesRequest([GROUP, 99]))
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert list(answer.config_resources) == []
