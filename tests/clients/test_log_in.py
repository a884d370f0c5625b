"""Unchanged clients log in by SCRAM and PLAIN, and are refused what no rule allows.

One broker with two listeners: an open one, where users and rules are made, and one with a log-in.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import aiokafka
import kafka
import pytest
from aiokafka.errors import TopicAuthorizationFailedError as AioForbidden
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
)
from kafka.admin import ResourcePattern as KafkaPattern
from kafka.admin import ResourcePatternFilter as KafkaPatternFilter
from kafka.admin import ResourceType as KafkaType

from kafkaesque.cli.broker_ports import unused_ports
from tests.certificates import TestAuthority
from tests.clients.kafka_helpers import admin_client, unique
from tests.clients.node_client import missing, run_node
from tests.clients.test_advertised_host import is_ready
from tests.forked import processes
from tests.waiting import DEADLINE_S, eventually

PASSWORD = "a password, with = and ,"
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")
NAME, WRONG = "app", "wrong"
TOPIC, FORBIDDEN = "orders-1", "secrets"
GROUP = "orders-readers"
SHORT_S = 30


class Secured(NamedTuple):
    """The broker's two listeners."""

    open: str
    secured: str
    #: Over TLS, at an address that others could reach: there PLAIN is offered for being encrypted.
    encrypted: str
    ca: Path
    directory: Path


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A broker with a user who may use what begins with `orders-`, made by Kafka's admin APIs."""
    directory = tmp_path_factory.mktemp("secured")
    inside, outside, encrypted, peer, admin = unused_ports(5)
    authority = TestAuthority(directory / "ca")
    secret = directory / "secret"
    secret.write_text("a secret of the cluster, long enough\n")
    secret.chmod(0o600)
    (directory / "broker.toml").write_text(
        f'[broker]\nid = 1\ndata = "{directory}/data"\ntext.port = 0\n'
        f'cluster.secret.file = "{secret}"\nsuper.users = "User:root"\n'
        f"kafka.port = {inside}\npeer.port = {peer}\nadmin.port = {admin}\n"
        f'[[listener]]\nname = "secured"\nport = {outside}\naccess = "required"\n'
        f'[[listener]]\nname = "encrypted"\nport = {encrypted}\naccess = "required"\n'
        f'host = "0.0.0.0"\nadvertised.host = "127.0.0.1"\ntls = true\n'
        'sasl.mechanisms = "PLAIN, SCRAM-SHA-512"\n'
        f'[tls]\ncertificate = "{authority.certificate("broker-1")}"\n'
        f'key = "{authority.key("broker-1")}"\nca = "{authority.ca}"\n'
        "[options]\ngroup.initial.rebalance.delay.ms = 0\n"
    )
    command = [sys.executable, "-m", "kafkaesque.server", "--config"]
    command.append(str(directory / "broker.toml"))
    with (directory / "log").open("wb") as log, processes.Popen(command, stderr=log) as process:
        try:
            eventually(lambda: is_ready(process, admin), "the broker is ready")
            first, second, third = (f"127.0.0.1:{each}" for each in (inside, outside, encrypted))
            found = Secured(first, second, third, authority.ca, directory)
            make_users(found.open)
            for name in (TOPIC, FORBIDDEN):
                make_topic(found.open, name)
            yield found
        finally:
            process.terminate()
            process.wait(90)


def make_topic(servers: str, name: str) -> None:
    admin = admin_client(servers)
    (future,) = admin.create_topics([NewTopic(name, 1, 1)]).values()
    future.result(DEADLINE_S)


def make_users(servers: str) -> None:
    admin = admin_client(servers)
    changes = [
        UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
        for user in (NAME, "root")
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
    ]
    for each in changes:  # A user's mechanisms one after the other: each request names a user once.
        for future in admin.alter_user_scram_credentials([each]).values():
            future.result(DEADLINE_S)
    bindings = [
        AclBinding(
            kind,
            "orders-",
            ResourcePatternType.PREFIXED,
            f"User:{NAME}",
            "*",
            AclOperation.ALL,
            AclPermissionType.ALLOW,
        )
        for kind in (ResourceType.TOPIC, ResourceType.GROUP)
    ]
    for future in admin.create_acls(bindings).values():
        future.result(DEADLINE_S)


def settings(broker: Secured, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
    """Return librdkafka's settings."""
    return {
        "bootstrap.servers": broker.secured,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": NAME,
        "sasl.password": password,
    }


# -- librdkafka


def confluent_produce(
    broker: Secured, mechanism: str, topic: str, value: bytes
) -> KafkaError | None:
    outcome: list[KafkaError | None] = []
    producer = Producer({**settings(broker, mechanism), "message.timeout.ms": 20_000})
    producer.produce(topic, value, on_delivery=lambda error, _: outcome.append(error))
    producer.flush(DEADLINE_S)
    return outcome[0]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka(broker: Secured, mechanism: str) -> None:
    value = f"rd-{mechanism}".encode()
    assert confluent_produce(broker, mechanism, TOPIC, value) is None
    refused = confluent_produce(broker, mechanism, FORBIDDEN, value)
    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    consumer = Consumer(
        {
            **settings(broker, mechanism),
            "group.id": f"{GROUP}-{unique('rd')}",
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.subscribe([TOPIC])
        values: list[bytes | None] = []

        def has_come() -> bool:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                values.append(message.value())
            return value in values

        eventually(has_come, "the message")
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()


def test_librdkafka_is_refused_with_a_wrong_password(broker: Secured) -> None:
    errors: list[KafkaError] = []
    options: dict[str, Any] = settings(broker, "SCRAM-SHA-256", WRONG)
    options["error_cb"] = errors.append
    admin = AdminClient(options)
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=3)
    admin.poll(1)
    assert KafkaError._AUTHENTICATION in [each.code() for each in errors]


def test_librdkafka_sees_nothing_else_and_groups_need_a_rule(broker: Secured) -> None:
    admin = AdminClient(settings(broker, "SCRAM-SHA-512"))
    assert set(admin.list_topics(timeout=SHORT_S).topics) == {TOPIC}
    consumer = Consumer({**settings(broker, "SCRAM-SHA-512"), "group.id": "others"})
    try:
        consumer.subscribe([TOPIC])
        codes: list[int] = []

        def is_refused() -> bool:
            message = consumer.poll(0.2)
            error = None if message is None else message.error()
            if error is not None:
                codes.append(error.code())
            return KafkaError.GROUP_AUTHORIZATION_FAILED in codes

        eventually(is_refused, "the refusal")
    finally:
        consumer.close()


# -- aiokafka, kafka-python


def python_settings(broker: Secured, mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
    return {
        "bootstrap_servers": broker.secured,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": NAME,
        "sasl_plain_password": password,
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka(broker: Secured, mechanism: str) -> None:
    async def exchange() -> None:
        value = f"aio-{mechanism}".encode()
        producer = aiokafka.AIOKafkaProducer(**python_settings(broker, mechanism))
        await producer.start()
        try:
            await producer.send_and_wait(TOPIC, value)
            with pytest.raises(AioForbidden):
                await producer.send_and_wait(FORBIDDEN, value)
        finally:
            await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(
            TOPIC,
            group_id=f"{GROUP}-{unique('aio')}",
            auto_offset_reset="earliest",
            **python_settings(broker, mechanism),
        )
        await consumer.start()
        try:
            while (await consumer.getone()).value != value:
                pass
            await consumer.commit()
        finally:
            await consumer.stop()

    asyncio.run(asyncio.wait_for(exchange(), DEADLINE_S))


def test_aiokafka_is_refused_with_a_wrong_password(broker: Secured) -> None:
    async def start() -> None:
        options = python_settings(broker, "SCRAM-SHA-256", WRONG)
        producer = aiokafka.AIOKafkaProducer(**options)
        with pytest.raises(aiokafka.errors.KafkaError):
            await producer.start()
        await producer.stop()

    asyncio.run(asyncio.wait_for(start(), DEADLINE_S))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python(broker: Secured, mechanism: str) -> None:
    value = f"kp-{mechanism}".encode()
    producer = kafka.KafkaProducer(**python_settings(broker, mechanism))
    producer.send(TOPIC, value).get(SHORT_S)
    with pytest.raises(kafka.errors.KafkaError):
        producer.send(FORBIDDEN, value).get(SHORT_S)
    producer.close()
    consumer = kafka.KafkaConsumer(
        TOPIC,
        group_id=f"{GROUP}-{unique('kp')}",
        auto_offset_reset="earliest",
        consumer_timeout_ms=int(DEADLINE_S * 1000),
        **python_settings(broker, mechanism),
    )
    assert next((each for each in consumer if each.value == value), None) is not None
    consumer.commit()
    consumer.close()


# -- kcat, kafkajs


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kcat(broker: Secured, mechanism: str) -> None:
    def kcat(*arguments: str, text: str = "", password: str = PASSWORD) -> Any:
        options = settings(broker, mechanism, password)
        command = ["kcat", "-b", options.pop("bootstrap.servers"), *arguments]
        for name, setting in options.items():
            command += ["-X", f"{name}={setting}"]
        return processes.run(
            command, input=text, capture_output=True, text=True, timeout=DEADLINE_S, check=False
        )

    assert kcat("-P", "-t", TOPIC, text=f"kcat-{mechanism}\n").returncode == 0
    printed = kcat("-C", "-t", TOPIC, "-e", "-q").stdout
    assert f"kcat-{mechanism}" in printed.splitlines()
    assert "authorization failed" in kcat("-C", "-t", FORBIDDEN, "-e", "-q").stderr.lower()
    assert "uthentication fail" in kcat("-L", "-m", "5", password=WRONG).stderr


@pytest.mark.skipif(bool(missing()), reason=missing() or "it is there")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafkajs(broker: Secured, mechanism: str) -> None:
    sasl = {"mechanism": mechanism.lower(), "username": NAME, "password": PASSWORD}
    value = f"js-{mechanism}"
    run_node("produce", broker.secured, topic=TOPIC, messages=[{"value": value}], sasl=sasl)
    with pytest.raises(AssertionError, match="Topic authorization failed"):
        run_node("produce", broker.secured, topic=FORBIDDEN, messages=[{"value": "x"}], sasl=sasl)
    wrong = {**sasl, "password": WRONG}
    with pytest.raises(AssertionError, match="SASL"):
        run_node("produce", broker.secured, topic=TOPIC, messages=[{"value": "x"}], sasl=wrong)
    group = f"{GROUP}-{unique('js')}"
    found = run_node("consume", broker.secured, topic=TOPIC, group=group, count=1, sasl=sasl)
    assert found


# -- admin clients


def test_confluents_admin_client_makes_shows_and_removes_users_and_rules(broker: Secured) -> None:
    admin = AdminClient({**settings(broker, "SCRAM-SHA-512"), "sasl.username": "root"})
    binding = AclBinding(
        ResourceType.TOPIC,
        "made-here",
        ResourcePatternType.LITERAL,
        "User:guest",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    anything: Any = None
    wanted = AclBindingFilter(
        ResourceType.ANY,
        anything,
        ResourcePatternType.ANY,
        "User:guest",
        anything,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    for future in admin.create_acls([binding]).values():
        assert future.result(DEADLINE_S) is None
    assert admin.describe_acls(wanted).result(DEADLINE_S) == [binding]
    (removal,) = admin.delete_acls([wanted]).values()
    assert removal.result(DEADLINE_S) == [binding]
    assert admin.describe_acls(wanted).result(DEADLINE_S) == []
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192)
    change = UserScramCredentialUpsertion("guest", info, b"guest")
    for future in admin.alter_user_scram_credentials([change]).values():
        future.result(DEADLINE_S)
    asked: Any = admin.describe_user_scram_credentials(["guest"])
    described = asked["guest"].result(DEADLINE_S)
    (found,) = described.scram_credential_infos
    assert (found.mechanism, found.iterations) == (info.mechanism, info.iterations)
    deletion = UserScramCredentialDeletion("guest", ScramMechanism.SCRAM_SHA_256)
    for future in admin.alter_user_scram_credentials([deletion]).values():
        future.result(DEADLINE_S)
    asked = admin.describe_user_scram_credentials(["guest"])
    with pytest.raises(KafkaException, match="no SCRAM credential"):
        asked["guest"].result(DEADLINE_S)
    # What the application may not: it is no administrator.
    other = AdminClient(settings(broker, "SCRAM-SHA-512"))
    for future in other.create_acls([binding]).values():
        with pytest.raises(KafkaException, match="Cluster authorization failed"):
            future.result(DEADLINE_S)


def test_kafka_pythons_admin_client_makes_shows_and_removes_rules(broker: Secured) -> None:
    admin = KafkaAdminClient(
        **{**python_settings(broker, "SCRAM-SHA-256"), "sasl_plain_username": "root"}
    )
    try:
        rule = ACL(
            principal="User:guest",
            host="*",
            operation=ACLOperation.WRITE,
            permission_type=ACLPermissionType.ALLOW,
            resource_pattern=KafkaPattern(KafkaType.TOPIC, "by-kafka-python"),
        )
        wanted = ACLFilter(
            principal="User:guest",
            host=None,
            operation=ACLOperation.ANY,
            permission_type=ACLPermissionType.ANY,
            resource_pattern=KafkaPatternFilter(
                KafkaType.TOPIC, "by-kafka-python", ACLResourcePatternType.ANY
            ),
        )
        created = admin.create_acls([rule])
        assert created["succeeded"] == [rule]
        found, _ = admin.describe_acls(wanted)
        assert found == [rule]
        assert admin.delete_acls([wanted])[0][1] == [rule]
    finally:
        with suppress(Exception):
            admin.close()


# -- revoked


def test_a_removed_credential_is_out_at_once(broker: Secured) -> None:
    admin = admin_client(broker.open)
    change = UserScramCredentialUpsertion(
        "leaver", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), b"x"
    )
    for future in admin.alter_user_scram_credentials([change]).values():
        future.result(DEADLINE_S)
    errors: list[int] = []
    on_error: Callable[[KafkaError], None] = lambda error: errors.append(error.code())  # noqa: E731
    options: dict[str, Any] = settings(broker, "SCRAM-SHA-256")
    options |= {"sasl.username": "leaver", "sasl.password": "x", "error_cb": on_error}
    client = AdminClient(options)
    assert client.list_topics(timeout=SHORT_S).topics == {}
    deletion = UserScramCredentialDeletion("leaver", ScramMechanism.SCRAM_SHA_256)
    for future in admin.alter_user_scram_credentials([deletion]).values():
        future.result(DEADLINE_S)

    def is_out() -> bool:
        client.poll(0.1)
        return KafkaError._AUTHENTICATION in errors

    eventually(is_out, "its next log-in is refused", seconds=SHORT_S)


def test_the_secrets_stand_nowhere(broker: Secured) -> None:
    directory = broker.directory
    files = [path for path in directory.rglob("*") if path.is_file() and path.name != "broker.toml"]
    assert files
    assert not any(PASSWORD.encode() in path.read_bytes() for path in files)


# -- over TLS


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
def test_clients_log_in_over_tls(broker: Secured, mechanism: str) -> None:
    options = settings(broker, mechanism)
    options |= {"bootstrap.servers": broker.encrypted, "security.protocol": "SASL_SSL"}
    options["ssl.ca.location"] = str(broker.ca)
    assert set(AdminClient(options).list_topics(timeout=SHORT_S).topics) == {TOPIC}
    python = python_settings(broker, mechanism)
    python |= {"bootstrap_servers": broker.encrypted, "security_protocol": "SASL_SSL"}
    producer = kafka.KafkaProducer(**python, ssl_cafile=str(broker.ca))
    producer.send(TOPIC, b"over TLS").get(SHORT_S)
    with pytest.raises(kafka.errors.KafkaError):
        producer.send(FORBIDDEN, b"over TLS").get(SHORT_S)
    producer.close()


def test_a_mechanism_that_is_not_named_is_not_offered(broker: Secured) -> None:
    options = python_settings(broker, "SCRAM-SHA-256")
    options |= {"bootstrap_servers": broker.encrypted, "security_protocol": "SASL_SSL"}
    with pytest.raises(kafka.errors.KafkaError):
        kafka.KafkaProducer(**options, ssl_cafile=str(broker.ca), bootstrap_timeout_ms=3_000)


# -- our own command line


def cli(
    broker: Secured, *words: str, code: int = 0, **environment: Any
) -> subprocess.CompletedProcess[str]:
    done = processes.run(
        [sys.executable, "-m", "kafkaesque.cli.app", *words],
        env={
            **os.environ,
            "KAFKAESQUE_BOOTSTRAP_SERVER": broker.secured,
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def private_file(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


def test_the_command_line_makes_users_and_rules(broker: Secured, tmp_path: Path) -> None:
    root: dict[str, Any] = {
        "KAFKAESQUE_USER": "root",
        "KAFKAESQUE_PASSWORD_FILE": private_file(tmp_path / "root", PASSWORD + "\n"),
    }
    drawn = tmp_path / "clerk.password"
    done = cli(broker, "user", "create", "clerk", "--password-file", str(drawn), **root)
    assert drawn.stat().st_mode & 0o777 == 0o600
    password = drawn.read_text().strip()
    assert len(password) >= 32
    assert password not in done.stdout + done.stderr
    assert "clerk" in cli(broker, "user", "list", **root).stdout
    rule = ("rule", "create", "User:clerk", "-o", "read", "--topic", "orders-", "--prefix")
    assert TOPIC in cli(broker, *rule, "--dry-run", **root).stdout
    clerk: dict[str, Any] = {"KAFKAESQUE_USER": "clerk", "KAFKAESQUE_PASSWORD_FILE": str(drawn)}
    assert TOPIC not in cli(broker, "topic", "list", **clerk).stdout
    cli(broker, *rule, **root)
    assert TOPIC in cli(broker, "topic", "list", **clerk).stdout
    tls: dict[str, Any] = {
        "KAFKAESQUE_CA": str(broker.ca),
        "KAFKAESQUE_BOOTSTRAP_SERVER": broker.encrypted,
    }
    assert TOPIC in cli(broker, "topic", "list", **clerk, **tls).stdout
    assert "clerk" in cli(broker, "user", "list", **root, **tls).stdout
    refused = cli(broker, "rule", "list", code=1, **clerk)
    assert "no rule allows describe on the cluster" in refused.stderr
    listed = cli(broker, "rule", "list", "--principal", "User:clerk", "--json", **root).stdout
    assert json.loads(listed)[0]["name"] == "orders-"
    cli(broker, "rule", "delete", "--principal", "User:clerk", "--yes", **root)
    assert TOPIC not in cli(broker, "topic", "list", **clerk).stdout
    cli(broker, "user", "delete", "clerk", "--yes", **root)
    config = private_file(tmp_path / "config", f"sasl.username=clerk\nsasl.password={password}\n")
    refused = cli(broker, "--command-config", config, "rule", "list", code=1)
    assert "refused the log-in" in refused.stderr


def test_the_command_line_says_what_is_missing(broker: Secured, tmp_path: Path) -> None:
    path = tmp_path / "open"
    path.write_text(PASSWORD)
    path.chmod(0o644)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"KAFKAESQUE_USER": "root"}, "KAFKAESQUE_PASSWORD_FILE is not set"),
        ({"KAFKAESQUE_PASSWORD_FILE": str(path)}, "KAFKAESQUE_USER is not set"),
        ({"KAFKAESQUE_USER": "a", "KAFKAESQUE_PASSWORD_FILE": str(path)}, "others may read"),
    ]
    for environment, words in cases:
        done = cli(broker, "topic", "list", code=2, **environment)
        assert words in done.stderr
    assert "requires a log-in" in cli(broker, "user", "list", code=1).stderr
