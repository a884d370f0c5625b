"""Options of topics, brokers and groups, read and changed over the network.

librdkafka wants a number for a broker, and asks nobody but the controller for a topic's options.
So what is set for all brokers at once, for a topic and for a group, is asked for in Kafka's own
messages: each broker knows it, also where there is no controller.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from kafkaesque.cli.alive_brokers import controller_first, read_alive
from kafkaesque.cli.config_target import Target
from kafkaesque.cli.exit_codes import FAILED, WRONG_USAGE
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.kafka import Connection, result_of
from kafkaesque.cli.kafka_request import ask
from kafkaesque.cli.missing_rules import Right, check_rule, on_cluster, on_group, on_topic
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kafkaesque.protocols.kafka.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

_TOPIC, _BROKER, _GROUP = 2, 4, 32
_SET, _DELETE = 0, 1
_DESCRIBE_VERSION = 4
_ALTER_VERSION = 1

#: Where a value is from, by Kafka's number.
_SOURCES = {1: "topic", 2: "broker", 3: "all brokers", 4: "file", 5: "default", 8: "group"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueRow:
    """One option in force."""

    option: str
    value: str | None
    source: str
    dynamic: bool


def read_values(bootstrap: str, target: Target) -> list[ValueRow]:
    """Return the options in force, by name; for all brokers only those that were set.

    Raises:
        CommandFailed: no broker answers, or what is asked for does not exist.
    """
    if target.broker is None:
        return _read_from_any(bootstrap, target)
    resource = _resource(target)
    admin = _admin(bootstrap, target)
    request = admin.describe_configs([resource])[resource]
    entries = result_of(request, str(target), _right(target, "describe-configs"))
    return [
        ValueRow(
            option=name,
            value=entry.value,
            source=_source(int(entry.source)),
            dynamic=not entry.is_read_only,
        )
        for name, entry in sorted(entries.items())
    ]


def change_values(bootstrap: str, target: Target, changes: Mapping[str, str | None]) -> None:
    """Set options; None takes a value back.

    Raises:
        CommandFailed: no broker answers, or it refuses.
    """
    if target.topic is None and target.broker is None:
        _change_by_any(bootstrap, target, changes)
        return
    entries = [
        ConfigEntry(
            name,
            value,
            incremental_operation=(
                AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
            ),
        )
        for name, value in changes.items()
    ]
    resource = _resource(target, entries)
    admin = _admin(bootstrap, target)
    request = admin.incremental_alter_configs([resource])[resource]
    result_of(request, str(target), _right(target, "alter-configs"))


def _admin(bootstrap: str, target: Target) -> AdminClient:
    """Return a client; librdkafka would look long for a broker that is not there.

    Raises:
        CommandFailed: no broker answers, or the one that is meant is not there.
    """
    connection = Connection(bootstrap)
    admin = connection.admin()
    if target.broker is not None:
        connection.metadata(admin)  # says it best if nobody answers
        there = sorted(read_alive(bootstrap))
        if target.broker not in there:
            raise CommandFailed(
                f"broker {target.broker} is not running; these are: {', '.join(map(str, there))}",
                hint="kafkaesque cluster status",
            )
    return admin


def _resource(target: Target, changes: list[ConfigEntry] | None = None) -> ConfigResource:
    if target.topic is not None:
        return ConfigResource(ResourceType.TOPIC, target.topic, incremental_configs=changes)
    return ConfigResource(ResourceType.BROKER, str(target.broker), incremental_configs=changes)


def _type_and_name(target: Target) -> tuple[int, str]:
    """Return what stands in Kafka's messages for a topic, a group or all brokers."""
    if target.topic is not None:
        return _TOPIC, target.topic
    return (_BROKER, "") if target.group is None else (_GROUP, target.group)


def _read_from_any(bootstrap: str, target: Target) -> list[ValueRow]:
    kind, name = _type_and_name(target)
    resource = DescribeConfigsResource(kind, name, None)
    request = DescribeConfigsRequest([resource], False, False)
    answer = ask(controller_first(bootstrap), ApiKey.DESCRIBE_CONFIGS, _DESCRIBE_VERSION, request)
    for result in answer.results:
        _check(bootstrap, target, "describe-configs", result.error_code, result.error_message)
    return [
        ValueRow(
            option=each.name,
            value=each.value,
            source=_source(each.config_source),
            dynamic=not each.read_only,
        )
        for result in answer.results
        for each in sorted(result.configs, key=lambda config: str(config.name))
    ]


def _change_by_any(bootstrap: str, target: Target, changes: Mapping[str, str | None]) -> None:
    kind, whose = _type_and_name(target)
    configs = [
        AlterableConfig(name, _DELETE if value is None else _SET, value)
        for name, value in changes.items()
    ]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(kind, whose, configs)])
    answer = ask(bootstrap, ApiKey.INCREMENTAL_ALTER_CONFIGS, _ALTER_VERSION, request)
    for result in answer.responses:
        _check(bootstrap, target, "alter-configs", result.error_code, result.error_message)


def _right(target: Target, operation: str) -> Right:
    """Return what is needed: options of a broker are the cluster's."""
    if target.topic is not None:
        return on_topic(operation, target.topic)
    return on_cluster(operation) if target.group is None else on_group(operation, target.group)


def _check(bootstrap: str, target: Target, operation: str, code: int, message: str | None) -> None:
    if code:
        check_rule(code, bootstrap, _right(target, operation))
        name = ErrorCode(code).name
        raise CommandFailed(
            f"{target}: {message or 'refused'} ({name})",
            exit_code=WRONG_USAGE if code == ErrorCode.INVALID_CONFIG else FAILED,
        )


def _source(number: int) -> str:
    return _SOURCES.get(number, f"source {number}")
