"""What a broker does with rubbish at the port on which brokers speak to one another.

Before a greeting the connection is closed; after it, too, where a section cannot be read. What can
be read and is nobody's leaves the connection as it is. Nothing of it makes the broker fail.
"""

import struct
from collections.abc import Iterator
from typing import Any

import pytest

from kafkaesque.broker.peers.greeting import Greeter
from kafkaesque.broker.peers.messages import (
    LeaderReport,
    SectionKind,
    write_raft_section,
    write_section,
)
from kafkaesque.env.network import Address, Framing, ListenOptions
from kafkaesque.model.ids import NodeId
from kafkaesque.sim.cluster import PEER_PORT, SECRET
from kafkaesque.sim.options import SimOptions
from tests.sim.scenario import Scenario
from tests.unit.env.worlds import Recorder

STRANGER = NodeId(77)
ALONE = SimOptions(brokers=1, replicas=1, controllers=1)


class Port:
    """A broker that leads a partition, and a stranger that has the cluster's secret."""

    def __init__(self) -> None:
        self.scenario = Scenario(1, ALONE)
        self._env = self.scenario.world.add_machine("elsewhere").boot()

    def dial(self, data: bytes) -> Recorder:
        """Connect, say something, and wait for what the broker makes of it."""
        stranger = Recorder()
        options = ListenOptions(framing=Framing.STREAM)
        address = Address("b1", PEER_PORT)
        self._env.network.connect(address, options, stranger, stranger.failed.append)
        loop = self.scenario.loop
        loop.run_until(lambda: stranger.connection is not None, 5_000)
        stranger.link.write([data])
        loop.run_for(500)
        return stranger

    def greet_and_say(self, *parts: Any) -> Recorder:
        """Greet as a broker of the cluster, and send a frame of these parts."""
        greeter = Greeter(
            node=STRANGER,
            cluster_id="sim",
            incarnation=5,
            advertised=Address("elsewhere", 1),
            secrets=(SECRET,),
        )
        return self.dial(framed(*greeter.write(NodeId(1))) + framed(*parts))


@pytest.fixture
def port() -> Iterator[Port]:
    made = Port()
    yield made
    assert made.scenario.loop.defects == []
    assert made.scenario.leaders() == ["b1"]


def framed(*parts: Any) -> bytes:
    body = b"".join(bytes(part) for part in parts)
    return struct.pack(">I", len(body)) + body


def section(kind: int, body: bytes) -> bytes:
    return struct.pack(">BI", kind, len(body)) + body


@pytest.mark.parametrize(
    ("rubbish", "reason"),
    [
        (framed(b"\0" * 5), "unknown section kind 0"),
        (framed(section(SectionKind.HELLO, b"")), "a greeting that cannot be read"),
        (framed(section(SectionKind.HELLO, b"\xc1" * 50)), "a greeting that cannot be read"),
        (
            framed(struct.pack(">BI", SectionKind.HELLO, 2**32 - 1) + b"abc"),
            "a section of 4294967295 bytes is cut short",
        ),
        (framed(struct.pack(">BI", SectionKind.HELLO, 100)[:3]), "header is cut short"),
        (
            framed(*write_section(SectionKind.HEARTBEAT, (1, 2, 3))),
            "the first section must be a greeting",
        ),
        (framed(*write_raft_section(1, [bytes(50)])), "the first section must be a greeting"),
    ],
    ids=[
        "no such section",
        "empty greeting",
        "no greeting",
        "section of 4 GB",
        "cut header",
        "heartbeat before greeting",
        "raft before greeting",
    ],
)
def test_a_stranger_that_does_not_greet_is_turned_away(
    port: Port, rubbish: bytes, reason: str
) -> None:
    assert port.dial(rubbish).closed
    (line,) = port.scenario.told("closing a peer connection")
    assert reason in line


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ([section(SectionKind.RAFT, b"\0")], "a Raft section without a group"),
        (write_section(SectionKind.LEADERS, "leaders"), "leader reports that cannot be read"),
        (write_section(SectionKind.REQUEST, 5), "a request that cannot be read"),
        (write_section(SectionKind.RESPONSE, 5), "an answer that cannot be read"),
        (
            write_section(SectionKind.HEARTBEAT, ("x", None, [])),
            "a heartbeat that cannot be read",
        ),
    ],
    ids=["raft without group", "no leaders", "no request", "no answer", "no heartbeat"],
)
def test_sections_that_cannot_be_read_end_the_connection(
    port: Port, parts: list[Any], reason: str
) -> None:
    assert port.greet_and_say(*parts).closed
    (line,) = port.scenario.told("closing a peer connection")
    assert reason in line


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        (write_raft_section(1, [b"\1" * 50]), "12 bytes after a message of type 1"),
        (write_raft_section(0, [bytes(50)]), "there is no message of type 0"),
        (write_raft_section(0, [b""]), "a message of 0 bytes is too short"),
    ],
    ids=["ones", "zeros", "nothing"],
)
def test_raft_messages_that_cannot_be_read_are_dropped(
    port: Port, parts: list[Any], reason: str
) -> None:
    assert not port.greet_and_say(*parts).closed
    (line,) = port.scenario.told("dropping a Raft message from broker 77")
    assert reason in line


@pytest.mark.parametrize(
    "parts",
    [
        write_raft_section(2**32 - 1, [b"\xff" * 50]),
        write_section(SectionKind.REQUEST, (1, {"kind": "no such kind"})),
        write_section(SectionKind.RESPONSE, (12345, {"result": 5})),
    ],
    ids=["raft of no group", "no such request", "unasked answer"],
)
def test_what_is_nobodys_comes_to_nothing(port: Port, parts: list[Any]) -> None:
    assert not port.greet_and_say(*parts).closed


def test_nobody_says_that_somebody_else_leads(port: Port) -> None:
    group = port.scenario.group
    before = port.scenario.broker("b1").leaders.get(group)
    report = LeaderReport(group, 99, 1, (1,))
    assert not port.greet_and_say(*write_section(SectionKind.LEADERS, [report])).closed
    assert before is not None
    assert port.scenario.broker("b1").leaders.get(group) == before
