"""Clients that meet at nats-server, and at brokers of ours: `python -m bench.nats_meetings`.

Three clients connect, subscribe, join groups, publish, ask, drain, vanish and come back, at random.
The same steps are taken at nats-server and at three simulated brokers of ours, each client at
another one. After each step everything is compared that each client has been sent since, and
whether its connection is open. What comes for one step has no order between subscriptions, so it is
compared as sets. Who of a group gets a message is free: those of a group are compared as one.

    python -m bench.nats_meetings                      100 meetings
    python -m bench.nats_meetings --seed 7 --count 30  others

Not made are steps at which the two differ on purpose (ADR 43), or in which the choice within a
group goes on having effects:

- A client without echo joins no group, and is not told of requests that meet nobody.
- A member of a group does not end after a number of messages.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import socket
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from bench.meetings import compare_meeting, differing
from tests.clients.nats_server import nats_server
from tests.unit.gateway_nats.kit import Ground

NAMES: Final = ("a", "b", "c")
STEPS_MAX: Final = 40
SUBJECTS: Final = ("x", "x.y", "x.y.z")
FILTERS: Final = ("x", "x.y", "x.*", "x.>", "*.y", ">")
WRONG_SUBJECTS: Final = ("x..y", ".x", "x.", "x.>.y")
GROUPS: Final = ("g", "h")
ANSWER_S: Final = 5.0
#: In virtual time.
SETTLES_MS: Final = 60
_PIECE: Final = re.compile(
    rb"(?P<message>H?MSG (?P<subject>\S+) (?P<sid>\S+) (?P<rest>[^\r\n]*?)(?P<size>\d+)\r\n)"
    rb"|PONG\r\n|PING\r\n|(?P<line>(?:\+OK|-ERR)[^\r\n]*)\r\n"
)


class Step(NamedTuple):
    """What one client does."""

    client: str
    #: `connect`, `vanish`, `drain`, or bytes.
    what: str
    sent: bytes = b""

    def __str__(self) -> str:
        return f"{self.client} {self.what} {self.sent!r}"


class Wire(Protocol):
    """One connection."""

    def send(self, raw: bytes) -> None:
        """Send."""

    def take(self) -> bytes:
        """Return what has come since, once what was sent before is answered."""

    def vanish(self) -> None:
        """End the connection without a word."""

    def is_open(self) -> bool:
        """Tell whether the broker has not hung up."""


class Theirs:
    """A connection with nats-server."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S)
        self._is_open = True
        found = b""
        while b"\n" not in found:
            found += self._socket.recv(1 << 16)

    def send(self, raw: bytes) -> None:
        try:
            self._socket.sendall(raw)
        except OSError:
            self._is_open = False

    def take(self) -> bytes:
        self.send(b"PING\r\n")
        found = b""
        while self._is_open and not found.endswith(b"PONG\r\n"):
            try:
                piece = self._socket.recv(1 << 16)
            except ConnectionResetError:
                piece = b""
            self._is_open = bool(piece)
            found += piece
        return found

    def vanish(self) -> None:
        self._socket.close()
        self._is_open = False

    def is_open(self) -> bool:
        return self._is_open


class Ours:
    """A connection with a simulated broker."""

    def __init__(self, ground: Ground, broker: int) -> None:
        self._ground = ground
        self._client = ground.raw(broker)

    def send(self, raw: bytes) -> None:
        if self.is_open():
            self._client.write(raw)

    def take(self) -> bytes:
        self.send(b"PING\r\n")
        self._ground.wait(SETTLES_MS)
        return self._client.take()

    def vanish(self) -> None:
        self._client.client.link.abort()
        self._ground.wait(SETTLES_MS)

    def is_open(self) -> bool:
        return not self._client.is_closed


class Side:
    """nats-server, or our brokers, and the clients there."""

    def __init__(self, connect: Callable[[str], Wire]) -> None:
        self._connect = connect
        self._wires: dict[str, Wire] = {}
        #: The groups of subscriptions, by client and id.
        self._groups: dict[tuple[str, bytes], str] = {}

    def take(self, step: Step) -> dict[str, list[bytes]]:
        """Take a step; return what each client is sent, and what each group."""
        name = step.client
        if step.what == "connect":
            self._wires[name] = self._connect(name)
        elif step.what == "vanish":
            self._wires.pop(name).vanish()
            return self._settle(name)
        self._note_group(step)
        self._wires[name].send(step.sent)
        said = self._settle(name)
        if step.what == "drain":
            self._wires.pop(name).vanish()
        return said

    def _note_group(self, step: Step) -> None:
        words = step.sent.split()
        if words[:1] == [b"SUB"] and len(words) == 4:
            self._groups.setdefault((step.client, words[3]), words[2].decode())

    def _settle(self, first: str) -> dict[str, list[bytes]]:
        said: dict[str, list[bytes]] = {}
        # What has been sent by one is on its way to the others when that is answered.
        for name in sorted(self._wires, key=lambda each: each != first):
            wire = self._wires[name]
            for owner, piece in self._pieces(name, wire.take()):
                said.setdefault(owner, []).append(piece)
            if not wire.is_open():
                said.setdefault(name, []).append(b"closed")
                del self._wires[name]
        return {owner: sorted(pieces) for owner, pieces in said.items()}

    def _pieces(self, name: str, raw: bytes) -> list[tuple[str, bytes]]:
        """Return what was said, each piece with whom it is for."""
        found, at = [], 0
        while at < len(raw):
            piece = _PIECE.match(raw, at)
            assert piece is not None, raw[at:]
            at = piece.end()
            if piece["line"] is not None:
                found.append((name, piece["line"]))
            if piece["message"] is None:
                continue
            end = at + int(piece["size"])
            body, sid = raw[at:end], piece["sid"]
            at = end + 2
            group = self._groups.get((name, sid))
            # Of several subscriptions that could be told that nobody listens, any one is.
            is_any = group is not None or body.startswith(b"NATS/1.0 503")
            shown = b"*" if is_any else sid
            head = b"%b %b %b%d" % (piece["subject"], shown, piece["rest"], len(body))
            found.append((f"group {group}" if group else name, head + b" " + body))
        return found

    def close(self) -> None:
        """Leave."""
        for wire in self._wires.values():
            wire.vanish()


# -- random sessions


class _Author:
    """Makes steps that clients may take; subjects are of one meeting alone."""

    def __init__(self, root: str, dice: random.Random) -> None:
        self._root = root
        self._dice = dice
        self._has_echo: dict[str, bool] = {}
        #: Ids in use, by client, and whether they are a group's.
        self._subscribed: dict[str, dict[str, bool]] = {}
        self._ids = 0

    def step(self) -> Step:
        dice = self._dice
        missing = [each for each in NAMES if each not in self._has_echo]
        if missing:
            return self._connect(missing[0])
        name = dice.choice(NAMES)
        kinds = ("publish",) * 14 + ("subscribe",) * 8 + ("request", "unsubscribe") * 4
        match dice.choice((*kinds, "wrong", "drain", "vanish", "broken")):
            case "publish":
                raw = b"".join(self._publish("") for _ in range(dice.randint(1, 4)))
                return Step(name, "sends", raw)
            case "request":
                return Step(name, "sends", self._publish(self._subject(SUBJECTS)))
            case "subscribe":
                return self._subscribe(name)
            case "unsubscribe":
                return self._unsubscribe(name)
            case "wrong":
                wrong = f"SUB {self._subject(WRONG_SUBJECTS)} {self._next_id()}\r\n"
                return Step(name, "sends", wrong.encode())
            case "drain":
                sids = self._subscribed[name]
                del self._has_echo[name]
                ends = "".join(f"UNSUB {sid}\r\n" for sid in sids)
                return Step(name, "drain", ends.encode())
            case "vanish":
                del self._has_echo[name]
                return Step(name, "vanish")
        del self._has_echo[name]
        return Step(name, "sends", b"NONSENSE\r\n")

    def _subject(self, of: Sequence[str]) -> str:
        found = self._dice.choice(of)
        # All of a subject without its root would be that of other meetings.
        return f"{self._root}.{found}" if found[0] != "." else f".{self._root}{found}"

    def _next_id(self) -> str:
        self._ids += 1
        return str(self._ids)

    def _connect(self, name: str) -> Step:
        dice = self._dice
        has_echo = dice.random() < 0.7
        headers = dice.random() < 0.7
        options = {
            "verbose": dice.random() < 0.3,
            "pedantic": dice.random() < 0.3,
            "echo": has_echo,
            "headers": headers,
            "no_responders": headers and has_echo and dice.random() < 0.7,
        }
        self._has_echo[name] = has_echo
        self._subscribed[name] = {}
        return Step(name, "connect", b"CONNECT " + json.dumps(options).encode() + b"\r\n")

    def _publish(self, reply: str) -> bytes:
        subject = self._subject(SUBJECTS)
        payload = self._dice.choice((b"", b"hello", b"a\r\nb", b"PING\r\n"))
        return f"PUB {subject} {reply} {len(payload)}\r\n".encode() + payload + b"\r\n"

    def _subscribe(self, name: str) -> Step:
        dice, sid = self._dice, self._next_id()
        group = dice.choice(GROUPS) if self._has_echo[name] and dice.random() < 0.4 else ""
        self._subscribed[name][sid] = bool(group)
        words = f"SUB {self._subject(FILTERS)} {group} {sid}\r\n"
        if not group and dice.random() < 0.3:
            words += f"UNSUB {sid} {dice.randint(1, 3)}\r\n"
        return Step(name, "sends", words.encode())

    def _unsubscribe(self, name: str) -> Step:
        dice, sids = self._dice, self._subscribed[name]
        if not sids:
            return Step(name, "sends", b"UNSUB none\r\n")
        sid = dice.choice(list(sids))
        most = "" if sids[sid] or dice.random() < 0.4 else str(dice.randint(1, 3))
        return Step(name, "sends", f"UNSUB {sid} {most}\r\n".encode())


class _WithHeaders(_Author):
    """The same, with headers where the client has said that it knows them."""

    def _connect(self, name: str) -> Step:
        step = super()._connect(name)
        return step._replace(sent=step.sent.replace(b'"headers": false', b'"headers": true'))

    def _publish(self, reply: str) -> bytes:
        if self._dice.random() < 0.5:
            return super()._publish(reply)
        head = b"NATS/1.0\r\nName: value\r\nName: again\r\nother:  x \r\n\r\n"
        subject, payload = self._subject(SUBJECTS), b"hello"
        sizes = f"{len(head)} {len(head) + len(payload)}"
        return f"HPUB {subject} {reply} {sizes}\r\n".encode() + head + payload + b"\r\n"


def steps_of(seed: int, number: int) -> list[Step]:
    """Return the steps of one meeting."""
    dice = random.Random(f"{seed} {number} meeting")
    author = dice.choice((_Author, _WithHeaders))(f"m{seed}-{number}", dice)
    return [author.step() for _ in range(dice.randint(15, STEPS_MAX))]


def check_meetings(port: int, seed: int, numbers: Sequence[int]) -> list[str]:
    """Compare meetings; return how each differs that does."""
    ground = Ground(seed=seed, brokers=len(NAMES))

    def compare(number: int) -> str | None:
        theirs = Side(lambda _: Theirs(port))
        ours = Side(lambda name: Ours(ground, 1 + NAMES.index(name)))
        return compare_meeting("nats-server", theirs, ours, steps_of(seed, number))

    return list(differing(seed, numbers, compare))


def main() -> int:
    """Compare many."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, nats_server(Path(folder)) as port:
        found = check_meetings(port, given.seed, range(given.count))
    print("\n".join((*found, f"{given.count} meetings, {len(found)} of them differ")))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
