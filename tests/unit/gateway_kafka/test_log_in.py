"""Log-ins at the wire: who does not get in, and who has to go (groups 1, 2 and 7)."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkaesque.access.attempts import AttemptConfig, Attempts
from kafkaesque.access.principals import User
from kafkaesque.access.scram_client import ScramClient
from kafkaesque.access.scram_mechanisms import SCRAM_SHA_256
from kafkaesque.access.secret import Secret
from kafkaesque.broker.listeners import AccessMode
from kafkaesque.broker.requests.access_commands import PutUser, RemoveCredential, RemoveUser
from kafkaesque.chassis import link, logins
from kafkaesque.gateway.kafka.handlers import HANDLERS
from kafkaesque.protocols.kafka.api import SUPPORTED, ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.api_versions_request import ApiVersionsRequest
from kafkaesque.protocols.kafka.messages.metadata_request import (
    MetadataRequest,
    MetadataRequestTopic,
)
from kafkaesque.protocols.kafka.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kafkaesque.protocols.kafka.messages.sasl_handshake_request import SaslHandshakeRequest
from tests.unit.gateway_kafka.live import LiveCluster
from tests.unit.gateway_kafka.secured import (
    PASSWORD,
    SCRAM,
    SECRET,
    SUPER,
    Client,
    Closed,
    LoginRefused,
    add_user,
    change,
    produce,
)
from tests.unit.gateway_kafka.test_cut_requests import empty_request

#: Within this time a revoked client has to be out.
REVOKED_S = 1.0
BEFORE_LOGIN = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)


@pytest.fixture(scope="module")
def required(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """A broker that lets in those who log in, and nobody else; alice is known."""
    cluster = _make_required(tmp_path_factory.mktemp("required"))
    yield cluster
    cluster.close()


@pytest.fixture
def untouched(tmp_path: Path) -> Iterator[LiveCluster]:
    """One like it, at which no other test has left strangers."""
    cluster = _make_required(tmp_path)
    yield cluster
    cluster.close()


def _make_required(directory: Path) -> LiveCluster:
    cluster = LiveCluster(
        directory, access=AccessMode.REQUIRED, secrets=[SECRET], super_users=[SUPER]
    )
    add_user(cluster, "alice")
    add_user(cluster, "root")
    return cluster


@pytest.fixture
def client(required: LiveCluster) -> Iterator[Client]:
    found = Client(required)
    yield found
    found.close()


# -- before the log-in


@pytest.mark.parametrize(
    "key",
    [key for key in sorted(HANDLERS) if key not in BEFORE_LOGIN],
    ids=lambda k: ApiKey(k).name,
)
def test_no_api_but_those_of_a_log_in_is_answered_before_it(client: Client, key: int) -> None:
    client.request(empty_request(key))
    assert client.is_closed()


def test_api_versions_is_answered_before_the_log_in(client: Client) -> None:
    answer = client.ask(ApiVersionsRequest("test", "1"))
    assert {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE} <= {
        each.api_key for each in answer.api_keys
    }


def test_a_handshake_without_frames_after_it_is_refused(client: Client) -> None:
    body = struct.pack(">hhih", ApiKey.SASL_HANDSHAKE, 0, 7, -1) + b"\0\5PLAIN"
    client.send(struct.pack(">i", len(body)) + body)
    assert client.is_closed()


def test_authenticating_without_a_handshake_closes(client: Client) -> None:
    client.request(SaslAuthenticateRequest(b"\0alice\0" + PASSWORD.encode()))
    assert client.is_closed()


@pytest.mark.parametrize("mechanism", ["GSSAPI", "", "scram-sha-256", "EXTERNAL"])
def test_an_unknown_mechanism_is_told_the_others_and_closed(client: Client, mechanism: str) -> None:
    answer = client.begin(mechanism)
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert set(answer.mechanisms) >= {"SCRAM-SHA-512", "SCRAM-SHA-256"}
    assert client.is_closed()


def test_a_mechanism_cannot_be_switched_within_a_log_in(client: Client) -> None:
    assert client.begin(SCRAM).error_code == 0
    client.request(SaslHandshakeRequest("PLAIN"))
    assert client.is_closed()


def test_nothing_comes_between_the_steps(client: Client) -> None:
    client.begin(SCRAM)
    client.request(ApiVersionsRequest("test", "1"))
    assert client.is_closed()


def test_a_request_sent_along_with_the_log_in_does_not_overtake_it(client: Client) -> None:
    client.begin("PLAIN")
    client.request(SaslAuthenticateRequest(b"\0alice\0wrong"))
    client.request(MetadataRequest(topics=None))
    # The refusal, and nothing of the metadata.
    assert len(client.receive()) < 100
    assert client.is_closed()


def test_a_long_frame_is_refused_before_it_has_come(client: Client) -> None:
    client.send(struct.pack(">i", logins.LOGIN_BYTES_MAX + 1))
    # Not because its time is up, which is so after ten seconds.
    assert client.is_closed(5)


def test_long_frames_are_taken_after_the_log_in(required: LiveCluster, client: Client) -> None:
    client.log_in("root")
    names = [f"x{number:06d}" for number in range(4_000)]
    asked = [MetadataRequestTopic(name=name) for name in names]
    answer = client.ask(MetadataRequest(topics=asked, allow_auto_topic_creation=False))
    assert len(answer.topics) == len(names)


def test_whoever_trickles_has_ten_seconds(
    required: LiveCluster, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "LOGIN_MS_MAX", 300)
    slow = Client(required)
    slow.send(b"\0")
    assert not slow.is_closed(0.1)
    slow.send(b"\0")
    assert slow.is_closed(5)
    # Those who have logged in meanwhile stay.
    other = Client(required)
    other.log_in("alice")
    assert not other.is_closed(0.6)


def test_strangers_are_few_and_the_first_has_to_go(
    untouched: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logins, "STRANGERS_MAX", 3)
    # So that none of them goes because it has not logged in for long.
    monkeypatch.setattr(link, "LOGIN_MS_MAX", 3_600_000)
    insider = Client(untouched)
    insider.log_in("alice")
    found = untouched.nodes[1].chassis.logins
    assert found is not None
    strangers = [Client(untouched) for _ in range(4)]
    assert strangers[0].is_closed()
    assert found.strangers == 3
    assert insider.ask(MetadataRequest(topics=[])).brokers
    for each in strangers:
        each.close()
    untouched.wait(lambda: found.strangers == 0, "strangers that are gone are not counted")


# -- right and wrong


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "PLAIN"])
def test_the_right_password_lets_in(client: Client, mechanism: str) -> None:
    answer = client.log_in("alice", mechanism=mechanism)
    assert answer.session_lifetime_ms == 0
    assert client.ask(MetadataRequest(topics=[])).brokers


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "PLAIN"])
@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", PASSWORD)])
def test_a_wrong_password_and_an_unknown_user_are_told_the_same(
    required: LiveCluster, mechanism: str, user: str, password: str
) -> None:
    client = Client(required)
    with pytest.raises(LoginRefused) as refused:
        client.log_in(user, password, mechanism)
    assert refused.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert refused.value.message == "Authentication failed."
    assert client.is_closed()


def test_a_verifier_for_one_hash_is_none_for_the_other(client: Client) -> None:
    with pytest.raises(LoginRefused):
        client.log_in("alice", mechanism="SCRAM-SHA-512")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text.replace(b"r=", b"r=x", 1),
        lambda text: text.replace(b",p=", b"x,p=", 1),
        lambda text: text.replace(b"c=biws", b"c=eSws", 1),
    ],
    ids=["nonce before", "nonce after", "another header"],
)
def test_a_changed_message_of_scram_is_refused(
    client: Client, spoil: Callable[[bytes], bytes]
) -> None:
    client.begin()
    scram = ScramClient(SCRAM_SHA_256, "alice", Secret.of(PASSWORD), os.urandom(18))
    final = scram.final(bytes(client.step(scram.first()).auth_bytes))
    assert spoil(final) != final
    with pytest.raises(LoginRefused):
        client.step(spoil(final))
    assert client.is_closed()


def test_a_proof_is_worth_nothing_on_another_connection(required: LiveCluster) -> None:
    first, second = Client(required), Client(required)
    scram = ScramClient(SCRAM_SHA_256, "alice", Secret.of(PASSWORD), b"n" * 18)
    first.begin()
    final = scram.final(bytes(first.step(scram.first()).auth_bytes))
    first.step(final)
    second.begin()
    second.step(scram.first())
    with pytest.raises(LoginRefused):
        second.step(final)


def test_acting_as_somebody_else_is_refused(client: Client) -> None:
    client.begin("PLAIN")
    with pytest.raises(LoginRefused):
        client.step(b"root\0alice\0" + PASSWORD.encode())


def test_refusals_come_later_and_later(
    required: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = required.nodes[1].chassis.logins
    assert found is not None
    loop, waits = required.loop, []
    for _ in range(5):
        client, begun = Client(required), loop.time()
        with pytest.raises(LoginRefused):
            client.log_in("mallory", "wrong")
        waits.append(loop.time() - begun)
    # Three cost nothing; then a quarter of a second, then half a second after that.
    assert waits[3] >= 0.25
    assert waits[4] >= 0.5
    assert waits[4] > waits[3]
    # Others from the same address are not kept waiting for long.
    Client(required).log_in("alice")


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "PLAIN"])
def test_guesses_ahead_of_the_refusals_that_are_due_are_not_looked_at(
    required: LiveCluster, monkeypatch: pytest.MonkeyPatch, mechanism: str
) -> None:
    found = required.nodes[1].chassis.logins
    assert found is not None
    config = AttemptConfig(
        free_failures=0, delay_ms_min=60_000, delay_ms_max=60_000, backlog_ms_max=1
    )
    monkeypatch.setattr(found, "attempts", Attempts(config))
    (meter,) = required.nodes[1].chassis.meters.values()
    failures = meter.login_failures
    guess = Client(required)
    guess.begin("PLAIN")
    guess.request(SaslAuthenticateRequest(b"\0alice\0wrong"))
    required.wait(lambda: meter.login_failures > failures, "the guess is counted")
    # Even the right one, for nobody could tell it from a guess; others are not concerned.
    with pytest.raises(Closed):
        Client(required).log_in("alice", mechanism=mechanism)
    Client(required).log_in("root", mechanism=mechanism)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "PLAIN"])
def test_a_disabled_and_an_expired_credential_let_nobody_in(
    required: LiveCluster, mechanism: str
) -> None:
    add_user(required, "disabled", is_disabled=True)
    add_user(required, "expired", expires_ms=1)
    add_user(required, "elsewhere", networks=("10.0.0.0/8",))
    for name in ("disabled", "expired", "elsewhere"):
        with pytest.raises(LoginRefused):
            Client(required).log_in(name, mechanism=mechanism)


def test_connections_of_a_user_are_counted_for_the_user(required: LiveCluster) -> None:
    client = Client(required)
    client.log_in("alice")
    users = {
        each.identity.user
        for each in required.nodes[1].gateway.connections.values()
        if each.identity is not None
    }
    assert "alice" in users


# -- who has to go


def _out(client: Client, action: Callable[[], None]) -> None:
    assert client.ask(MetadataRequest(topics=[])).brokers
    action()
    assert client.is_closed(REVOKED_S)


@pytest.mark.parametrize("what", ["user disabled", "user removed", "credential", "new password"])
def test_who_is_revoked_is_out_within_a_second(required: LiveCluster, what: str) -> None:
    credential = add_user(required, "carol")
    client = Client(required)
    client.log_in("carol")
    actions: dict[str, Callable[[], Any]] = {
        "user disabled": lambda: change(
            required, PutUser(user=User(name="carol", is_disabled=True))
        ),
        "user removed": lambda: change(required, RemoveUser(name="carol")),
        "credential": lambda: change(required, RemoveCredential(id=credential)),
        "new password": lambda: add_user(required, "carol", password="another"),
    }
    other = Client(required)
    other.log_in("alice")
    _out(client, actions[what])
    assert other.ask(MetadataRequest(topics=[])).brokers
    if what != "user removed":
        change(required, RemoveUser(name="carol"))


def test_the_revoked_are_out_at_all_brokers(tmp_path: Path) -> None:
    cluster = LiveCluster(tmp_path, count=3, access=AccessMode.REQUIRED, secrets=[SECRET])
    try:
        add_user(cluster, "carol")
        clients = [Client(cluster, node=node) for node in (1, 2, 3)]
        for each in clients:
            each.log_in("carol")
        change(cluster, RemoveUser(name="carol"), node=2)
        assert [each.is_closed(REVOKED_S) for each in clients] == [True] * 3
    finally:
        cluster.close()


# -- logging in again


def test_a_session_ends_unless_it_is_renewed(tmp_path: Path) -> None:
    cluster = LiveCluster(
        tmp_path,
        access=AccessMode.REQUIRED,
        secrets=[SECRET],
        options={"connections.max.reauth.ms": 1_000},
    )
    try:
        add_user(cluster, "alice")
        add_user(cluster, "bob")
        lazy, busy, other = Client(cluster), Client(cluster), Client(cluster)
        for each in (lazy, busy, other):
            assert each.log_in("alice").session_lifetime_ms == 1_000
        cluster.run_for(0.7)
        assert busy.log_in("alice").session_lifetime_ms == 1_000
        with pytest.raises(LoginRefused):
            other.log_in("bob")
        assert other.is_closed()
        assert lazy.is_closed(0.9)
        cluster.run_for(0.1)
        assert busy.ask(MetadataRequest(topics=[])).brokers
        # Nothing comes between the steps, and the mechanism stays.
        busy.begin()
        busy.request(MetadataRequest(topics=[]))
        assert busy.is_closed()
    finally:
        cluster.close()


def test_a_mechanism_is_not_switched_when_logging_in_again(client: Client) -> None:
    client.log_in("alice")
    assert client.begin("PLAIN").error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert client.is_closed()


def test_a_session_ends_with_its_credential(required: LiveCluster) -> None:
    clock = required.nodes[1].world.env.clock
    add_user(required, "brief", expires_ms=clock.wall_ms() + 1_500)
    client = Client(required)
    assert 0 < client.log_in("brief").session_lifetime_ms <= 1_500
    assert client.is_closed(3)


# -- open and optional


def test_an_open_listener_takes_any_name_and_believes_none(live: LiveCluster) -> None:
    live.create_topic("t")
    client = Client(live)
    assert list(client.begin("PLAIN").mechanisms) == ["PLAIN"]
    client.step(b"\0guest\0guest")
    assert produce(client, "t") == 0
    connections = live.nodes[1].gateway.connections.values()
    assert {each.identity.user for each in connections if each.identity} == {"ANONYMOUS"}
    # As often as it likes; and nothing is to be told of what was never asked for.
    client.begin("PLAIN")
    client.step(b"")
    answer = client.ask(SaslAuthenticateRequest(b""))
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    client.close()
    live.run_for(0.05)


def test_an_optional_listener_counts_who_comes_without(tmp_path: Path) -> None:
    cluster = LiveCluster(tmp_path, access=AccessMode.OPTIONAL, secrets=[SECRET])
    try:
        cluster.create_topic("t")
        add_user(cluster, "alice")
        (meter,) = cluster.nodes[1].chassis.meters.values()
        before = meter.without_login
        anonymous, alice = Client(cluster), Client(cluster)
        assert [produce(anonymous, "t"), produce(anonymous, "t")] == [0, 0]
        assert meter.without_login == before + 1
        alice.log_in("alice")
        assert produce(alice, "t") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert meter.without_login == before + 1
        assert meter.logged_in == 1
        with pytest.raises(LoginRefused):
            Client(cluster).log_in("alice", "wrong")
        assert meter.login_failures == 1
    finally:
        cluster.close()


def test_a_client_may_hang_up_while_its_password_is_checked(required: LiveCluster) -> None:
    client = Client(required)
    client.begin("PLAIN")
    client.request(SaslAuthenticateRequest(b"\0alice\0wrong"))
    client.close()
    required.run_for(0.2)
    with pytest.raises((LoginRefused, Closed)):
        Client(required).log_in("alice", "wrong")


def test_the_versions_of_the_log_in_are_all_answered(required: LiveCluster) -> None:
    for version in range(SUPPORTED[ApiKey.SASL_AUTHENTICATE].last + 1):
        client = Client(required)
        client.begin("PLAIN")
        client.step(b"\0alice\0" + PASSWORD.encode(), version)
