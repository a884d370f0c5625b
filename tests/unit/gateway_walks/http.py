"""What clients of everything that is spoken over HTTP have in common."""

from __future__ import annotations

import json
import random
import re
from abc import abstractmethod
from typing import Any, ClassVar, Final

from tests.unit.gateway_walks.filling import Filler, Memory
from tests.unit.gateway_walks.speaker import Speaker

_BODY: Final = re.compile(rb"(\{.*\}|\[.*\])", re.DOTALL)
#: A defect costs its request there.
_DEFECT: Final = re.compile(rb"HTTP/1\.1 500 ")


class DefectAnswered(Exception):
    """A request was answered as a defect of the broker's."""


class HttpSpeaker(Speaker):
    """One connection of a client, which may send requests before it has the answers."""

    words: ClassVar[dict[str, tuple[Any, ...]]] = {}

    def __init__(self, dice: random.Random) -> None:
        super().__init__(dice)
        self.memory = Memory()
        self.fill = Filler(dice, self.memory, self.words)
        self.asked: list[bytes] = []

    def hear(self, data: bytes) -> None:
        if _DEFECT.search(data):
            raise DefectAnswered(f"{data[:2_000]!r}\n{self.asked[-6:]}")
        for part in data.split(b"\r\n\r\n"):
            found = _BODY.search(part)
            if found is not None:
                try:
                    self.memory.note(json.loads(found[1]))
                except ValueError:
                    continue

    def request(self, method: str, target: str, body: bytes | None, **headers: str) -> bytes:
        dice = self.dice
        lines = [f"{method} {target} HTTP/1.1", "Host: localhost"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        raw = body or b""
        if raw and self.one_in(12):
            lines.append("Transfer-Encoding: chunked")
            cut = dice.randrange(len(raw) + 1)
            pieces = [raw[:cut], raw[cut:], b""]
            raw = b"".join(
                b"%x\r\n%s\r\n" % (len(each), each) for each in pieces if each or each is pieces[2]
            )
        elif body is not None:
            lines.append(f"Content-Length: {len(raw)}")
        if self.one_in(25):
            lines.append(
                dice.choice(
                    (
                        "Connection: close",
                        "Expect: 100-continue",
                        "If-Match: x",
                        "Range: bytes=0-5",
                        "Accept: text/html",
                        "X: " + "y" * 9_000,
                    )
                )
            )
        said = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace") + raw
        self.asked = [*self.asked[-9:], said[:1_500]]
        return said

    def json(self, found: Any) -> bytes:
        if self.one_in(40):
            return self.dice.choice((b"", b"x", b"[]", b"5", b"null", b"{", b'"x"', b"[" * 500))
        return json.dumps(found, default=str).encode()

    @abstractmethod
    def say(self) -> bytes: ...
