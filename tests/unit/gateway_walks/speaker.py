"""What one client says, at random; each protocol has its own."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from typing import ClassVar, Final

#: Names that clients share: of queues, topics, sessions, groups.
NAMES: Final = ("q0", "q1", "q2", "walk.a", "walk.b")
#: Names and words that mean something to one protocol or another.
HOSTILE: Final = (
    "",
    "/",
    ".",
    "#",
    "*",
    ">",
    "+",
    "%",
    "%2F",
    "%ff",
    "\0",
    "a\0b",
    "a/b",
    "/a//b/",
    "a.b",
    "a..b",
    ".a.",
    "a b",
    "a.*.c",
    "a.>",
    "a/#",
    "+/b",
    "$SYS/broker",
    "$JS.API.INFO",
    "$share/g/a",
    "amq.topic",
    "amq.q",
    "amq.rabbitmq.reply-to",
    "__consumer_offsets",
    "../x",
    "\u00e9",
    "\U0001f600",
    "\ufeff",
    "\ufffe",
    "\n",
    "a\r\nb",
    ":",
    "\\",
    "-1",
    "999999999999999999999",
    "x" * 255,
)
BODIES: Final = (
    b"",
    b"x",
    b"\0",
    b"\xff\xfe",
    b'{"a":1}',
    b"[" * 50,
    b"y" * 3_000,
    b"\r\n",
    b"a\0b",
)


class Speaker(ABC):
    """One connection's client; it hears what it is answered, as far as it needs that."""

    port: ClassVar[int]
    #: Whether some answers have no end of their own.
    streams_on: ClassVar[bool] = False

    def __init__(self, dice: random.Random) -> None:
        self.dice: Final = dice

    def opening(self) -> bytes:
        """Return what a client says first."""
        return b""

    @abstractmethod
    def say(self) -> bytes:
        """Return something that a client may say, rightly or wrongly."""

    def hear(self, data: bytes) -> None:  # noqa: B027
        """Take what has come."""

    # -- choices

    def one_in(self, count: int) -> bool:
        return self.dice.randrange(count) == 0

    def name(self) -> str:
        """A name that others use, seldom a strange one."""
        return self.word() if self.one_in(12) else self.dice.choice(NAMES)

    def word(self) -> str:
        return self.dice.choice(HOSTILE)

    def body(self) -> bytes:
        return self.dice.choice(BODIES)

    def number(self) -> int:
        return self.dice.choice((0, 0, 1, 1, 2, 3, 5, 10, 100, 1_000, 60_000, 2**31 - 1, 2**16 - 1))
