"""Strangers at the port on which brokers speak to one another, on simulated machines."""

import struct
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from kafkaesque.broker.config import PeerTimings
from kafkaesque.broker.peers import link as peer_link
from kafkaesque.broker.peers.door import GREETING_BYTES_MAX, GREETING_MS_MAX, STRANGERS_MAX
from kafkaesque.broker.peers.greeting import Greeter
from kafkaesque.broker.peers.link import PeerNetwork, PeerNotAsked
from kafkaesque.broker.peers.messages import (
    PROTOCOL_VERSION,
    Heartbeat,
    Hello,
    LeaderReport,
    SectionKind,
    write_section,
)
from kafkaesque.broker.requests.commands import AskMetadataEnd
from kafkaesque.env import Env
from kafkaesque.env.network import Address, Framing, ListenOptions
from kafkaesque.env.report_limit import LINES_MAX, WINDOW_MS
from kafkaesque.model.ids import NodeId
from kafkaesque.sim.env import World
from tests.unit.env.worlds import Recorder

PORT = 9190
STREAM = ListenOptions(framing=Framing.STREAM)
CLUSTER = "the cluster"


class Events:
    """What a broker hears from its peer network."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.lost: list[int] = []
        self.doubted: list[int] = []
        self.reports: list[LeaderReport] = []

    def on_raft(self, node: NodeId, group: int, message: memoryview) -> None:
        raise AssertionError

    def on_leaders(self, node: NodeId, reports: list[LeaderReport]) -> None:
        self.reports.extend(reports)

    def on_request(self, node: NodeId, request: msgspec.Raw, answer: Any) -> None:
        raise AssertionError

    def on_peer_seen(self, node: NodeId, *, restarted: bool) -> None:
        self.seen.append(node)

    def on_peer_lost(self, node: NodeId) -> None:
        self.lost.append(node)

    def on_peer_doubted(self, node: NodeId) -> None:
        self.doubted.append(node)

    def on_peer_trusted(self, node: NodeId) -> None:
        pass

    def on_link_up(self, node: NodeId) -> None:
        pass


class Port:
    """Broker 1's peer port on machine `b1`, broker 2 on `b2`, and strangers on `elsewhere`."""

    def __init__(self) -> None:
        self.world = World(1)
        self.events = Events()
        self.reports: list[str] = []
        self.one = self._broker(1, self.events, self.reports)
        self.others = Events()
        self.two = self._broker(2, self.others, [])
        self.stranger = self.world.add_machine("elsewhere").boot()

    def _broker(self, number: int, events: Events, reports: list[str]) -> PeerNetwork:
        env: Env = self.world.add_machine(f"b{number}").boot()
        made = PeerNetwork(
            env=env,
            node=NodeId(number),
            greeter=Greeter(
                node=NodeId(number),
                cluster_id=CLUSTER,
                incarnation=100 + number,
                advertised=Address(f"b{number}", PORT),
            ),
            timings=PeerTimings(),
            events=events,
            report=reports.append,
        )
        made.listen(Address(f"b{number}", PORT))
        made.start()
        return made

    def meet(self) -> None:
        """Let the two brokers find one another."""
        self.one.add_peer(NodeId(2), Address("b2", PORT))
        self.run_until_met()

    def run_until_met(self) -> None:
        both = (self.one, NodeId(2)), (self.two, NodeId(1))
        self.world.loop.run_until(lambda: all(peers.is_alive(node) for peers, node in both), 10_000)

    def dial(self, data: bytes = b"") -> Recorder:
        """Connect as a stranger, and say something."""
        stranger = Recorder()
        self.stranger.network.connect(Address("b1", PORT), STREAM, stranger, stranger.failed.append)
        self.world.loop.run_until(lambda: stranger.connection is not None, 5_000)
        if data:
            stranger.link.write([data])
        return stranger

    def run_for(self, ms: int) -> None:
        self.world.loop.run_for(ms)


@pytest.fixture
def port() -> Iterator[Port]:
    made = Port()
    yield made
    assert made.world.loop.defects == []


def framed(*parts: Any) -> bytes:
    body = b"".join(bytes(part) for part in parts)
    return struct.pack(">I", len(body)) + body


def hello(**fields: Any) -> bytes:
    values: dict[str, Any] = {
        "version": PROTOCOL_VERSION,
        "cluster_id": CLUSTER,
        "node": 77,
        "to_node": 1,
        "incarnation": 5,
        "host": "elsewhere",
        "port": 9,
    }
    return framed(*write_section(SectionKind.HELLO, Hello(**{**values, **fields})))


def heartbeat(echoed_sequence: int) -> bytes:
    return framed(*write_section(SectionKind.HEARTBEAT, Heartbeat(1, echoed_sequence, 0)))


def leaders(count: int) -> bytes:
    reports = [LeaderReport(group, 1, 77, (77,)) for group in range(count)]
    return framed(*write_section(SectionKind.LEADERS, reports))


def test_whoever_greets_in_time_stays_and_may_send_long_frames(port: Port) -> None:
    stranger = port.dial(hello() + leaders(5000))
    port.run_for(2 * GREETING_MS_MAX)
    assert not stranger.closed
    assert len(port.events.reports) == 5000


@pytest.mark.parametrize("start", [b"", b"\0", hello()[:-1]], ids=["nothing", "a byte", "a part"])
def test_whoever_does_not_greet_is_closed_in_time(port: Port, start: bytes) -> None:
    stranger = port.dial(start)
    port.run_for(GREETING_MS_MAX - 500)
    assert not stranger.closed
    port.run_for(1_000)
    assert stranger.closed
    assert "sent no greeting" in port.reports[-1]


def test_a_greeting_that_trickles_in_is_closed_in_time(port: Port) -> None:
    stranger = port.dial()
    data = iter(hello())
    for _ in range(6):
        stranger.link.write([bytes([next(data)])])
        port.run_for(1_000)
    assert stranger.closed


def test_time_in_which_the_broker_is_held_up_does_not_count(port: Port) -> None:
    stranger = port.dial()
    machine = port.world.machines["b1"]
    machine.pause()
    port.run_for(2 * GREETING_MS_MAX)
    stranger.link.write([hello()])
    machine.resume()
    port.run_for(2 * GREETING_MS_MAX)
    assert not stranger.closed


def test_a_stranger_gets_no_room_for_a_long_frame(port: Port) -> None:
    stranger = port.dial(struct.pack(">I", GREETING_BYTES_MAX + 1))
    port.run_for(500)
    assert stranger.closed


def test_a_host_with_the_longest_name_can_greet(port: Port) -> None:
    greeting = hello(host="\N{SNOWMAN}" * 255)
    assert len(greeting) < GREETING_BYTES_MAX
    stranger = port.dial(greeting)
    port.run_for(500)
    assert not stranger.closed


@pytest.mark.parametrize(
    "fields",
    [
        {"version": PROTOCOL_VERSION + 1},
        {"cluster_id": "another"},
        {"cluster_id": "x" * 2000},
        {"node": -1},
        {"node": 2**31},
        {"node": 1},
        {"to_node": 2},
        {"incarnation": -1},
        {"incarnation": 2**48},
        {"host": ""},
        {"host": "x" * 256},
        {"host": "nul\0"},
        {"host": "two\nlines"},
        {"port": 0},
        {"port": -1},
        {"port": 65536},
    ],
    ids=lambda fields: str(fields)[:40],
)
def test_greetings_that_no_broker_sends(port: Port, fields: dict[str, Any]) -> None:
    stranger = port.dial(hello(**fields))
    port.run_for(500)
    assert stranger.closed
    (line,) = port.reports
    assert "closing a peer connection from elsewhere" in line
    assert len(line) < 250
    assert port.one.peers() == []


def test_nothing_is_heard_before_the_greeting(port: Port) -> None:
    stranger = port.dial(leaders(1))
    port.run_for(500)
    assert stranger.closed
    assert port.events.reports == []
    assert "the first section must be a greeting" in port.reports[-1]


def test_a_second_process_of_an_id_is_turned_away(port: Port) -> None:
    port.meet()
    stranger = port.dial(hello(node=2, incarnation=999))
    port.run_for(500)
    assert stranger.closed
    assert port.one.incarnation(NodeId(2)) == 102
    assert "it says that it is broker 2" in port.reports[-1]


def test_a_second_greeting_is_refused(port: Port) -> None:
    stranger = port.dial(hello() + hello(node=78))
    port.run_for(500)
    assert stranger.closed
    assert port.one.peers() == [77]


def test_a_peer_that_greets_anew_has_one_connection(port: Port) -> None:
    before, after = port.dial(hello()), None
    port.run_for(500)
    after = port.dial(hello())
    port.run_for(500)
    assert before.closed
    assert not after.closed


def test_a_peer_whose_connection_is_stuck_is_heard_on_another_one(port: Port) -> None:
    port.meet()
    link = port.two._outbound[NodeId(1)].connection
    assert link is not None
    link.write([struct.pack(">I", 1 << 20)])  # all that follows is the inside of a long frame
    port.world.loop.run_until(lambda: port.events.lost == [2], 10_000)
    port.run_until_met()
    port.run_for(20_000)
    assert port.events.lost == [2]
    assert port.events.seen == [2, 2]


def test_many_strangers_cost_one_another_and_no_peer(port: Port) -> None:
    port.meet()
    strangers = [port.dial() for _ in range(STRANGERS_MAX)]
    port.run_for(200)
    assert not any(stranger.closed for stranger in strangers)
    last = port.dial()
    port.run_for(200)
    assert [bool(stranger.closed) for stranger in strangers] == [True] + [False] * (
        STRANGERS_MAX - 1
    )
    assert not last.closed
    assert port.events.lost == port.events.doubted == port.others.lost == port.others.doubted == []


def test_a_broker_finds_its_way_through_strangers(port: Port) -> None:
    for _ in range(STRANGERS_MAX):
        port.dial()
    port.meet()
    assert port.events.seen == [2]


def test_peers_are_bounded(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_link, "PEERS_MAX", 3)
    port.meet()
    strangers = [port.dial(hello(node=70 + number)) for number in range(3)]
    port.run_for(500)
    assert [bool(stranger.closed) for stranger in strangers] == [False, False, True]
    assert port.one.peers() == [2, 70, 71]
    again = port.dial(hello(node=71))
    port.run_for(500)
    assert not again.closed


def test_what_is_refused_is_told_and_not_too_often(port: Port) -> None:
    for _ in range(3 * LINES_MAX):
        port.dial(b"\0\0\0\5rubbish")
    port.run_for(500)
    assert len(port.reports) == LINES_MAX
    assert all("closing a peer connection" in line for line in port.reports)
    port.run_for(WINDOW_MS)
    assert port.reports[LINES_MAX:] == [f"and {2 * LINES_MAX} more of this kind within 10 s"]


def test_answers_to_heartbeats_of_an_earlier_process_answer_to_nothing(port: Port) -> None:
    """Brokers that it has not greeted yet go on answering to those; they prove nothing now."""
    answered: list[int] = []
    port.one.on_word = lambda node, incarnation, word, *, own_sequence, echoed_sequence: (
        answered.append(echoed_sequence)
    )
    port.run_for(1_000)
    newest = port.one.sequence
    stranger = port.dial(hello())
    for echoed in (0, 7, newest, newest + 100, 2**60):
        stranger.link.write([heartbeat(echoed)])
    port.run_for(50)
    assert answered == [0, 0, newest, 0, 0]


def test_a_peer_that_could_not_answer_yet_is_not_asked(port: Port) -> None:
    """It answers on the connection that it has dialled, and dials after it was greeted."""
    outcomes: list[object] = []
    port.one.add_peer(NodeId(2), Address("b2", PORT))
    port.world.loop.run_until(lambda: port.one.is_linked(NodeId(2)), 10_000)
    assert not port.one.is_alive(NodeId(2)), "nothing has come from it"
    assert port.one.ask(NodeId(2), AskMetadataEnd(), outcomes.append) is None
    port.run_until_met()
    (outcome,) = outcomes
    assert isinstance(outcome, PeerNotAsked), "so that it may be asked again without harm"
