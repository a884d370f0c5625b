"""Unchanged clients over TLS, and three brokers that speak it with one another."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import KafkaException
from kafka import KafkaConsumer, KafkaProducer

from kafkaesque.cli.broker_ports import unused_ports
from tests.certificates import TestAuthority
from tests.clients.cluster import KafkaesqueCluster
from tests.clients.kafka_helpers import (
    TopicMaker,
    admin_client,
    consume,
    produce,
    unique,
)
from tests.clients.node_client import missing, run_node
from tests.waiting import DEADLINE_S, eventually

LARGE = os.urandom(1_000_000)
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
BROKERS = 3


class Place(NamedTuple):
    cluster: KafkaesqueCluster
    authority: TestAuthority
    #: With a certificate, or without.
    secure: str
    #: Only with one.
    mutual: str
    ports: list[int]

    def confluent(self, user: str | None = None) -> dict[str, Any]:
        options = {"security_protocol": "ssl", "ssl_ca_location": str(self.authority.ca)}
        options["message_max_bytes"] = "2000000"
        if user is not None:
            options["ssl_certificate_location"] = str(self.authority.certificate(user))
            options["ssl_key_location"] = str(self.authority.key(user))
        return options


def sections(authority: TestAuthority, number: int, ports: list[int]) -> str:
    name = f"{authority.directory}/broker-{number}"
    own = ports[(number - 1) * 4 :]
    return (
        f'\n[tls]\ncertificate = "{name}.pem"\nkey = "{name}.key"\nca = "{authority.ca}"\n'
        f'crl = "{authority.directory}/crl.pem"\npeers = "on"\n'
        f'[[listener]]\nname = "secure"\nport = {own[0]}\ntls.client.auth = "optional"\n'
        f'[[listener]]\nname = "mutual"\nport = {own[1]}\ntls.client.auth = "required"\n'
        f'[[listener]]\nname = "lines"\nprotocol = "text"\nport = {own[2]}\ntls = true\n'
        f'[[listener]]\nname = "watch"\nprotocol = "admin"\nport = {own[3]}\ntls = true\n'
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    authority = TestAuthority(tmp_path_factory.mktemp("tls") / "ca")
    ports = unused_ports(4 * BROKERS)
    servers = [",".join(f"127.0.0.1:{port}" for port in ports[first::4]) for first in (0, 1)]
    with KafkaesqueCluster(
        brokers=BROKERS,
        directory=tmp_path_factory.mktemp("cluster"),
        sections=lambda number: sections(authority, number, ports),
    ) as cluster:
        yield Place(cluster, authority, servers[0], servers[1], ports)


@pytest.fixture(scope="module")
def make_topic(place: Place) -> TopicMaker:
    return TopicMaker(place.cluster.bootstrap_servers)


@pytest.mark.parametrize("user", [None, "app"])
def test_librdkafka_sends_and_reads_a_megabyte(
    place: Place, make_topic: TopicMaker, user: str | None
) -> None:
    topic = make_topic("tls")
    options = place.confluent(user)
    values = [LARGE, b"small", LARGE[:300_000]] * 5
    produce(place.secure, topic, values, **options)
    found = [each.value() or b"" for each in consume(place.secure, topic, len(values), **options)]
    assert sorted(found) == sorted(values)


def test_each_client_is_told_the_addresses_of_the_listener_it_came_by(place: Place) -> None:
    from confluent_kafka.admin import AdminClient

    options = {k.replace("_", "."): v for k, v in place.confluent("app").items()}
    admin = AdminClient({"bootstrap.servers": place.mutual.split(",")[0], **options})
    brokers = admin.list_topics(timeout=30).brokers.values()
    assert sorted(f"{each.host}:{each.port}" for each in brokers) == sorted(place.mutual.split(","))


def test_a_group_shares_partitions_over_tls(place: Place, make_topic: TopicMaker) -> None:
    topic = make_topic("tls-group")
    options = place.confluent("app")
    produce(place.mutual, topic, [b"%d" % i for i in range(300)], **options)
    from confluent_kafka import Consumer

    settings = {k.replace("_", "."): v for k, v in options.items()}
    consumer = Consumer(
        {
            "bootstrap.servers": place.mutual,
            "group.id": unique("group"),
            "auto.offset.reset": "earliest",
            **settings,
        }
    )
    consumer.subscribe([topic])
    found: set[bytes | None] = set()

    def all_are_read() -> bool:
        found.update(each.value() for each in consumer.consume(500, 0.1) if not each.error())
        return len(found) == 300

    eventually(all_are_read, "all are read")
    consumer.close()


def test_kafka_python_sends_and_reads_a_megabyte(place: Place, make_topic: TopicMaker) -> None:
    topic = make_topic("tls-python")
    options: dict[str, Any] = {
        "bootstrap_servers": place.mutual.split(","),
        "security_protocol": "SSL",
        "ssl_cafile": str(place.authority.ca),
        "ssl_certfile": str(place.authority.certificate("app")),
        "ssl_keyfile": str(place.authority.key("app")),
    }
    with closing(KafkaProducer(max_request_size=2_000_000, **options)) as producer:
        for value in (LARGE, b"small", LARGE):
            producer.send(topic, value).get(DEADLINE_S)
    reading = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 30_000}
    with closing(KafkaConsumer(topic, **options, **reading)) as consumer:
        found = [message.value for _, message in zip(range(3), consumer, strict=False)]
    assert sorted(found) == sorted([LARGE, b"small", LARGE])


def test_aiokafka_sends_and_reads_a_megabyte(place: Place, make_topic: TopicMaker) -> None:
    topic = make_topic("tls-aio")

    async def work() -> list[bytes]:
        options: dict[str, Any] = {
            "bootstrap_servers": place.mutual,
            "security_protocol": "SSL",
            "ssl_context": place.authority.client("app"),
        }
        producer = AIOKafkaProducer(acks="all", max_request_size=2_000_000, **options)
        await producer.start()
        for value in (LARGE, b"small", LARGE):
            await producer.send_and_wait(topic, value)
        await producer.stop()
        consumer = AIOKafkaConsumer(topic, auto_offset_reset="earliest", **options)
        await consumer.start()
        try:
            return [(await consumer.getone()).value for _ in range(3)]
        finally:
            await consumer.stop()

    found = asyncio.run(asyncio.wait_for(work(), 2 * DEADLINE_S))
    assert sorted(found) == sorted([LARGE, b"small", LARGE])


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_kcat_sends_and_reads(place: Place, make_topic: TopicMaker) -> None:
    topic = make_topic("tls-kcat")
    options = [f"{k.replace('_', '.')}={v}" for k, v in place.confluent("app").items()]
    shared = ["kcat", "-b", place.mutual, "-t", topic, *(w for o in options for w in ("-X", o))]
    text = "".join(f"{i} {'x' * 100_000}\n" for i in range(20))
    subprocess.run([*shared, "-P"], input=text, text=True, check=True, timeout=DEADLINE_S)
    command = [*shared, "-C", "-e", "-q", "-o", "beginning"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=DEADLINE_S)
    assert sorted(done.stdout.splitlines()) == sorted(text.splitlines())


@pytest.mark.extended
@pytest.mark.skipif(bool(missing()), reason=missing() or "it is there")
def test_kafkajs_sends_and_reads_a_megabyte(place: Place, make_topic: TopicMaker) -> None:
    topic = make_topic("tls-js")
    files = {
        "ca": str(place.authority.ca),
        "cert": str(place.authority.certificate("app")),
        "key": str(place.authority.key("app")),
    }
    # Arguments of a process are not that long.
    messages = [{"value": "y", "times": 1_000_000}, {"value": "small"}]
    run_node("produce", place.mutual, topic=topic, ssl=files, messages=messages)
    found = run_node("consume", place.mutual, topic=topic, ssl=files, group=unique("js"), count=2)
    assert sorted(each["value"] for each in found) == ["small", "y" * 1_000_000]


def test_without_a_certificate_nothing_comes_in_where_one_is_required(
    place: Place, make_topic: TopicMaker
) -> None:
    topic = make_topic("tls-none")
    with pytest.raises((KafkaException, AssertionError)):
        produce(place.mutual, topic, [b"x"], message_timeout_ms="4000", **place.confluent())
    assert consume(place.secure, topic, 0, at_rest_s=0.5, **place.confluent()) == []


def test_the_text_and_admin_ports_speak_it_too(place: Place) -> None:
    context = place.authority.client()
    with (
        socket.create_connection(("127.0.0.1", place.ports[2])) as sock,
        context.wrap_socket(sock, server_hostname="127.0.0.1") as tls,
    ):
        tls.sendall(b"TOPICS\r\n")
        assert tls.recv(1_000)
    with (
        socket.create_connection(("127.0.0.1", place.ports[3])) as sock,
        context.wrap_socket(sock, server_hostname="127.0.0.1") as tls,
    ):
        tls.sendall(b"GET /health/ready HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = b""
        while data := tls.recv(65_536):
            answer += data
    assert answer.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("name", [None, "app", "broker-2"])
def test_nobody_speaks_on_the_peer_port_but_a_broker_and_only_as_itself(
    place: Place, name: str | None
) -> None:
    """A greeting as broker 3, by a stranger, a client and broker 2."""
    from kafkaesque.broker.peers.greeting import Greeter
    from kafkaesque.env.network import Address
    from kafkaesque.model.ids import NodeId
    from tests.clients.cluster import CLUSTER_ID

    greeter = Greeter(
        node=NodeId(3), cluster_id=CLUSTER_ID, incarnation=9, advertised=Address("127.0.0.1", 1)
    )
    parts = greeter.write(NodeId(1))
    greeting = sum(map(len, parts)).to_bytes(4, "big") + b"".join(map(bytes, parts))
    context = place.authority.client(name)
    answer = b""
    with socket.create_connection(("127.0.0.1", place.cluster.peer_ports[0])) as sock:
        sock.settimeout(20)
        try:
            with context.wrap_socket(sock, server_hostname="127.0.0.1") as tls:
                tls.sendall(greeting)
                while data := tls.recv(65_536):
                    answer += data
        except TimeoutError:
            raise
        except OSError:
            pass
    # Broker 2 is told why; the others are not even heard.
    assert bool(answer) == (name == "broker-2")


def test_what_is_no_tls_is_hung_up_on_and_others_go_on(
    place: Place, make_topic: TopicMaker
) -> None:
    topic = make_topic("tls-junk")
    for port in (place.ports[0], place.ports[2], place.cluster.peer_ports[0]):
        for data in (b"GET / HTTP/1.1\r\n\r\n", API_VERSIONS, os.urandom(5_000)):
            with socket.create_connection(("127.0.0.1", port)) as sock:
                sock.settimeout(20)
                sock.sendall(data)
                try:
                    while answer := sock.recv(65_536):
                        assert answer[0] == 0x15  # An alert, and nothing else.
                except ConnectionResetError:
                    pass
    produce(place.secure, topic, [b"x"], **place.confluent())


def test_half_handshakes_hold_nobody_up(place: Place, make_topic: TopicMaker) -> None:
    outgoing = ssl.MemoryBIO()
    tls = place.authority.client().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    hello = outgoing.read()
    topic = make_topic("tls-flood", partitions=1)
    before = place.cluster.brokers[0].rss_bytes()
    socks: list[socket.socket] = []
    try:
        for number in range(600):
            sock = socket.create_connection(("127.0.0.1", place.ports[0]))
            socks.append(sock)
            sock.sendall(hello[: len(hello) if number % 2 else number % len(hello)])
        produce(place.secure, topic, [b"x"] * 100, **place.confluent())
        assert len(consume(place.secure, topic, 100, **place.confluent())) == 100
        assert place.cluster.brokers[0].rss_bytes() - before < 100_000_000
    finally:
        for sock in socks:
            sock.close()


def test_a_certificate_is_renewed_without_a_restart_and_a_wrong_one_is_not_taken(
    place: Place, make_topic: TopicMaker
) -> None:
    """While somebody goes on sending over the connections that stand."""
    topic = make_topic("tls-renewed", partitions=1)
    broker, authority = place.cluster.brokers[0], place.authority

    def shown() -> int:
        context = authority.client()
        with (
            socket.create_connection(("127.0.0.1", place.ports[0])) as sock,
            context.wrap_socket(sock, server_hostname="127.0.0.1") as tls,
        ):
            return int(str((tls.getpeercert() or {})["serialNumber"]), 16)

    first = shown()
    is_over = threading.Event()
    failed: list[BaseException] = []
    sent: list[bytes] = []

    def go_on() -> None:
        try:
            while not is_over.is_set():
                produce(place.secure, topic, [b"x"] * 10, **place.confluent("app"))
                sent.extend([b"x"] * 10)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        second = authority.authority.renew("broker-1").serial
        os.kill(broker.pid, signal.SIGHUP)
        eventually(lambda: shown() == second, "the new certificate is shown")
        assert first != second
        good = authority.key("broker-1").read_bytes()
        shutil.copy(authority.key("broker-2"), authority.key("broker-1"))
        os.kill(broker.pid, signal.SIGHUP)
        eventually(
            lambda: "is not that of the certificate in" in broker.log_path.read_text(),
            "the wrong key is reported",
        )
        assert shown() == second
        authority.key("broker-1").write_bytes(good)
    finally:
        is_over.set()
        thread.join()
    assert failed == []
    assert len(consume(place.secure, topic, len(sent), **place.confluent())) == len(sent)


def test_brokers_find_one_another_again_over_tls(place: Place, make_topic: TopicMaker) -> None:
    topic = make_topic("tls-restart", partitions=1, min_insync_replicas="3")
    third = place.cluster.brokers[2]
    third.kill()
    third.start()
    place.cluster.wait_until_ready()
    produce(place.secure, topic, [LARGE] * 5, **place.confluent())
    assert len(consume(place.secure, topic, 5, **place.confluent())) == 5


def test_a_revoked_client_is_out_everywhere_and_others_stay(
    place: Place, make_topic: TopicMaker
) -> None:
    authority = place.authority
    authority.authority.issue_user("guest")
    context = authority.client("guest")
    socks = []
    for port in place.ports[0::4]:
        sock = context.wrap_socket(
            socket.create_connection(("127.0.0.1", port)), server_hostname="127.0.0.1"
        )
        sock.settimeout(20)
        sock.sendall(API_VERSIONS)
        assert sock.recv(4)
        socks.append(sock)
    authority.authority.revoke("guest")
    begun = time.monotonic()
    for broker in place.cluster.brokers:
        os.kill(broker.pid, signal.SIGHUP)
    for sock in socks:
        assert _is_hung_up(sock)
    assert time.monotonic() - begun < 5
    with pytest.raises((KafkaException, AssertionError)):
        produce(
            place.mutual, make_topic("tls-guest"), [b"x"], message_timeout_ms="3000",
            **place.confluent("guest"),
        )  # fmt: skip
    produce(place.mutual, make_topic("tls-app"), [b"x"], **place.confluent("app"))


def _is_hung_up(sock: ssl.SSLSocket) -> bool:
    """Read until the other end is gone; fails if it is not."""
    with closing(sock):
        try:
            while sock.recv(65_536):
                pass
        except TimeoutError:
            return False
        except OSError:
            pass
        return True


def test_the_options_say_how_clients_speak(place: Place) -> None:
    from confluent_kafka.admin import ConfigResource, ResourceType

    admin = admin_client(place.cluster.bootstrap_servers)
    (future,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]).values()
    found = future.result(DEADLINE_S)["listener.security.protocol.map"].value
    assert found == "PLAINTEXT:PLAINTEXT,SECURE:SSL,MUTUAL:SSL"
    json.dumps(found)


def kafkaesque(place: Place, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command as somebody who has the certificate of the user app."""
    authority = place.authority
    given = {
        "KAFKAESQUE_CA": str(authority.ca),
        "KAFKAESQUE_CLIENT_CERTIFICATE": str(authority.certificate("app")),
        "KAFKAESQUE_CLIENT_KEY": str(authority.key("app")),
        "KAFKAESQUE_BOOTSTRAP_SERVER": place.mutual,
    }
    return subprocess.run(
        [str(Path(sys.executable).with_name("kafkaesque")), *words],
        capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, **given, **environment},
    )  # fmt: skip


@pytest.mark.extended
def test_commands_speak_it_with_files_that_the_environment_names(
    place: Place, make_topic: TopicMaker, tmp_path: Path
) -> None:
    topic = make_topic("tls-command", partitions=1)
    done = kafkaesque(place, "publish", topic, "hello")
    assert (done.returncode, done.stdout) == (0, f"published 1 message to {topic}\n"), done.stderr
    done = kafkaesque(place, "consume", topic, "--from-beginning", "--max", "1")
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
    done = kafkaesque(place, "cluster", "status")
    assert done.returncode == 0, done.stderr
    done = kafkaesque(place, "doctor")
    assert "does not answer" not in done.stdout, done.stdout
    wrong = kafkaesque(place, "topic", "list", KAFKAESQUE_CA=str(tmp_path / "none"))
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "holds no certificates: no such file" in wrong.stderr
    keyless = kafkaesque(place, "topic", "list", KAFKAESQUE_CLIENT_KEY=str(place.authority.ca))
    assert keyless.returncode == 2
    assert "are not a certificate and its key" in keyless.stderr


def test_a_check_says_what_is_wrong_with_certificates(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    text = (
        f'[broker]\nid = 1\ndata = "{tmp_path}/data"\n[tls]\nlisteners = true\n'
        f'certificate = "{place.authority.certificate("broker-1")}"\n'
        f'key = "{place.authority.key("broker-2")}"\nca = "{place.authority.ca}"\n'
    )
    path.write_text(text)
    program = str(Path(sys.executable).with_name("kafkaesque"))
    command = [program, "broker", "--config", str(path), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 2
    assert "is not that of the certificate in" in done.stderr
    path.write_text(text.replace("broker-2.key", "broker-1.key"))
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert (done.returncode, done.stdout) == (0, f"{path} is valid\n")
