"""Every row of JetStream's table, at a simulated broker."""

from __future__ import annotations

import itertools

import pytest

from tests.unit.gateway_nats.clauses import ROWS, Actor, Came, Row
from tests.unit.gateway_nats.kit import Ground

_numbers = itertools.count(1)


class OurPeer:
    """A connection with a simulated broker."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self.client = ground.client()

    def write(self, raw: bytes) -> None:
        self.client.write(raw)

    def next(self) -> Came:
        subject, _, reply, headers, payload = self.client.message()
        return Came(subject, reply, headers, payload)

    def wait(self, ms: int) -> None:
        self._ground.wait(ms)

    def rest(self) -> bytes:
        self._ground.wait(50)
        return self.client.take()


@pytest.fixture(scope="module")
def shared() -> Ground:
    return Ground()


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_clause(shared: Ground, row: Row) -> None:
    peer = OurPeer(shared)
    Actor(peer).run(row, next(_numbers))
    peer.client.client.link.abort()
