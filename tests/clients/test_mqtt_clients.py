"""Clients of MQTT, unchanged: mosquitto_pub and mosquitto_sub, aiomqtt, and mqtt.js."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Iterator

import aiomqtt
import pytest

from tests.clients import node_client
from tests.clients.mqtt_cluster import MqttCluster, new_name
from tests.waiting import DEADLINE_S

needs_mosquitto = pytest.mark.skipif(
    shutil.which("mosquitto_pub") is None, reason="mosquitto-clients is not installed"
)
needs_node = pytest.mark.skipif(bool(node_client.missing()), reason=node_client.missing())


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MqttCluster]:
    with MqttCluster(3, tmp_path_factory.mktemp("mqtt")) as found:
        yield found


# -- mosquitto


def mosquitto(cluster: MqttCluster, what: str, number: int, *words: str) -> list[str]:
    return [f"mosquitto_{what}", "-h", "127.0.0.1", "-p", str(cluster.mqtt_ports[number]), *words]


def run(command: list[str], text: str = "") -> str:
    """Run a program, and return what it prints; fails when it does."""
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_mosquitto
@pytest.mark.parametrize("version", ["mqttv311", "mqttv5"])
@pytest.mark.parametrize("qos", ["0", "1", "2"])
def test_mosquitto_pub_and_sub(cluster: MqttCluster, version: str, qos: str) -> None:
    topic = new_name("moss/")
    run(mosquitto(cluster, "pub", 0, "-V", version, "-q", qos, "-t", topic, "-m", "kept", "-r"))
    receive = mosquitto(cluster, "sub", 0, "-V", version, "-q", qos, "-t", f"{topic}/#", "-C", "4")
    with subprocess.Popen([*receive, "-v"], stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        # It is subscribed once it has what was retained.
        assert reader.stdout.readline() == f"{topic} kept\n"
        lines = "one\ntwo\nthree\n"
        send = mosquitto(cluster, "pub", 0, "-V", version, "-q", qos, "-t", f"{topic}/x", "-l")
        run(send, lines)
        assert reader.stdout.read() == "".join(f"{topic}/x {each}\n" for each in lines.split())
    run(mosquitto(cluster, "pub", 0, "-t", topic, "-n", "-r"))


@needs_mosquitto
def test_mosquittos_session_and_will(cluster: MqttCluster) -> None:
    topic, me = new_name("moss/"), new_name("moss")
    keep = ("-i", me, "-c", "-q", "1", "-t", f"{topic}/#")
    run(mosquitto(cluster, "sub", 0, *keep, "-E"))
    run(mosquitto(cluster, "pub", 1, "-q", "1", "-t", f"{topic}/a", "-m", "waited"))
    there = new_name("there/")
    run(mosquitto(cluster, "pub", 1, "-q", "1", "-r", "-t", there, "-m", "there"))
    dying = mosquitto(cluster, "sub", 2, "-t", there)
    will = ("--will-topic", f"{topic}/will", "--will-payload", "gone", "--will-qos", "1")
    with subprocess.Popen([*dying, *will], stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "there\n"
        client.kill()
    found = run(mosquitto(cluster, "sub", 1, *keep, "-C", "2", "-v"))
    assert found == f"{topic}/a waited\n{topic}/will gone\n"


# -- aiomqtt


def test_aiomqtt(cluster: MqttCluster) -> None:
    root = new_name("aio")

    async def talk() -> list[tuple[str, object]]:
        port = cluster.mqtt_ports[0]
        found: list[tuple[str, object]] = []
        async with (
            aiomqtt.Client("127.0.0.1", port, protocol=aiomqtt.ProtocolVersion.V5) as client,
            asyncio.timeout(DEADLINE_S),
        ):
            await client.subscribe(f"{root}/+", qos=2)
            for number in range(20):
                await client.publish(f"{root}/{number}", number, qos=number % 3)
            async for message in client.messages:
                found.append((str(message.topic), message.payload))
                if len(found) == 20:
                    break
        return found

    assert asyncio.run(talk()) == [(f"{root}/{n}", b"%d" % n) for n in range(20)]


# -- mqtt.js


@needs_node
@pytest.mark.parametrize("transport", ["mqtt", "ws"])
@pytest.mark.parametrize("version", [4, 5])
def test_mqtt_js(cluster: MqttCluster, transport: str, version: int) -> None:
    root = new_name("js")
    port = (cluster.mqtt_ports if transport == "mqtt" else cluster.web_socket_ports)[0]
    path = "/mqtt" if transport == "ws" else ""
    found = node_client.run_node(
        "mqtt", "", url=f"{transport}://127.0.0.1:{port}{path}", root=root, version=version
    )
    assert found["granted"] == [2]
    assert found["messages"] == [[f"{root}/{n}", f"m{n}", n % 3] for n in range(9)]
    assert found["retained"] == [f"{root}/kept", "kept", True]
    assert found["resumed"] == [False, True]
    assert found["waited"] == ["w0", "w1", "w2"]
    if version == 5:
        assert found["answer"] == ["pong", json.loads('"c-1"')]
        assert found["refused"] == 0x87
