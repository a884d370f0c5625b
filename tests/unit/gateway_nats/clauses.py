"""The table in `clauses.txt`, and a client that takes a row's steps at any server."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

_STEP = re.compile(r"(>>|>|<|!|\*|sub|unsub|ms|made)(?: (.*))?")
_HEADERS = re.compile(r"(\S+)(?: \[(.*?)\])?(?: (.*))?")
_LETTERS = re.compile(r"\$(\d+)")
_SENT = re.compile(r"@(\d+)")


class Came(NamedTuple):
    """A message that a client is sent."""

    subject: str
    reply: str
    headers: bytes
    payload: bytes


class Peer(Protocol):
    """A connection, behind a CONNECT with headers and answers to requests that meet nobody."""

    def write(self, raw: bytes) -> None:
        """Send."""

    def next(self) -> Came:
        """Return the next message; fail if none comes."""

    def wait(self, ms: int) -> None:
        """Let time go by."""

    def rest(self) -> bytes:
        """Return what comes within a moment."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One clause."""

    what: str
    steps: tuple[tuple[str, str], ...]
    #: What nats-server does in place of it, and why we do not; empty: it does the same.
    differs: str
    number: int

    def __str__(self) -> str:
        return f"line {self.number}: {self.what}"


def _read() -> list[Row]:
    rows = []
    text = Path(__file__).with_suffix(".txt").read_text()
    for number, line in enumerate(text.splitlines(), start=1):
        if not line or line[0] == "#":
            continue
        what, raw, *more = (cell.strip() for cell in line.split("|"))
        steps = []
        for each in raw.split(";"):
            found = _STEP.fullmatch(each.strip())
            assert found is not None, (number, each)
            steps.append((found[1], (found[2] or "").strip()))
        row = Row(what=what, steps=tuple(steps), differs=" ".join(more), number=number)
        rows.append(row)
    return rows


ROWS = _read()


class Actor:
    """Takes the steps of rows."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._inbox = ""
        self._names: dict[str, str] = {}
        #: Reply subjects of the messages that have come, in their order.
        self._tokens: list[str] = []
        #: What has come before it was asked for.
        self._waiting: list[Came] = []
        self._sids = 0
        self._subscribed: dict[str, int] = {}

    def run(self, row: Row, number: int) -> None:
        """Take all steps; `number` is one that no other row has had at this server."""
        self._names = {each: f"{each}{number}" for each in "STDQ"}
        self._inbox, self._tokens, self._waiting = f"_INBOX.{number}", [], []
        self._subscribe(self._inbox)
        for kind, text in row.steps:
            try:
                self._take(kind, text)
            except (AssertionError, ValueError) as error:
                raise AssertionError(f"{kind} {text}: {error}") from None
        rest = self._peer.rest()
        assert (self._waiting, rest) == ([], b""), "more has come"

    def _take(self, kind: str, text: str) -> None:
        match kind:
            case ">" | ">>":
                self._publish(text, self._inbox if kind == ">" else "")
            case "<":
                self._expect_answer(text)
            case "!":
                self._expect_status(text)
            case "*":
                self._expect_message(text)
            case "sub":
                self._subscribe(self._named(text))
            case "unsub":
                self._peer.write(b"UNSUB %d\r\n" % self._subscribed.pop(self._named(text)))
            case "ms":
                self._peer.wait(int(text))
            case "made":
                self._make(text)

    # -- what is sent

    def _named(self, text: str) -> str:
        return re.sub(r"\b[STDQ]\b", lambda found: self._names[found[0]], text)

    def _subscribe(self, subject: str) -> None:
        self._sids += 1
        name, _, group = subject.partition(" ")
        self._subscribed[name] = self._sids
        self._peer.write(f"SUB {name} {group} {self._sids}\r\n".encode())

    def _publish(self, text: str, reply: str) -> None:
        found = _HEADERS.fullmatch(text)
        assert found is not None, text
        subject, said, body = self._named(found[1]), found[2], found[3] or ""
        if subject.startswith("API."):
            subject = f"$JS.{subject}"
        subject = _SENT.sub(lambda at: self._tokens[int(at[1]) - 1], subject)
        payload = _LETTERS.sub(lambda at: "a" * int(at[1]), self._named(body)).encode()
        if said is None:
            head = f"PUB {subject} {reply} {len(payload)}\r\n".encode()
            self._peer.write(head + payload + b"\r\n")
            return
        lines = "".join(f"{each}\r\n" for each in self._named(said).split(", "))
        raw = f"NATS/1.0\r\n{lines}\r\n".encode()
        head = f"HPUB {subject} {reply} {len(raw)} {len(raw) + len(payload)}\r\n".encode()
        self._peer.write(head + raw + payload + b"\r\n")

    def _make(self, text: str) -> None:
        """`made STREAM`: with these options; `made CONSUMER`: the same of a consumer of it."""
        kind, _, options = text.partition(" ")
        config = json.loads(self._named(options or "{}"))
        if kind == "stream":
            self._publish(
                f"API.STREAM.CREATE.S {json.dumps({'name': 'S', 'subjects': ['S.*'], **config})}",
                self._inbox,
            )
        else:
            config = {"durable_name": "C", "ack_policy": "explicit", **config}
            body = json.dumps({"stream_name": "S", "config": config})
            self._publish(f"API.CONSUMER.DURABLE.CREATE.S.C {body}", self._inbox)
        answer = json.loads(self._next(is_answer=True).payload)
        assert "error" not in answer, answer

    # -- what comes

    def _next(self, *, is_answer: bool) -> Came:
        """Return the next answer without headers; or the next of all others.

        A message that is pushed may overtake the answer to a request, or not.
        """
        for at, came in enumerate(self._waiting):
            if self._is_answer(came) is is_answer:
                return self._waiting.pop(at)
        while True:
            came = self._peer.next()
            if self._is_answer(came) is is_answer:
                return came
            self._waiting.append(came)

    def _is_answer(self, came: Came) -> bool:
        return came.subject == self._inbox and not came.headers

    def _expect_answer(self, text: str) -> None:
        """A number of an error, JSON with these members, or a payload behind `=`."""
        came = self._next(is_answer=True)
        assert not came.reply, came
        wanted = self._named(text)
        if wanted.startswith("="):
            assert (came.headers, came.payload.decode()) == (b"", wanted[1:].strip()), came
            return
        answer = json.loads(came.payload)
        if wanted.startswith("{"):
            assert is_within(json.loads(wanted), answer), answer
            return
        error = answer.get("error")
        assert error is not None, answer
        assert f"{error['code']} {error['err_code']}" == wanted, answer

    def _expect_status(self, text: str) -> None:
        """`! 404 No Messages [Name: value]` at the inbox; `D: 100 ...` at another subject."""
        found = re.fullmatch(r"(?:(\w+): )?(\d+)(?: (?!\[)(.*?))?(?: \[(.*)\])?", self._named(text))
        assert found is not None, text
        came = self._next(is_answer=False)
        first, *lines = came.headers.decode().removesuffix("\r\n\r\n").split("\r\n")
        assert (came.subject, came.payload) == (found[1] or self._inbox, b""), came
        assert _like([f"NATS/1.0 {found[2]} {found[3] or ''}".strip()], [first]), came
        if came.reply:
            self._tokens.append(came.reply)
        if found[4] is not None:
            wanted = [each for each in found[4].split(", ") if each]
            assert _like(wanted, lines), came

    def _expect_message(self, text: str) -> None:
        """`* SUBJECT TOKEN [Name: value] PAYLOAD`: its acknowledgement is `$JS.ACK.S.TOKEN`."""
        subject, token, *more = self._named(text).split(" ", 2)
        said = re.fullmatch(r"(?:\[(.*)\])? ?(.*)", more[0] if more else "")
        assert said is not None, text
        came = self._next(is_answer=False)
        self._tokens.append(came.reply)
        payload = _LETTERS.sub(lambda at: "a" * int(at[1]), said[2])
        assert (came.subject, came.payload.decode()) == (
            subject.replace("_INBOX", self._inbox),
            payload,
        ), came
        if token == "-":
            assert not came.reply, came
        else:
            pattern = f"$JS.ACK.{self._names['S']}.{token}"
            assert _like([pattern], [came.reply]), came
        lines = came.headers.decode().removesuffix("\r\n\r\n").split("\r\n")[1:]
        assert _like((said[1] or "").split(", ") if said[1] else [], lines), came


def _like(wanted: list[str], lines: list[str]) -> bool:
    """Tell whether these are the lines; `_` is any word, `~` whatever is left."""
    if len(wanted) != len(lines):
        return False
    patterns = [
        re.escape(each).replace("_", r"[^. ]+").replace(r"\~", ".*") for each in sorted(wanted)
    ]
    pairs = zip(patterns, sorted(lines), strict=True)
    return all(re.fullmatch(pattern, line) for pattern, line in pairs)


def is_within(wanted: Any, found: Any) -> bool:
    """Tell whether an answer says all this, and maybe more; None: it does not say this."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            is_within(each, found.get(name)) for name, each in wanted.items()
        )
    if isinstance(wanted, list):
        is_long = isinstance(found, list) and len(found) == len(wanted)
        return is_long and all(map(is_within, wanted, found))
    return found is not None if wanted == "?" else bool(wanted == found)
