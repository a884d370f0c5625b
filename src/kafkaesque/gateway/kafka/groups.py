"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: the members of a group and their coordinator."""

from __future__ import annotations

from collections.abc import Sequence

from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.errors import code_of_group_error
from kafkaesque.groups import events
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.results import (
    HeartbeatResult,
    JoinResult,
    LeaveResult,
    LeftMember,
    Result,
    SyncResult,
)
from kafkaesque.model.errors import InvariantBroken
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.heartbeat_request import HeartbeatRequest
from kafkaesque.protocols.kafka.messages.heartbeat_response import HeartbeatResponse
from kafkaesque.protocols.kafka.messages.join_group_request import JoinGroupRequest
from kafkaesque.protocols.kafka.messages.join_group_response import (
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from kafkaesque.protocols.kafka.messages.leave_group_request import LeaveGroupRequest
from kafkaesque.protocols.kafka.messages.leave_group_response import (
    LeaveGroupResponse,
    MemberResponse,
)
from kafkaesque.protocols.kafka.messages.sync_group_request import SyncGroupRequest
from kafkaesque.protocols.kafka.messages.sync_group_response import SyncGroupResponse

#: From this version of JoinGroup on, a client comes back with the id that it is given (KIP-394).
_JOIN_WITH_KNOWN_ID = 4
#: From this one on the protocol's name may be null.
_JOIN_WITH_NULL_PROTOCOL = 7
#: From this one on a leader may be told to assign nothing (KIP-814).
_JOIN_WITH_SKIPPING = 9
#: From this version of SyncGroup on, a member says which protocol it believes in (KIP-559).
_SYNC_WITH_PROTOCOL = 5
#: From this version of LeaveGroup on, several members leave in one request (KIP-345).
_LEAVE_WITH_MEMBERS = 3


def error_of(result: Result | GroupError) -> GroupError:
    """Return the error that came in place of a result.

    Raises:
        InvariantBroken: the result is another request's.
    """
    if isinstance(result, GroupError):
        return result
    raise InvariantBroken(f"a group request was answered with {type(result).__name__}")


# -- JoinGroup


def on_join_group(context: Context, call: Call) -> None:
    """Take a member into a group's next generation; answered when that begins."""
    request: JoinGroupRequest = call.read()
    coordinators = context.doors.groups
    event = events.JoinGroup(
        token=coordinators.next_token(),
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=call.header.client_id or "",
        client_host=call.connection.host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        protocol_type=request.protocol_type,
        # Copies: the group outlives the request's frame.
        protocols=tuple(
            events.JoinProtocol(each.name, bytes(each.metadata)) for each in request.protocols
        ),
        member_id_suffix=_uuid(context.doors.dice.unique_bytes(16)),
        requires_known_member_id=call.version >= _JOIN_WITH_KNOWN_ID,
        supports_skipping_assignment=call.version >= _JOIN_WITH_SKIPPING,
    )

    def on_result(result: Result | GroupError) -> None:
        if not isinstance(result, JoinResult):
            result = JoinResult(error=error_of(result), member_id=event.member_id)
        call.answer(_join_response(call.version, result))

    coordinators.step(event.group_id, event, on_result)


def _uuid(drawn: bytes) -> str:
    """Return sixteen bytes in the usual form of a UUID."""
    digits = drawn.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _join_response(version: int, result: JoinResult) -> JoinGroupResponse:
    protocol_name = result.protocol_name
    if protocol_name is None and version < _JOIN_WITH_NULL_PROTOCOL:
        protocol_name = ""
    return JoinGroupResponse(
        error_code=code_of_group_error(result.error),
        generation_id=result.generation,
        protocol_type=result.protocol_type,
        protocol_name=protocol_name,
        leader=result.leader_id,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                metadata=each.metadata,
            )
            for each in result.members
        ],
    )


# -- SyncGroup


def on_sync_group(context: Context, call: Call) -> None:
    """Give a member its assignment, as soon as the leader's has come."""
    request: SyncGroupRequest = call.read()
    says_protocol = request.protocol_type is not None and request.protocol_name is not None
    if call.version >= _SYNC_WITH_PROTOCOL and not says_protocol:
        call.answer(SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        return
    if not request.group_id:
        call.answer(SyncGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        return
    coordinators = context.doors.groups
    event = events.SyncGroup(
        token=coordinators.next_token(),
        group_id=request.group_id,
        generation=request.generation_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments=tuple((each.member_id, bytes(each.assignment)) for each in request.assignments),
    )

    def on_result(result: Result | GroupError) -> None:
        if not isinstance(result, SyncResult):
            result = SyncResult(error=error_of(result))
        call.answer(
            SyncGroupResponse(
                error_code=_code_of_sync(result.error),
                protocol_type=result.protocol_type,
                protocol_name=result.protocol_name,
                assignment=result.assignment,
            )
        )

    coordinators.step(event.group_id, event, on_result)


def _code_of_sync(error: GroupError) -> ErrorCode:
    """Return the code; "loading" is none that clients expect here.

    The rebalance that the member is in is lost with the old coordinator, so it joins again.
    """
    if error is GroupError.COORDINATOR_LOAD_IN_PROGRESS:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return code_of_group_error(error)


# -- Heartbeat


def on_heartbeat(context: Context, call: Call) -> None:
    """Note that a member lives; tell it whether it has to join again."""
    request: HeartbeatRequest = call.read()
    if not request.group_id:
        call.answer(HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        return
    coordinators = context.doors.groups
    event = events.Heartbeat(
        token=coordinators.next_token(),
        group_id=request.group_id,
        generation=request.generation_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
    )

    def on_result(result: Result | GroupError) -> None:
        error = result.error if isinstance(result, HeartbeatResult) else error_of(result)
        if error is GroupError.COORDINATOR_LOAD_IN_PROGRESS:
            # While a coordinator loads, its members are believed to live.
            error = GroupError.NONE
        call.answer(HeartbeatResponse(error_code=code_of_group_error(error)))

    coordinators.step(event.group_id, event, on_result)


# -- LeaveGroup


def on_leave_group(context: Context, call: Call) -> None:
    """Let members go, or have an administrator remove them."""
    request: LeaveGroupRequest = call.read()
    if not request.group_id:
        call.answer(LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        return
    members: tuple[events.LeavingMember, ...]
    if call.version < _LEAVE_WITH_MEMBERS:
        members = (events.LeavingMember(request.member_id, None),)
    else:
        members = tuple(
            events.LeavingMember(each.member_id, each.group_instance_id) for each in request.members
        )
    coordinators = context.doors.groups
    event = events.LeaveGroup(
        token=coordinators.next_token(), group_id=request.group_id, members=members
    )

    def on_result(result: Result | GroupError) -> None:
        if not isinstance(result, LeaveResult):
            result = LeaveResult(error=error_of(result))
        call.answer(_leave_response(call.version, result.error, result.members))

    coordinators.step(event.group_id, event, on_result)


def _leave_response(
    version: int, error: GroupError, members: Sequence[LeftMember]
) -> LeaveGroupResponse:
    if version < _LEAVE_WITH_MEMBERS:
        # The one member's error has no other place.
        errors = (error, *(each.error for each in members))
        first = next((each for each in errors if each is not GroupError.NONE), GroupError.NONE)
        return LeaveGroupResponse(error_code=code_of_group_error(first))
    return LeaveGroupResponse(
        error_code=code_of_group_error(error),
        members=[
            MemberResponse(
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                error_code=code_of_group_error(each.error),
            )
            for each in members
        ],
    )
