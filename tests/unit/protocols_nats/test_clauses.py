"""Every row of the table, in one piece and cut at every byte."""

from __future__ import annotations

import pytest

from tests.unit.protocols_nats.clauses import ROWS, Row
from tests.unit.protocols_nats.peer import Broker


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_clause(row: Row) -> None:
    broker = Broker()
    assert broker.receive(row.sent) == row.answer
    assert (broker.error is not None) is row.closes


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_cuts_change_nothing(row: Row) -> None:
    step = 1 if len(row.sent) < 500 else 97
    for at in range(1, len(row.sent), step):
        broker = Broker()
        assert broker.receive(row.sent[:at]) + broker.receive(row.sent[at:]) == row.answer
        assert (broker.error is not None) is row.closes
    single = Broker()
    assert b"".join(single.receive(bytes((byte,))) for byte in row.sent) == row.answer
