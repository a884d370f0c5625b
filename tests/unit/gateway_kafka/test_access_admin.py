"""Rules and SCRAM credentials by Kafka's admin APIs, at the wire."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkaesque.access.scram_mechanisms import SCRAM_SHA_512
from kafkaesque.broker.listeners import AccessMode
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kafkaesque.protocols.kafka.messages.create_acls_request import AclCreation, CreateAclsRequest
from kafkaesque.protocols.kafka.messages.delete_acls_request import (
    DeleteAclsFilter,
    DeleteAclsRequest,
)
from kafkaesque.protocols.kafka.messages.describe_acls_request import DescribeAclsRequest
from kafkaesque.protocols.kafka.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from tests.unit.gateway_kafka.live import LiveCluster
from tests.unit.gateway_kafka.secured import SECRET, SUPER, Client, LoginRefused, add_user

ANY, TOPIC, LITERAL, PREFIXED, MATCH = 1, 2, 3, 4, 2
READ, WRITE, DENY, ALLOW = 3, 4, 2, 3
SHA_256, SHA_512 = 1, 2


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    found = LiveCluster(
        tmp_path_factory.mktemp("admin"),
        access=AccessMode.REQUIRED,
        secrets=[SECRET],
        super_users=[SUPER],
    )
    add_user(found, "root")
    yield found
    found.close()


@pytest.fixture
def root(cluster: LiveCluster) -> Iterator[Client]:
    client = Client(cluster)
    client.log_in("root")
    yield client
    client.ask(DeleteAclsRequest([DeleteAclsFilter(ANY, None, ANY, None, None, ANY, ANY)]))
    client.close()


def creation(
    name: str, *, pattern: int = LITERAL, user: str = "User:x", **more: Any
) -> AclCreation:
    fields = {"operation": READ, "permission_type": ALLOW, "host": "*", **more}
    return AclCreation(TOPIC, name, pattern, user, **fields)


def described(root: Client, *asked: Any, version: int = 3) -> list[tuple[Any, ...]]:
    answer = root.ask(DescribeAclsRequest(*asked), version)
    assert answer.error_code == 0, answer
    return sorted(
        (each.resource_type, each.resource_name, each.pattern_type, acl.principal, acl.operation)
        for each in answer.resources
        for acl in each.acls
    )


EVERYTHING = (ANY, None, ANY, None, None, ANY, ANY)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_rules_are_added_shown_and_removed(root: Client, version: int) -> None:
    creations = [creation("a"), creation("a-", pattern=PREFIXED), creation("*", operation=WRITE)]
    for _ in range(2):  # What is there is there.
        answer = root.ask(CreateAclsRequest(creations), version)
        assert [each.error_code for each in answer.results] == [0, 0, 0]
    assert described(root, *EVERYTHING, version=version) == [
        (TOPIC, "*", LITERAL, "User:x", WRITE),
        (TOPIC, "a", LITERAL, "User:x", READ),
        (TOPIC, "a-", PREFIXED, "User:x", READ),
    ]
    matching = described(root, TOPIC, "a-b", MATCH, None, None, ANY, ANY, version=version)
    assert [each[1] for each in matching] == ["*", "a-"]
    removal = DeleteAclsRequest(
        [
            DeleteAclsFilter(TOPIC, "a", LITERAL, None, None, ANY, ANY),
            DeleteAclsFilter(TOPIC, "nothing", LITERAL, None, None, ANY, ANY),
        ]
    )
    answer = root.ask(removal, version)
    assert [each.error_code for each in answer.filter_results] == [0, 0]
    removed = [[acl.resource_name for acl in each.matching_acls] for each in answer.filter_results]
    assert removed == [["a"], []]
    assert len(described(root, *EVERYTHING, version=version)) == 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"user": "alice"},
        {"operation": 99},
        {"operation": ANY},
        {"permission_type": ANY},
        {"host": "example.org"},
        {"pattern": MATCH},
        {"name": ""},
    ],
    ids=str,
)
def test_a_rule_that_is_not_possible_is_refused_by_itself(
    root: Client, wrong: dict[str, Any]
) -> None:
    bad = creation(**{"name": "b", **wrong})
    answer = root.ask(CreateAclsRequest([bad, creation("good")]))
    assert [each.error_code for each in answer.results] == [ErrorCode.INVALID_REQUEST, 0]
    assert answer.results[0].error_message
    assert [each[1] for each in described(root, *EVERYTHING)] == ["good"]


def test_a_filter_that_is_not_possible_is_refused(root: Client) -> None:
    answer = root.ask(DescribeAclsRequest(99, None, ANY, None, None, ANY, ANY))
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    removal = DeleteAclsRequest([DeleteAclsFilter(99, None, ANY, None, None, ANY, ANY)])
    assert root.ask(removal).filter_results[0].error_code == ErrorCode.INVALID_REQUEST


# -- credentials


def upsertion(user: str, password: str, *, iterations: int = 4096) -> ScramCredentialUpsertion:
    salt = os.urandom(16)
    salted = SCRAM_SHA_512.salted_password(password.encode(), salt, iterations)
    return ScramCredentialUpsertion(user, SHA_512, iterations, salt, salted)


def altered(root: Client, *changes: Any) -> dict[str, int]:
    deletions = [each for each in changes if isinstance(each, ScramCredentialDeletion)]
    upsertions = [each for each in changes if isinstance(each, ScramCredentialUpsertion)]
    answer = root.ask(AlterUserScramCredentialsRequest(deletions, upsertions))
    return {each.user: each.error_code for each in answer.results}


def test_a_credential_lets_in_until_it_is_removed(cluster: LiveCluster, root: Client) -> None:
    assert altered(root, upsertion("eve", "first"), upsertion("ann", "x", iterations=8192)) == {
        "eve": 0,
        "ann": 0,
    }
    eve = Client(cluster)
    eve.log_in("eve", "first", "SCRAM-SHA-512")
    answer = root.ask(DescribeUserScramCredentialsRequest([UserName("ann"), UserName("eve")]))
    infos = {
        each.user: [(info.mechanism, info.iterations) for info in each.credential_infos]
        for each in answer.results
    }
    assert infos == {"ann": [(SHA_512, 8192)], "eve": [(SHA_512, 4096)]}
    everybody = root.ask(DescribeUserScramCredentialsRequest(None))
    assert {each.user for each in everybody.results} >= {"root", "ann", "eve"}
    assert altered(root, ScramCredentialDeletion("eve", SHA_512)) == {"eve": 0}
    assert eve.is_closed(1)
    with pytest.raises(LoginRefused):
        Client(cluster).log_in("eve", "first", "SCRAM-SHA-512")


def test_what_the_client_has_salted_is_written_nowhere(cluster: LiveCluster, root: Client) -> None:
    change = upsertion("sam", "canary")
    assert altered(root, change) == {"sam": 0}
    secret = bytes(change.salted_password)
    directory = Path(cluster.broker.config.data_dir)
    files = [path for path in directory.rglob("*") if path.is_file()]
    assert files
    assert not any(secret in path.read_bytes() for path in files)
    verifier = cluster.broker.state.access.scram_verifiers("sam")[0]
    assert any(verifier.stored_key in path.read_bytes() for path in files)
    assert not any(b"canary" in report.encode() for report in cluster.reports)


def test_changes_that_are_not_possible_are_refused(root: Client) -> None:
    few = upsertion("few", "x")
    few.iterations = 1
    short = upsertion("short", "x")
    short.salted_password = b"x"
    unknown = upsertion("unknown", "x")
    unknown.mechanism = 9
    assert altered(
        root,
        few,
        short,
        unknown,
        upsertion("ANONYMOUS", "x"),
        upsertion("", "x"),
        upsertion("twice", "x"),
        upsertion("twice", "y"),
        ScramCredentialDeletion("nobody", SHA_256),
    ) == {
        "few": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "short": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "unknown": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        "ANONYMOUS": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "twice": ErrorCode.DUPLICATE_RESOURCE,
        "nobody": ErrorCode.RESOURCE_NOT_FOUND,
    }
    asked = [UserName("nobody"), UserName("root"), UserName("root")]
    answer = root.ask(DescribeUserScramCredentialsRequest(asked))
    assert {each.user: each.error_code for each in answer.results} == {
        "nobody": ErrorCode.RESOURCE_NOT_FOUND,
        "root": ErrorCode.DUPLICATE_RESOURCE,
    }
