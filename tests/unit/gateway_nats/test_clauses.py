"""Every row of NATS' table, at a broker: what the codec's tests ask of it, a real one does."""

from __future__ import annotations

import pytest

from tests.unit.gateway_nats.kit import Ground
from tests.unit.protocols_nats.clauses import ROWS, Row


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_clause(ground: Ground, row: Row) -> None:
    client = ground.raw()
    client.write(row.sent)
    ground.wait(50)
    assert client.waiting == row.answer
    assert client.is_closed is row.closes
    client.client.link.abort()
