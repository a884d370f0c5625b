"""Options of topics, groups and brokers.

Those of a broker are the cluster's.
"""

from typing import Any, Final

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.chassis.rights import Rights
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.guards.filtering import Guard, keep_allowed
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages import (
    alter_configs_response,
    describe_configs_response,
    incremental_alter_configs_response,
)

#: Kafka's numbers of what has options, which are not those of what rules are for.
_TOPIC_OPTIONS, _GROUP_OPTIONS = 2, 32
_CODES: Final = {
    _TOPIC_OPTIONS: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    _GROUP_OPTIONS: ErrorCode.GROUP_AUTHORIZATION_FAILED,
}


def _may(rights: Rights, operation: Operation, resource: Any) -> bool:
    name = resource.resource_name
    if resource.resource_type == _TOPIC_OPTIONS:
        return rights.may(operation, ResourceType.TOPIC, name)
    if resource.resource_type == _GROUP_OPTIONS:
        return rights.may(operation, ResourceType.GROUP, name)
    return rights.may_cluster(operation)


def _guard(operation: Operation, answers: str, refusal: type[Any]) -> Guard:
    def refuse(resource: Any) -> Any:
        kind = resource.resource_type
        return refusal(
            error_code=_CODES.get(kind, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
            error_message=None,
            resource_type=kind,
            resource_name=resource.resource_name,
        )

    def guard(rights: Rights, context: Context, call: Call) -> bool:
        request = call.read()
        keep_allowed(
            call,
            request,
            "resources",
            lambda resource: _may(rights, operation, resource),
            answers,
            refuse,
        )
        return True

    return guard


describe_configs: Final[Guard] = _guard(
    Operation.DESCRIBE_CONFIGS, "results", describe_configs_response.DescribeConfigsResult
)
incremental_alter_configs: Final[Guard] = _guard(
    Operation.ALTER_CONFIGS,
    "responses",
    incremental_alter_configs_response.AlterConfigsResourceResponse,
)
alter_configs: Final[Guard] = _guard(
    Operation.ALTER_CONFIGS, "responses", alter_configs_response.AlterConfigsResourceResponse
)
