"""ListGroups, DescribeGroups and DeleteGroups: groups for those who look after them."""

from __future__ import annotations

from collections.abc import Callable

from kafkaesque.access.audit import DataChange
from kafkaesque.access.operations import ResourceType
from kafkaesque.broker.doors import Doors
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.data_changes import tell
from kafkaesque.gateway.kafka.errors import code_of_group_error
from kafkaesque.gateway.kafka.gathering import Queue
from kafkaesque.gateway.kafka.groups import error_of
from kafkaesque.gateway.kafka.operation_bits import (
    GROUP_OPERATIONS,
    OPERATIONS_OMITTED,
)
from kafkaesque.groups import events, results
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.results import Result
from kafkaesque.protocols.kafka.messages.delete_groups_request import DeleteGroupsRequest
from kafkaesque.protocols.kafka.messages.delete_groups_response import (
    DeletableGroupResult,
    DeleteGroupsResponse,
)
from kafkaesque.protocols.kafka.messages.describe_groups_request import DescribeGroupsRequest
from kafkaesque.protocols.kafka.messages.describe_groups_response import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)
from kafkaesque.protocols.kafka.messages.list_groups_request import ListGroupsRequest
from kafkaesque.protocols.kafka.messages.list_groups_response import (
    ListedGroup,
    ListGroupsResponse,
)

#: From this version of DescribeGroups on, a group that is not there is an error (KIP-1043).
_DESCRIBE_WITH_UNKNOWN_GROUP = 6


# -- ListGroups


def on_list_groups(context: Context, call: Call) -> None:
    """List the groups that this broker coordinates and that pass the filters."""
    request: ListGroupsRequest = call.read()

    def on_done(result: results.ListResult) -> None:
        groups = (*result.groups, *_share_groups(context, request))
        call.answer(
            ListGroupsResponse(
                error_code=code_of_group_error(result.error),
                groups=[
                    ListedGroup(
                        group_id=each.group_id,
                        protocol_type=each.protocol_type,
                        group_state=each.state,
                        group_type=each.group_type,
                    )
                    for each in groups
                ],
            )
        )

    context.doors.groups.list_groups(
        tuple(request.states_filter), tuple(request.types_filter), on_done
    )


def _share_groups(context: Context, request: ListGroupsRequest) -> list[results.ListedGroup]:
    states = {each.lower() for each in request.states_filter}
    types = {each.lower() for each in request.types_filter}
    if types and "share" not in types:
        return []
    listed = context.doors.groups.share.listed()
    return [each for each in listed if not states or each.state.lower() in states]


# -- DescribeGroups


def on_describe_groups(context: Context, call: Call) -> None:
    """Show groups and their members."""
    request: DescribeGroupsRequest = call.read()
    pieces = [_Description(context.doors, group_id) for group_id in dict.fromkeys(request.groups)]

    def answer() -> None:
        groups = [_described(call.version, piece.found) for piece in pieces]
        if request.include_authorized_operations:
            for group in groups:
                is_there = group.error_code == 0
                group.authorized_operations = GROUP_OPERATIONS if is_there else OPERATIONS_OMITTED
        call.answer(DescribeGroupsResponse(groups=groups))

    Queue(context.doors.clock, [piece.start for piece in pieces], answer).start()


class _Description:
    """One group of a DescribeGroups; `found` is there when `start` has called back."""

    __slots__ = ("_doors", "found")

    def __init__(self, doors: Doors, group_id: str) -> None:
        self._doors = doors
        self.found = results.DescribedGroup(
            error=GroupError.UNKNOWN_SERVER_ERROR, group_id=group_id, state=""
        )

    def start(self, on_done: Callable[[], None]) -> None:
        """Ask the coordinator."""
        group_id = self.found.group_id

        def on_result(result: Result | GroupError) -> None:
            if isinstance(result, results.DescribeResult):
                (self.found,) = result.groups
            else:
                self.found = results.DescribedGroup(
                    error=error_of(result), group_id=group_id, state=""
                )
            on_done()

        coordinators = self._doors.groups
        event = events.DescribeGroups(token=coordinators.next_token(), group_ids=(group_id,))
        coordinators.step(group_id, event, on_result)


def _described(version: int, found: results.DescribedGroup) -> DescribedGroup:
    error = found.error
    message = None
    if error is GroupError.GROUP_ID_NOT_FOUND:
        if version >= _DESCRIBE_WITH_UNKNOWN_GROUP:
            message = f"Group {found.group_id} not found."
        else:
            # Older clients know it by its state, Dead.
            error = GroupError.NONE
    return DescribedGroup(
        error_code=code_of_group_error(error),
        error_message=message,
        group_id=found.group_id,
        group_state=found.state,
        protocol_type=found.protocol_type,
        protocol_data=found.protocol_name,
        members=[
            DescribedGroupMember(
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                client_id=each.client_id,
                client_host=each.client_host,
                member_metadata=each.metadata,
                member_assignment=each.assignment,
            )
            for each in found.members
        ],
    )


# -- DeleteGroups


def on_delete_groups(context: Context, call: Call) -> None:
    """Remove groups that have no members; answered when that is committed for all of them."""
    request: DeleteGroupsRequest = call.read()
    pieces = [
        _Deletion(context.doors, group_id) for group_id in dict.fromkeys(request.groups_names)
    ]

    def answer() -> None:
        outcomes = [
            DeletableGroupResult(
                group_id=piece.group_id, error_code=code_of_group_error(piece.error)
            )
            for piece in pieces
        ]
        for each in outcomes:
            change = DataChange.DELETE_GROUP
            tell(context, call, change, ResourceType.GROUP, each.group_id, each.error_code)
        call.answer(DeleteGroupsResponse(results=outcomes))

    Queue(context.doors.clock, [piece.start for piece in pieces], answer).start()


class _Deletion:
    """One group of a DeleteGroups; `error` is there when `start` has called back."""

    __slots__ = ("_doors", "error", "group_id")

    def __init__(self, doors: Doors, group_id: str) -> None:
        self._doors = doors
        self.group_id = group_id
        self.error = GroupError.UNKNOWN_SERVER_ERROR

    def start(self, on_done: Callable[[], None]) -> None:
        """Ask the coordinator."""

        def finish(error: GroupError) -> None:
            self.error = error
            on_done()

        def on_result(result: Result | GroupError) -> None:
            if isinstance(result, results.DeleteGroupsResult):
                ((_, error),) = result.groups
            else:
                error = error_of(result)
            if error is GroupError.GROUP_ID_NOT_FOUND:
                coordinators.share.delete(self.group_id, finish)
            else:
                finish(error)

        coordinators = self._doors.groups
        event = events.DeleteGroups(token=coordinators.next_token(), group_ids=(self.group_id,))
        coordinators.step(self.group_id, event, on_result)
