"""How soon a session with many messages resumes elsewhere: `python -m bench.session_resume`.

A client of MQTT 5.0 has a session that is kept, at the broker that leads the session's queue.
Messages of QoS 1 wait for it, and it acknowledges none. Then that broker is killed (`kill -9`), and
the client connects with the others, again and again, until one lets it in. Measured is, from before
the kill on, when it is told that its session is there (CONNACK), when the first message comes, and
when the last one has come. Every message has to come.

    python -m bench.session_resume                          3 times, 100,000 messages of 256 bytes
    python -m bench.session_resume --messages 5000 --runs 1
    python -m bench.session_resume --sessions 3    two more want the same: each message is kept once
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kafkaesque.protocols.mqtt import packets as p
from kafkaesque.protocols.mqtt.frames import FrameReader
from kafkaesque.protocols.mqtt.packet_codec import read_packet, write_packet
from kafkaesque.protocols.mqtt.packets import Version
from kafkaesque.protocols.mqtt.properties import Properties
from tests.clients.mqtt_cluster import MqttCluster

BROKERS = 3
TOPIC = "fill/all"
TARGET_S = 1.0
#: Messages that the publisher has in flight: as many as the broker allows.
WINDOW = 32
#: A broker that does not answer is left for another one after this.
PATIENCE_S = 5.0
#: All of it, however slow the machine is.
END_S = 300.0
AGAIN_S = 0.005


class Gone(Exception):
    """The broker has closed the connection, or says nothing."""


class Link:
    """One connection of MQTT 5.0, packet by packet."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._frames = FrameReader(1 << 28)

    def send(self, *packets: p.Packet) -> None:
        """Send packets.

        Raises:
            Gone: the connection is closed.
        """
        try:
            self._socket.sendall(b"".join(write_packet(each, Version.V5) for each in packets))
        except OSError as error:
            raise Gone from error

    def packets(self) -> Iterator[p.Packet]:
        """Yield packets, as they come.

        Raises:
            Gone: no more come.
        """
        while True:
            while (frame := self._frames.next_packet()) is not None:
                yield read_packet(*frame, Version.V5)
            try:
                data = self._socket.recv(1 << 18)
            except OSError as error:
                raise Gone from error
            if not data:
                raise Gone
            self._frames.feed(data)

    def connect(self, client_id: str, *, is_new: bool) -> bool:
        """Log in with a session that is kept; return whether it was there.

        Raises:
            Gone: the broker does not let the client in.
        """
        properties = Properties(session_expiry_interval_s=3_600)
        self.send(p.Connect(client_id=client_id, clean_start=is_new, properties=properties))
        connack = next(self.packets())
        if not isinstance(connack, p.Connack) or connack.reason.is_error:
            raise Gone
        return connack.session_present

    def close(self) -> None:
        """Be gone without a farewell."""
        self._socket.close()


class Resumed(NamedTuple):
    """Seconds from before the kill on."""

    connack_s: float
    first_s: float
    last_s: float


def fill(port: int, count: int, size: int) -> None:
    """Publish messages of QoS 1; all are acknowledged when this returns."""
    link = Link(port)
    link.connect("filler", is_new=True)
    packets = link.packets()
    payload = b"x" * (size - 8)
    sent = done = 0
    while done < count:
        burst = []
        while sent < count and sent - done < WINDOW:
            body = b"%08d" % sent + payload
            sent += 1
            burst.append(p.Publish(topic=TOPIC, payload=body, qos=1, packet_id=sent % 60_000 + 1))
        link.send(*burst)
        answer = next(packets)
        assert isinstance(answer, p.Puback), answer
        assert not answer.reason.is_error, answer
        done += 1
    link.close()


def leader_of(cluster: MqttCluster, client_id: str) -> int:
    """Return which broker leads a session's queue."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "kafkaesque.cli.app"),
            *("queue", "describe", f"mqtt.session.{client_id}", "--json"),
        ],
        env={**os.environ, "KAFKAESQUE_BOOTSTRAP_SERVER": cluster.bootstrap_servers},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(json.loads(done.stdout)["leader"])


def resume(ports: Sequence[int], client_id: str, count: int, begun: float) -> Resumed:
    """Connect with whoever takes the client, and take all messages."""
    seen: set[bytes] = set()
    connack_s = first_s = 0.0
    for port in itertools.cycle(ports):
        assert time.monotonic() - begun < END_S, f"{len(seen)} of {count} messages have come"
        try:
            link = Link(port)
            assert link.connect(client_id, is_new=False), "the session is gone"
            connack_s = connack_s or time.monotonic() - begun
            for packet in link.packets():
                if not isinstance(packet, p.Publish):
                    continue
                first_s = first_s or time.monotonic() - begun
                seen.add(packet.payload[:8])
                link.send(p.Puback(packet_id=packet.packet_id))
                if len(seen) == count:
                    last_s = time.monotonic() - begun
                    link.close()
                    return Resumed(connack_s, first_s, last_s)
        except (Gone, OSError):
            time.sleep(AGAIN_S)
    raise AssertionError


def subscribe(port: int, client_id: str) -> None:
    """Begin a session that wants the messages, and leave it."""
    link = Link(port)
    link.connect(client_id, is_new=True)
    wanted = (p.Subscription(topic_filter=TOPIC, qos=1),)
    link.send(p.Subscribe(packet_id=1, subscriptions=wanted))
    assert isinstance(next(link.packets()), p.Suback)
    link.close()


def measure(directory: Path, given: argparse.Namespace) -> list[Resumed]:
    """Return the times of each run."""
    found = []
    count, size = given.messages, given.size
    with MqttCluster(BROKERS, directory) as cluster:
        for number in range(1, given.sessions):
            subscribe(cluster.mqtt_ports[0], f"beside{number}")
        for run in range(given.runs):
            client_id = f"resumes{run}"
            subscribe(cluster.mqtt_ports[0], client_id)
            victim = leader_of(cluster, client_id)
            link = Link(cluster.mqtt_ports[victim - 1])
            assert link.connect(client_id, is_new=False)
            others = [port for at, port in enumerate(cluster.mqtt_ports, 1) if at != victim]
            fill(others[run % len(others)], count, size)
            begun = time.monotonic()
            cluster.brokers[victim - 1].kill()
            found.append(resume(others, client_id, count, begun))
            link.close()
            print(f"run {run + 1}: {shown(found[-1])}", flush=True)
            cluster.brokers[victim - 1].start()
            cluster.wait_until_ready()
    return found


def shown(times: Resumed) -> str:
    """Return the times for people."""
    return (
        f"session after {times.connack_s:.3f} s, first message after {times.first_s:.3f} s, "
        f"all after {times.last_s:.1f} s"
    )


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000, help="that wait")
    parser.add_argument("--size", type=int, default=256, help="bytes of a message, at least 8")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--sessions", type=int, default=1, help="that want the messages")
    wanted = parser.parse_args()
    wanted.size = max(wanted.size, 8)
    with tempfile.TemporaryDirectory(prefix="kafkaesque-") as directory:
        found = measure(Path(directory), wanted)
    firsts = [each.first_s for each in found]
    print(
        f"{wanted.messages:,} messages of {wanted.size} B, sessions: {wanted.sessions}, kills: "
        f"{len(found)}, first message after "
        f"median {statistics.median(firsts):.3f} s, longest {max(firsts):.3f} s "
        f"(the target is {TARGET_S:.0f} s)"
    )


if __name__ == "__main__":
    main()
