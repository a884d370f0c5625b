"""The port on which brokers speak to one another, when somebody else speaks there."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from kafkaesque.broker.peers.door import GREETING_MS_MAX
from kafkaesque.broker.peers.messages import (
    PROTOCOL_VERSION,
    Denial,
    Hello,
    LeaderReport,
    SectionKind,
    write_denial,
    write_raft_section,
    write_section,
)
from kafkaesque.env.report_limit import LINES_MAX
from tests.clients.bad_input import MIB, Victim, Wire
from tests.clients.cluster import CLUSTER_ID

#: Nobody listens at this port of the tests' machine.
DEAD_PORT = 1
STRANGER = 77
OTHER_STRANGERS = count(STRANGER + 1)


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    with Victim() as made:
        yield made


@pytest.fixture(autouse=True)
def others_notice_nothing(victim: Victim) -> Iterator[None]:
    with victim.watched(growth_bytes_max=16 * MIB):
        yield


def framed(*parts: Any) -> bytes:
    body = b"".join(bytes(part) for part in parts)
    return struct.pack(">I", len(body)) + body


def greeting(**fields: Any) -> bytes:
    values: dict[str, Any] = {
        "version": PROTOCOL_VERSION,
        "cluster_id": CLUSTER_ID,
        "node": STRANGER,
        "to_node": 1,
        "incarnation": 5,
        "host": "127.0.0.1",
        "port": DEAD_PORT,
    }
    return framed(*write_section(SectionKind.HELLO, Hello(**{**values, **fields})))


def is_refused(victim: Victim, data: bytes) -> bool:
    with Wire(victim.peer_port) as wire:
        wire.send(data)
        return wire.is_closed_by_broker()


def section(kind: int, body: bytes) -> bytes:
    return struct.pack(">BI", kind, len(body)) + body


@pytest.mark.parametrize(
    "rubbish",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">i", -1) + bytes(100),
        struct.pack(">i", 2**31 - 1),
        framed(b"\0" * 5),
        framed(b"\xff" * 100),
        framed(section(SectionKind.HELLO, b"")),
        framed(section(SectionKind.HELLO, b"\xc1" * 50)),
        framed(struct.pack(">BI", SectionKind.HELLO, 2**32 - 1) + b"abc"),
        framed(struct.pack(">BI", SectionKind.HELLO, 100)[:3]),
        framed(*write_section(SectionKind.HEARTBEAT, (1, 2, 3))),
        framed(*write_raft_section(1, [bytes(50)])),
    ],
    ids=[
        "http",
        "negative",
        "huge",
        "no such section",
        "ones",
        "empty greeting",
        "no greeting",
        "section of 4 GB",
        "cut header",
        "heartbeat before greeting",
        "raft before greeting",
    ],
)
def test_rubbish(victim: Victim, rubbish: bytes) -> None:
    assert is_refused(victim, rubbish)


@pytest.mark.parametrize("cluster_id", ["somebody else's", "", 1000 * "x"])
def test_greetings_of_another_cluster_are_told_so(victim: Victim, cluster_id: str) -> None:
    denial = framed(*write_denial(Denial.OTHER_CLUSTER))
    with Wire(victim.peer_port) as wire:
        wire.send(greeting(cluster_id=cluster_id))
        assert wire.read(len(denial)) == denial
        assert wire.is_closed_by_broker()


@pytest.mark.parametrize(
    "fields",
    [
        {"version": PROTOCOL_VERSION + 1},
        {"version": -1},
        {"to_node": 2},
        {"node": 1},
        {"node": 2**31},
        {"node": -5},
        {"incarnation": -1},
        {"port": 99_999},
        {"port": -1},
        {"port": 2**40},
        {"port": 0},
        {"host": ""},
        {"host": "nul\0"},
        {"host": "x" * 300},
        {"host": 100_000 * "y"},
    ],
    ids=lambda fields: str(fields)[:40],
)
def test_greetings_that_are_for_another(victim: Victim, fields: dict[str, Any]) -> None:
    assert is_refused(victim, greeting(**fields))


@pytest.mark.parametrize(
    "fields",
    [
        {"host": "\N{SNOWMAN}." * 30},
        {"host": "999.999.999.999"},
        {"host": "::gg"},
    ],
    ids=str,
)
def test_addresses_that_cannot_be_dialled(victim: Victim, fields: dict[str, Any]) -> None:
    # A broker of this cluster says them, so they are tried; it must come to nothing.
    with Wire(victim.peer_port) as wire:
        wire.send(greeting(node=next(OTHER_STRANGERS), **fields))
        time.sleep(0.3)
    assert victim.process.is_running(), victim.log()


@pytest.mark.parametrize(
    "parts",
    [
        write_raft_section(1, [b"\1" * 50]),
        write_raft_section(0, [bytes(50)]),
        write_raft_section(0, [b""]),
        write_raft_section(2**32 - 1, [b"\xff" * 50]),
        [section(SectionKind.RAFT, b"\0")],
        write_section(SectionKind.LEADERS, [LeaderReport(1, 99, STRANGER, (STRANGER,))]),
        write_section(SectionKind.LEADERS, [LeaderReport(10**12, -5, STRANGER, ())]),
        write_section(SectionKind.LEADERS, "leaders"),
        write_section(SectionKind.REQUEST, (1, {"kind": "no such kind"})),
        write_section(SectionKind.REQUEST, 5),
        write_section(SectionKind.RESPONSE, (12345, {"result": 5})),
        write_section(SectionKind.HEARTBEAT, ("x", None, [])),
    ],
    ids=[
        "raft ones",
        "raft zeros",
        "raft nothing",
        "raft of no group",
        "raft without group",
        "leaders",
        "impossible leaders",
        "no leaders",
        "no such request",
        "no request",
        "unasked answer",
        "no heartbeat",
    ],
)
def test_rubbish_from_one_that_has_greeted(victim: Victim, parts: list[Any]) -> None:
    with Wire(victim.peer_port) as wire:
        wire.send(greeting() + framed(*parts))
        time.sleep(0.3)
    assert victim.process.is_running(), victim.log()


def test_strangers_who_say_nothing(victim: Victim) -> None:
    wires = [Wire(victim.peer_port) for _ in range(1000)]
    try:
        for number, wire in enumerate(wires):
            # Some of them announce the largest frame that there is, some have been closed already.
            with suppress(ConnectionError):
                wire.send(struct.pack(">I", 256 * MIB)[: number % 5])
        time.sleep(0.5)
        assert not is_refused_at_once(victim)
        assert victim.log().count("have sent no greeting") <= LINES_MAX
    finally:
        for wire in wires:
            wire.socket.close()


def test_one_who_greets_a_byte_at_a_time(victim: Victim) -> None:
    with Wire(victim.peer_port) as wire:
        began = time.monotonic()
        for byte in greeting():
            wire.send(bytes([byte]))
            if wire.is_closed_by_broker(0.5):
                break
        else:
            pytest.fail("it was let in")
        assert GREETING_MS_MAX - 1_000 < (time.monotonic() - began) * 1000 < 3 * GREETING_MS_MAX


def is_refused_at_once(victim: Victim) -> bool:
    with Wire(victim.peer_port) as wire:
        wire.send(greeting())
        return wire.is_closed_by_broker(0.5)
