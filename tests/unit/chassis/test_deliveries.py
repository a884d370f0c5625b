"""Deliveries that wait for the end of a turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkaesque.chassis.deliveries import DeliveringConnection, Outbox
from kafkaesque.chassis.link import PortOptions, Shared
from kafkaesque.env.network import Framing
from tests.unit.chassis.test_chassis import Ground

OPTIONS = PortOptions(protocol="many", listener="many", framing=Framing.STREAM)


class _Clock:
    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def turn(self) -> None:
        soon, self.soon = self.soon, []
        for each in soon:
            each()


class _Network:
    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.is_closed = False

    def write(self, parts: tuple[bytes, ...]) -> None:
        self.written += parts

    def unsent_bytes(self) -> int:
        return sum(map(len, self.written))

    def close(self) -> None:
        self.is_closed = True


class _Client(DeliveringConnection):
    """A connection without a port."""

    def __init__(self, shared: Shared, outbox: Outbox) -> None:
        super().__init__(shared, outbox)
        self.network = _Network()
        self.connection: Any = self.network

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        """Nobody sends anything."""


@pytest.fixture
def clock() -> _Clock:
    return _Clock()


@pytest.fixture
def clients(clock: _Clock) -> list[_Client]:
    """Three clients of one port."""
    shared = Shared(Ground().chassis, OPTIONS)
    outbox = Outbox(clock)  # type: ignore[arg-type]
    return [_Client(shared, outbox) for _ in range(3)]


def test_what_is_delivered_in_a_turn_is_written_once_and_joined_once_for_all(
    clock: _Clock, clients: list[_Client]
) -> None:
    for copy in (b"one", b"two"):
        for client in clients:
            client.deliver(copy)
    clients[2].deliver(b"three")
    assert not any(client.network.written for client in clients)
    assert len(clock.soon) == 1
    clock.turn()
    assert [each.network.written for each in clients] == [
        [b"onetwo"],
        [b"onetwo"],
        [b"onetwothree"],
    ]
    assert clients[0].network.written[0] is clients[1].network.written[0]
    clients[1].deliver(b"four")
    clock.turn()
    assert clients[1].network.written == [b"onetwo", b"four"]


def test_copies_that_differ_are_not_taken_for_those_before(
    clock: _Clock, clients: list[_Client]
) -> None:
    for client, copy in zip(clients, (b"a", b"b", b"a"), strict=True):
        client.deliver(copy)
    clock.turn()
    assert [each.network.written for each in clients] == [[b"a"], [b"b"], [b"a"]]


def test_what_is_written_comes_behind_what_was_delivered(
    clock: _Clock, clients: list[_Client]
) -> None:
    client = clients[0]
    client.deliver(b"message")
    assert client.waiting_to_leave() == 7
    client.write(b"pong")
    client.deliver(b"last")
    client.close()
    clock.turn()
    assert b"".join(client.network.written) == b"messageponglast"
    assert client.network.is_closed
    assert client.waiting_to_leave() == 15


def test_a_client_that_is_gone_is_sent_nothing(clock: _Clock, clients: list[_Client]) -> None:
    client = clients[0]
    client.deliver(b"message")
    client.connection = None
    clock.turn()
    assert client.network.written == []
    assert client.waiting_to_leave() == 0
