"""Clients of STOMP, in all versions."""

from __future__ import annotations

import random
import re
from typing import ClassVar, Final

from kafkaesque.protocols.stomp.frames import write_headers
from kafkaesque.protocols.stomp.versions import Version
from kafkaesque.sim.cluster import STOMP_PORT
from tests.unit.gateway_walks.speaker import Speaker

DESTINATIONS: Final = (
    "/queue/q0",
    "/queue/q1",
    "/queue/q2",
    "/amq/queue/q0",
    "/amq/queue/none",
    "/topic/walk.a",
    "/topic/walk.*",
    "/topic/#",
    "/exchange/e1/walk.a",
    "/exchange/e1",
    "/exchange/amq.headers",
    "/exchange/amq.fanout/x",
    "/temp-queue/t0",
    "/temp-queue/t1",
    "/reply-queue/q0",
)
MODES: Final = ("auto", "client", "client-individual", "x")
HEADERS: Final = (
    ("durable", ("true", "false", "x")),
    ("auto-delete", ("true", "false")),
    ("exclusive", ("true", "false")),
    ("prefetch-count", ("0", "1", "5", "x", "-1")),
    ("x-queue-name", ("q0", "mine")),
    ("x-message-ttl", ("1", "1000", "x")),
    ("x-expires", ("1000", "0")),
    ("x-dead-letter-exchange", ("e1", "")),
    ("x-max-length", ("1", "5")),
    ("x-queue-type", ("quorum", "stream", "classic", "x")),
    ("x-stream-offset", ("first", "next", "last", "offset=5", "timestamp=0", "x")),
    ("x-priority", ("1", "x")),
    ("selector", ("a = 1", "a =", "JMSPriority > 3", "a LIKE 'x%'")),
    ("persistent", ("true", "false")),
    ("priority", ("1", "255", "256", "x")),
    ("expiration", ("1", "1000", "x", "-1")),
    ("reply-to", ("/temp-queue/t0", "/queue/q0", "x", "/temp-queue/")),
    ("correlation-id", ("c", "")),
    ("content-type", ("text/plain", "")),
    ("content-encoding", ("gzip",)),
    ("requeue", ("true", "false", "x")),
    ("receipt", ("r1", "r1", "r2", "")),
    ("activemq.prefetchSize", ("1",)),
    ("delay", ("1000",)),
    ("heart-beat", ("0,0",)),
    ("content-length", ("0", "1", "5", "x", "-1", "99999999999")),
)


class StompSpeaker(Speaker):
    port: ClassVar = STOMP_PORT

    def __init__(self, dice: random.Random) -> None:
        super().__init__(dice)
        self.version = dice.choice(tuple(Version))
        self.acks: list[tuple[str, str, str]] = []
        self.rest = b""

    def frame(self, command: str, headers: list[tuple[str, str]], body: bytes = b"") -> bytes:
        head = write_headers(tuple(headers), self.version)
        return b"".join((command.encode(), b"\n", head, b"\n", body, b"\0"))

    def opening(self) -> bytes:
        dice = self.dice
        said = [
            ("accept-version", self.version.value),
            ("host", dice.choice(("/", "localhost", "x"))),
        ]
        if self.version is Version.V1_0:
            said = []
        if self.one_in(3):
            said.append(("heart-beat", dice.choice(("1000,1000", "0,500", "500,0", "x", "1,1"))))
        if self.one_in(8):
            said += [("login", "guest"), ("passcode", "guest")]
        head = b"".join(f"{name}:{value}\n".encode() for name, value in said)
        return dice.choice((b"CONNECT\n", b"STOMP\n")) + head + b"\n\0"

    def hear(self, data: bytes) -> None:
        self.rest = (self.rest + data)[-100_000:]
        for found in re.finditer(rb"MESSAGE\n(.*?)\n\n", self.rest, re.DOTALL):
            fields = dict(
                line.split(":", 1)
                for line in found[1].decode(errors="replace").split("\n")
                if ":" in line
            )
            self.acks.append(
                (
                    fields.get("ack", ""),
                    fields.get("message-id", ""),
                    fields.get("subscription", ""),
                )
            )
        self.rest = self.rest[self.rest.rfind(b"\0") + 1 :]

    def more(self, most: int = 3) -> list[tuple[str, str]]:
        dice = self.dice
        found = []
        for _ in range(dice.randrange(most + 1)):
            name, values = dice.choice(HEADERS)
            if name != "content-length" or self.one_in(6):
                found.append((name, dice.choice(values)))
        if self.one_in(8):
            found.append((self.word() or "a", self.word()))
        return found

    def destination(self) -> str:
        dice = self.dice
        if self.one_in(12):
            return (
                dice.choice(("/queue/", "/topic/", "/exchange/", "/temp-queue/", "", "/x/"))
                + self.word()
            )
        return dice.choice(DESTINATIONS)

    def say(self) -> bytes:
        dice = self.dice
        choice = dice.randrange(100)
        transaction = [("transaction", dice.choice(("t1", "t2")))] if self.one_in(5) else []
        name = dice.choice(("s1", "s2", "s3", ""))
        if choice < 32:
            return self.frame(
                "SEND",
                [("destination", self.destination()), *transaction, *self.more()],
                self.sent(),
            )
        if choice < 52:
            said = [("destination", self.destination()), ("id", name)]
            if dice.randrange(2):
                said.append(("ack", dice.choice(MODES)))
            return self.frame("SUBSCRIBE", [*said, *self.more()])
        if choice < 62:
            said = [("id", name)] if dice.randrange(6) else [("destination", self.destination())]
            return self.frame("UNSUBSCRIBE", [*said, *self.more(2)])
        if choice < 80:
            ack, message, subscription = ("x", "y", "s1")
            if self.acks and dice.randrange(10):
                ack, message, subscription = dice.choice(self.acks[-10:])
            said = (
                [("id", ack)]
                if self.version is Version.V1_2
                else [("message-id", message), ("subscription", subscription)]
            )
            return self.frame(
                dice.choice(("ACK", "ACK", "NACK")), [*said, *transaction, *self.more(1)]
            )
        if choice < 90:
            command = dice.choice(("BEGIN", "BEGIN", "COMMIT", "ABORT"))
            return self.frame(command, [("transaction", dice.choice(("t1", "t2"))), *self.more(1)])
        if choice < 92:
            return self.frame("DISCONNECT", self.more(1))
        if choice < 94:
            return self.opening()
        if choice < 97:
            return dice.choice((b"\n", b"\r\n", b"\n\n\n"))
        return self.frame(dice.choice(("MESSAGE", "X", "", "CONNECTED", "RECEIPT")), self.more())

    def sent(self) -> bytes:
        body = self.body()
        return body.replace(b"\0", b"") if self.dice.randrange(10) else body
