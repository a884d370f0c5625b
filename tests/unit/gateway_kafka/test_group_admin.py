"""ListGroups, DescribeGroups and DeleteGroups on the wire, in every version."""

import pytest

from kafkaesque.groups.errors import GroupError
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.delete_groups_request import DeleteGroupsRequest
from kafkaesque.protocols.kafka.messages.describe_groups_request import DescribeGroupsRequest
from kafkaesque.protocols.kafka.messages.list_groups_request import ListGroupsRequest
from tests.unit.gateway_kafka.group_port import CLIENT_HOST, Port
from tests.unit.gateway_kafka.test_group_members import GROUP, stable, versions
from tests.unit.gateway_kafka.test_group_offsets import commit

OMITTED = -(2**31)


@pytest.fixture
def port() -> Port:
    """A stable group and one that only has offsets."""
    port = Port()
    port.create_topic("flights")
    stable(port)
    commit(port, 9, {0: 11}, group_id="empty")
    return port


# -- ListGroups


@pytest.mark.parametrize("version", versions(ApiKey.LIST_GROUPS))
def test_groups_are_listed(port: Port, version: int) -> None:
    answer = port.ask(ApiKey.LIST_GROUPS, version, ListGroupsRequest())
    assert answer.error_code == 0
    found = [(each.group_id, each.protocol_type) for each in answer.groups]
    assert found == [(GROUP, "consumer"), ("empty", "")]
    states = [each.group_state for each in answer.groups]
    assert states == (["Stable", "Empty"] if version >= 4 else ["", ""])
    types = [each.group_type for each in answer.groups]
    assert types == (["classic", "classic"] if version >= 5 else ["", ""])


@pytest.mark.parametrize(
    ("states", "types", "expected"),
    [
        (["stable"], [], [GROUP]),
        (["Empty", "Dead"], [], ["empty"]),
        ([], ["classic"], [GROUP, "empty"]),
        ([], ["consumer"], []),
    ],
)
def test_listed_groups_are_filtered(
    port: Port, states: list[str], types: list[str], expected: list[str]
) -> None:
    answer = port.ask(ApiKey.LIST_GROUPS, 5, ListGroupsRequest(states, types))
    assert [each.group_id for each in answer.groups] == expected


@pytest.mark.parametrize("version", versions(ApiKey.LIST_GROUPS))
def test_a_list_that_is_not_whole_is_none(port: Port, version: int) -> None:
    port.coordinators.refused[""] = GroupError.COORDINATOR_LOAD_IN_PROGRESS
    answer = port.ask(ApiKey.LIST_GROUPS, version, ListGroupsRequest())
    assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert list(answer.groups) == []


# -- DescribeGroups


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_GROUPS))
def test_groups_are_described(port: Port, version: int) -> None:
    port.coordinators.refused["elsewhere"] = GroupError.NOT_COORDINATOR
    request = DescribeGroupsRequest([GROUP, "empty", "elsewhere"])
    found, empty, elsewhere = port.ask(ApiKey.DESCRIBE_GROUPS, version, request).groups
    assert (found.group_id, found.group_state, found.protocol_data) == (GROUP, "Stable", "range")
    (member,) = found.members
    assert (member.client_id, member.client_host) == ("kit", f"/{CLIENT_HOST}")
    assert bytes(member.member_metadata) == b"about me"
    assert bytes(member.member_assignment) == b"all of it"
    assert (empty.group_state, list(empty.members)) == ("Empty", [])
    assert (elsewhere.error_code, elsewhere.group_state) == (ErrorCode.NOT_COORDINATOR, "")
    assert {each.authorized_operations for each in (found, empty, elsewhere)} == {OMITTED}


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_GROUPS))
def test_a_group_that_is_not_there_is_dead(port: Port, version: int) -> None:
    request = DescribeGroupsRequest(["nobody"])
    (found,) = port.ask(ApiKey.DESCRIBE_GROUPS, version, request).groups
    assert found.group_state == "Dead"
    if version >= 6:
        assert found.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert found.error_message == "Group nobody not found."
    else:
        assert (found.error_code, found.error_message) == (0, None)


@pytest.mark.parametrize("version", [3, 4, 5, 6])
def test_what_one_may_do_with_a_group_is_said_if_asked(port: Port, version: int) -> None:
    port.coordinators.refused["elsewhere"] = GroupError.NOT_COORDINATOR
    request = DescribeGroupsRequest([GROUP, "elsewhere"], True)
    found, elsewhere = port.ask(ApiKey.DESCRIBE_GROUPS, version, request).groups
    # READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS
    assert found.authorized_operations == sum(1 << each for each in (3, 6, 8, 10, 11))
    assert elsewhere.authorized_operations == OMITTED


# -- DeleteGroups


@pytest.mark.parametrize("version", versions(ApiKey.DELETE_GROUPS))
def test_groups_are_deleted(port: Port, version: int) -> None:
    port.coordinators.refused["elsewhere"] = GroupError.NOT_COORDINATOR
    names = ["empty", GROUP, "nobody", "elsewhere", "empty"]
    answer = port.ask(ApiKey.DELETE_GROUPS, version, DeleteGroupsRequest(names))
    assert [(each.group_id, each.error_code) for each in answer.results] == [
        ("empty", 0),
        (GROUP, ErrorCode.NON_EMPTY_GROUP),
        ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
        ("elsewhere", ErrorCode.NOT_COORDINATOR),
    ]


def test_a_deletion_is_answered_when_it_is_in_the_log_and_not_before(port: Port) -> None:
    port.coordinators.holds_writes = True
    request = DeleteGroupsRequest(["empty", "nobody"])
    assert port.ask(ApiKey.DELETE_GROUPS, 2, request) is None
    port.coordinators.commit()
    codes = [each.error_code for each in port.take().results]
    assert codes == [0, ErrorCode.GROUP_ID_NOT_FOUND]


def test_groups_that_are_deleted_are_told(port: Port) -> None:
    port.audit.trail.take(0, 0)
    request = DeleteGroupsRequest(["empty", GROUP, "nobody"])
    port.ask(ApiKey.DELETE_GROUPS, 2, request)
    events = port.audit.trail.take(0, 0)
    assert [(each.operation, each.resource) for each in events] == [("delete-group", "empty")]
