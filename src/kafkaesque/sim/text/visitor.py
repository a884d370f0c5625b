"""Somebody who asks brokers' admin ports every now and then, as a monitoring system does.

Whoever gets a connection to a broker gets an answer, unless that broker is paused or its process
ends meanwhile. It is HTTP with a page of the kind that was asked for.
"""

import json
import re
from collections.abc import Callable
from typing import Final

from kafkaesque.broker.broker import Broker
from kafkaesque.env import Env
from kafkaesque.env.clock import Timer
from kafkaesque.env.network import Address, Connection, Framing, ListenOptions
from kafkaesque.sim.clients.bursts import rest_ms
from kafkaesque.sim.clients.findings import Findings
from kafkaesque.sim.cluster import ADMIN_PORT, SimCluster
from kafkaesque.sim.env import Machine

PAUSE_MS: Final = 800
#: Handlers take no time here, and links to clients a few milliseconds.
ANSWER_MS_MAX: Final = 2_000
#: So long a visit may take to get its connection.
VISIT_MS_MAX: Final = 5_000
WATCH_MS: Final = 50
#: Nothing is asked more often, where everybody is asked until all say that they are ready.
AGAIN_MS: Final = 200

LIVE: Final = "/health/live"
READY: Final = "/health/ready"
METRICS: Final = "/metrics"
BROKERS: Final = "/brokers"
PATHS: Final = (LIVE, READY, READY, METRICS, BROKERS)

_STATUS: Final = re.compile(rb"HTTP/1\.1 (\d{3}) ")
_LENGTH: Final = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)
_SAMPLE: Final = re.compile(r'[a-z_]+(\{([a-z_]+="[^"]*",?)+\})? (-?[0-9.e+-]+|\+Inf|NaN)')
#: Of every broker; other ports may not be open yet.
_WANTED: Final = 'listener="admin"'


class _Visit:
    """One question, by a connection of its own."""

    def __init__(self, env: Env, machine: Machine, path: str, on_end: Callable[[], None]) -> None:
        self.is_open = False
        self.is_ended = False
        #: All that came.
        self.received = b""
        self._env: Final = env
        self._path: Final = path
        self._host: Final = machine.name
        self._on_end: Final = on_end
        self._connection: Connection | None = None
        self._timer: Timer = env.clock.call_later(VISIT_MS_MAX, self.end)
        address = Address(machine.name, ADMIN_PORT)
        env.network.connect(
            address, ListenOptions(framing=Framing.STREAM), self, lambda _: self.end()
        )

    @property
    def page(self) -> tuple[int, str] | None:
        """The status and the body, once all of it is there."""
        status, length = _STATUS.match(self.received), _LENGTH.search(self.received)
        _, gap, body = self.received.partition(b"\r\n\r\n")
        if status is None or length is None or not gap or len(body) != int(length[1]):
            return None
        return int(status[1]), body.decode()

    def end(self) -> None:
        """Hang up."""
        if not self.is_ended:
            self.is_ended = True
            self._timer.cancel()
            if self._connection is not None:
                self._connection.abort()
            self._on_end()

    def on_open(self, connection: Connection) -> None:
        """See `ConnectionHandler`."""
        if self.is_ended:
            connection.abort()
            return
        self.is_open = True
        self._connection = connection
        self._timer.cancel()
        self._timer = self._env.clock.call_later(ANSWER_MS_MAX, self.end)
        # A broker answers nobody who takes it for another machine.
        connection.write([f"GET {self._path} HTTP/1.1\r\nHost: {self._host}\r\n\r\n".encode()])

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        """See `ConnectionHandler`."""
        if not self.is_ended:
            self.received += bytes(data)
            if self.page is not None:
                self.end()

    def on_writable(self) -> None:
        """See `ConnectionHandler`."""

    def on_close(self, error: Exception | None) -> None:
        """See `ConnectionHandler`."""
        self.end()


class _Watch:
    """Whether one process of a broker ran all the while."""

    def __init__(self, env: Env, cluster: SimCluster, machine: Machine) -> None:
        self.was_there = True
        self._env: Final = env
        self._cluster: Final = cluster
        self._machine: Final = machine
        self._broker: Final[Broker | None] = cluster.brokers.get(machine.name)
        self._timer: Timer | None = None
        self._look()

    def _look(self) -> None:
        machine, broker = self._machine, self._broker
        is_same = broker is not None and self._cluster.brokers.get(machine.name) is broker
        if not is_same or not machine.running or machine.paused:
            self.was_there = False
        else:
            self._timer = self._env.clock.call_later(WATCH_MS, self._look)

    def end(self) -> None:
        """Look one last time."""
        if self._timer is not None:
            self._timer.cancel()
        self._look()
        if self._timer is not None:
            self._timer.cancel()


class AdminVisitor:
    """Visits one broker after the other; in the end, each until it says that it is ready."""

    def __init__(self, env: Env, cluster: SimCluster, findings: Findings) -> None:
        #: Pages that were as they should be.
        self.count = 0
        self._env: Final = env
        self._cluster: Final = cluster
        self._findings: Final = findings
        self._is_concluding = False
        #: Why brokers are not ready, by machine, once everything is healed.
        self._unready: Final[dict[str, str]] = {}
        env.clock.call_soon(self._next)

    def conclude(self) -> None:
        """Everything is healed: everybody has to be ready, soon."""
        self._is_concluding = True
        self._unready.update((name, "was not asked") for name, _ in self._cluster.trusted())

    @property
    def are_all_ready(self) -> bool:
        """Whether every broker has said that it is ready, after `conclude`."""
        return not self._unready

    def describe(self) -> str:
        """Say who is not ready."""
        return "; ".join(f"{name}: {why}" for name, why in self._unready.items())

    def _next(self) -> None:
        dice, names = self._env.dice, self._cluster.names
        if self._is_concluding and self._unready:
            waited = list(self._unready)
            self._visit(waited[dice.below(len(waited))], READY, AGAIN_MS)
        else:
            self._visit(names[dice.below(len(names))], PATHS[dice.below(len(PATHS))], PAUSE_MS)

    def _visit(self, name: str, path: str, pause_ms: int) -> None:
        machine = self._cluster.world.machines[name]
        watch = _Watch(self._env, self._cluster, machine)

        def on_end() -> None:
            watch.end()
            self._judge(visit, name, path, was_there=watch.was_there)
            ms = rest_ms(self._env) + pause_ms // 2 + self._env.dice.below(pause_ms)
            self._env.clock.call_later(ms, self._next)

        visit = _Visit(self._env, machine, path, on_end)

    def _judge(self, visit: _Visit, name: str, path: str, *, was_there: bool) -> None:
        page = visit.page
        if page is None:
            if visit.received and not _STATUS.match(visit.received):
                self._findings.note(f"admin: bad page: {path} of {name} is {visit.received!r}")
            elif visit.is_open and was_there:
                self._findings.note(f"admin: no answer: {name} runs, and did not answer {path}")
            return
        status, body = page
        why = why_bad(path, status, body)
        if why is not None:
            self._findings.note(f"admin: bad page: {path} of {name}, {status}: {why}")
            return
        self.count += 1
        if self._is_concluding and path == READY and name in self._unready:
            self._unready[name] = " ".join(body.split("\n"))
            if status == 200:
                del self._unready[name]


def why_bad(path: str, status: int, body: str) -> str | None:
    """Return what is wrong with a page; None if nothing is."""
    if path in (LIVE, READY):
        word = path.rpartition("/")[2]
        is_good = body == f"{word}\n" if status == 200 else status == 503 and len(body) > 1
        return None if is_good else body
    if status != 200:
        return body
    return _why_bad_metrics(body) if path == METRICS else _why_bad_brokers(body)


def _why_bad_metrics(body: str) -> str | None:
    lines = body.splitlines()
    for line in lines:
        if not line.startswith(("# HELP ", "# TYPE ")) and _SAMPLE.fullmatch(line) is None:
            return line
    return None if _WANTED in body and body.endswith("\n") else f"it has no {_WANTED}, or no end"


def _why_bad_brokers(body: str) -> str | None:
    try:
        page = json.loads(body)
        for each in page["brokers"]:
            if each["admin"] != f"b{each['id']}:{ADMIN_PORT}":
                return body
    except (ValueError, KeyError, TypeError):
        return body
    return None
