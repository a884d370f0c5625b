"""Producers' ids, transactions, and finding coordinators."""

from collections.abc import Callable
from typing import Any, Final

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.chassis.rights import Rights
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.guards.filtering import keep_allowed
from kafkaesque.gateway.kafka.guards.groups import FORBIDDEN as GROUP_FORBIDDEN
from kafkaesque.gateway.kafka.guards.topics import FORBIDDEN as TOPIC_FORBIDDEN
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from kafkaesque.protocols.kafka.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from kafkaesque.protocols.kafka.messages.describe_transactions_response import TransactionState
from kafkaesque.protocols.kafka.messages.end_txn_response import EndTxnResponse
from kafkaesque.protocols.kafka.messages.find_coordinator_response import (
    Coordinator,
    FindCoordinatorResponse,
)
from kafkaesque.protocols.kafka.messages.init_producer_id_response import InitProducerIdResponse
from kafkaesque.protocols.kafka.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

FORBIDDEN: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_TOPIC, _GROUP = ResourceType.TOPIC, ResourceType.GROUP
_ID: Final = ResourceType.TRANSACTIONAL_ID
#: From this version on, AddPartitionsToTxn is what brokers send to one another.
_ADD_BY_BROKERS: Final = 4
_FIND_WITH_BATCHES: Final = 4
_GROUP_KEY, _TRANSACTION_KEY = 0, 1


def init_producer_id(rights: Rights, context: Context, call: Call) -> bool:
    """Write for the transactional id; without one, for any topic, or IdempotentWrite (KIP-679)."""
    request = call.read()
    if request.transactional_id is not None:
        is_allowed = rights.may(Operation.WRITE, _ID, request.transactional_id)
        code = FORBIDDEN
    else:
        is_allowed = rights.may_some(Operation.WRITE, _TOPIC) or rights.may_cluster(
            Operation.IDEMPOTENT_WRITE
        )
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if not is_allowed:
        call.answer(InitProducerIdResponse(error_code=code, producer_epoch=-1))
        return False
    call.prepare(request)
    return True


def add_partitions_to_txn(rights: Rights, context: Context, call: Call) -> bool:
    """Write for the transactional id and the topics; the form of brokers is for ClusterAction."""
    request = call.read()
    if call.version >= _ADD_BY_BROKERS:
        if rights.may_cluster(Operation.CLUSTER_ACTION):
            call.prepare(request)
            return True
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        call.answer(AddPartitionsToTxnResponse(error_code=code))
        return False
    topics = request.v3_and_below_topics
    if not rights.may(Operation.WRITE, _ID, request.v3_and_below_transactional_id):
        _answer_added(call, topics, lambda _: FORBIDDEN)
        return False
    refused = {each.name for each in topics if not rights.may(Operation.WRITE, _TOPIC, each.name)}
    if refused:
        # All or none: what is allowed is not attempted.
        _answer_added(
            call,
            topics,
            lambda name: TOPIC_FORBIDDEN if name in refused else ErrorCode.OPERATION_NOT_ATTEMPTED,
        )
        return False
    call.prepare(request)
    return True


def _answer_added(call: Call, topics: Any, code_of: Callable[[str], ErrorCode]) -> None:
    results = [
        AddPartitionsToTxnTopicResult(
            topic.name,
            [
                AddPartitionsToTxnPartitionResult(each, code_of(topic.name))
                for each in topic.partitions
            ],
        )
        for topic in topics
    ]
    call.answer(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results))


def add_offsets_to_txn(rights: Rights, context: Context, call: Call) -> bool:
    """Write for the transactional id, Read for the group."""
    request = call.read()
    if not rights.may(Operation.WRITE, _ID, request.transactional_id):
        call.answer(AddOffsetsToTxnResponse(error_code=FORBIDDEN))
        return False
    if not rights.may(Operation.READ, _GROUP, request.group_id):
        call.answer(AddOffsetsToTxnResponse(error_code=GROUP_FORBIDDEN))
        return False
    call.prepare(request)
    return True


def end_txn(rights: Rights, context: Context, call: Call) -> bool:
    """Write for the transactional id."""
    request = call.read()
    if not rights.may(Operation.WRITE, _ID, request.transactional_id):
        call.answer(EndTxnResponse(error_code=FORBIDDEN))
        return False
    call.prepare(request)
    return True


def txn_offset_commit(rights: Rights, context: Context, call: Call) -> bool:
    """Write for the transactional id, Read for the group and each topic."""
    request = call.read()

    def refuse(topic: Any, code: ErrorCode = TOPIC_FORBIDDEN) -> TxnOffsetCommitResponseTopic:
        return TxnOffsetCommitResponseTopic(
            topic.name,
            [
                TxnOffsetCommitResponsePartition(each.partition_index, code)
                for each in topic.partitions
            ],
        )

    code = None
    if not rights.may(Operation.WRITE, _ID, request.transactional_id):
        code = FORBIDDEN
    elif not rights.may(Operation.READ, _GROUP, request.group_id):
        code = GROUP_FORBIDDEN
    if code is not None:
        topics = [refuse(each, code) for each in request.topics]
        call.answer(TxnOffsetCommitResponse(topics=topics))
        return False
    keep_allowed(
        call,
        request,
        "topics",
        lambda topic: rights.may(Operation.READ, _TOPIC, topic.name),
        "topics",
        refuse,
    )
    return True


def describe_transactions(rights: Rights, context: Context, call: Call) -> bool:
    """Describe for each transactional id; of its topics, those that may be described are shown."""
    request = call.read()

    def hide(answer: Any) -> None:
        for state in answer.transaction_states:
            state.topics = [
                each
                for each in state.topics
                if rights.could(Operation.DESCRIBE, _TOPIC, each.topic)
            ]

    call.prepare(request, hide)
    keep_allowed(
        call,
        request,
        "transactional_ids",
        lambda each: rights.may(Operation.DESCRIBE, _ID, each),
        "transaction_states",
        lambda each: TransactionState(error_code=FORBIDDEN, transactional_id=each),
    )
    return True


def list_transactions(rights: Rights, context: Context, call: Call) -> bool:
    """Those that may be described."""

    def hide(answer: Any) -> None:
        answer.transaction_states = [
            each
            for each in answer.transaction_states
            if rights.could(Operation.DESCRIBE, _ID, each.transactional_id)
        ]

    call.prepare(call.read(), hide)
    return True


# -- FindCoordinator


def find_coordinator(rights: Rights, context: Context, call: Call) -> bool:
    """Describe for each group, or transactional id."""
    request = call.read()
    kinds = {_GROUP_KEY: (_GROUP, GROUP_FORBIDDEN), _TRANSACTION_KEY: (_ID, FORBIDDEN)}
    call.prepare(request)
    if request.key_type not in kinds:
        return True  # There are no coordinators of other kinds.
    kind, code = kinds[request.key_type]
    if call.version < _FIND_WITH_BATCHES:
        if rights.may(Operation.DESCRIBE, kind, request.key):
            return True
        call.answer(_refused_find(code))
        return False
    keep_allowed(
        call,
        request,
        "coordinator_keys",
        lambda key: rights.may(Operation.DESCRIBE, kind, key),
        "coordinators",
        lambda key: Coordinator(
            key=key, node_id=-1, host="", port=-1, error_code=code, error_message=None
        ),
    )
    return True


def _refused_find(code: ErrorCode) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        error_code=code, error_message=None, node_id=-1, host="", port=-1
    )
