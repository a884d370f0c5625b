"""FindCoordinator: which broker keeps a group, or a transactional id."""

from collections.abc import Sequence

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.doors.groups import Groups
from kafkaesque.broker.doors.transactions import Transactions
from kafkaesque.broker.metadata.records import BrokerRegistered
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.cluster_view import ClusterView
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.model.errors import LeaderNotAvailable
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.find_coordinator_request import FindCoordinatorRequest
from kafkaesque.protocols.kafka.messages.find_coordinator_response import (
    Coordinator,
    FindCoordinatorResponse,
)

#: From this version on a request asks for many keys.
_VERSION_WITH_BATCHES = 4

_GROUP, _TRANSACTION, _SHARE = 0, 1, 2

Refusal = tuple[ErrorCode, str]


def on_find_coordinator(context: Context, call: Call) -> None:
    """Say where the coordinators of groups are, as far as they are known."""
    request: FindCoordinatorRequest = call.read()
    doors = context.doors
    is_batch = call.version >= _VERSION_WITH_BATCHES
    keys = request.coordinator_keys if is_batch else [request.key]
    hosts = _hosts(doors, request.key_type)
    if hosts is None:
        _respond(doors, call, request.key_type, keys)
    else:
        # Whoever asks first waits until there is a topic to keep groups, or transactions, in.
        hosts.when_found(keys, lambda: _respond(doors, call, request.key_type, keys))


def _hosts(doors: Doors, key_type: int) -> Groups | Transactions | None:
    if key_type == _GROUP:
        return doors.groups
    return doors.transactions if key_type == _TRANSACTION else None


def _respond(doors: Doors, call: Call, key_type: int, keys: Sequence[str]) -> None:
    view = ClusterView(doors, call.connection.listener)
    found = [_answer(view, key_type, key) for key in keys]
    call.is_in_vain = view.is_cut_off and all(
        each.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE for each in found
    )
    if call.version >= _VERSION_WITH_BATCHES:
        call.answer(FindCoordinatorResponse(coordinators=found))
        return
    (one,) = found
    call.answer(
        FindCoordinatorResponse(
            error_code=one.error_code,
            error_message=one.error_message,
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )
    )


def _answer(view: ClusterView, key_type: int, key: str) -> Coordinator:
    hosts = _hosts(view.doors, key_type)
    outcome = _no_such_coordinator(key_type) if hosts is None else _find(view, hosts, key)
    if isinstance(outcome, BrokerRegistered):
        return Coordinator(
            key=key,
            node_id=outcome.node,
            host=view.address(outcome).host,
            port=view.address(outcome).port,
            error_message=None,
        )
    code, message = outcome
    return Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=code, error_message=message
    )


def _find(view: ClusterView, hosts: Groups | Transactions, key: str) -> BrokerRegistered | Refusal:
    doors = view.doors
    try:
        where = hosts.find(key)
    except LeaderNotAvailable as refusal:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE, str(refusal)
    leader = view.leader_of(doors.cluster.state.partition(where))
    if leader is None:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{where} has no leader at the moment"
    return leader


def _no_such_coordinator(key_type: int) -> Refusal:
    if key_type == _SHARE:
        return ErrorCode.INVALID_REQUEST, "share groups are not available in this release"
    return ErrorCode.INVALID_REQUEST, f"there is no coordinator of type {key_type}"
