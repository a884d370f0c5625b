"""Requests are read as h11 reads them, which is strict, or they are refused.

h11 is the oracle: what is understood here, h11 understands alike, whatever a client has made up and
however it comes in pieces. The other direction does not hold: this is stricter. It is less strict
in four things, in none of which it is unclear where a request ends: line ends before a request,
which RFC 9112 has servers pass over (section 2.2), more than one space around a target, RTSP or ICE
for HTTP, and sizes of chunks with many zeros before them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable

import h11
import pytest

from kafkaesque.chassis.http_requests import (
    HEADERS_MAX,
    SLICE_BYTES,
    BodyPiece,
    HttpRequests,
    NotUnderstood,
    RequestHead,
)

HEAD_BYTES_MAX = 1_000
#: Method, target, headers, body.
Read = tuple[bytes, bytes, tuple[tuple[bytes, bytes], ...], bytes]


def read(pieces: Iterable[bytes], head_bytes_max: int = HEAD_BYTES_MAX) -> tuple[list[Read], int]:
    """Return the whole requests, and the status by which the next one is refused; 0: it is not."""
    requests, found = HttpRequests(head_bytes_max), list[Read]()
    head, body = None, b""
    for piece in pieces:
        requests.receive(piece)
        while True:
            try:
                event = requests.next_event()
            except NotUnderstood as refusal:
                return found, refusal.status
            if event is None:
                break
            if isinstance(event, RequestHead):
                head, body = event, b""
            elif isinstance(event, BodyPiece):
                body += event.data
            else:
                assert head is not None
                found.append((head.method, head.target, _without_case(head.headers), body))
                if not head.keeps_alive:
                    return found, 0
                requests.start_next()
    return found, 0


def _without_case(headers: Iterable[tuple[bytes, bytes]]) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((name, value.lower()) for name, value in headers)


def read_by_h11(pieces: Iterable[bytes]) -> list[Read]:
    connection, found = h11.Connection(h11.SERVER, HEAD_BYTES_MAX * 4), list[Read]()
    head, body = None, b""
    for piece in pieces:
        connection.receive_data(piece)
        while True:
            try:
                event = connection.next_event()
            except h11.RemoteProtocolError:
                return found
            if isinstance(event, h11.Request):
                head, body = event, b""
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                assert head is not None
                found.append((head.method, head.target, _without_case(head.headers), body))
                connection.send(h11.Response(status_code=404, headers=[("Content-Length", "0")]))
                connection.send(h11.EndOfMessage())
                if connection.our_state is h11.MUST_CLOSE:
                    return found
                connection.start_next_cycle()
            else:
                break
    return found


# -- made up

STARTS = (
    b"GET / HTTP/1.1",
    b"POST /q?a=b HTTP/1.1",
    b"HEAD / HTTP/1.0",
    b"OPTIONS * HTTP/1.1",
    b"POST / HTTP/1.0",
    b"GET http://a/b HTTP/1.1",
    b"CONNECT a:1 HTTP/1.1",
    b"PATCH / HTTP/1.1",
    b"GET / HTTP/2.0",
    b"GET / HTTP/0.9",
    b"GET /",
    b"GET  / HTTP/1.1",
    b"GET / HTTP/1.1 ",
    b"GET /\xc3\xa9 HTTP/1.1",
    b"GET /a b HTTP/1.1",
    b"get / HTTP/1.1",
    b"FOO / HTTP/1.1",
    b"PRI * HTTP/2.0",
    b"SOURCE / ICE/1.0",
    b"OPTIONS * RTSP/1.0",
    b"GET / HTTP/1.11",
    b"",
    b"GET /#x HTTP/1.1",
    b"GET //x HTTP/1.1",
    b"GET x HTTP/1.1",
    b"GET /\x7f HTTP/1.1",
)
HEADERS = (
    b"Host: a",
    b"Host: a",
    b"Host: a",
    b"host:b",
    b"Host: a b",
    b"Host:",
    b"Content-Length: 5",
    b"Content-Length: 0",
    b"content-length:3",
    b"Content-Length: 5 ",
    b"Content-Length: +5",
    b"Content-Length: 5, 5",
    b"Content-Length: 0x5",
    b"Content-Length: -1",
    b"Content-Length:",
    b"Content-Length: 99999999999999999999999",
    b"Content-Length: 0005",
    b"Content-Length: 5\t",
    b"Content-Length : 5",
    b" Content-Length: 5",
    b"Content-Length: 1 1",
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: Chunked",
    b"transfer-encoding:chunked ",
    b"Transfer-Encoding: gzip, chunked",
    b"Transfer-Encoding: identity",
    b"Transfer-Encoding:",
    b"Transfer-Encoding: xchunked",
    b"Transfer-Encoding: chunked, chunked",
    b"TE: trailers",
    b"Transfer-Encoding : chunked",
    b"Transfer-Encoding:\x0bchunked",
    b"Transfer_Encoding: chunked",
    b"Transfer-Encoding: chunked\r\n ,x",
    b"Connection: close",
    b"Connection: keep-alive",
    b"Connection: upgrade\r\nUpgrade: h2c",
    b"Upgrade: websocket",
    b"Connection: Content-Length",
    b"Expect: 100-continue",
    b"Expect: x",
    b"X: \xff",
    b"X: a\x00b",
    b"X: a\rb",
    b"X: a\nb: c",
    b"X:\ta\t",
    b": a",
    b"X",
    b"X Y: a",
    b"X: a\r\n b",
    b"\xe9: a",
    b"(x): y",
    b"X: a\x01",
    b"X:",
    b"X: " + b"y" * 300,
    b"X\x00: a",
    b"Proxy-Connection: close",
    b"Keep-Alive: 5",
)
BODIES = (
    b"",
    b"",
    b"abcde",
    b"abc",
    b"5\r\nabcde\r\n0\r\n\r\n",
    b"0\r\n\r\n",
    b"3;x=y\r\nabc\r\n0\r\n\r\n",
    b"3\r\nabc\r\n0\r\nX: y\r\n\r\n",
    b"3\r\nabcde\r\n0\r\n\r\n",
    b"3\nabc\n0\n\n",
    b"+3\r\nabc\r\n0\r\n\r\n",
    b"0x3\r\nabc\r\n0\r\n\r\n",
    b"3 \r\nabc\r\n0\r\n\r\n",
    b" 3\r\nabc\r\n0\r\n\r\n",
    b"-3\r\nabc\r\n0\r\n\r\n",
    b"FFFFFFFFFFFFFFFFFF\r\nabc",
    b"3\r\nabc\r0\r\n\r\n",
    b"3\r\nabc0\r\n\r\n",
    b"0003\r\nabc\r\n000\r\n\r\n",
    b"3;\r\nabc\r\n0\r\n\r\n",
    b'3;x="\r\n"\r\nabc\r\n0\r\n\r\n',
    b"0\r\nContent-Length: 5\r\n\r\n",
    b"3\r\nabc\r\n0\r\n",
    b"\r\n",
    b"\n",
    b"3;a\nabc\r\n0\r\n\r\n",
    b"a\r\n0123456789\r\n0\r\n\r\n",
)
ENDS = (b"\r\n",) * 40 + (b"\n", b"\r", b"\r\r\n", b"\n\r\n", b" \r\n")


def made_up(dice: random.Random) -> bytes:
    """Return bytes that look like requests, more or less."""
    parts = []
    for _ in range(dice.randint(1, 3)):
        start = STARTS[0] if dice.random() < 0.3 else dice.choice(STARTS)
        lines = [start, *dice.choices(HEADERS, k=dice.randint(0, 4))]
        if dice.random() < 0.8 and not any(each.lower().startswith(b"host") for each in lines):
            lines.insert(dice.randint(1, len(lines)), b"Host: a")
        for line in [*lines, b""]:
            parts += [line, dice.choice(ENDS)]
        parts.append(dice.choice(BODIES))
    whole = bytearray(b"".join(parts))
    if dice.random() < 0.3:
        for _ in range(dice.randint(1, 2)):
            at = dice.randrange(len(whole) + 1)
            what = dice.choice(
                [b"\r", b"\n", b" ", b"\x00", b":", b"\t", b"\xff", b"0", b",", b"\r\n"]
            )
            whole[at : at + dice.randint(0, 1)] = what
    return bytes(whole)


def cut(dice: random.Random, data: bytes) -> list[bytes]:
    ends = sorted(dice.randrange(len(data) + 1) for _ in range(dice.choice([0, 0, 1, 3, 12])))
    return [data[a:b] for a, b in zip([0, *ends], [*ends, len(data)], strict=True) if a < b]


def as_h11_would(data: bytes) -> bytes:
    """Return the same without what is allowed here only."""
    data = re.sub(rb"(^|\r\n\r\n)[\r\n]+(?=[A-Z])", rb"\1", data)
    return re.sub(rb" +(HTTP|RTSP|ICE)/1", b" HTTP/1", re.sub(rb"(?m)^([A-Z-]+) +", rb"\1 ", data))


def check_seed(seed: int) -> tuple[int, int]:
    """Return how many requests were read here, and by h11."""
    dice = random.Random(seed)
    data = made_up(dice)
    pieces = cut(dice, data)
    ours, _ = read(pieces)
    theirs = read_by_h11(pieces)
    if ours != theirs[: len(ours)]:
        theirs = read_by_h11([as_h11_would(data)])
    assert ours == theirs[: len(ours)], (data, pieces)
    return len(ours), len(theirs)


def test_what_is_understood_is_what_h11_understands() -> None:
    ours = theirs = 0
    for seed in range(1_500):
        here, there = check_seed(seed)
        ours, theirs = ours + here, theirs + there
    # It does not refuse all there is.
    assert ours > 100
    assert ours > theirs // 3


# -- rules of its own

HOST = b"Host: a\r\n"
GET = b"GET / HTTP/1.1\r\n" + HOST
POST = b"POST / HTTP/1.1\r\n" + HOST
UPGRADE = b"Upgrade: x\r\nConnection: upgrade\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
LENGTH = b"Content-Length: 3\r\n"


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET / HTTP/1.1\r\n", 400),
        (GET + b"Host: a\r\n", 400),
        (b"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n", 400),
        (b"GET / HTTP/2.0\r\nHost: a\r\n", 505),
        (POST + LENGTH + CHUNKED, 400),
        (POST + CHUNKED + LENGTH, 400),
        (POST + LENGTH + LENGTH, 400),
        (POST + b"Content-Length: 3\r\nContent-Length: 4\r\n", 400),
        (POST + b"Content-Length: 3, 3\r\n", 400),
        (POST + b"Content-Length: 000000000000000000003\r\n", 400),
        (POST + b"Transfer-Encoding: gzip, chunked\r\n", 501),
        (POST + b"Transfer-Encoding: xchunked\r\n", 501),
        (GET + b"X: a\r\n b\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\rX: b\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\nX: b\r\n", 400),
        (b"GET / HTTP/1.1\nHost: a\n", 400),
        (b"GET / HTTP/1.1\r\nHost : a\r\n", 400),
        (GET + b"X: a\x00\r\n", 400),
        (b"GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n", 400),
        (b"FOO / HTTP/1.1\r\nHost: a\r\n", 400),
        (POST + UPGRADE + LENGTH, 400),
        (POST + UPGRADE + CHUNKED, 400),
    ],
)
def test_a_head_that_can_be_read_in_two_ways_is_refused(head: bytes, status: int) -> None:
    assert read([head + b"\r\nabc"]) == ([], status)
    assert read([head[at : at + 1] for at in range(len(head))] + [b"\r\n", b"abc"]) == ([], status)


@pytest.mark.parametrize(
    "body",
    [
        b"0x3\r\nabc\r\n",
        b"+3\r\nabc\r\n",
        b"-3\r\nabc\r\n",
        b" 3\r\nabc\r\n",
        b"3\nabc\r\n",
        b"3 \r\nabc\r\n",
        b"3\r\nabcd\r\n",
        b"3\r\nabc\n",
        b"1FFFFFFFFFFFFFFFF\r\nabc",
    ],
)
def test_a_chunk_has_its_size_and_no_more(body: bytes) -> None:
    start = POST + CHUNKED + b"\r\n"
    assert read([start + body + b"0\r\n\r\n"]) == ([], 400)


@pytest.mark.parametrize(
    "endless",
    [
        GET + b"X: ",
        b"GET /",
        b"GET / HTTP/1.1\r\nX",
        POST + CHUNKED + b"\r\n3;x=",
        POST + CHUNKED + b"\r\n0\r\nX: ",
    ],
)
@pytest.mark.parametrize("piece", [1, 100, 100_000])
def test_no_head_trailer_or_extension_is_endless(endless: bytes, piece: int) -> None:
    pieces = [endless, *[b"x" * piece] * (100_000 // piece)]
    assert read(pieces) == ([], 431)


def test_a_head_has_its_length_also_in_many_headers() -> None:
    headers = b"".join(b"X%d: y\r\n" % at for at in range(200))
    assert read([b"GET / HTTP/1.1\r\n" + HOST + headers + b"\r\n"]) == ([], 431)


def test_a_head_has_so_many_headers_however_short() -> None:
    most = HEADERS_MAX - 1
    assert read([GET + b"a:\r\n" * most + b"\r\n"], 16_384)[0]
    assert read([GET + b"a:\r\n" * (most + 1) + b"\r\n"], 16_384) == ([], 431)
    # Of trailers none is kept.
    ends = b"0\r\n" + b"a:\r\n" * (most + 1) + b"\r\n"
    assert read([POST + CHUNKED + b"\r\n" + ends], 16_384)[0]


def test_requests_that_are_sent_ahead_wait_as_bytes() -> None:
    requests = HttpRequests(HEAD_BYTES_MAX)
    one = GET + b"\r\n"
    requests.receive(one * 10_000)
    for _ in range(10_000):
        assert isinstance(requests.next_event(), RequestHead)
        assert len(requests._events) <= 2 * (SLICE_BYTES // len(one) + 1)
        requests.next_event()
        assert requests.next_event() is None
        requests.start_next()
    assert requests.next_event() is None


def test_what_is_wrong_after_a_request_does_not_count_before_it() -> None:
    requests = HttpRequests(HEAD_BYTES_MAX)
    requests.receive(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b\r\n\r\n")
    assert isinstance(requests.next_event(), RequestHead)
    requests.next_event()
    assert requests.next_event() is None
    requests.start_next()
    with pytest.raises(NotUnderstood):
        requests.next_event()


def test_who_offers_another_protocol_is_answered_in_http() -> None:
    offer = b"GET /a HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    found, status = read([offer + b"GET /b HTTP/1.1\r\nHost: a\r\n\r\n"])
    assert [target for _, target, _, _ in found] == [b"/a", b"/b"]
    assert status == 0


def test_nothing_follows_a_request_that_is_the_last() -> None:
    for last in (b"HTTP/1.0\r\n", b"HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"):
        found, status = read([b"GET /a " + last + b"\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n"])
        assert ([target for _, target, _, _ in found], status) == ([b"/a"], 0)
