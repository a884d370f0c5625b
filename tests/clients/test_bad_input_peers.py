"""The port on which brokers speak to one another, when somebody else speaks there.

What becomes of each section and each field: see `tests/sim/test_peer_rubbish.py` and
`tests/unit/broker/test_peer_port.py`.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from kafkaesque.broker.peers.door import GREETING_MS_MAX
from kafkaesque.broker.peers.messages import (
    PROTOCOL_VERSION,
    Denial,
    Hello,
    SectionKind,
    write_denial,
    write_section,
)
from kafkaesque.env.report_limit import LINES_MAX
from tests.clients.bad_input import MIB, Victim, Wire
from tests.clients.cluster import CLUSTER_ID

#: Nobody listens at this port of the tests' machine.
DEAD_PORT = 1
STRANGER = 77


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


@pytest.mark.parametrize(
    "rubbish",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">i", -1) + bytes(100),
        struct.pack(">i", 2**31 - 1),
        framed(b"\xff" * 100),
    ],
    ids=["http", "negative", "huge", "ones"],
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
            try:
                wire.send(bytes([byte]))
            except ConnectionError:
                break  # it was closed between the last look and this byte
            if wire.is_closed_by_broker(0.5):
                break
        else:
            pytest.fail("it was let in")
        assert GREETING_MS_MAX - 1_000 < (time.monotonic() - began) * 1000 < 3 * GREETING_MS_MAX


def is_refused_at_once(victim: Victim) -> bool:
    with Wire(victim.peer_port) as wire:
        wire.send(greeting())
        return wire.is_closed_by_broker(0.5)
