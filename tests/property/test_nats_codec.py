"""NATS' codec: any cut of the input, nothing but errors of the protocol, and nats-py's parser."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats.protocol.parser import Parser

from kafkaesque.protocols.nats.connection import Limits
from kafkaesque.protocols.nats.events import Published
from kafkaesque.protocols.nats.headers import Headers, no_responders, read_headers, write_headers
from kafkaesque.protocols.nats.subjects import is_literal, is_subject
from kafkaesque.protocols.nats.writing import (
    OK,
    PING,
    PONG,
    Info,
    MessageVariant,
    write_error,
    write_info,
)
from kafkaesque.routing.errors import BadName
from kafkaesque.routing.names import NATS
from tests.unit.protocols_nats.peer import Broker

LIMITS = Limits(control_line_bytes_max=60, payload_bytes_max=100)
words = st.text("abé.*>", min_size=1, max_size=6)
sids = st.text("0123x", min_size=1, max_size=3)
names = st.text("abé-", min_size=1, max_size=6)
values = st.text("ab é:", max_size=6).map(str.strip)
headers = st.lists(st.tuples(names, values), max_size=3).map(lambda each: Headers(tuple(each)))
payloads = st.binary(max_size=120)
junk = st.binary(max_size=30) | st.sampled_from((b"\r\n", b"PUB a 3\r\n", b"HPUB a 1 200\r\n"))


@st.composite
def commands(draw: st.DrawFn) -> bytes:
    subject, reply = draw(words).encode(), draw(st.just(b"") | words.map(str.encode))
    payload = draw(payloads)
    match draw(st.sampled_from(("pub", "hpub", "sub", "unsub", "ping", "connect", "junk"))):
        case "pub":
            return b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(payload), payload)
        case "hpub":
            raw = write_headers(draw(headers))
            sizes = (len(raw), len(raw) + len(payload))
            return b"HPUB %b %b %d %d\r\n%b%b\r\n" % (subject, reply, *sizes, raw, payload)
        case "sub":
            return b"sub %b %b\n" % (subject, draw(sids).encode())
        case "unsub":
            return b"UNSUB %b %d\r\n" % (draw(sids).encode(), draw(st.integers(0, 3)))
        case "connect":
            options = {"verbose": draw(st.booleans()), "headers": draw(st.booleans())}
            return b"CONNECT " + json.dumps(options).encode() + b"\r\n"
        case "junk":
            return draw(junk)
    return b"PING\r\n"


@given(sent=st.lists(commands(), max_size=6), data=st.data())
def test_cuts_change_nothing(sent: list[bytes], data: st.DataObject) -> None:
    raw = b"".join(sent)
    whole, cut = Broker(LIMITS), Broker(LIMITS)
    answer = whole.receive(raw)
    found = b""
    at = 0
    while at < len(raw):
        size = data.draw(st.integers(1, len(raw) - at))
        found += cut.receive(raw[at : at + size])
        assert cut.connection.kept_bytes <= 60 + 100 + 4 or cut.connection.is_paused
        at += size
    assert found == answer
    assert [str(event) for event in cut.events] == [str(event) for event in whole.events]


@given(raw=st.binary(max_size=80), needs_login=st.booleans())
def test_strangers_are_refused_or_waited_for(raw: bytes, needs_login: bool) -> None:
    broker = Broker(LIMITS, needs_login=needs_login)
    broker.receive(raw)
    assert broker.connection.kept_bytes <= 80


@given(found=headers)
def test_headers_round_trip(found: Headers) -> None:
    assert read_headers(write_headers(found)) == found


@given(raw=st.binary(max_size=30))
def test_headers_are_read_or_not(raw: bytes) -> None:
    read_headers(raw)
    read_headers(b"NATS/1.0" + raw + b"\r\n\r\n")


def test_headers_with_a_status() -> None:
    raw = no_responders("a.b")
    assert read_headers(raw) == Headers((("Nats-Subject", "a.b"),), 503)
    idle = Headers(status=100, description="Idle Heartbeat")
    assert write_headers(idle) == b"NATS/1.0 100 Idle Heartbeat\r\n\r\n"
    assert read_headers(write_headers(idle)) == idle


@pytest.mark.parametrize("name", ["", "a:b", "a\r\n"])
def test_headers_that_cannot_be_written_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="header"):
        write_headers(Headers(((name, "v"),)))


@given(text=st.text("ab.*>", max_size=8))
def test_subjects_are_those_that_routing_takes(text: str) -> None:
    try:
        NATS.read_filter(text)
        is_taken = True
    except BadName:
        is_taken = False
    # Routing refuses what is a letter only here: a wildcard that is part of a token.
    assert is_subject(text) is is_taken or (is_taken and ">" in text)
    if is_literal(text):
        assert is_subject(text)
        assert not {"*", ">"}.intersection(text.split("."))


class Listener:
    """What nats-py's parser tells."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, head: bytes
    ) -> None:
        self.heard.append((sid, subject, reply, data, head))

    async def _process_info(self, info: dict[str, Any]) -> None:
        self.heard.append(info)

    async def _process_err(self, text: str) -> None:
        self.heard.append(text)

    async def _process_ping(self) -> None:
        self.heard.append("PING")

    async def _process_pong(self) -> None:
        self.heard.append("PONG")


async def heard(raw: bytes, size: int) -> list[Any]:
    listener = Listener()
    parser = Parser(listener)
    for at in range(0, len(raw), size):
        await parser.parse(raw[at : at + size])
    return listener.heard


@given(
    subject=words,
    reply=st.just("") | words,
    found=st.none() | headers,
    payload=payloads,
    sid=st.integers(1, 99),
    size=st.sampled_from((7, 1000)),
)
def test_nats_py_reads_what_we_deliver(
    subject: str, reply: str, found: Headers | None, payload: bytes, sid: int, size: int
) -> None:
    head = b"" if found is None else write_headers(found)
    variant = MessageVariant(subject, reply, head, payload)
    name = str(sid).encode()
    raw = variant.write(name) + variant.write_bare(name) + PING + OK + PONG
    bare = (sid, subject.encode(), reply.encode(), payload)
    full, plain, *rest = asyncio.run(heard(raw, size))
    assert (*full[:4], full[4] or b"") == (*bare, head)
    assert (*plain[:4], plain[4] or b"") == (*bare, b"")
    assert rest == ["PING", "PONG"]


def test_nats_py_reads_what_we_say() -> None:
    info = Info(
        server_id="I",
        server_name="n",
        version="1",
        proto=1,
        host="h",
        port=4222,
        headers=True,
        max_payload=100,
        client_id=7,
        connect_urls=("a:1", "b:2"),
    )
    raw = write_info(info) + write_error("Permissions Violation\r\nPING")
    told, error = asyncio.run(heard(raw, 1000))
    assert told["connect_urls"] == ["a:1", "b:2"]
    assert (told["max_payload"], told["headers"], "ldm" in told) == (100, True, False)
    assert error == "'permissions violation  ping'"


def test_a_message_is_told_as_it_was_sent() -> None:
    broker = Broker()
    broker.receive(b'CONNECT {"headers":true}\r\nHPUB a r 12 13\r\nNATS/1.0\r\n\r\nx\r\n')
    assert broker.events[-1] == Published(
        subject="a", reply="r", headers=b"NATS/1.0\r\n\r\n", payload=b"x"
    )
