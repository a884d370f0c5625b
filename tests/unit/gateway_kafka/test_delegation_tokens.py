"""Delegation tokens at the wire: who makes, renews, sees and ends them, and who logs in by them."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from typing import Any

import pytest

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.scram_client import ScramClient
from kafkaesque.access.scram_mechanisms import SCRAM_MECHANISMS
from kafkaesque.access.secret import Secret
from kafkaesque.broker.listeners import AccessMode
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.create_delegation_token_request import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from kafkaesque.protocols.kafka.messages.create_topics_request import (
    CreatableTopic,
    CreateTopicsRequest,
)
from kafkaesque.protocols.kafka.messages.describe_delegation_token_request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kafkaesque.protocols.kafka.messages.expire_delegation_token_request import (
    ExpireDelegationTokenRequest,
)
from kafkaesque.protocols.kafka.messages.renew_delegation_token_request import (
    RenewDelegationTokenRequest,
)
from tests.unit.gateway_kafka.live import LiveCluster
from tests.unit.gateway_kafka.secured import (
    SECRET,
    SUPER,
    Client,
    LoginRefused,
    add_user,
    allow,
    forget_rules,
    produce,
)

TOPIC = "orders"
USERS = ("root", "alice", "bob", "carol")
HOUR_MS = 3_600_000
OUT_S = 1.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    found = LiveCluster(
        tmp_path_factory.mktemp("tokens"),
        access=AccessMode.REQUIRED,
        secrets=[SECRET],
        super_users=[SUPER],
    )
    for user in USERS:
        add_user(found, user)
    root = logged_in(found, "root")
    assert root.ask(CreateTopicsRequest([CreatableTopic(TOPIC, 1, 1)], 10_000)).topics
    allow(found, "alice", Operation.WRITE, ResourceType.TOPIC, TOPIC)
    yield found
    found.close()


def logged_in(cluster: LiveCluster, user: str) -> Client:
    client = Client(cluster)
    client.log_in(user)
    return client


@pytest.fixture
def alice(cluster: LiveCluster) -> Client:
    return logged_in(cluster, "alice")


def create(client: Client, **more: Any) -> Any:
    fields: dict[str, Any] = {"owner_principal_name": None, "max_lifetime_ms": -1, **more}
    return client.ask(CreateDelegationTokenRequest(**fields))


def token_client(cluster: LiveCluster, token: Any, mechanism: str = "SCRAM-SHA-256") -> Client:
    """Returns a client that has logged in by a token."""
    client = Client(cluster)
    assert client.begin(mechanism).error_code == 0
    scram = ScramClient(
        SCRAM_MECHANISMS[mechanism],
        token.token_id,
        Secret(base64.b64encode(bytes(token.hmac))),
        os.urandom(18),
        is_token=True,
    )
    answer = client.step(scram.final(bytes(client.step(scram.first()).auth_bytes)))
    scram.verify(bytes(answer.auth_bytes))
    assert answer.session_lifetime_ms > 0
    return client


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_holder_is_the_owner(cluster: LiveCluster, alice: Client, mechanism: str) -> None:
    token = create(alice)
    assert token.error_code == 0
    assert (token.principal_type, token.principal_name) == ("User", "alice")
    assert token.token_requester_principal_name == "alice"
    assert len(token.hmac) == 32
    assert token.issue_timestamp < token.expiry_timestamp < token.max_timestamp
    holder = token_client(cluster, token, mechanism)
    assert produce(holder, TOPIC) == 0


@pytest.mark.parametrize("version", [1, 2, 3])
def test_in_each_version(alice: Client, version: int) -> None:
    fields = {"owner_principal_name": None} if version >= 3 else {}
    renewers = [CreatableRenewers("User", "bob")]
    request = CreateDelegationTokenRequest(max_lifetime_ms=HOUR_MS, renewers=renewers, **fields)
    token = alice.ask(request, version)
    assert token.error_code == 0
    assert token.max_timestamp - token.issue_timestamp == HOUR_MS
    described = alice.ask(DescribeDelegationTokenRequest(None), version)
    (found,) = [each for each in described.tokens if each.token_id == token.token_id]
    assert (found.renewers[0].principal_name, bytes(found.hmac)) == ("bob", b"")
    short = min(version, 2)
    renewal = alice.ask(RenewDelegationTokenRequest(token.hmac, 60_000), short)
    assert (renewal.error_code, renewal.expiry_timestamp < token.expiry_timestamp) == (0, True)
    assert alice.ask(ExpireDelegationTokenRequest(token.hmac, -1), short).error_code == 0
    assert token.token_id not in [
        each.token_id for each in alice.ask(DescribeDelegationTokenRequest(None), version).tokens
    ]


def test_a_holder_may_do_nothing_with_tokens(cluster: LiveCluster, alice: Client) -> None:
    token = create(alice)
    holder = token_client(cluster, token)
    refused = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert create(holder).error_code == refused
    assert holder.ask(RenewDelegationTokenRequest(token.hmac, -1)).error_code == refused
    assert holder.ask(ExpireDelegationTokenRequest(token.hmac, -1)).error_code == refused
    assert holder.ask(DescribeDelegationTokenRequest(None)).error_code == refused


def test_others_renew_and_end_a_token_only_if_they_are_named(
    cluster: LiveCluster, alice: Client
) -> None:
    token = create(alice, renewers=[CreatableRenewers("User", "bob")])
    bob, carol = logged_in(cluster, "bob"), logged_in(cluster, "carol")
    mismatch = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert carol.ask(RenewDelegationTokenRequest(token.hmac, -1)).error_code == mismatch
    assert carol.ask(ExpireDelegationTokenRequest(token.hmac, -1)).error_code == mismatch
    missing = ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert bob.ask(RenewDelegationTokenRequest(bytes(32), -1)).error_code == missing
    far = bob.ask(RenewDelegationTokenRequest(token.hmac, 10**15))
    assert (far.error_code, far.expiry_timestamp) == (0, token.max_timestamp)
    assert bob.ask(ExpireDelegationTokenRequest(token.hmac, -1)).error_code == 0


def test_a_token_for_another_needs_a_rule(cluster: LiveCluster, alice: Client) -> None:
    bob = logged_in(cluster, "bob")
    wanted = {"owner_principal_type": "User", "owner_principal_name": "alice"}
    refused = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert create(bob, **wanted).error_code == refused
    allow(cluster, "bob", Operation.CREATE_TOKENS, ResourceType.USER, "alice")
    token = create(bob, **wanted)
    assert (token.error_code, token.principal_name) == (0, "alice")
    assert token.token_requester_principal_name == "bob"
    assert produce(token_client(cluster, token), TOPIC) == 0
    forget_rules(cluster, "bob")
    kind = create(alice, renewers=[CreatableRenewers("Role", "ops")])
    assert kind.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE


def test_who_sees_which_tokens(cluster: LiveCluster, alice: Client) -> None:
    token = create(alice)
    carol = logged_in(cluster, "carol")

    def seen(client: Client, *owners: str) -> bool:
        asked = [DescribeDelegationTokenOwner("User", each) for each in owners] or None
        answer = client.ask(DescribeDelegationTokenRequest(asked))
        assert answer.error_code == 0
        return token.token_id in [each.token_id for each in answer.tokens]

    assert seen(alice)
    assert seen(alice, "alice", "bob")
    assert not seen(alice, "bob")
    assert not seen(carol)
    allow(cluster, "carol", Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
    assert seen(carol)
    forget_rules(cluster, "carol")
    allow(cluster, "carol", Operation.DESCRIBE_TOKENS, ResourceType.USER, "alice")
    assert seen(carol)
    forget_rules(cluster, "carol")
    assert seen(logged_in(cluster, "root"))


@pytest.mark.parametrize("how", ["ended", "expires"])
def test_a_token_that_is_over_lets_nobody_in_and_nobody_stay(
    cluster: LiveCluster, alice: Client, how: str
) -> None:
    token = create(alice)
    holder = token_client(cluster, token)
    request = ExpireDelegationTokenRequest(token.hmac, -1 if how == "ended" else 1)
    assert alice.ask(request).error_code == 0
    assert holder.is_closed(OUT_S)
    with pytest.raises(LoginRefused):
        token_client(cluster, token)
    renewal = alice.ask(RenewDelegationTokenRequest(token.hmac, -1))
    assert renewal.error_code in (
        ErrorCode.DELEGATION_TOKEN_NOT_FOUND,
        ErrorCode.DELEGATION_TOKEN_EXPIRED,
    )


def test_a_token_is_no_password_and_a_password_no_token(
    cluster: LiveCluster, alice: Client
) -> None:
    token = create(alice)
    with pytest.raises(LoginRefused):
        Client(cluster).log_in(token.token_id, base64.b64encode(bytes(token.hmac)).decode())

    class Faked:
        token_id, hmac = "alice", b"a password"

    with pytest.raises(LoginRefused):
        token_client(cluster, Faked())


def test_those_that_are_over_go_when_another_is_made(cluster: LiveCluster, alice: Client) -> None:
    token = create(alice)
    state = cluster.nodes[1].broker.doors.access
    assert alice.ask(ExpireDelegationTokenRequest(token.hmac, 1)).error_code == 0
    assert token.token_id in state.state.credentials
    assert create(alice).error_code == 0
    assert token.token_id not in state.state.credentials


def test_on_an_open_listener_nobody_has_a_token(live_open: LiveCluster) -> None:
    client = Client(live_open)
    assert create(client).error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


@pytest.fixture
def live_open(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    found = LiveCluster(tmp_path_factory.mktemp("open"))
    yield found
    found.close()
