"""Every row of `clauses.txt`, at a broker."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from kafkaesque.env.network import Address
from kafkaesque.sim.cluster import MQTT_PORT
from tests.unit.chassis.client import Client
from tests.unit.gateway_mqtt.kit import PATIENCE_MS, Ground, new_name

#: So long it is waited whether more comes.
SILENCE_MS = 100
_STEP = re.compile(r"([a-z])([-+*!<>])\s*(.*)")
_TOKEN = re.compile(
    r"\s*(?:(?P<open>\?\?|[0-9a-f]{2})\[|(?P<close>\])|'(?P<text>[^']*)'|\"(?P<raw>[^\"]*)\""
    r"|<(?P<id>\w)>|\?\?(?:\*(?P<count>\d+))?|(?P<word>[pv~])|(?P<hex>[0-9a-f]+))"
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One clause in one version."""

    clause: str
    version: int
    what: str
    steps: list[str]
    number: int

    def __str__(self) -> str:
        return f"line {self.number}: {self.clause} {self.what} ({self.version})"


def _read() -> list[Row]:
    rows = []
    lines = Path(__file__).with_name("clauses.txt").read_text().splitlines()
    for number, line in enumerate(lines, start=1):
        if not line or line[0] in "#[":
            continue
        clause, versions, what, steps = (cell.strip() for cell in line.split("|", 3))
        rows += [
            Row(
                clause=clause,
                version={"3": 4, "5": 5}[version],
                what=what,
                steps=[each.strip() for each in steps.split(";")],
                number=number,
            )
            for version in versions.split()
        ]
    return rows


#: A byte, or None: any; an id that the broker has chosen.
Pattern = list[int | str | None]
#: The rest of a packet, whatever it is.
REST = "~"


class Play:
    """One row on its way."""

    def __init__(self, ground: Ground, row: Row) -> None:
        self.ground = ground
        self.row = row
        self.topic = new_name("topic")
        self.names: dict[str, str] = {}
        self.clients: dict[str, Client] = {}
        self.taken: dict[str, int] = {}
        self.ids: dict[str, bytes] = {}

    def run(self) -> None:
        for step in self.row.steps:
            if step.startswith("ms "):
                self.ground.wait(int(step[3:]))
                continue
            found = _STEP.fullmatch(step)
            assert found is not None, step
            self._act(found[1], found[2], found[3])
        self.ground.wait(SILENCE_MS)
        for name in self.clients:
            assert self._waiting(name) == b"", f"more has come to {name}"

    def _act(self, name: str, action: str, rest: str) -> None:
        match action:
            case "*":
                self._open(name)
            case "+":
                self._connect(name, rest)
            case "-":
                self.clients.pop(name).link.abort()
                self.ground.wait(SILENCE_MS)
            case "!":
                client = self.clients.pop(name)
                self.ground.loop.run_until(lambda: client.is_closed, PATIENCE_MS)
            case ">":
                raw = self._pattern(rest, name)
                sent = b"".join(
                    self.ids[each] if isinstance(each, str) else bytes([each or 0]) for each in raw
                )
                self.clients[name].link.write((sent,))
            case _:
                self._expect(name, self._pattern(rest, name))

    def _open(self, name: str) -> None:
        address = Address(self.ground.cluster.names[0], MQTT_PORT)
        client = self.clients[name] = Client(self.ground.env, address)
        self.taken[name] = 0
        self.ground.loop.run_until(lambda: client.connection is not None, PATIENCE_MS)

    def _connect(self, name: str, present: str) -> None:
        self._open(name)
        flags = "00" if present else "02"
        expiry = "05 1100000e10" if present and self.row.version == 5 else "p"
        self._act(name, ">", f"10['MQTT' v {flags} 0000 {expiry} '{name}']")
        connack = self._pattern(f"20[{present.zfill(2)} 00 ~]", name)
        self._await(name, connack)
        self.taken[name] += self._match(name, connack) or 0

    # -- bytes

    def _pattern(self, text: str, name: str) -> Pattern:
        """Return what a step says; a list, because packets lie within one another."""
        stack: list[Pattern] = [[]]
        firsts: list[int | None] = []
        at = 0
        while at < len(text.rstrip()):
            found = _TOKEN.match(text, at)
            assert found is not None, text[at:]
            at = found.end()
            if found["open"]:
                firsts.append(None if found["open"] == "??" else int(found["open"], 16))
                stack.append([])
            elif found["close"]:
                body = stack.pop()
                stack[-1] += [firsts.pop(), *self._length(body), *body]
            else:
                stack[-1] += self._token(found)
        (whole,) = stack
        return whole

    @staticmethod
    def _length(body: Pattern) -> Pattern:
        if REST in body:
            return ["length"]
        size = sum(2 if isinstance(each, str) else 1 for each in body)
        assert size < 128
        return [size]

    def _token(self, found: re.Match[str]) -> Pattern:
        if found["text"] is not None:
            raw = self._named(found["text"]).encode()
            return [*len(raw).to_bytes(2, "big"), *raw]
        if found["raw"] is not None:
            return [*found["raw"].encode()]
        if found["id"]:
            return [found["id"]]
        if found["hex"]:
            return [*bytes.fromhex(found["hex"])]
        match found["word"]:
            case "p":
                return [0] if self.row.version == 5 else []
            case "v":
                return [self.row.version]
            case "~":
                return [REST]
        return [None] * int(found["count"] or 1)

    def _named(self, text: str) -> str:
        if len(text) == 1 and text.islower() and text not in "kvwju":
            return self.names.setdefault(text, new_name("clause"))
        return "/".join(
            each.replace("T", self.topic) if each in ("T", "$T") else each
            for each in text.split("/")
        )

    # -- what comes

    def _waiting(self, name: str) -> bytes:
        return self.clients[name].received[self.taken[name] :]

    def _expect(self, name: str, pattern: Pattern) -> None:
        """Take what comes, which is this and nothing else."""
        if pattern:
            self._await(name, pattern)
        self.ground.wait(5)
        length = self._match(name, pattern)
        waiting = self._waiting(name)
        assert length == len(waiting), (name, waiting.hex(" "), pattern)
        self.taken[name] += length

    def _await(self, name: str, pattern: Pattern) -> None:
        client = self.clients[name]
        self.ground.loop.run_until(
            lambda: self._match(name, pattern) is not None or client.is_closed, PATIENCE_MS
        )

    def _match(self, name: str, pattern: Pattern) -> int | None:
        """Return how many of the bytes that wait a pattern matches; None: it does not match."""
        waiting, at, ends = self._waiting(name), 0, 0
        for each in pattern:
            if each == "length":
                if at >= len(waiting):
                    return None
                ends, at = at + 1 + waiting[at], at + 1
            elif each == REST:
                at = ends or len(waiting)
            elif isinstance(each, str):
                raw = waiting[at : at + 2]
                if len(raw) < 2 or self.ids.setdefault(each, raw) != raw:
                    return None
                at += 2
            else:
                if at >= len(waiting) or each not in (None, waiting[at]):
                    return None
                at += 1
        return at if at <= len(waiting) else None


@pytest.fixture(scope="module")
def ground() -> Ground:
    return Ground(seed=9)


@pytest.mark.parametrize("row", _read(), ids=str)
def test_clause(ground: Ground, row: Row) -> None:
    # Who wants every topic would get what other rows have left there.
    wants_all = any("'#'" in step for step in row.steps)
    Play(Ground(seed=9) if wants_all else ground, row).run()
