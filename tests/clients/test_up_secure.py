"""`kafkaesque up --secure`: each file that it writes, read by the client that it is for.

One cluster of three brokers for the module; one that is stopped and started again is another.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import pty
import re
import runpy
import select
import shutil
import signal
import socket
import ssl
import stat
import subprocess
from collections.abc import Iterator, Mapping
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiokafka
import kafka
import pika
import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient

from kafkaesque.cli.broker_ports import unused_ports
from tests.clients.kafka_helpers import unique
from tests.clients.node_client import missing, run_node
from tests.clients.test_cli_up import KAFKAESQUE, Up
from tests.clients.up_ports import NAMES, free_stretches, port_words
from tests.forked import processes
from tests.waiting import DEADLINE_S, eventually

BROKERS = 3
TOPIC, FORBIDDEN = "app-orders", "salaries"


class SecureUp(Up):
    """`kafkaesque up --secure` as a process."""

    def __init__(
        self,
        data: Path,
        *more: str,
        brokers: int = BROKERS,
        ports: Mapping[str, int] | None = None,
    ) -> None:
        self.ports = ports or free_stretches(brokers)
        self.data = data
        words = ["up", "--json", "--brokers", str(brokers), "--directory", str(data), *more]
        words += port_words(self.ports)
        self.bootstrap = f"127.0.0.1:{self.ports['kafka']}"
        self.events = ""
        self.process = subprocess.Popen(
            [*KAFKAESQUE, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def client(self, name: str) -> Path:
        return self.data / "clients" / name

    def command(self, user: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command as a user, by the environment that the user's file makes in a shell."""
        script = f'. "{self.client(f"{user}.env")}" && env -0'
        sourced = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
        return processes.run(
            [*KAFKAESQUE, *words],
            env=dict(each.split("=", 1) for each in sourced.stdout.split("\0") if each),
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )


def secured(data: Path) -> Iterator[SecureUp]:
    found = SecureUp(data, "--secure")
    try:
        assert found.event("ready")["is_secure"] is True
        done = found.command("admin", "topic", "create", FORBIDDEN)
        assert done.returncode == 0, done.stderr
        done = found.command("app", "topic", "create", TOPIC, "-r", "3")
        assert done.returncode == 0, done.stderr
        yield found
    finally:
        found.close()


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureUp]:
    yield from secured(tmp_path_factory.mktemp("secure") / "data")


@pytest.fixture
def own_up(tmp_path: Path) -> Iterator[SecureUp]:
    yield from secured(tmp_path / "data")


def librdkafka(up: SecureUp, user: str = "app") -> dict[str, Any]:
    """Return the settings of a file for librdkafka, as an application reads it."""
    lines = up.client(f"{user}.librdkafka.conf").read_text().splitlines()
    pairs = [line.partition("=") for line in lines if not line.startswith("#")]
    return {name: value for name, _, value in pairs}


def consumed(options: dict[str, Any], value: bytes) -> bool:
    """Tell whether a group of the application's finds a message."""
    group = {"group.id": f"app-{unique('rd')}", "auto.offset.reset": "earliest"}
    consumer = Consumer({**options, **group})
    found: list[bytes | None] = []

    def has_come() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message.value())
        return value in found

    try:
        consumer.subscribe([TOPIC])
        eventually(has_come, "the message")
    finally:
        consumer.close()
    return True


def test_librdkafka_by_its_file(up: SecureUp) -> None:
    errors: dict[str, KafkaError | None] = {}
    producer = Producer({**librdkafka(up), "enable.idempotence": True})
    for topic in (TOPIC, FORBIDDEN):
        producer.produce(
            topic, b"rd", on_delivery=lambda error, it: errors.update({str(it.topic()): error})
        )
    producer.flush(DEADLINE_S)
    assert errors[TOPIC] is None
    refused = errors[FORBIDDEN]
    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert consumed(librdkafka(up), b"rd")


def test_queues_of_the_application(up: SecureUp) -> None:
    for words in (("create", "app-work"), ("put", "app-work", "by hand")):
        done = up.command("app", "queue", *words)
        assert done.returncode == 0, done.stderr
    options = librdkafka(up)
    login = pika.PlainCredentials(options["sasl.username"], options["sasl.password"])
    context = ssl.create_default_context(cafile=str(up.data / "certs" / "ca.pem"))
    parameters = pika.ConnectionParameters(
        "127.0.0.1", up.ports["amqp"], credentials=login, ssl_options=pika.SSLOptions(context)
    )
    with contextlib.closing(pika.BlockingConnection(parameters)) as connection:
        channel = connection.channel()
        channel.exchange_declare("app-news", "fanout")
        channel.queue_bind("app-work", "app-news")
        channel.basic_publish("app-news", "", b"by pika")
        found = [channel.basic_get("app-work", auto_ack=True)[2] for _ in range(2)]
        assert found == [b"by hand", b"by pika"]
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="ACCESS_REFUSED"):
            channel.queue_declare("salaries")


def test_transactions_by_the_file(up: SecureUp) -> None:
    producer = Producer({**librdkafka(up), "transactional.id": "app-transfers"})
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    producer.produce(TOPIC, b"in a transaction")
    producer.commit_transaction(DEADLINE_S)
    assert consumed(librdkafka(up), b"in a transaction")


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_kcat_by_its_file(up: SecureUp) -> None:
    def kcat(*words: str, text: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["kcat", "-F", str(up.client("app.librdkafka.conf")), *words],
            input=text,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )

    assert kcat("-P", "-t", TOPIC, text="kcat\n").returncode == 0
    assert "kcat" in kcat("-C", "-t", TOPIC, "-e", "-q").stdout.splitlines()
    listed = kcat("-L").stdout
    assert f'topic "{TOPIC}"' in listed
    assert FORBIDDEN not in listed


def test_aiokafka_by_its_file(up: SecureUp) -> None:
    settings = runpy.run_path(str(up.client("app_aiokafka.py")))["SETTINGS"]

    async def exchange() -> None:
        producer = aiokafka.AIOKafkaProducer(**settings)
        await producer.start()
        try:
            await producer.send_and_wait(TOPIC, b"aio")
            with pytest.raises(aiokafka.errors.TopicAuthorizationFailedError):
                await producer.send_and_wait(FORBIDDEN, b"aio")
        finally:
            await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(
            TOPIC, group_id="app-aio", auto_offset_reset="earliest", **settings
        )
        await consumer.start()
        try:
            while (await consumer.getone()).value != b"aio":
                pass
            await consumer.commit()
        finally:
            await consumer.stop()

    asyncio.run(asyncio.wait_for(exchange(), DEADLINE_S))


def test_kafka_python_by_its_file(up: SecureUp) -> None:
    settings = runpy.run_path(str(up.client("app_kafka_python.py")))["SETTINGS"]
    producer = kafka.KafkaProducer(**settings)
    producer.send(TOPIC, b"kp").get(DEADLINE_S)
    with pytest.raises(kafka.errors.KafkaError):
        producer.send(FORBIDDEN, b"kp").get(DEADLINE_S)
    producer.close()
    consumer = kafka.KafkaConsumer(
        TOPIC,
        group_id="app-kp",
        auto_offset_reset="earliest",
        consumer_timeout_ms=int(DEADLINE_S * 1000),
        **settings,
    )
    assert next((each for each in consumer if each.value == b"kp"), None) is not None
    consumer.close()


@pytest.mark.extended
@pytest.mark.skipif(bool(missing()), reason=missing() or "it is there")
def test_kafkajs_by_its_file(up: SecureUp) -> None:
    given = {"settings": str(up.client("app_kafkajs.js"))}
    run_node("produce", "", topic=TOPIC, messages=[{"value": "js"}], **given)
    with pytest.raises(AssertionError, match="Topic authorization failed"):
        run_node("produce", "", topic=FORBIDDEN, messages=[{"value": "js"}], **given)
    assert run_node("consume", "", topic=TOPIC, group="app-js", count=1, **given)


@pytest.mark.extended
def test_commands_by_their_environments(up: SecureUp) -> None:
    assert up.command("app", "publish", TOPIC, "from the command line").returncode == 0
    refused = up.command("app", "publish", FORBIDDEN, "x")
    assert refused.returncode == 1
    assert "no rule allows write on topic salaries" in refused.stderr
    assert up.command("app", "rule", "list").returncode == 1
    rules = up.command("admin", "rule", "list", "--principal", "User:app").stdout.splitlines()
    kinds = sorted(line.split("\t")[3] for line in rules[1:])
    assert kinds == ["exchange", "group", "queue", "topic", "transactional-id"]
    assert all(line.split("\t")[2:] for line in rules)
    assert up.command("admin", "publish", FORBIDDEN, "x").returncode == 0


def test_nobody_gets_in_without_a_log_in_or_in_the_clear(up: SecureUp) -> None:
    bare = {"bootstrap.servers": up.bootstrap}
    encrypted = {
        **bare,
        "security.protocol": "ssl",
        "ssl.ca.location": librdkafka(up)["ssl.ca.location"],
    }
    plain = {**librdkafka(up), "security.protocol": "sasl_plaintext"}
    plain.pop("ssl.ca.location")
    wrong = {**librdkafka(up), "sasl.password": "a guess"}
    for options in (bare, encrypted, plain, wrong):
        with pytest.raises(Exception, match=r"_TRANSPORT|_TIMED_OUT|_AUTHENTICATION"):
            AdminClient({**options, "log_level": 0}).list_topics(timeout=3)


def connected(up: SecureUp, port: int) -> ssl.SSLSocket:
    trusted = ssl.create_default_context(cafile=librdkafka(up)["ssl.ca.location"])
    sock = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
    return trusted.wrap_socket(sock, server_hostname="127.0.0.1")


def answered(bare: socket.socket) -> bool:
    """Tell whether a listener says anything in the clear but the alert that ends TLS."""
    try:
        told = bare.recv(4096)
    except ConnectionError:
        return False
    return bool(told) and not told.startswith(b"\x15\x03")


def test_the_text_port_wants_tls_and_a_log_in(up: SecureUp) -> None:
    password = (up.data / "app.password").read_text().strip()
    with connected(up, up.ports["text"]) as sock, sock.makefile("rwb", buffering=0) as lines:
        lines.write(b"TOPICS\n")
        assert lines.readline().startswith(b"ERROR log in first")
        lines.write(f"AUTH app {password}\n".encode())
        assert lines.readline() == b"OK logged in as app\r\n"
        lines.write(f"PUBS {TOPIC} over text\nPUBS {FORBIDDEN} x\n".encode())
        assert lines.readline().startswith(f"OK {TOPIC}".encode())
        assert lines.readline().startswith(b"ERROR")
    with socket.create_connection(("127.0.0.1", up.ports["text"]), timeout=DEADLINE_S) as bare:
        bare.sendall(b"HELP\n")
        assert not answered(bare)


def test_the_admin_port_wants_tls_and_a_log_in(up: SecureUp) -> None:
    def status(path: str, **headers: str) -> int:
        context = ssl.create_default_context(cafile=librdkafka(up)["ssl.ca.location"])
        link = HTTPSConnection("127.0.0.1", up.ports["admin"], timeout=DEADLINE_S, context=context)
        link.request("GET", path, headers=headers)
        found = link.getresponse().status
        link.close()
        return found

    assert status("/health/live") == 200
    assert (status("/metrics"), status("/api/v1/topics")) == (401, 401)
    password = (up.data / "admin.password").read_text().strip()
    basic = base64.b64encode(f"admin:{password}".encode()).decode()
    # The password alone is not enough for who has a second factor.
    assert status("/metrics", Authorization=f"Basic {basic}") == 401
    assert up.command("admin", "topic", "list").returncode == 0
    token = json.loads(up.client("admin.session.json").read_text())["token"]
    assert status("/metrics", Authorization=f"Bearer {token}") == 200
    with socket.create_connection(("127.0.0.1", up.ports["admin"]), timeout=DEADLINE_S) as bare:
        bare.sendall(b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert not answered(bare)


def test_a_person_logs_in_and_out(up: SecureUp, tmp_path: Path) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        # Whoever this terminal was before.
        script = f'. "{up.client("admin.env")}"; . "{up.client("cluster.env")}" && exec "$@"'
        return subprocess.run(
            ["sh", "-c", script, "sh", *KAFKAESQUE, *words],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
            env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path)},
        )

    stranger = run("topic", "list")
    assert stranger.returncode != 0
    assert "requires a log-in" in stranger.stderr
    assert "kafkaesque login NAME" in stranger.stderr
    words = ("login", "admin", "--password-file", str(up.data / "admin.password"))
    alone = run(*words)
    assert alone.returncode == 1, alone.stdout
    twice = run(*words, "--totp-file", str(up.data / "admin.totp"), "--code", "123456")
    assert twice.returncode == 2
    # Beside others of this cluster, who use the codes of TOTP up.
    code = (up.data / "admin.recovery-codes").read_text().split()[0]
    login = run(*words, "--code", code)
    assert login.returncode == 0, login.stderr
    assert run(*words, "--code", code).returncode == 1
    assert FORBIDDEN in run("topic", "list").stdout
    found = run("doctor", "--json")
    assert "listener-open" not in found.stdout, found.stdout
    assert json.loads(found.stdout)["unseen"] == []
    assert run("logout").returncode == 0
    assert run("topic", "list").returncode != 0


def test_brokers_speak_tls_with_one_another(up: SecureUp) -> None:
    trusted = ssl.create_default_context(cafile=librdkafka(up)["ssl.ca.location"])
    trusted.check_hostname = False
    with (
        socket.create_connection(("127.0.0.1", up.ports["peer"])) as sock,
        trusted.wrap_socket(sock) as link,
    ):
        certificate = link.getpeercert(binary_form=True)
    assert certificate is not None
    assert re.search(rb"kafkaesque://[\w-]+/broker/1", certificate) is not None


def test_nobody_else_on_the_machine_reads_passwords_and_keys(up: SecureUp) -> None:
    assert stat.S_IMODE(up.data.stat().st_mode) == 0o700
    private = [*up.client("").iterdir(), *up.data.glob("*.password"), *up.data.glob("certs/*.key")]
    private += [up.data / "cluster.secret", up.data / "first-users.json"]
    private += [up.data / "admin.totp", up.data / "admin.recovery-codes"]
    assert len(private) > 15
    for path in private:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    uri = (up.data / "admin.totp").read_text().strip()
    secrets = [parse_qs(urlsplit(uri).query)["secret"][0]]
    secrets += (up.data / "admin.recovery-codes").read_text().split()
    secrets += [(up.data / f"{user}.password").read_text().strip() for user in ("admin", "app")]
    assert len(secrets) == 13
    for password in secrets:
        for path in [*up.data.glob("broker-*.log"), *up.data.glob("broker-*.toml")]:
            assert password not in path.read_text()
        assert password not in (up.data / "first-users.json").read_text()
        for line in Path("/proc").glob("[0-9]*/cmdline"):
            if line.exists():
                assert password.encode() not in line.read_bytes()


@pytest.mark.parametrize(
    "mechanism",
    [
        "SCRAM-SHA-512",
        pytest.param("SCRAM-SHA-256", marks=pytest.mark.extended),
        pytest.param("PLAIN", marks=pytest.mark.extended),
    ],
)
def test_the_administrator_needs_a_code(up: SecureUp, mechanism: str) -> None:
    password = (up.data / "admin.password").read_text().strip()
    own = {"sasl.mechanisms": mechanism, "sasl.username": "admin", "sasl.password": password}
    with pytest.raises(Exception, match=r"_TRANSPORT|_TIMED_OUT|_AUTHENTICATION"):
        AdminClient({**librdkafka(up), **own, "log_level": 0}).list_topics(timeout=3)


@pytest.mark.extended
def test_an_environment_makes_codes_and_a_person_without_it_types_one(
    up: SecureUp, tmp_path: Path
) -> None:
    # Its environment has the secret, and commands make codes of it: also two at once.
    up.client("admin.session.json").unlink(missing_ok=True)
    script = f'. "{up.client("admin.env")}" && exec "$@"'
    words = ["sh", "-c", script, "sh", *KAFKAESQUE, "user", "list"]
    both = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for each in both:
        listed, _ = each.communicate(timeout=DEADLINE_S)
        assert (each.returncode, "totp" in listed) == (0, True)
    # Whoever has an authenticator takes the secret away, and types the code.
    kept = tmp_path / "admin.totp"
    (up.data / "admin.totp").rename(kept)
    try:
        assert up.command("admin", "user", "list").returncode == 0
        up.client("admin.session.json").rename(tmp_path / "session.json")
        refused = up.command("admin", "user", "list")
        assert refused.returncode == 1
        assert "admin.totp is not there any more: somebody has to type the code" in refused.stderr
        assert "kafkaesque login admin" in refused.stderr
    finally:
        kept.rename(up.data / "admin.totp")
        (tmp_path / "session.json").rename(up.client("admin.session.json"))


def test_tools_in_java_use_a_token_of_the_administrator(up: SecureUp, tmp_path: Path) -> None:
    path = tmp_path / "admin.token"
    done = up.command("admin", "token", "create", str(path), "--hours", "1")
    assert done.returncode == 0, done.stderr
    settings = path.read_text()
    assert "tokenauth" in settings
    trusted = f"ssl.truststore.location={librdkafka(up)['ssl.ca.location']}"
    assert {"security.protocol=SASL_SSL", trusted} < {*settings.splitlines()}
    assert not up.client("admin.java.properties").exists()


@pytest.mark.extended
def test_the_code_is_shown_to_who_makes_the_cluster(tmp_path: Path) -> None:
    words = [*KAFKAESQUE, "up", "--secure", "--brokers", "1", "--data", str(tmp_path / "data")]
    words += port_words(dict(zip(NAMES, unused_ports(len(NAMES)), strict=True)))
    for is_first in (True, False):
        shown = on_a_terminal(words, until="Once you have both" if is_first else "Ctrl-C stops")
        uri = (tmp_path / "data" / "admin.totp").read_text().strip()
        codes = (tmp_path / "data" / "admin.recovery-codes").read_text().split()
        assert ("█" in shown, uri in shown, codes[0] in shown) == (is_first,) * 3
        assert str(tmp_path / "data" / "admin.totp") in shown.replace("\r\n", "")


def on_a_terminal(words: list[str], until: str) -> str:
    """Run a command on a terminal until it has said something, and stop it; return all of it."""
    ours, its = pty.openpty()
    process = subprocess.Popen(
        words, stdin=its, stdout=its, stderr=its, env={**os.environ, "COLUMNS": "200"}
    )
    os.close(its)
    shown = b""
    try:
        while until.encode() not in shown:
            assert process.poll() is None, shown.decode(errors="replace")
            ready, _, _ = select.select([ours], [], [], DEADLINE_S)
            assert ready, shown.decode(errors="replace")
            shown += os.read(ours, 65536)
    finally:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):
            while os.read(ours, 65536):
                pass
        assert process.wait(DEADLINE_S) == 0
        os.close(ours)
    return shown.decode(errors="replace")


def test_without_an_admin_port_there_is_no_second_factor(tmp_path: Path) -> None:
    up = SecureUp(tmp_path / "data", "--secure", "--protocols", "kafka", brokers=1)
    try:
        assert "totp_file" not in up.event("ready")
        assert not (up.data / "admin.totp").exists()
        assert up.command("admin", "user", "list").returncode == 0
        assert up.client("admin.java.properties").exists()
    finally:
        up.close()


@pytest.mark.extended
def test_the_same_cluster_goes_on_though_nothing_is_said_of_security(own_up: SecureUp) -> None:
    up = own_up
    before = {path: path.read_bytes() for path in up.data.glob("certs/*.pem")}
    passwords = librdkafka(up)
    producer = Producer(passwords)
    producer.produce(TOPIC, b"kept")
    assert producer.flush(DEADLINE_S) == 0
    done = up.command("admin", "user", "create", "mia", "--password-file", str(up.data / "mia"))
    assert done.returncode == 0, done.stderr
    assert up.stop(signal.SIGINT) == 0
    # Where somebody has been another cluster's user, too.
    environment = dict(os.environ)
    os.environ["KAFKAESQUE_CA"] = "/nowhere"
    try:
        again = SecureUp(up.data, ports=up.ports)
    finally:
        os.environ.clear()
        os.environ.update(environment)
    try:
        assert again.event("ready")["is_secure"] is True
        assert {path: path.read_bytes() for path in up.data.glob("certs/*.pem")} == before
        assert librdkafka(up) == passwords
        assert consumed(librdkafka(up), b"kept")
        assert "mia" in again.command("admin", "user", "list").stdout
    finally:
        again.close()


def test_what_cannot_be_secured_is_refused(tmp_path: Path) -> None:
    def up(*words: str) -> subprocess.CompletedProcess[str]:
        ports = unused_ports(2)
        command = [*KAFKAESQUE, "up", "--brokers", "1", "--data", str(tmp_path / "data")]
        command += ["--port", str(ports[0]), "--peer-port", str(ports[1]), *words]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=DEADLINE_S, check=False
        )

    outside = up("--host", "192.0.2.1")
    assert (outside.returncode, "--allow-open-listeners" in outside.stderr) == (2, True)
    (tmp_path / "data").mkdir(exist_ok=True)
    (tmp_path / "data" / "cluster.json").write_text(
        '{"cluster_id": "x", "controllers": [1], '
        '"brokers": [{"kafka": 1025, "text": 0, "peer": 1026, "admin": 0}]}'
    )
    open_one = up("--secure")
    assert (open_one.returncode, "was made without --secure" in open_one.stderr) == (2, True)
