"""Clients whose certificate says who they are: as whom they come in, and who does not."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.principals import User
from kafkaesque.broker.listeners import AccessMode, LogInBy
from kafkaesque.broker.requests.access_commands import PutUser, RemoveUser
from kafkaesque.model.errors import ConfigError
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.create_topics_request import (
    CreatableTopic,
    CreateTopicsRequest,
)
from kafkaesque.protocols.kafka.messages.metadata_request import MetadataRequest
from kafkaesque.server.tls_settings import ClientAuth
from tests.certificates import TestAuthority
from tests.unit.gateway_kafka.live import LiveCluster
from tests.unit.gateway_kafka.secured import (
    SECRET,
    SUPER,
    Client,
    Closed,
    add_user,
    allow,
    change,
    produce,
)

TOPIC, OTHER = "orders", "salaries"
OUT_S = 1.0


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> TestAuthority:
    found = TestAuthority(tmp_path_factory.mktemp("ca"), "live")
    for name in ("root", "bob"):
        found.authority.issue_user(name)
    found.forge("plain-cn", common_name="carol")
    found.forge("two-names", uris=("kafkaesque://live/user/app",), common_name="root")
    found.forge("broker-uri", uris=("kafkaesque://live/broker/1",), common_name="root")
    found.forge("elsewhere", uris=("kafkaesque://other/user/root",), common_name="root")
    found.forge("twice", uris=("kafkaesque://live/user/app", "kafkaesque://live/user/root"))
    return found


def secured(
    directory: Path,
    authority: TestAuthority,
    *,
    by: LogInBy = LogInBy.CERTIFICATE,
    auth: ClientAuth = ClientAuth.OPTIONAL,
    access: AccessMode = AccessMode.REQUIRED,
    **more: Any,
) -> LiveCluster:
    cluster = LiveCluster(
        directory,
        access=access,
        secrets=[SECRET],
        super_users=[SUPER],
        listening={"tls": "tls", "log_in_by": by},
        teach=lambda network: authority.teach(network, auth),
        **more,
    )
    root = Client(cluster, tls=authority.client("root"))
    topics = [CreatableTopic(each, 1, 1) for each in (TOPIC, OTHER)]
    assert root.ask(CreateTopicsRequest(topics, 10_000)).topics[0].error_code == 0
    root.close()
    for user in ("app", "carol"):
        allow(cluster, user, Operation.WRITE, ResourceType.TOPIC, TOPIC)
    return cluster


@contextmanager
def closing(cluster: LiveCluster) -> Iterator[LiveCluster]:
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, authority: TestAuthority
) -> Iterator[LiveCluster]:
    with closing(secured(tmp_path_factory.mktemp("by-certificate"), authority)) as found:
        yield found


@pytest.mark.parametrize("name", ["app", "plain-cn"])
def test_who_shows_a_certificate_is_its_user_in_rules(
    cluster: LiveCluster, authority: TestAuthority, name: str
) -> None:
    client = Client(cluster, tls=authority.client(name))
    assert produce(client, TOPIC) == 0
    assert produce(client, OTHER) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    client.close()


def test_what_counts_users_counts_it(cluster: LiveCluster, authority: TestAuthority) -> None:
    client = Client(cluster, tls=authority.client("app"))
    assert client.ask(MetadataRequest(topics=[])).brokers
    live = cluster.nodes[1]
    users = [each.identity.user for each in live.gateway.connections.values() if each.identity]
    assert users == ["app"]
    client.close()


@pytest.mark.parametrize("name", [None, "two-names", "broker-uri", "elsewhere", "twice"])
def test_who_has_no_certificate_of_a_user_is_closed(
    cluster: LiveCluster, authority: TestAuthority, name: str | None
) -> None:
    client = Client(cluster, tls=authority.client(name))
    # At once: not after the time that there is for a log-in.
    assert client.is_closed(5)


def test_nobody_logs_in_by_sasl_there(cluster: LiveCluster, authority: TestAuthority) -> None:
    client = Client(cluster, tls=authority.client("app"))
    answer = client.begin()
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.is_closed()


def test_who_is_disabled_is_out_within_a_second(
    cluster: LiveCluster, authority: TestAuthority
) -> None:
    client = Client(cluster, tls=authority.client("bob"))
    assert client.ask(MetadataRequest(topics=[])).brokers
    change(cluster, PutUser(user=User(name="bob", is_disabled=True)))
    assert client.is_closed(OUT_S)
    again = Client(cluster, tls=authority.client("bob"))
    assert again.is_closed()
    change(cluster, RemoveUser(name="bob"))
    third = Client(cluster, tls=authority.client("bob"))
    assert third.ask(MetadataRequest(topics=[])).brokers
    third.close()


def test_the_connection_ends_with_the_certificate(
    cluster: LiveCluster, authority: TestAuthority
) -> None:
    authority.forge("short", common_name="app", lasts=dt.timedelta(seconds=3))
    client = Client(cluster, tls=authority.client("short"))
    assert produce(client, TOPIC) == 0
    assert client.is_closed(10)


def test_who_has_no_certificate_is_anonymous_on_an_optional_listener(
    tmp_path: Path, authority: TestAuthority
) -> None:
    with closing(secured(tmp_path, authority, access=AccessMode.OPTIONAL)) as cluster:
        client = Client(cluster, tls=authority.client("app"))
        assert produce(client, OTHER) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        stranger = Client(cluster, tls=authority.client())
        assert produce(stranger, OTHER) == 0
        (port,) = cluster.nodes[1].gateway.ports
        assert next(iter(port.connections.values())).shared.meter.without_login == 1
        # To take back a user's rights is not undone by showing nothing of use.
        change(cluster, PutUser(user=User(name="app", is_disabled=True)))
        assert Client(cluster, tls=authority.client("app")).is_closed()


def test_a_client_with_a_certificate_may_log_in_as_somebody_else_on_such_a_listener(
    tmp_path: Path, authority: TestAuthority
) -> None:
    with closing(secured(tmp_path, authority, by=LogInBy.EITHER)) as cluster:
        add_user(cluster, "carol")
        client = Client(cluster, tls=authority.client("bob"))
        assert produce(client, TOPIC) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        client.log_in("carol")
        assert produce(client, TOPIC) == 0
        # Once it has logged in, nobody becomes somebody else.
        add_user(cluster, "dave")
        with pytest.raises(Exception, match="Authentication failed"):
            client.log_in("dave")
        stranger = Client(cluster, tls=authority.client())
        stranger.request(MetadataRequest(topics=[]))
        assert stranger.is_closed()
        nameless = Client(cluster, tls=authority.client("two-names"))
        nameless.log_in("carol")
        assert produce(nameless, TOPIC) == 0


def test_a_certificate_names_nobody_where_clients_log_in_by_sasl(
    tmp_path: Path, authority: TestAuthority
) -> None:
    with closing(secured_by_sasl(tmp_path, authority)) as cluster:
        client = Client(cluster, tls=authority.client("root"))
        client.request(MetadataRequest(topics=[]))
        assert client.is_closed()


def secured_by_sasl(directory: Path, authority: TestAuthority) -> LiveCluster:
    return LiveCluster(
        directory,
        access=AccessMode.REQUIRED,
        secrets=[SECRET],
        super_users=[SUPER],
        listening={"tls": "tls"},
        teach=lambda network: authority.teach(network, ClientAuth.REQUIRED),
    )


@pytest.mark.parametrize(
    ("rules", "outcome"),
    [
        ("RULE:^CN=(.*)$/$1/U", "CAROL"),
        ("RULE:^OU=.*$/nobody/,DEFAULT", "CN=carol"),
        ("RULE:^OU=.*$/nobody/", None),
    ],
)
def test_kafkas_mapping_rules_name_the_user(
    tmp_path: Path, authority: TestAuthority, rules: str, outcome: str | None
) -> None:
    with closing(secured(tmp_path, authority, mapping_rules=rules)) as cluster:
        client = Client(cluster, tls=authority.client("plain-cn"))
        if outcome is None:
            with pytest.raises(Closed):
                produce(client, TOPIC)
            return
        assert produce(client, TOPIC) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        allow(cluster, outcome, Operation.WRITE, ResourceType.TOPIC, TOPIC)
        assert produce(client, TOPIC) == 0


def test_a_rule_that_cannot_be_read_stops_the_start(
    tmp_path: Path, authority: TestAuthority
) -> None:
    with pytest.raises(ConfigError, match="RE2 does not take"):
        LiveCluster(tmp_path, mapping_rules=r"RULE:^(.*)\1$/$1/")
