"""DescribeAccess and AlterAccess, APIs of our own: who may ask, and who may have it changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from kafkaesque.access.administration import (
    AskExposure,
    AskGrants,
    AskRoles,
    AskUsers,
    Change,
    ChangeUser,
    DeleteRole,
    DeleteUser,
    MakeRole,
    Question,
)
from kafkaesque.access.operations import CLUSTER_NAME, Operation, ResourceType
from kafkaesque.broker.controller import planning
from kafkaesque.broker.listeners import AccessMode
from kafkaesque.chassis.rights import Rights
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.alter_access_request import AlterAccessRequest
from kafkaesque.protocols.kafka.messages.describe_access_request import DescribeAccessRequest
from tests.unit.gateway_kafka.live import LiveCluster
from tests.unit.gateway_kafka.secured import SECRET, SUPER, Client, add_user, allow, forget_rules

REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
QUESTIONS: list[Question] = [
    AskUsers(),
    AskRoles(),
    AskGrants(operation=Operation.READ, resource_type=ResourceType.TOPIC, name="salaries"),
    AskExposure(),
]
CHANGES: list[Change] = [
    MakeRole(name="robbers"),
    DeleteRole(name="there"),
    ChangeUser(name="bob", is_disabled=True),
    DeleteUser(name="bob"),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    found = LiveCluster(
        tmp_path_factory.mktemp("own-apis"),
        access=AccessMode.REQUIRED,
        secrets=[SECRET],
        super_users=[SUPER],
    )
    for user in ("root", "alice", "bob"):
        add_user(found, user)
    root = Client(found)
    root.log_in("root")
    assert not root.ask(AlterAccessRequest(msgspec.json.encode(MakeRole(name="there")))).error_code
    root.close()
    yield found
    found.close()


@pytest.fixture
def alice(cluster: LiveCluster) -> Iterator[Client]:
    client = Client(cluster)
    client.log_in("alice")
    yield client
    client.close()
    forget_rules(cluster, "alice")


def allow_cluster(cluster: LiveCluster, operation: Operation) -> None:
    allow(cluster, "alice", operation, ResourceType.CLUSTER, CLUSTER_NAME)


def ask(client: Client, question: Question) -> Any:
    return client.ask(DescribeAccessRequest(msgspec.json.encode(question)))


def change(client: Client, wanted: Change) -> Any:
    return client.ask(AlterAccessRequest(msgspec.json.encode(wanted)))


def known(cluster: LiveCluster) -> tuple[Any, ...]:
    state = cluster.nodes[1].broker.doors.access.state
    disabled = {name for name, user in state.users.items() if user.is_disabled}
    return set(state.users), disabled, set(state.roles)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda each: type(each).__name__)
def test_who_may_not_describe_the_cluster_is_told_nothing(
    cluster: LiveCluster, alice: Client, question: Question
) -> None:
    refused = ask(alice, question)
    assert (refused.error_code, bytes(refused.answer)) == (REFUSED, b"")
    allow_cluster(cluster, Operation.DESCRIBE)
    assert ask(alice, question).error_code == ErrorCode.NONE


@pytest.mark.parametrize("wanted", CHANGES, ids=lambda each: type(each).__name__)
def test_who_may_not_alter_the_cluster_changes_nothing(
    cluster: LiveCluster, alice: Client, wanted: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The broker's own check, without the controller's.
    monkeypatch.setattr(planning, "check_rights", lambda *_: None)
    before = known(cluster)
    allow_cluster(cluster, Operation.DESCRIBE)
    assert change(alice, wanted).error_code == REFUSED
    assert known(cluster) == before


@pytest.mark.parametrize("wanted", CHANGES, ids=lambda each: type(each).__name__)
def test_the_controller_judges_again(
    cluster: LiveCluster, alice: Client, wanted: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on a broker that has not heard that something was taken away.
    monkeypatch.setattr(Rights, "may", lambda *_: True)
    before = known(cluster)
    assert change(alice, wanted).error_code == REFUSED
    assert known(cluster) == before


def test_who_may_alter_the_cluster_changes_it(cluster: LiveCluster, alice: Client) -> None:
    allow_cluster(cluster, Operation.ALTER)
    assert change(alice, MakeRole(name="sellers")).error_code == ErrorCode.NONE
    assert "sellers" in known(cluster)[2]
