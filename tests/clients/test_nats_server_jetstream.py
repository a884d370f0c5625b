"""Random sessions of JetStream go to nats-server and to a broker of ours: they answer alike.

What is compared of an answer is what `shown` leaves of it: the number of an error; of a stream and
of a consumer how many messages there are; of a message where it stands and what it holds. Not asked
for is what differs on purpose: a deletion takes a sequence here (see docs/nats.md).
"""

from __future__ import annotations

import base64
import json
import random
import re
import socket
import time
from collections.abc import Iterator
from typing import Any, Protocol

import pytest

from tests.clients.nats_server import nats_server
from tests.unit.gateway_nats.kit import Ground, NatsClient
from tests.unit.protocols_nats.clauses import connect

SESSIONS = 20
STEPS = 25
ANSWER_S = 10.0
SECOND = 1_000_000_000
_MESSAGE = re.compile(rb"(H?)MSG (\S+) (\S+) (?:(\S+) )??(?:(\d+) )?(\d+)\r\n")

#: Headers and payload of a message, and the subject that acknowledges it.
Message = tuple[str, bytes, bytes, str]


class Side(Protocol):
    """A client that publishes, and takes what comes to its inbox."""

    #: So long it may take until consumers know of what was published.
    settles_s: float

    def publish(self, subject: str, payload: bytes, headers: bytes) -> None:
        """Publish with the inbox as reply subject."""

    def message(self) -> Message:
        """Return the next message: subject, headers, payload, reply subject."""


class Theirs:
    """A connection with nats-server."""

    settles_s = 0.01

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S)
        self._data = b""
        self._until(b"\r\n")
        self._socket.sendall(connect(headers=True, no_responders=True) + b"SUB inbox 1\r\n")

    def _until(self, end: bytes) -> None:
        while end not in self._data:
            self._more()
        self._data = self._data.split(end, 1)[1]

    def _more(self) -> None:
        piece = self._socket.recv(1 << 16)
        assert piece, self._data
        self._data += piece

    def publish(self, subject: str, payload: bytes, headers: bytes) -> None:
        self._socket.sendall(written(subject, payload, headers))

    def message(self) -> Message:
        while True:
            self._data = self._data.removeprefix(b"PING\r\n")
            found = _MESSAGE.match(self._data)
            if found is not None and len(self._data) >= found.end() + int(found[6]) + 2:
                break
            self._more()
        end = found.end() + int(found[6])
        body, split = self._data[found.end() : end], int(found[5] or 0)
        self._data = self._data[end + 2 :]
        return found[2].decode(), body[:split], body[split:], (found[4] or b"").decode()

    def close(self) -> None:
        self._socket.close()


class Ours:
    """A connection with a simulated broker."""

    settles_s = 0.0

    def __init__(self, ground: Ground) -> None:
        self._client: NatsClient = ground.client()
        self._client.subscribe("inbox", "1")

    def publish(self, subject: str, payload: bytes, headers: bytes) -> None:
        self._client.write(written(subject, payload, headers))

    def message(self) -> Message:
        subject, _, reply, headers, payload = self._client.message()
        return subject, headers, payload, reply


def written(subject: str, payload: bytes, headers: bytes) -> bytes:
    if not headers:
        return b"PUB %b inbox %d\r\n%b\r\n" % (subject.encode(), len(payload), payload)
    sizes = (len(headers), len(headers) + len(payload))
    return b"HPUB %b inbox %d %d\r\n%b%b\r\n" % (subject.encode(), *sizes, headers, payload)


def shown(raw: bytes) -> object:
    """Return what is compared of an answer."""
    found: dict[str, Any] = json.loads(raw)
    if "error" in found:
        return found["error"]["err_code"]
    if "message" in found:
        message = found["message"]
        return message["subject"], message["seq"], base64.b64decode(message.get("data", ""))
    state = found.get("state", {})
    names = ("messages", "first_seq", "last_seq", "num_subjects", "consumer_count")
    said = [state.get(name) or 0 for name in names]
    more = ("seq", "duplicate", "did_create", "paused", "num_pending", "num_ack_pending")
    return said, [found.get(name) for name in more]


class Session:
    """Steps that are drawn by a seed, so that both sides take the same ones."""

    def __init__(self, seed: int, side: Side) -> None:
        self._chance = random.Random(seed)
        self._side = side
        self._stream = f"S{seed}"
        self._ids = 0
        #: Subjects that acknowledge what was pulled.
        self._out: list[str] = []
        self.said: list[object] = []

    def run(self) -> list[object]:
        """Return what the side has said to each step."""
        chance = self._chance
        config: dict[str, Any] = {"subjects": [f"{self._stream}.*"]}
        if chance.random() < 0.4:
            config["max_msgs"] = 4
            config["discard"] = chance.choice(["old", "new"])
        if chance.random() < 0.3:
            config["max_msgs_per_subject"] = 2
        self._ask("STREAM.CREATE.{}", name=self._stream, **config)
        self._consumer("c")
        steps = (
            *(self._publish,) * 4,
            *(self._pull,) * 3,
            *(self._settle,) * 3,
            self._get,
            self._info,
            self._pause,
            self._again,
        )
        for _ in range(STEPS):
            chance.choice(steps)()
        return self.said

    def _ask(self, operation: str, **body: Any) -> None:
        subject = "$JS.API." + operation.format(self._stream)
        self._side.publish(subject, json.dumps(body).encode(), b"")
        self.said.append((operation, body, shown(self._side.message()[2])))

    def _consumer(self, name: str, **more: Any) -> None:
        config = {"durable_name": name, "ack_policy": "explicit", "ack_wait": 60 * SECOND, **more}
        self._ask("CONSUMER.DURABLE.CREATE.{}." + name, stream_name=self._stream, config=config)

    def _publish(self) -> None:
        chance = self._chance
        subject = f"{self._stream}.{chance.choice('ab')}"
        lines = {
            "": "",
            "id": f"Nats-Msg-Id: {chance.randint(0, 5)}",
            "last": f"Nats-Expected-Last-Sequence: {chance.randint(0, 6)}",
            "subject": f"Nats-Expected-Last-Subject-Sequence: {chance.randint(0, 4)}",
            "stream": f"Nats-Expected-Stream: {chance.choice([self._stream, 'X'])}",
        }
        line = lines[chance.choice(["", "", "", "id", "id", "last", "subject", "stream"])]
        headers = f"NATS/1.0\r\n{line}\r\n\r\n".encode() if line else b""
        self._ids += 1
        self._side.publish(subject, b"%d" % self._ids, headers)
        self.said.append((subject, line, shown(self._side.message()[2])))

    def _pull(self) -> None:
        """Ask for some messages, and take all until it is said that there are no more."""
        # nats-server confirms a message a moment before its consumers know of it.
        time.sleep(self._side.settles_s)
        batch = self._chance.randint(1, 3)
        wanted = json.dumps({"batch": batch, "no_wait": True}).encode()
        self._side.publish(f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.c", wanted, b"")
        got: list[object] = []
        while len(got) < batch:
            subject, headers, payload, token = self._side.message()
            if not token:
                got.append(headers.split(b"\r\n")[0])
                break
            words = token.split(".")
            # Stream, consumer, how often it was given out, and its sequence.
            got.append((subject, payload, *words[-9:][2:6]))
            self._out.append(token)
        self.said.append(("pull", batch, got))

    def _settle(self) -> None:
        if self._out:
            token = self._out.pop(self._chance.randrange(len(self._out)))
            word = self._chance.choice([b"+ACK", b"+ACK", b"-NAK", b"+TERM", b"+WPI"])
            self._side.publish(token, word, b"")
            self.said.append((word, self._side.message()[2]))
            if word == b"+WPI":
                self._out.append(token)

    def _get(self) -> None:
        wanted: dict[str, Any] = {"seq": self._chance.randint(1, 9)}
        if self._chance.random() < 0.5:
            wanted = {"last_by_subj": f"{self._stream}.{self._chance.choice('abc')}"}
        self._ask("STREAM.MSG.GET.{}", **wanted)

    def _info(self) -> None:
        self._ask("STREAM.INFO.{}")

    def _pause(self) -> None:
        until = self._chance.choice(["2100-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "soon"])
        name = self._chance.choice(["c", "c", "none"])
        self._ask("CONSUMER.PAUSE.{}." + name, pause_until=until)

    def _again(self) -> None:
        """Ask for what is there already, or makes no sense."""
        match self._chance.randint(0, 3):
            case 0:
                self._ask("STREAM.CREATE.{}", name="other")
            case 1:
                self._ask(
                    "STREAM.CREATE.{}x", name=f"{self._stream}x", subjects=[f"{self._stream}.a"]
                )
            case 2:
                self._ask("CONSUMER.INFO.{}.none")
            case _:
                self._consumer("c", deliver_policy="new")


@pytest.fixture(scope="module")
def server_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("nats")
    with nats_server(folder, "-js", "-sd", str(folder / "store")) as port:
        yield port


@pytest.fixture(scope="module")
def ground() -> Ground:
    return Ground()


@pytest.mark.parametrize("seed", range(1, SESSIONS + 1))
def test_sessions(server_port: int, ground: Ground, seed: int) -> None:
    side = Theirs(server_port)
    try:
        theirs = Session(seed, side).run()
    finally:
        side.close()
    ours = Session(seed, Ours(ground)).run()
    for number, (mine, other) in enumerate(zip(ours, theirs, strict=False)):
        assert mine == other, f"step {number}"
    assert len(ours) == len(theirs)
