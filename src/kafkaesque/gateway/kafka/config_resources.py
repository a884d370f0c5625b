"""ListConfigResources: what has options that can be asked for (KIP-1142)."""

from collections.abc import Callable
from typing import Final

from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.topic_views import all_readable
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.configs import ResourceType
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.list_config_resources_request import (
    ListConfigResourcesRequest,
)
from kafkaesque.protocols.kafka.messages.list_config_resources_response import (
    ConfigResource,
    ListConfigResourcesResponse,
)

_BROKER_LOGGER, _CLIENT_METRICS = 8, 16
#: Version 0 was ListClientMetricsResources, and says no types.
_VERSION_WITH_TYPES = 1

_NAMES: Final[dict[int, Callable[[ClusterState], list[str]]]] = {
    ResourceType.GROUP: lambda state: list(state.group_configs),
    # Types that Kafka has and that nothing here belongs to: metrics that clients are to send, and
    # levels of loggers.
    _CLIENT_METRICS: lambda _: [],
    _BROKER_LOGGER: lambda _: [],
    ResourceType.BROKER: lambda state: [str(node) for node in sorted(state.brokers)],
    ResourceType.TOPIC: lambda state: [each.name for each in all_readable(state)],
}


def on_list_config_resources(context: Context, call: Call) -> None:
    """List the resources of some types, or of all: topics, brokers, and groups with options."""
    request: ListConfigResourcesRequest = call.read()
    wanted = set(request.resource_types)
    if call.version < _VERSION_WITH_TYPES:
        wanted = {_CLIENT_METRICS}
    if not wanted <= _NAMES.keys():
        call.answer(ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
        return
    state = context.doors.cluster.state
    found = [
        ConfigResource(name, kind)
        for kind, names_of in _NAMES.items()
        if kind in wanted or not wanted
        for name in names_of(state)
    ]
    call.answer(ListConfigResourcesResponse(config_resources=found))
