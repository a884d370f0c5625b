"""What the chassis gives to every protocol, shown with one that gives back what it gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from kafkaesque.broker.listeners import Listener
from kafkaesque.broker.metadata.client_quotas import PRODUCER_BYTE_RATE, QuotaEntity
from kafkaesque.chassis.admission import PER_HOST, PER_USER, TOTAL
from kafkaesque.chassis.chassis import Chassis
from kafkaesque.chassis.gateway import Gateway
from kafkaesque.chassis.link import ClientConnection, PortOptions, Shared
from kafkaesque.chassis.quota_table import BURST_S
from kafkaesque.env.clock import Clock, Timer
from kafkaesque.env.network import LOW_WATER_BYTES, Address, Framing
from kafkaesque.model.errors import InvariantBroken
from kafkaesque.model.options import OptionValue
from kafkaesque.sim.env import World
from tests.unit.chassis.client import Client

IDLE_MS = 2_000
DRAIN_MS = 500
UNSENT_BYTES_MAX = 2 * LOW_WATER_BYTES
HOST = "broker"


class Echo(ClientConnection):
    """Gives back what it gets, at once or when it is told to."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.taken = 0
        self.is_slow = False

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        if self.speaks_http(data):
            return
        self.shared.meter.requests += 1
        self.taken += len(data)
        self.note_activity()
        self.charge(PRODUCER_BYTE_RATE, len(data))
        if not self.is_slow:
            self.answer(bytes(data))
        self.maybe_pause()

    def answer(self, data: bytes) -> None:
        self.is_slow = False
        if self.connection is not None:
            self.connection.write((data,))

    def is_busy(self) -> bool:
        return self.is_slow


class EchoGateway(Gateway):
    """The chassis, and nothing else."""

    is_protected = False
    connections_max = 20

    def start(self, listener: Listener) -> Address:
        options = PortOptions(
            protocol="echo",
            listener=listener.name,
            tls=listener.tls,
            framing=Framing.STREAM,
            connections_max=self.connections_max,
            unsent_bytes_max=UNSENT_BYTES_MAX,
            idle_ms_max=lambda: IDLE_MS,
            drain_ms_max=DRAIN_MS,
            is_protected=self.is_protected,
            refuses_http=True,
        )
        return self.listen(listener.address, options, Echo)


class Load:
    is_overloaded = False


class Ground:
    """A chassis on a simulated machine, and machines with clients."""

    def __init__(self) -> None:
        self.world = World(1)
        self.env = self.world.add_machine(HOST).boot()
        self.options: dict[str, OptionValue] = dict.fromkeys((TOTAL, PER_HOST, PER_USER), 1_000)
        self.quotas: dict[QuotaEntity, Mapping[str, float]] = {}
        self.load = Load()
        self.reports: list[str] = []
        self.chassis = Chassis(
            clock=self.env.clock,
            network=self.env.network,
            options=self,
            load=self.load,
            client_quotas=lambda: self.quotas,
            report=self.reports.append,
        )
        self.gateway = EchoGateway(self.chassis)
        self.ports = 0
        self.clients = {name: self.world.add_machine(name).boot() for name in ("c1", "c2")}

    def get(self, name: str) -> OptionValue:
        return self.options[name]

    def listen(self, gateway: EchoGateway | None = None, listener: str = "echo") -> Address:
        self.ports += 1
        address = Address(HOST, 7000 + self.ports)
        opened = Listener(protocol="echo", name=listener, advertised=address)
        return (gateway or self.gateway).start(opened)

    def connect(self, address: Address, machine: str = "c1") -> Client:
        client = Client(self.clients[machine], address)
        self.world.loop.run_until(lambda: client.connection is not None, 10_000)
        self.wait()
        return client

    def wait(self, ms: int = 20) -> None:
        self.world.loop.run_for(ms)

    def served(self) -> Echo:
        (served,) = self.gateway.connections.values()
        assert isinstance(served, Echo)
        return served


@pytest.fixture
def ground() -> Ground:
    return Ground()


# -- accept and refuse


@pytest.mark.parametrize("limit", [TOTAL, PER_HOST, PER_USER])
def test_limits_hold_for_all_ports_together(ground: Ground, limit: str) -> None:
    ground.options[limit] = 2
    here, there = ground.listen(), ground.listen(EchoGateway(ground.chassis), "other")
    first, second = ground.connect(here), ground.connect(there)
    assert ground.connect(here).is_closed
    assert ground.connect(there).is_closed
    assert [first.is_closed, second.is_closed] == [False, False]
    assert f"refused a connection from c1: {limit} is 2" in ground.reports
    assert ground.connect(here, "c2").is_closed == (limit != PER_HOST)
    first.link.close()
    ground.wait()
    assert not ground.connect(there).is_closed


def test_there_is_room_for_operators_whose_connections_count(ground: Ground) -> None:
    ground.options[TOTAL] = 1
    protected = EchoGateway(ground.chassis)
    protected.is_protected = True
    clients, operators = ground.listen(), ground.listen(protected, "operators")
    client = ground.connect(clients)
    operator = ground.connect(operators)
    assert not operator.is_closed
    client.link.close()
    ground.wait()
    assert ground.connect(clients).is_closed


def test_a_listener_has_a_limit_of_its_own_and_counts_what_it_refuses(ground: Ground) -> None:
    ground.gateway.connections_max = 1
    here, there = ground.listen(), ground.listen(EchoGateway(ground.chassis), "other")
    kept, refused = ground.connect(here), ground.connect(here)
    assert (kept.is_closed, refused.is_closed) == (False, True)
    assert not ground.connect(there).is_closed
    meter = ground.chassis.meters["echo", "echo"]
    assert (meter.open, meter.accepted, meter.refused) == (1, 1, 1)


def test_two_listeners_have_two_names(ground: Ground) -> None:
    ground.listen()
    with pytest.raises(InvariantBroken):
        ground.listen()


def test_who_says_who_it_is_counts_for_that_user(ground: Ground) -> None:
    ground.options[PER_USER] = 2
    address = ground.listen()
    ground.connect(address)
    known = ground.served()
    assert known.identity is not None
    assert (known.identity.host, known.identity.listener) == ("c1", "echo")
    assert known.identify("ann")
    assert known.identify("ann")
    assert known.identity.user == "ann"
    for _ in range(2):
        assert not ground.connect(address).is_closed
    others = [each for each in ground.gateway.connections.values() if each is not known]
    assert others[0].identify("ann")
    assert not others[1].identify("ann")
    known.abort()
    ground.wait()
    assert others[1].identify("ann")


# -- reading on and off


def test_who_does_not_read_is_not_read_from(ground: Ground) -> None:
    client = ground.connect(ground.listen())
    served = ground.served()
    client.link.pause_reading()
    for _ in range(200):
        client.say("x" * 5_000)
        ground.wait(5)
    assert served.taken < 200 * 5_001
    assert served.connection is not None
    # One more read may have been answered.
    assert served.connection.unsent_bytes() < UNSENT_BYTES_MAX + 300_000
    client.link.resume_reading()
    ground.world.loop.run_until(lambda: len(client.received) == 200 * 5_001, 60_000)


def test_nobody_is_read_from_while_the_broker_is_overloaded(ground: Ground) -> None:
    address = ground.listen()
    clients = [ground.connect(address) for _ in range(3)]
    ground.load.is_overloaded = True
    for _ in range(2):
        for client in clients:
            client.say("word")
        ground.wait()
    # What had come was taken, and then no more.
    assert [each.lines for each in clients] == [["word"]] * 3
    ground.load.is_overloaded = False
    ground.wait()
    assert [each.lines for each in clients] == [["word"] * 2] * 3


def test_one_in_each_turn_goes_on_of_those_that_gave_way(ground: Ground) -> None:
    address = ground.listen()
    clients = [ground.connect(address) for _ in range(3)]
    for served in ground.gateway.connections.values():
        served.give_way()
        served.give_way()
    for client in clients:
        client.say("word")
    ground.wait()
    assert [each.lines for each in clients] == [["word"]] * 3


def test_a_users_quota_holds_for_every_protocol(ground: Ground) -> None:
    rate = 1_000.0
    client = ground.connect(ground.listen())
    ground.quotas[(("user", "ANONYMOUS"),)] = {PRODUCER_BYTE_RATE: rate}
    ground.chassis.quotas.reload()
    client.say("x" * int(rate * BURST_S + rate / 2))
    client.say("later")
    ground.wait(100)
    assert ground.served().is_muted
    client.say("and later")
    ground.wait(200)
    assert "and later" not in client.lines
    ground.wait(1_000)
    assert "and later" in client.lines
    assert not ground.served().is_muted
    assert ground.chassis.quotas.throttled_requests > 0


# -- ends


def test_who_is_silent_for_too_long_has_to_go_unless_it_only_listens(ground: Ground) -> None:
    address = ground.listen()
    listener, silent, talker = (ground.connect(address) for _ in range(3))
    next(iter(ground.gateway.connections.values())).is_listener_only = True
    for _ in range(IDLE_MS // 50):
        talker.say("word")
        ground.wait(100)
    assert (listener.is_closed, silent.is_closed, talker.is_closed) == (False, True, False)


def test_a_listener_that_does_not_read_has_to_go(ground: Ground) -> None:
    listener = ground.connect(ground.listen())
    served = ground.served()
    served.is_listener_only = True
    listener.link.pause_reading()
    served.answer(bytes(10_000_000))
    ground.wait(2 * IDLE_MS)
    assert not served.is_open


def test_a_drain_waits_for_what_is_being_answered_and_for_nothing_else(ground: Ground) -> None:
    address = ground.listen()
    asking, idle = ground.connect(address), ground.connect(address)
    asked = next(iter(ground.gateway.connections.values()))
    assert isinstance(asked, Echo)
    asked.is_slow = True
    asking.say("question")
    ground.wait()
    drained: list[bool] = []
    ground.gateway.drain(lambda: drained.append(True))
    asking.say("one more")
    ground.wait()
    assert (asking.is_closed, idle.is_closed, drained) == (False, True, [])
    asked.answer(b"answer")
    ground.wait(50)
    assert (asking.is_closed, asking.received, drained) == (True, b"answer", [True])
    late = Client(ground.clients["c1"], address)
    ground.wait()
    assert late.is_closed


def test_a_drain_has_an_end(ground: Ground) -> None:
    asking = ground.connect(ground.listen())
    ground.served().is_slow = True
    drained: list[bool] = []
    ground.gateway.drain(lambda: drained.append(True))
    ground.wait(DRAIN_MS - 50)
    assert not drained
    ground.wait(100)
    assert (asking.is_closed, drained) == (True, [True])


def test_nothing_is_left_of_those_that_have_gone(ground: Ground) -> None:
    address = ground.listen()
    for _ in range(3):
        client = ground.connect(address)
        client.say("word")
        ground.wait()
        client.link.close()
        ground.wait()
    assert ground.gateway.connections == {}
    meter = ground.chassis.meters["echo", "echo"]
    assert (meter.open, meter.accepted, meter.refused, meter.requests) == (0, 3, 0, 3)
    assert (meter.bytes_in, meter.bytes_out) == (15, 15)
    ground.options[TOTAL] = 1
    assert not ground.connect(address).is_closed


@pytest.mark.parametrize("pieces", [1, 7])
@pytest.mark.parametrize("start", ["GET / HTTP/1.1", "POST /x", "OPTIONS * HTTP/1.1"])
def test_what_begins_as_http_is_closed_and_none_of_it_carried_out(
    ground: Ground, start: str, pieces: int
) -> None:
    client = ground.connect(ground.listen())
    served = ground.served()
    data = f"{start}\r\nHost: localhost\r\n\r\nword".encode()
    for at in range(pieces):
        client.link.write((data[at : at + 1] if at < pieces - 1 else data[at:],))
        ground.wait()
    assert client.is_closed
    # What came before it was known is at most the method and its blank, and no whole line.
    method = f"{start.split()[0]} "
    assert method.startswith(client.received.decode())
    assert served.taken <= len(method)
    assert any("it sent an HTTP request" in line for line in ground.reports)


@pytest.mark.parametrize("start", ["G", "PUBS a GET /", "get / HTTP/1.1", "GETS / HTTP/1.1"])
def test_what_does_not_begin_as_http_is_heard(ground: Ground, start: str) -> None:
    client = ground.connect(ground.listen())
    client.say(start)
    ground.wait()
    client.say("GET / HTTP/1.1")
    ground.wait()
    assert client.lines == [start, "GET / HTTP/1.1"]


def test_a_bound_that_nobody_would_be_told_about_is_refused() -> None:
    with pytest.raises(InvariantBroken):
        PortOptions(
            protocol="echo",
            listener="echo",
            framing=Framing.STREAM,
            unsent_bytes_max=2 * LOW_WATER_BYTES - 1,
        )


# -- lateness


class CountingClock:
    """Counts timers."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.timers = 0
        self.now_ms = clock.now_ms

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        self.timers += 1
        return self._clock.call_later(delay_ms, callback)


def test_what_is_expected_again_and_again_takes_one_timer(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = ground.connect(ground.listen())
    served, clock = ground.served(), CountingClock(ground.env.clock)
    monkeypatch.setattr(served.shared, "clock", clock)
    for _ in range(50):
        served.expect(500)
        served.expect(1_000)
        ground.wait(5)
    assert clock.timers == 1
    ground.wait(980)
    assert not client.is_closed
    ground.wait(100)
    assert client.is_closed


def test_what_is_expected_sooner_counts_instead(ground: Ground) -> None:
    ground.connect(ground.listen())
    late: list[str] = []
    served = ground.served()
    served.expect(1_000, lambda: late.append("first"))
    served.expect(100, lambda: late.append("second"))
    ground.wait(90)
    assert late == []
    ground.wait(20)
    assert late == ["second"]
    served.expect(100, lambda: late.append("third"))
    served.expect_nothing()
    ground.wait(1_500)
    assert late == ["second"]
