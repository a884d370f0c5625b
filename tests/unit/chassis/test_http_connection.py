"""What a client of HTTP may send: more than is answered at once, and what nobody understands."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping
from typing import ClassVar

import pytest

from kafkaesque.broker.listeners import Listener
from kafkaesque.chassis.gateway import Gateway
from kafkaesque.chassis.http_connection import (
    AHEAD_BYTES_MAX,
    REQUEST_MS_MAX,
    BadHead,
    HttpConnection,
)
from kafkaesque.chassis.http_requests import RequestHead
from kafkaesque.chassis.link import PortOptions
from kafkaesque.env.network import Address, Framing
from tests.unit.chassis.client import Client
from tests.unit.chassis.test_chassis import HOST, Ground

GET = b"GET / HTTP/1.1\r\nHost: a\r\n"
BODY_BYTES_MAX = 1_000_000
ANSWER_TARGETS = 10


class Pages(HttpConnection):
    """Answers each request after a while with its target."""

    __slots__ = ("_target",)

    def take_head(self, head: RequestHead) -> int:
        if head.target == b"/no":
            raise BadHead(403, "no")
        self._target = head.target
        return BODY_BYTES_MAX

    def begin(self, body: bytes) -> None:
        self.shared.clock.call_later(1, self.say_target)

    def say_target(self) -> None:
        self.send_answer(200, {"X": "y"}, self._target * ANSWER_TARGETS)

    def refusal(self, status: int, reason: str) -> tuple[Mapping[str, str], bytes]:
        return {}, reason.encode()


class Watching(Pages):
    """Is read on while it answers; begins nothing under overload."""

    __slots__ = ()

    watches_for_its_end: ClassVar[bool] = True

    @property
    def may_take(self) -> bool:
        return self.may_begin


class AtOnce(Pages):
    """Answers within the call."""

    __slots__ = ()

    def begin(self, body: bytes) -> None:
        self.say_target()


class PagesGateway(Gateway):
    is_protected = False
    connection_type: type[Pages] = Pages

    def start(self, listener: Listener) -> Address:
        options = PortOptions(
            protocol="http", listener=listener.name, framing=Framing.STREAM, connections_max=20
        )
        return self.listen(listener.address, options, self.connection_type)


class HttpGround(Ground):
    def visit(self, connection_type: type[Pages]) -> tuple[Client, Pages]:
        gateway = PagesGateway(self.chassis)
        gateway.connection_type = connection_type
        address = Address(HOST, 8_000)
        client = self.connect(
            gateway.start(Listener(protocol="http", name="http", advertised=address))
        )
        (served,) = gateway.connections.values()
        assert isinstance(served, Pages)
        return client, served


@pytest.fixture
def ground() -> HttpGround:
    return HttpGround()


def test_a_length_of_many_digits_costs_its_connection_only(ground: HttpGround) -> None:
    """It ends beyond the first slice, so a turn of its own reads it: an error stops the broker."""
    client, _ = ground.visit(Watching)
    zeros = b"Content-Length: " + b"0" * 5_000 + b"\r\n\r\n"
    client.link.write((GET + b"X: " + b"y" * 12_000 + b"\r\n\r\n" + GET + zeros,))
    ground.wait(1_000)
    assert b"HTTP/1.1 400 " in client.received
    assert client.is_closed


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_that_cannot_have_a_body_has_no_length(ground: HttpGround, status: int) -> None:
    class Bodiless(AtOnce):
        __slots__ = ()

        def begin(self, body: bytes) -> None:
            self.send_answer(status, {"X": "y"}, b"")

    client, _ = ground.visit(Bodiless)
    client.link.write((GET + b"\r\n",))
    ground.wait(100)
    assert client.received == b"HTTP/1.1 %d \r\nX: y\r\n\r\n" % status


# -- what is sent ahead

#: The most that comes in one piece.
READ_BYTES_MAX = 256 * 1024


@pytest.mark.parametrize("kind", [Pages, Watching])
def test_what_is_sent_ahead_is_bounded_whatever_was_answered(
    ground: HttpGround, kind: type[Pages]
) -> None:
    client, served = ground.visit(kind)
    client.link.write(((GET + b"X: " + b"y" * 5_000 + b"\r\n\r\n") * 300,))
    ahead = 0
    for _ in range(1_000):
        ground.wait(1)
        ahead = max(ahead, served._requests.waiting_bytes)
    assert client.received.count(b"HTTP/1.1 200 ") == 300
    assert ahead <= AHEAD_BYTES_MAX + READ_BYTES_MAX


def test_what_is_sent_while_nothing_may_begin_is_bounded(ground: HttpGround) -> None:
    client, served = ground.visit(Watching)
    ground.load.is_overloaded = True
    client.link.write(((GET + b"X: " + b"y" * 5_000 + b"\r\n\r\n") * 300,))
    ground.wait(1_000)
    assert AHEAD_BYTES_MAX < served._requests.waiting_bytes <= AHEAD_BYTES_MAX + READ_BYTES_MAX
    ground.load.is_overloaded = False
    ground.wait(2_000)
    assert client.received.count(b"HTTP/1.1 200 ") == 300


def test_requests_that_are_answered_at_once_are_answered_in_turns(ground: HttpGround) -> None:
    """Not one within the other, as deep as a client likes."""
    client, _ = ground.visit(AtOnce)
    client.link.write(((GET + b"\r\n") * 1_000,))
    ground.wait(2_000)
    assert client.received.count(b"HTTP/1.1 200 ") == 1_000


def test_what_was_refused_is_not_begun_later(ground: HttpGround) -> None:
    client, served = ground.visit(Pages)
    client.link.write((b"GET /no HTTP/1.1\r\nHost: a\r\n\r\n",))
    ground.world.loop.run_until(lambda: served._has_begun, 1_000)
    served.go_on()
    assert not served.is_busy()
    ground.wait(100)
    assert b"HTTP/1.1 403 " in client.received


def test_a_client_that_reads_nothing_is_answered_no_more_and_hung_up_on(ground: HttpGround) -> None:
    client, served = ground.visit(AtOnce)
    client.link.pause_reading()
    target = b"/" + b"t" * 9_999
    client.link.write((b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n" % target * 100,))
    ground.wait(REQUEST_MS_MAX - 1_000)
    unsent, most = served.connection, served.shared.options.unsent_bytes_max
    assert unsent is not None
    assert most < unsent.unsent_bytes() <= most + 2 * ANSWER_TARGETS * len(target)
    ground.wait(2_000)
    assert not served.is_open


@pytest.mark.parametrize(
    "said",
    [
        GET + b"\r\n",
        b"nothing\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET /no HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /" + b"x" * 20_000,
        GET + b"X: y\r\n" * 5_000,
        GET + b"Connection: upgrade\r\nUpgrade: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
        b"",
    ],
)
def test_a_connection_that_is_gone_is_freed_at_once(ground: HttpGround, said: bytes) -> None:
    """A broker looks for cycles once in a long while only."""

    class Weak(AtOnce):
        """Has no slots, so that it can be referred to."""

    client, served = ground.visit(Weak)
    gone = weakref.ref(served)
    del served
    gc.disable()
    try:
        client.link.write((said,))
        ground.wait(100)
        client.link.close()
        ground.wait(10)
        assert gone() is None
    finally:
        gc.enable()
