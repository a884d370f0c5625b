"""Mosquitto and our MQTT, side by side: `scripts/peers --mosquitto`.

Every row of the codec's table of clauses, and random sessions, are sent to Debian's Mosquitto and
to our connection. What both say is compared: whether they hang up, and every answer but the
properties and, where both hang up, the reason. Where Mosquitto differs from the specification, or
has other limits, `DIFFERENCES` says so; any other difference is printed and ends the run with code
1. In further sessions several clients meet at brokers: see `bench/mosquitto_meetings.py` and
`bench/mosquitto_features.py`.

    scripts/peers --mosquitto                the table, 300 sessions, and 153 with several clients
    scripts/peers --mosquitto --seed 7       sessions from another seed
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.mosquitto_features import check_features
from bench.mosquitto_meetings import check_meetings
from kafkaesque.cli.broker_ports import unused_ports
from kafkaesque.protocols.mqtt import packets as p
from kafkaesque.protocols.mqtt.errors import MqttError
from kafkaesque.protocols.mqtt.frames import FrameReader
from kafkaesque.protocols.mqtt.packet_codec import read_packet, write_packet
from kafkaesque.protocols.mqtt.packets import Version
from kafkaesque.protocols.mqtt.reasons import ReasonCode
from tests.unit.protocols_mqtt.clauses import ROWS
from tests.unit.protocols_mqtt.peer import CONNECTS, Broker, opened
from tests.waiting import until_port_answers

ANSWER_S, SILENCE_S = 3.0, 0.05
CONFIG = """\
listener {port} 127.0.0.1
allow_anonymous true
persistence false
max_packet_size 1000
max_keepalive 65535
log_type none
max_queued_messages 0
"""
_LENIENT = "Mosquitto does not look; the specification forbids it"
_LIMIT = "another limit"
_FILTER = "Mosquitto hangs up; a SUBACK that refuses one filter says more, and keeps the others"
#: By a row's description: why Mosquitto 2.0.11 says something else.
DIFFERENCES: dict[str, str] = {
    "MQTT 3.1": "Mosquitto speaks it",
    "a client id above the bound": _LIMIT,
    "topic alias above the maximum": _LIMIT,
    "more messages than receive maximum": _LIMIT,
    "a packet above the maximum": "its limit is on what clients say that they can take",
    "authentication data without a method": _LENIENT,
    "a length that is longer than it has to be": _LENIENT,
    "PINGREQ with a flag": _LENIENT,
    "PINGREQ with a body": _LENIENT,
    "SUBACK from a client": _LENIENT,
    "PINGRESP from a client": _LENIENT,
    "QoS 0, sent before": _LENIENT,
    "a subscription identifier from a client": _LENIENT,
    "a response topic with a wildcard": _LENIENT,
    "payload format 2": _LENIENT,
    "PUBACK with a reason that it cannot have": _LENIENT,
    "PUBACK with a reason in 3.1.1": _LENIENT,
    "PUBCOMP with bytes too many": _LENIENT,
    "no local on a shared subscription": _LENIENT,
    "a share without a name": _LENIENT,
    "a share's name with a wildcard": _LENIENT,
    "a share without a filter": _LENIENT,
    "any number of repeats": "it counts each repeat as one more in flight (mosquitto#3602)",
    "# that is not last": _FILTER,
    "# that is not all of a level": _FILTER,
    "+ that is not all of a level": _FILTER,
    "an empty filter": _FILTER,
}


@contextmanager
def mosquitto() -> Iterator[int]:
    """Run Mosquitto; yield its port."""
    program = os.environ.get("MOSQUITTO") or shutil.which("mosquitto") or "/usr/sbin/mosquitto"
    if not Path(program).exists():
        sys.exit("Mosquitto is missing. As root: apt-get install --no-install-recommends mosquitto")
    (port,) = unused_ports(1)
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "mosquitto.conf"
        config.write_text(CONFIG.format(port=port))
        process = subprocess.Popen([program, "-c", str(config)], stderr=subprocess.DEVNULL)
        try:
            until_port_answers(process, port)
            yield port
        finally:
            process.terminate()
            process.wait()


def ask(port: int, sent: bytes, expected: bytes) -> tuple[bytes, bool]:
    """Return what Mosquitto says, and whether it hangs up; that it says no more is waited for."""
    found = b""
    with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S) as client:
        client.sendall(sent)
        while True:
            client.settimeout(SILENCE_S if len(found) >= len(expected) else ANSWER_S)
            try:
                piece = client.recv(1 << 16)
            except TimeoutError:
                return found, False
            except ConnectionResetError:
                return found, True
            if not piece:
                return found, True
            found += piece


def said(raw: bytes, version: Version) -> list[str]:
    """Every answer in short, without what may differ: properties, and whether anybody listens."""
    reader = FrameReader(1 << 20)
    reader.feed(raw)
    found = []
    while (frame := reader.next_packet()) is not None:
        try:
            packet = read_packet(*frame, version)
        except MqttError as error:
            found.append(f"{frame[0]:02x} {frame[1].hex()}: {error}")
            continue
        found.append(_short(packet))
    return found


def _short(packet: p.Packet) -> str:
    name = packet.packet_type.name
    match packet:
        case p.Pubrel() | p.Pubcomp():
            # Mosquitto does not say that it does not know an id.
            return f"{name} {packet.packet_id}"
        case p.Acknowledgement():
            reason = packet.reason
            is_done = reason is ReasonCode.NO_MATCHING_SUBSCRIBERS
            return f"{name} {packet.packet_id} {'SUCCESS' if is_done else reason.name}"
        case p.Suback():
            return f"{name} {packet.packet_id} {[reason.name for reason in packet.reasons]}"
        case p.Unsuback():
            return f"{name} {packet.packet_id} {len(packet.reasons)}"
        case p.Connack() | p.Disconnect():
            return f"{name} {packet.reason.name}"
    return name


def ours(section: str, version: Version, sent: bytes) -> tuple[bytes, bool]:
    """Return what we say, and whether we hang up."""
    broker = Broker() if section == "CONNECT" else opened(version)
    return broker.receive(sent), broker.is_closed()


def compare(port: int, section: str, version: Version, sent: bytes) -> tuple[str, str] | None:
    """Return what Mosquitto and we say, in short; None if it is the same."""
    raw, is_closed = ours(section, version, sent)
    before = b"" if section == "CONNECT" else CONNECTS[version]
    their_raw, they_close = ask(port, before + sent, raw)
    theirs = said(their_raw, version)
    if before:
        theirs = theirs[1:]
    mine = said(raw, version)
    if they_close and is_closed:
        # Mosquitto often says nothing where 5.0 lets a broker say why.
        theirs, mine = _without_farewell(theirs), _without_farewell(mine)
    pair = (f"{theirs} closed={they_close}", f"{mine} closed={is_closed}")
    return None if pair[0] == pair[1] else pair


def _without_farewell(answers: list[str]) -> list[str]:
    is_farewell = bool(answers) and answers[-1].split()[0] in ("CONNACK", "DISCONNECT", "20")
    return answers[:-1] if is_farewell else answers


def check_table(port: int) -> int:
    """Compare all rows; return how many differ that should not."""
    count = 0
    same: set[str] = set()
    differing: set[str] = set()
    for section, rows in ROWS.items():
        for row in rows:
            found = compare(port, section, row.version, row.sent)
            if found is None:
                same.add(row.what)
            elif row.what in DIFFERENCES:
                differing.add(row.what)
            else:
                count += 1
                print(f"{row}\n    Mosquitto: {found[0]}\n    ours:      {found[1]}")
    for what in sorted(DIFFERENCES.keys() - differing):
        count += 1
        print(f"it differs no more: {what}" if what in same else f"no such row: {what}")
    return count


# -- random sessions


def session(dice: random.Random, version: Version) -> bytes:
    """What a client might send, that is mostly right; it publishes where it does not subscribe."""
    return b"".join(_packet(dice, version) for _ in range(dice.randint(1, 8)))


def _packet(dice: random.Random, version: Version) -> bytes:
    packet_id = dice.randint(1, 3)
    packet: p.Packet
    match dice.choice(("publish", "publish", "pubrel", "subscribe", "unsubscribe", "ping", "ack")):
        case "publish":
            qos = dice.randint(0, 2)
            packet = p.Publish(
                topic=dice.choice(("p", "p/q", "/p")),
                payload=b"x",
                qos=qos,
                dup=qos > 0 and dice.random() < 0.3,
                packet_id=packet_id if qos else 0,
            )
        case "pubrel":
            packet = p.Pubrel(packet_id=packet_id)
        case "subscribe":
            topics = [dice.choice(("s", "s/#", "s/+", "+/s", "$share/g/s")) for _ in range(2)]
            packet = p.Subscribe(
                packet_id=packet_id,
                subscriptions=tuple(
                    p.Subscription(topic_filter=each, qos=dice.randint(0, 2)) for each in topics
                ),
            )
        case "unsubscribe":
            packet = p.Unsubscribe(packet_id=packet_id, topic_filters=("s", "t"))
        case "ack":
            packet = dice.choice((p.Puback, p.Pubcomp))(packet_id=packet_id)
        case _:
            packet = p.Pingreq()
    return write_packet(packet, version)


def check_sessions(port: int, seed: int, count: int) -> int:
    """Compare sessions; return how many differ."""
    different = 0
    for number in range(count):
        dice = random.Random(f"{seed} {number}")
        version = dice.choice(list(Version))
        sent = session(dice, version)
        found = compare(port, "OPEN", version, sent)
        if found is not None:
            different += 1
            print(f"seed {seed}, session {number}, {version.name}: {sent.hex(' ')}")
            print(f"    Mosquitto: {found[0]}\n    ours:      {found[1]}")
    return different


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sessions", type=int, default=300)
    parser.add_argument("--meetings", type=int, default=100)
    parser.add_argument("--features", type=int, default=100, help="percent of their sessions")
    options = parser.parse_args()
    with mosquitto() as port:
        different = check_table(port) + check_sessions(port, options.seed, options.sessions)
        different += check_meetings(port, options.seed, range(options.meetings))
        different += check_features(port, options.seed, options.features)
    print(f"{different} differences")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
