"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup on the wire, in every version."""

from typing import Any

import pytest

from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.events import JoinGroup
from kafkaesque.protocols.kafka.api import SUPPORTED
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.heartbeat_request import HeartbeatRequest
from kafkaesque.protocols.kafka.messages.join_group_request import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from kafkaesque.protocols.kafka.messages.leave_group_request import (
    LeaveGroupRequest,
    MemberIdentity,
)
from kafkaesque.protocols.kafka.messages.sync_group_request import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tests.unit.gateway_kafka.group_port import CLIENT_HOST, Port

GROUP = "readers"


def versions(api_key: ApiKey) -> list[int]:
    found = SUPPORTED[api_key]
    return list(range(found.first, found.last + 1))


def join_request(member_id: str = "", **fields: Any) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=fields.pop("group_id", GROUP),
        session_timeout_ms=fields.pop("session_timeout_ms", 10_000),
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol("range", b"about me")],
        **fields,
    )


def join(port: Port, version: int, **fields: Any) -> Any:
    """Join as a client does: twice where the first answer is an id to come back with."""
    answer = port.ask(ApiKey.JOIN_GROUP, version, join_request(**fields))
    if answer is not None and answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        fields["member_id"] = answer.member_id
        answer = port.ask(ApiKey.JOIN_GROUP, version, join_request(**fields))
    return answer


def stable(port: Port) -> tuple[str, int]:
    """Make a stable group of one; return its member and its generation."""
    joined = join(port, 9)
    assert joined.error_code == 0
    synced = port.ask(ApiKey.SYNC_GROUP, 5, sync_request(joined.member_id, joined.generation_id))
    assert synced.error_code == 0
    return joined.member_id, joined.generation_id


def sync_request(member_id: str, generation: int, **fields: Any) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=fields.pop("group_id", GROUP),
        generation_id=generation,
        member_id=member_id,
        protocol_type=fields.pop("protocol_type", "consumer"),
        protocol_name=fields.pop("protocol_name", "range"),
        assignments=[SyncGroupRequestAssignment(member_id, b"all of it")],
        **fields,
    )


@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP))
def test_one_member_joins_and_leads(version: int) -> None:
    port = Port()
    answer = join(port, version)
    assert answer.error_code == ErrorCode.NONE
    assert answer.generation_id == 1
    assert answer.leader == answer.member_id
    assert answer.protocol_name == "range"
    assert answer.protocol_type == ("consumer" if version >= 7 else None)
    (member,) = answer.members
    assert member.member_id == answer.member_id
    assert bytes(member.metadata) == b"about me"
    event = port.coordinators.events[-1]
    assert isinstance(event, JoinGroup)
    assert event.rebalance_ms == (60_000 if version >= 1 else 10_000)
    assert event.client_id == "kit"
    assert event.client_host == f"/{CLIENT_HOST}"


@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP))
def test_from_version_4_on_a_new_member_has_to_come_back_with_its_id(version: int) -> None:
    answer = Port().ask(ApiKey.JOIN_GROUP, version, join_request())
    expected = ErrorCode.MEMBER_ID_REQUIRED if version >= 4 else ErrorCode.NONE
    assert answer.error_code == expected
    assert answer.member_id == "kit-00000000-0000-0000-0000-000000000001"


def test_a_static_member_need_not_come_back() -> None:
    answer = Port().ask(ApiKey.JOIN_GROUP, 5, join_request(group_instance_id="left"))
    assert answer.error_code == ErrorCode.NONE
    assert answer.member_id == "left-00000000-0000-0000-0000-000000000001"


@pytest.mark.parametrize("version", [8, 9])
def test_a_static_leader_that_comes_back_is_told_to_assign_nothing(version: int) -> None:
    port = Port()
    first = join(port, version, group_instance_id="left")
    port.ask(
        ApiKey.SYNC_GROUP,
        5,
        sync_request(first.member_id, first.generation_id, group_instance_id="left"),
    )
    again = join(port, version, group_instance_id="left")
    assert again.error_code == ErrorCode.NONE
    assert again.generation_id == first.generation_id
    assert again.skip_assignment == (version >= 9)
    assert again.leader == (again.member_id if version >= 9 else first.member_id)


@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP))
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (GroupError.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
        (GroupError.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (GroupError.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_without_a_coordinator_there_is_no_joining(
    version: int, error: GroupError, code: ErrorCode
) -> None:
    port = Port()
    port.coordinators.refused[GROUP] = error
    answer = port.ask(ApiKey.JOIN_GROUP, version, join_request("me"))
    assert answer.error_code == code
    assert answer.member_id == "me"
    assert answer.protocol_name == ("" if version < 7 else None)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_timeout_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_join_that_cannot_be(fields: dict[str, Any], code: ErrorCode) -> None:
    assert Port().ask(ApiKey.JOIN_GROUP, 9, join_request(**fields)).error_code == code


def test_a_second_member_waits_for_the_first_to_join_again() -> None:
    port = Port()
    member_id, generation = stable(port)
    assert join(port, 9) is None
    # Answers leave in the order of the requests: the heartbeat's comes behind the join's.
    heartbeat = HeartbeatRequest(GROUP, generation, member_id)
    assert port.ask(ApiKey.HEARTBEAT, 4, heartbeat) is None
    port.coordinators.pass_time(60_000)
    joined = port.take()
    assert joined.error_code == ErrorCode.NONE
    assert joined.generation_id == generation + 1
    assert port.take().error_code == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("version", versions(ApiKey.SYNC_GROUP))
def test_the_leader_is_given_its_assignment(version: int) -> None:
    port = Port()
    joined = join(port, 5)
    request = sync_request(joined.member_id, joined.generation_id)
    answer = port.ask(ApiKey.SYNC_GROUP, version, request)
    assert answer.error_code == ErrorCode.NONE
    assert bytes(answer.assignment) == b"all of it"
    named = ("consumer", "range") if version >= 5 else (None, None)
    assert (answer.protocol_type, answer.protocol_name) == named


def test_an_assignment_is_given_when_it_is_committed_and_not_before() -> None:
    port = Port()
    joined = join(port, 5)
    port.coordinators.holds_writes = True
    request = sync_request(joined.member_id, joined.generation_id)
    assert port.ask(ApiKey.SYNC_GROUP, 5, request) is None
    port.coordinators.commit()
    assert port.take().error_code == ErrorCode.NONE


@pytest.mark.parametrize("missing", ["protocol_type", "protocol_name"])
def test_from_version_5_on_a_sync_names_its_protocol(missing: str) -> None:
    port = Port()
    joined = join(port, 5)
    request = sync_request(joined.member_id, joined.generation_id, **{missing: None})
    answer = port.ask(ApiKey.SYNC_GROUP, 5, request)
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert port.ask(ApiKey.SYNC_GROUP, 4, request).error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", versions(ApiKey.SYNC_GROUP))
def test_a_sync_while_the_coordinator_loads_begins_again(version: int) -> None:
    port = Port()
    port.coordinators.refused[GROUP] = GroupError.COORDINATOR_LOAD_IN_PROGRESS
    answer = port.ask(ApiKey.SYNC_GROUP, version, sync_request("me", 1))
    assert answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    port.coordinators.refused[GROUP] = GroupError.NOT_COORDINATOR
    answer = port.ask(ApiKey.SYNC_GROUP, version, sync_request("me", 1))
    assert answer.error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("version", versions(ApiKey.HEARTBEAT))
def test_heartbeats(version: int) -> None:
    port = Port()
    member_id, generation = stable(port)

    def beat(*fields: Any) -> int:
        code: int = port.ask(ApiKey.HEARTBEAT, version, HeartbeatRequest(*fields)).error_code
        return code

    assert beat(GROUP, generation, member_id) == ErrorCode.NONE
    assert beat(GROUP, generation + 1, member_id) == ErrorCode.ILLEGAL_GENERATION
    assert beat(GROUP, generation, "nobody") == ErrorCode.UNKNOWN_MEMBER_ID
    assert beat("others", generation, member_id) == ErrorCode.UNKNOWN_MEMBER_ID
    assert beat("", generation, member_id) == ErrorCode.INVALID_GROUP_ID
    port.coordinators.refused[GROUP] = GroupError.COORDINATOR_LOAD_IN_PROGRESS
    assert beat(GROUP, 99, member_id) == ErrorCode.NONE
    port.coordinators.refused[GROUP] = GroupError.NOT_COORDINATOR
    assert beat(GROUP, generation, member_id) == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("version", [0, 1, 2])
def test_one_member_leaves(version: int) -> None:
    port = Port()
    member_id, _ = stable(port)
    request = LeaveGroupRequest(group_id=GROUP, member_id=member_id)
    assert port.ask(ApiKey.LEAVE_GROUP, version, request).error_code == ErrorCode.NONE
    answer = port.ask(ApiKey.LEAVE_GROUP, version, request)
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", [3, 4, 5])
def test_members_leave_each_with_its_own_outcome(version: int) -> None:
    port = Port()
    member_id, _ = stable(port)
    members = [MemberIdentity(member_id), MemberIdentity("nobody"), MemberIdentity("", "left")]
    request = LeaveGroupRequest(group_id=GROUP, members=members)
    answer = port.ask(ApiKey.LEAVE_GROUP, version, request)
    assert answer.error_code == ErrorCode.NONE
    assert [
        (each.member_id, each.group_instance_id, each.error_code) for each in answer.members
    ] == [
        (member_id, None, ErrorCode.NONE),
        ("nobody", None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", "left", ErrorCode.UNKNOWN_MEMBER_ID),
    ]


@pytest.mark.parametrize("version", versions(ApiKey.LEAVE_GROUP))
def test_leaving_without_a_coordinator(version: int) -> None:
    port = Port()
    port.coordinators.refused[GROUP] = GroupError.NOT_COORDINATOR
    request = LeaveGroupRequest(
        group_id=GROUP, member_id="me", members=[MemberIdentity("me")] if version >= 3 else []
    )
    assert port.ask(ApiKey.LEAVE_GROUP, version, request).error_code == ErrorCode.NOT_COORDINATOR
    request.group_id = ""
    assert port.ask(ApiKey.LEAVE_GROUP, version, request).error_code == ErrorCode.INVALID_GROUP_ID
