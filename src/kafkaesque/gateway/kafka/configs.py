"""DescribeConfigs, IncrementalAlterConfigs, AlterConfigs: options of topics, brokers and groups."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import partial
from typing import Protocol

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.metadata.cluster_state import ALL_BROKERS
from kafkaesque.broker.metadata.topic_names import check_topic_name
from kafkaesque.broker.metadata.topic_views import readable
from kafkaesque.broker.options.groups import check_group_name
from kafkaesque.broker.requests.commands import (
    ChangeConfig,
    ChangeGroupConfig,
    ConfigChange,
    ControllerResult,
)
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.config_entries import (
    ConfigEntry,
    broker_default_entries,
    broker_entries,
    group_entries,
    topic_entries,
)
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.errors import code_of, message_of
from kafkaesque.gateway.kafka.gathering import Queue
from kafkaesque.gateway.kafka.topic_admin import Piece, command_piece
from kafkaesque.model.errors import InvalidRequest, RequestRefused
from kafkaesque.model.ids import NodeId, write_node
from kafkaesque.protocols.kafka.messages.alter_configs_request import AlterConfigsRequest
from kafkaesque.protocols.kafka.messages.alter_configs_response import (
    AlterConfigsResourceResponse as ReplaceResult,
)
from kafkaesque.protocols.kafka.messages.alter_configs_response import AlterConfigsResponse
from kafkaesque.protocols.kafka.messages.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kafkaesque.protocols.kafka.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kafkaesque.protocols.kafka.messages.incremental_alter_configs_request import (
    AlterableConfig,
    IncrementalAlterConfigsRequest,
)
from kafkaesque.protocols.kafka.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse as ChangeResult,
)
from kafkaesque.protocols.kafka.messages.incremental_alter_configs_response import (
    IncrementalAlterConfigsResponse,
)

#: Each broker in one way only: what asks for one has no end of other names for it.
_BROKER_ID = re.compile(r"0|[1-9][0-9]{0,9}")

#: The requests themselves say no time; clients wait this long by default.
ALTER_TIMEOUT_MS = 30_000
#: Groups that one request may describe: whatever they are called, each has options.
GROUPS_DESCRIBED_MAX = 1_000


class ResourceType(IntEnum):
    """What options may belong to, of what we have; the numbers are Kafka's."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


_Command = ChangeConfig | ChangeGroupConfig

#: By their numbers in requests.
_OPERATIONS = ("set", "delete", "append", "subtract")


class _Resource(Protocol):
    """What all three requests say of a resource."""

    @property
    def resource_type(self) -> int: ...
    @property
    def resource_name(self) -> str: ...


def _unsupported(resource: _Resource) -> InvalidRequest:
    return InvalidRequest(
        f"resources of type {resource.resource_type} have no options here: "
        "topics (2), brokers (4) and groups (32) have"
    )


def _node_of(resource: _Resource) -> NodeId:
    """Return the broker that a resource names; an empty name stands for all.

    Raises:
        InvalidRequest: the name is no broker id.
    """
    if not resource.resource_name:
        return ALL_BROKERS
    if not _BROKER_ID.fullmatch(resource.resource_name):
        raise InvalidRequest(f"{resource.resource_name!r} is no broker id")
    return NodeId(int(resource.resource_name))


# -- DescribeConfigs


def on_describe_configs(context: Context, call: Call) -> None:
    """Say which options are in force and where their values are from."""
    request: DescribeConfigsRequest = call.read()
    doors = context.doors
    results: list[DescribeConfigsResult] = []

    def piece(resource: DescribeConfigsResource) -> Piece:
        def run(on_done: Callable[[], None]) -> None:
            results.append(_described(doors, resource, request))
            on_done()

        return run

    # Once for each resource, however often it is named: answers are far longer than requests.
    wanted = {(each.resource_type, each.resource_name): each for each in request.resources}
    groups = [key for key in wanted if key[0] == ResourceType.GROUP]
    results.extend(_too_many(wanted.pop(key)) for key in groups[GROUPS_DESCRIBED_MAX:])
    pieces = [piece(resource) for resource in wanted.values()]
    Queue(
        doors.clock, pieces, lambda: call.answer(DescribeConfigsResponse(results=results))
    ).start()


def _too_many(resource: DescribeConfigsResource) -> DescribeConfigsResult:
    refusal = InvalidRequest(f"a request describes at most {GROUPS_DESCRIBED_MAX} groups")
    return DescribeConfigsResult(
        error_code=code_of(refusal),
        error_message=message_of(refusal),
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _described(
    doors: Doors, resource: DescribeConfigsResource, request: DescribeConfigsRequest
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
    try:
        entries = _entries(doors, resource)
    except RequestRefused as refusal:
        result.error_code, result.error_message = code_of(refusal), message_of(refusal)
    else:
        result.configs = [_write(entry, request) for entry in _filtered(entries, resource)]
    return result


def _entries(doors: Doors, resource: DescribeConfigsResource) -> list[ConfigEntry]:
    if resource.resource_type == ResourceType.TOPIC:
        check_topic_name(resource.resource_name)
        return topic_entries(doors, readable(doors.cluster.state, resource.resource_name).configs)
    if resource.resource_type == ResourceType.GROUP:
        check_group_name(resource.resource_name)
        return group_entries(
            doors, doors.cluster.state.group_configs.get(resource.resource_name, {})
        )
    if resource.resource_type != ResourceType.BROKER:
        raise _unsupported(resource)
    node = _node_of(resource)
    if node == ALL_BROKERS:
        return broker_default_entries(doors)
    if node != doors.cluster.node:
        # Only a broker itself knows what its configuration file says.
        raise InvalidRequest(
            f"this is broker {doors.cluster.node}: ask broker {node} for its options"
        )
    return broker_entries(doors)


def _filtered(
    entries: Sequence[ConfigEntry], resource: DescribeConfigsResource
) -> list[ConfigEntry]:
    keys = resource.configuration_keys
    return [entry for entry in entries if not keys or entry.name in keys]


def _write(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        synonyms=[DescribeConfigsSynonym(name, value, source) for name, value, source in synonyms],
        config_type=entry.option.type.value,
        documentation=entry.option.meaning if request.include_documentation else None,
    )


# -- IncrementalAlterConfigs and AlterConfigs


def on_incremental_alter_configs(context: Context, call: Call) -> None:
    """Change some options of resources; each succeeds or fails by itself, as a whole."""
    request: IncrementalAlterConfigsRequest = call.read()
    results = [
        ChangeResult(0, None, resource.resource_type, resource.resource_name)
        for resource in request.resources
    ]

    def command_of(place: int) -> _Command:
        resource = request.resources[place]
        changes = [_change(config) for config in resource.configs]
        return _command(resource, changes, replace_all=False, validate_only=request.validate_only)

    _alter(
        context.doors,
        call,
        results,
        command_of,
        lambda: call.answer(IncrementalAlterConfigsResponse(responses=results)),
    )


def on_alter_configs(context: Context, call: Call) -> None:
    """Replace all options of resources; those that are not named go back to their defaults."""
    request: AlterConfigsRequest = call.read()
    results = [
        ReplaceResult(0, None, resource.resource_type, resource.resource_name)
        for resource in request.resources
    ]

    def command_of(place: int) -> _Command:
        resource = request.resources[place]
        changes = [_checked_change(config.name, config.value, "set") for config in resource.configs]
        return _command(resource, changes, replace_all=True, validate_only=request.validate_only)

    _alter(
        context.doors,
        call,
        results,
        command_of,
        lambda: call.answer(AlterConfigsResponse(responses=results)),
    )


def _change(config: AlterableConfig) -> ConfigChange:
    if not 0 <= config.config_operation < len(_OPERATIONS):
        raise InvalidRequest(f"there is no operation {config.config_operation}")
    return _checked_change(config.name, config.value, _OPERATIONS[config.config_operation])


def _checked_change(name: str, value: str | None, operation: str) -> ConfigChange:
    if value is None and operation != "delete":
        raise InvalidRequest(f"option {name!r} has no value")
    return ConfigChange(name=name, value=value, operation=operation)


def _command(
    resource: _Resource, changes: list[ConfigChange], *, replace_all: bool, validate_only: bool
) -> _Command:
    topic, node = None, ALL_BROKERS
    if resource.resource_type == ResourceType.GROUP:
        return ChangeGroupConfig(
            group=resource.resource_name,
            changes=changes,
            replace_all=replace_all,
            validate_only=validate_only,
        )
    if resource.resource_type == ResourceType.TOPIC:
        if not resource.resource_name:
            raise InvalidRequest("defaults for all topics are options of the brokers")
        check_topic_name(resource.resource_name)
        topic = resource.resource_name
    elif resource.resource_type == ResourceType.BROKER:
        node = _node_of(resource)
    else:
        raise _unsupported(resource)
    return ChangeConfig(
        topic=topic,
        node=write_node(node),
        changes=changes,
        replace_all=replace_all,
        validate_only=validate_only,
    )


def _alter(
    doors: Doors,
    call: Call,
    results: Sequence[ChangeResult | ReplaceResult],
    command_of: Callable[[int], _Command],
    answer: Callable[[], None],
) -> None:
    counts: dict[tuple[int, str], int] = {}
    for result in results:
        key = (result.resource_type, result.resource_name)
        counts[key] = counts.get(key, 0) + 1

    def alter(place: int, on_done: Callable[[], None]) -> None:
        result = results[place]
        try:
            if counts[result.resource_type, result.resource_name] > 1:
                raise InvalidRequest("the resource is named more than once")
            command = call.on_behalf(command_of(place))
        except RequestRefused as refusal:
            result.error_code, result.error_message = code_of(refusal), message_of(refusal)
            on_done()
        else:
            command_piece(doors, command, ALTER_TIMEOUT_MS, _on_altered(result))(on_done)

    # A request may name tens of thousands: what each needs is made when it is its turn.
    pieces = [partial(alter, place) for place in range(len(results))]
    Queue(doors.clock, pieces, answer).start()


def _on_altered(
    result: ChangeResult | ReplaceResult,
) -> Callable[[ControllerResult | RequestRefused], None]:
    def on_outcome(outcome: ControllerResult | RequestRefused) -> None:
        if isinstance(outcome, RequestRefused):
            result.error_code, result.error_message = code_of(outcome), message_of(outcome)

    return on_outcome
