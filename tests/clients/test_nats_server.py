"""NATS' clauses, and random sessions, are run against nats-server: it answers as we do.

What it says is compared byte by byte, but for the INFO that comes first; with what the codec's
tests answer, and with what a broker of ours does.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.clients.nats_server import nats_server
from tests.unit.gateway_nats.kit import Ground
from tests.unit.protocols_nats.clauses import ROWS, Row, connect
from tests.unit.protocols_nats.peer import Broker

#: So long an answer may take, and so long a silence is waited out.
ANSWER_S, SILENCE_S = 5.0, 0.03
END = b"PING\r\n"
_NOBODY = re.compile(rb"(HMSG \S+) \S+(?= \d+ \d+\r\nNATS/1.0 503)")


@pytest.fixture(scope="module")
def server_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with nats_server(tmp_path_factory.mktemp("nats")) as port:
        yield port


def ask(port: int, sent: bytes, expected: bytes) -> tuple[bytes, bool]:
    """Return what the server says to these bytes, and whether it hangs up.

    That it says no more is known only by waiting, which is done for a while where what it is to say
    has come.
    """
    with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S) as client:
        found = b""
        while b"\n" not in found:
            found += client.recv(1 << 16)
        assert found.startswith(b"INFO ")
        found = found.split(b"\n", 1)[1]
        client.sendall(sent)
        while True:
            client.settimeout(SILENCE_S if len(found) >= len(expected) else ANSWER_S)
            try:
                piece = client.recv(1 << 16)
            except TimeoutError:
                # It measures how far its clients are.
                return found.removesuffix(b"PING\r\n"), False
            except ConnectionResetError:
                return found, True
            if not piece:
                return found, True
            found += piece


def ours(sent: bytes) -> tuple[bytes, bool]:
    broker = Broker()
    return broker.receive(sent), broker.error is not None


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_clause(server_port: int, row: Row) -> None:
    assert ask(server_port, row.sent, row.answer) == (row.answer, row.closes)


subjects = st.sampled_from(("a", "b", "a.b", "a.b.c", "a.*", "a.>", ">", "*", "a*"))
wrong_subjects = st.sampled_from(("a..b", "a.", ".", "a.>.b"))
sids = st.sampled_from(("1", "2", "x"))
payloads = st.sampled_from((b"", b"x", b"a\r\nb", b"PING\r\n"))


@st.composite
def commands(draw: st.DrawFn) -> bytes:
    subject = draw(subjects | wrong_subjects).encode()
    payload = draw(payloads)
    reply = draw(st.sampled_from((b"", b"r ", b"a.b ")))
    kinds = ("pub", "pub", "hpub", "sub", "sub", "wrong", "queue", "unsub", "ping")
    match draw(st.sampled_from(kinds)):
        case "pub":
            return b"PUB %b %b%d\r\n%b\r\n" % (subject, reply, len(payload), payload)
        case "hpub":
            raw = b"NATS/1.0\r\nn: v\r\n\r\n"
            sizes = (len(raw), len(raw) + len(payload))
            return b"HPUB %b %b%d %d\r\n%b%b\r\n" % (subject, reply, *sizes, raw, payload)
        case "sub":
            return b"SUB %b %b\r\n" % (draw(subjects).encode(), draw(sids).encode())
        case "wrong":
            # With an id that is in use nats-server does not look at the subject; we do.
            return b"SUB %b wrong\r\n" % draw(wrong_subjects).encode()
        case "queue":
            queue = draw(sids).encode()
            return b"SUB %b q%b %b\r\n" % (draw(subjects).encode(), queue, draw(sids).encode())
        case "unsub":
            number = draw(st.sampled_from((b"", b" 0", b" 1", b" 2")))
            return b"UNSUB %b%b\r\n" % (draw(sids).encode(), number)
    return b"PING\r\n"


def in_any_order(answer: bytes) -> list[bytes]:
    """Deliveries of one message come in no particular order."""
    pieces = re.split(rb"(?=\bH?MSG )|(?=\+OK)|(?=-ERR)|(?=PONG)", answer)
    # Of several subscriptions for the answer nats-server takes any, to say that nobody listens.
    return sorted(_NOBODY.sub(rb"\1 sid", each) for each in pieces)


run = settings(
    max_examples=60,
    deadline=None,
    # To shrink means to wait for what does not come, again and again.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
all_options = st.fixed_dictionaries(
    {name: st.booleans() for name in ("verbose", "pedantic", "echo", "headers")}
)


@run
@given(options=all_options, sent=st.lists(commands(), max_size=12))
def test_sessions(server_port: int, options: dict[str, bool], sent: list[bytes]) -> None:
    raw = connect(**options) + b"".join(sent)
    answer, has_failed = ours(raw + END)
    theirs = ask(server_port, raw + END, answer)
    assert (in_any_order(theirs[0]), theirs[1]) == (in_any_order(answer), has_failed)


@pytest.fixture(scope="module")
def ground() -> Ground:
    return Ground()


@run
@given(options=all_options, sent=st.lists(commands(), max_size=12), answers=st.booleans())
def test_sessions_at_a_broker(
    server_port: int, ground: Ground, options: dict[str, bool], sent: list[bytes], answers: bool
) -> None:
    """One whose clients are told of requests that meet nobody, too.

    Not those without echo: ours are not told of requests that only they would have answered (ADR
    43).
    """
    told = {**options, "no_responders": answers and options["headers"] and options["echo"]}
    raw = connect(**told) + b"".join(sent) + END
    client = ground.raw()
    client.write(raw)
    ground.wait(50)
    answer, has_failed = client.waiting, client.is_closed
    client.client.link.abort()
    theirs = ask(server_port, raw, answer)
    assert (in_any_order(theirs[0]), theirs[1]) == (in_any_order(answer), has_failed)
