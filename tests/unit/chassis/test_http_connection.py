"""What a client of HTTP may send: more than is answered at once, and what nobody understands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pytest

from kafkaesque.broker.listeners import Listener
from kafkaesque.chassis.gateway import Gateway
from kafkaesque.chassis.http_connection import HttpConnection
from kafkaesque.chassis.http_requests import RequestHead
from kafkaesque.chassis.link import PortOptions
from kafkaesque.env.network import Address, Framing
from tests.unit.chassis.client import Client
from tests.unit.chassis.test_chassis import HOST, Ground

GET = b"GET / HTTP/1.1\r\nHost: a\r\n"
BODY_BYTES_MAX = 1_000_000


class Pages(HttpConnection):
    """Answers each request after a while with its target."""

    __slots__ = ("_target",)

    answer_after_ms: ClassVar[int] = 1

    def take_head(self, head: RequestHead) -> int:
        self._target = head.target
        return BODY_BYTES_MAX

    @property
    def may_take(self) -> bool:
        return self.may_begin

    def begin(self, body: bytes) -> None:
        text = self._target + b" %d\n" % len(body)
        self.shared.clock.call_later(
            self.answer_after_ms, lambda: self.send_answer(200, {"X": "y"}, text)
        )

    def refusal(self, status: int, reason: str) -> tuple[Mapping[str, str], bytes]:
        return {}, reason.encode()


class Watching(Pages):
    """Is read on while it answers."""

    __slots__ = ()

    watches_for_its_end: ClassVar[bool] = True


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
