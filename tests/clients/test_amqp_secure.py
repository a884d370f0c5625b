"""AMQP over TLS, by pika: passwords, certificates (EXTERNAL), and permissions as RabbitMQ has them.

Users and permissions are made by RabbitMQ's management API, at an admin port of the machine alone.
"""

from __future__ import annotations

import contextlib
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest
import requests
from pika.adapters.blocking_connection import BlockingChannel
from pika.credentials import ExternalCredentials

from kafkaesque.cli.broker_ports import unused_ports
from tests.certificates import CLUSTER_ID, TestAuthority
from tests.waiting import eventually

PASSWORD = "a password of tests"


class SecureAmqp:
    """One broker that speaks AMQP over TLS, and who may log in there."""

    def __init__(self, folder: Path) -> None:
        self.authority = TestAuthority(folder / "ca")
        self.authority.authority.issue_user("bob")
        kafka, peer, self.admin, self.amqp = unused_ports(4)
        secret = folder / "secret"
        secret.write_text("a secret of the cluster, for tests\n")
        secret.chmod(0o600)
        own = self.authority
        (folder / "broker.toml").write_text(
            f'[broker]\nid = 1\ncluster.id = "{CLUSTER_ID}"\ndata = "{folder}/data"\n'
            f'cluster.secret.file = "{secret}"\n'
            f"kafka.port = {kafka}\npeer.port = {peer}\ntext.port = 0\n"
            f"admin.port = {self.admin}\n"
            f'[tls]\ncertificate = "{own.certificate("broker-1")}"\n'
            f'key = "{own.key("broker-1")}"\nca = "{own.ca}"\n'
            f'[[listener]]\nprotocol = "amqp"\nport = {self.amqp}\naccess = "required"\n'
            'tls.client.auth = "optional"\nsasl.mechanisms = "PLAIN,EXTERNAL"\n'
        )
        words = ["-m", "kafkaesque.server", "--config", str(folder / "broker.toml")]
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([sys.executable, *words], stderr=log)

    def api(self, method: str, path: str, body: dict[str, str] | None = None) -> int:
        url = f"http://127.0.0.1:{self.admin}/rabbitmq/api{path}"
        told = requests.request(method, url, json=body, auth=("any", "any"), timeout=30)
        return told.status_code

    def prepare(self) -> None:
        def answers() -> bool:
            with contextlib.suppress(requests.ConnectionError):
                return self.api("GET", "/healthchecks/node") == 200
            return False

        eventually(answers, lambda: self.log.read_text())
        for user in ("alice", "bob"):
            body = {"password": PASSWORD, "tags": ""}
            assert self.api("PUT", f"/users/{user}", body) == 201
            names = {"configure": f"^{user}-", "write": f"^{user}-", "read": f"^{user}-"}
            assert self.api("PUT", f"/permissions/%2F/{user}", names) == 201

    @contextlib.contextmanager
    def connected(
        self, user: str, password: str = PASSWORD, certificate: str = "", **more: Any
    ) -> Iterator[pika.BlockingConnection]:
        context = ssl.create_default_context(cafile=str(self.authority.ca))
        credentials: Any = pika.PlainCredentials(user, password)
        if certificate:
            own = self.authority
            context.load_cert_chain(own.certificate(certificate), own.key(certificate))
            credentials = ExternalCredentials()
        parameters = pika.ConnectionParameters(
            "127.0.0.1",
            self.amqp,
            credentials=credentials,
            ssl_options=pika.SSLOptions(context, "127.0.0.1"),
            **more,
        )
        connection = pika.BlockingConnection(parameters)
        try:
            yield connection
        finally:
            if connection.is_open:
                connection.close()

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureAmqp]:
    found = SecureAmqp(tmp_path_factory.mktemp("secure"))
    try:
        found.prepare()
        yield found
    finally:
        found.close()


def use(connection: pika.BlockingConnection, queue: str) -> bytes:
    """Declare a queue, and publish and fetch a message."""
    channel = connection.channel()
    channel.queue_declare(queue, durable=True)
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"hello", mandatory=True)
    _, _, body = channel.basic_get(queue, auto_ack=True)
    assert isinstance(body, bytes)
    return body


def test_a_password_lets_in_over_tls(secure: SecureAmqp) -> None:
    with secure.connected("alice") as connection:
        assert use(connection, "alice-work") == b"hello"


def test_a_certificate_says_who_it_is(secure: SecureAmqp) -> None:
    with secure.connected("", certificate="bob") as connection:
        assert use(connection, "bob-work") == b"hello"
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
            use(connection, "alice-work")
        assert "refused for user 'bob'" in caught.value.reply_text


def test_permissions_of_rabbitmq_hold(secure: SecureAmqp) -> None:
    with secure.connected("bob") as connection:
        assert use(connection, "bob-work") == b"hello"
    with secure.connected("alice") as connection:
        acts: tuple[Callable[[BlockingChannel], object], ...] = (
            lambda channel: channel.queue_declare("bob-work", durable=True),
            lambda channel: channel.basic_get("bob-work"),
            lambda channel: channel.exchange_declare("shop", "topic"),
        )
        for act in acts:
            with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
                act(connection.channel())
            assert caught.value.reply_code == 403
    names = {"configure": "^$", "write": "^$", "read": "^bob-work$"}
    assert secure.api("PUT", "/users/carl", {"password": PASSWORD, "tags": ""}) == 201
    assert secure.api("PUT", "/permissions/%2F/carl", names) == 201
    with secure.connected("carl") as connection:
        channel = connection.channel()
        assert channel.queue_declare("bob-work", passive=True).method.message_count == 0
        with pytest.raises(pika.exceptions.ChannelClosedByBroker):
            channel.queue_declare("carl-work", durable=True)


def test_topic_permissions_of_rabbitmq_hold(secure: SecureAmqp) -> None:
    assert secure.api("PUT", "/users/dora", {"password": PASSWORD, "tags": ""}) == 201
    names = {"configure": "^dora-", "write": ".*", "read": ".*"}
    assert secure.api("PUT", "/permissions/%2F/dora", names) == 201
    keys = {"exchange": "amq.topic", "write": "^{username}\\.", "read": "^(dora|news)\\."}
    assert secure.api("PUT", "/topic-permissions/%2F/dora", keys) == 201
    with secure.connected("dora") as connection:
        channel = connection.channel()
        channel.queue_declare("dora-mail", durable=True)
        channel.queue_bind("dora-mail", "amq.topic", "dora.*")
        channel.confirm_delivery()
        channel.basic_publish("amq.topic", "dora.1", b"hello", mandatory=True)
        assert channel.basic_get("dora-mail", auto_ack=True)[2] == b"hello"
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
            channel.basic_publish("amq.topic", "alice.1", b"hello")
        assert (caught.value.reply_code, caught.value.reply_text) == (
            403,
            "ACCESS_REFUSED - write access to topic 'alice.1' in exchange 'amq.topic' in vhost "
            "'/' refused for user 'dora'",
        )
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
            connection.channel().queue_bind("dora-mail", "amq.topic", "#")
        assert "read access to topic '#' in exchange 'amq.topic'" in caught.value.reply_text
        assert secure.api("DELETE", "/topic-permissions/%2F/dora") == 204
        connection.channel().queue_bind("dora-mail", "amq.topic", "#")


def test_who_is_not_known_does_not_get_in(secure: SecureAmqp) -> None:
    for user, password in (("alice", "wrong"), ("nobody", PASSWORD), ("guest", "guest")):
        with (
            pytest.raises(pika.exceptions.ProbableAuthenticationError),
            secure.connected(user, password),
        ):
            pass


def test_the_port_speaks_tls_alone(secure: SecureAmqp) -> None:
    parameters = pika.ConnectionParameters(
        "127.0.0.1", secure.amqp, credentials=pika.PlainCredentials("alice", PASSWORD)
    )
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        pika.BlockingConnection(parameters)
    stranger = ssl.create_default_context()
    options = pika.SSLOptions(stranger, "127.0.0.1")
    with pytest.raises(ssl.SSLCertVerificationError):
        pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", secure.amqp, ssl_options=options)
        )
