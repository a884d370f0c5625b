"""What is about the cluster as a whole: allowed, or refused, as a whole."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from kafkaesque.access.operations import CLUSTER_NAME, Operation, ResourceType
from kafkaesque.chassis.rights import Rights
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.operation_bits import OPERATIONS_OMITTED
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode

FORBIDDEN: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
MESSAGE: Final = "Cluster authorization failed."
#: The first version of ElectLeaders with one error for the whole.
_ELECT_WITH_ERROR: Final = 1


def _module(api_key: int) -> Any:
    name = ApiKey(api_key).name.lower()
    return import_module(f"kafkaesque.protocols.kafka.messages.{name}_response")


def refusal_of(call: Call, request: Any) -> Any:
    """Return the answer that refuses a whole request."""
    key = call.header.api_key
    module, parts = _module(key), _PARTS.get(key)
    name = "".join(word.capitalize() for word in ApiKey(key).name.split("_"))
    answer = getattr(module, f"{name}Response")()
    if hasattr(answer, "error_code"):
        answer.error_code = FORBIDDEN
    if hasattr(answer, "error_message"):
        answer.error_message = MESSAGE
    if parts is not None:
        parts(call, module, request, answer)
    return answer


def describe_cluster(rights: Rights, context: Context, call: Call) -> bool:
    """Everybody may ask which brokers there are; what may be done, only who may describe it."""

    def amend(answer: Any) -> None:
        if answer.cluster_authorized_operations != OPERATIONS_OMITTED:
            answer.cluster_authorized_operations = cluster_bits(rights)

    call.prepare(call.read(), amend)
    return True


def cluster_bits(rights: Rights) -> int:
    """Return what may be done to the cluster, as those are told who may describe it."""
    if not rights.could_cluster(Operation.DESCRIBE):
        return 0
    return rights.bits(ResourceType.CLUSTER, CLUSTER_NAME)


# -- answers that have an error for each part


def _elections(call: Call, module: Any, request: Any, answer: Any) -> None:
    if call.version < _ELECT_WITH_ERROR:
        answer.replica_election_results = [
            module.ReplicaElectionResult(
                topic.topic,
                [module.PartitionResult(each, FORBIDDEN, MESSAGE) for each in topic.partitions],
            )
            for topic in request.topic_partitions or ()
        ]


def _moves(call: Call, module: Any, request: Any, answer: Any) -> None:
    answer.results = [
        module.AlterReplicaLogDirTopicResult(
            topic.name,
            [module.AlterReplicaLogDirPartitionResult(i, FORBIDDEN) for i in topic.partitions],
        )
        for each in request.dirs
        for topic in each.topics
    ]


def _quotas(call: Call, module: Any, request: Any, answer: Any) -> None:
    answer.entries = [
        module.EntryData(
            FORBIDDEN,
            MESSAGE,
            [module.EntityData(part.entity_type, part.entity_name) for part in entry.entity],
        )
        for entry in request.entries
    ]


def _no_entries(call: Call, module: Any, request: Any, answer: Any) -> None:
    answer.entries = None


def _markers(call: Call, module: Any, request: Any, answer: Any) -> None:
    answer.markers = [
        module.WritableTxnMarkerResult(
            marker.producer_id,
            [
                module.WritableTxnMarkerTopicResult(
                    topic.name,
                    [
                        module.WritableTxnMarkerPartitionResult(each, FORBIDDEN)
                        for each in topic.partition_indexes
                    ],
                )
                for topic in marker.topics
            ],
        )
        for marker in request.markers
    ]


def _created_rules(call: Call, module: Any, request: Any, answer: Any) -> None:
    answer.results = [module.AclCreationResult(FORBIDDEN, MESSAGE) for _ in request.creations]


def _deleted_rules(call: Call, module: Any, request: Any, answer: Any) -> None:
    answer.filter_results = [
        module.DeleteAclsFilterResult(FORBIDDEN, MESSAGE) for _ in request.filters
    ]


def _credentials(call: Call, module: Any, request: Any, answer: Any) -> None:
    names = [each.name for each in (*request.deletions, *request.upsertions)]
    answer.results = [
        module.AlterUserScramCredentialsResult(each, FORBIDDEN, MESSAGE)
        for each in dict.fromkeys(names)
    ]


_PARTS: Final[dict[int, Callable[[Call, Any, Any, Any], None]]] = {
    ApiKey.ELECT_LEADERS: _elections,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _moves,
    ApiKey.ALTER_CLIENT_QUOTAS: _quotas,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _no_entries,
    ApiKey.WRITE_TXN_MARKERS: _markers,
    ApiKey.CREATE_ACLS: _created_rules,
    ApiKey.DELETE_ACLS: _deleted_rules,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _credentials,
}
