"""Brokers with ports for MQTT, and paho-mqtt at them."""

from __future__ import annotations

import itertools
import queue
import socket
import threading
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from kafkaesque.cli.broker_ports import unused_ports
from kafkaesque.protocols.mqtt.frames import FrameReader
from tests.clients.cluster import KafkaesqueCluster
from tests.waiting import DEADLINE_S

_numbers = itertools.count()


def new_name(of: str = "client") -> str:
    """Return a name that no other test has."""
    return f"{of}{next(_numbers)}"


class MqttCluster(KafkaesqueCluster):
    """Brokers of ours, each with a port for MQTT, and one for AMQP."""

    def __init__(self, brokers: int, directory: Path) -> None:
        self.mqtt_ports = unused_ports(brokers)
        self.amqp_ports = unused_ports(brokers)
        self.web_socket_ports = unused_ports(brokers)
        super().__init__(brokers, directory=directory, sections=self._section)

    def _section(self, number: int) -> str:
        ports = {
            "mqtt": self.mqtt_ports[number - 1],
            "amqp": self.amqp_ports[number - 1],
            "websocket": self.web_socket_ports[number - 1],
        }
        return "".join(
            f'\n[[listener]]\nprotocol = "{name}"\nport = {port}\n' for name, port in ports.items()
        )

    def client(
        self,
        number: int = 1,
        client_id: str = "",
        *,
        version: int = paho.MQTTv5,
        transport: Any = "tcp",
        **more: Any,
    ) -> Paho:
        """paho, connected with a broker."""
        ports = self.mqtt_ports if transport == "tcp" else self.web_socket_ports
        client = Paho(client_id or new_name("paho"), version, transport)
        client.connect(ports[number - 1], **more)
        return client


class RawMqtt:
    """A connection, and packets as bytes."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
        self._frames = FrameReader(1 << 20)

    def send(self, first: int, body: bytes) -> None:
        """Send a packet of less than 128 bytes."""
        self._socket.sendall(bytes((first, len(body))) + body)

    def packet(self) -> tuple[int, bytes]:
        """Return the next packet: its first byte, and what follows its length."""
        while (found := self._frames.next_packet()) is None:
            piece = self._socket.recv(1 << 16)
            assert piece, "the broker has hung up"
            self._frames.feed(piece)
        return found

    def close(self) -> None:
        self._socket.close()


class Paho:
    """One client, with a thread of its own."""

    def __init__(self, client_id: str, version: int, transport: Any = "tcp") -> None:
        more: dict[str, Any] = {} if version == paho.MQTTv5 else {"clean_session": True}
        self.client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id,
            protocol=version,  # type: ignore[arg-type]
            transport=transport,
            **more,
        )
        if transport == "websockets":
            self.client.ws_set_options(path="/mqtt")
        self.version = version
        self.messages: queue.SimpleQueue[paho.MQTTMessage] = queue.SimpleQueue()
        self.connected: queue.SimpleQueue[tuple[Any, bool]] = queue.SimpleQueue()
        self.gone: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._subacks: dict[int, Any] = {}
        self._news = threading.Condition()
        self.client.on_message = lambda _, __, message: self.messages.put(message)
        self.client.on_connect = lambda _, __, flags, reason, ___: self.connected.put(
            (reason, flags.session_present)
        )
        self.client.on_disconnect = lambda _, __, ___, reason, ____: self.gone.put(reason)
        self.client.on_subscribe = self._on_subscribe
        self.client.on_unsubscribe = self._on_subscribe
        self.session_present = False

    def _on_subscribe(self, _: Any, __: Any, mid: int, reasons: Any, ___: Any) -> None:
        with self._news:
            self._subacks[mid] = reasons
            self._news.notify_all()

    def connect(self, port: int, **more: Any) -> None:
        """Connect, and wait until it is let in."""
        self.client.connect("127.0.0.1", port, **more)
        self.client.loop_start()
        reason, self.session_present = self.connected.get(timeout=DEADLINE_S)
        assert reason == 0, reason

    def _wait(self, mid: int | None) -> list[int]:
        assert mid is not None
        with self._news:
            assert self._news.wait_for(lambda: mid in self._subacks, DEADLINE_S)
            return [each.value for each in self._subacks[mid]]

    def subscribe(self, *what: Any, **more: Any) -> list[int]:
        """Subscribe, and return what was granted."""
        return self._wait(self.client.subscribe(*what, **more)[1])

    def unsubscribe(self, topic: str) -> list[int]:
        return self._wait(self.client.unsubscribe(topic)[1])

    def publish(self, topic: str, payload: bytes | str, qos: int = 1, **more: Any) -> None:
        """Publish, and wait until the broker has it."""
        info = self.client.publish(topic, payload, qos, **more)
        info.wait_for_publish(DEADLINE_S)
        assert info.is_published()

    def message(self) -> paho.MQTTMessage:
        """Return the next message."""
        return self.messages.get(timeout=DEADLINE_S)

    def payloads(self, count: int) -> list[bytes]:
        return [bytes(self.message().payload) for _ in range(count)]

    def close(self) -> None:
        """Take leave."""
        self.client.disconnect()
        self.client.loop_stop()

    def kill(self) -> None:
        """Be gone without a farewell."""
        sock = self.client.socket()
        assert sock is not None
        self.client.on_socket_close = None
        # paho would connect again.
        self.client._thread_terminate = True
        sock.close()
