"""Every clause of the table, in one piece and cut at every byte."""

from __future__ import annotations

import pytest

from kafkaesque.protocols.stomp.events import ConnectionFailed
from tests.unit.protocols_stomp.clauses import ROWS, Row, shown
from tests.unit.protocols_stomp.peer import Broker, opened, read_frames

ALL = [(section, row) for section in ("CONNECT", "OPEN") for row in ROWS[section]]


def begun(section: str, row: Row) -> Broker:
    return Broker() if section == "CONNECT" else opened(row.version)


def check(section: str, row: Row, broker: Broker, answer: bytes) -> None:
    events = [each for each in broker.events if not isinstance(each, ConnectionFailed)]
    assert [shown(event) for event in events] == row.told
    assert str(broker.error or "") == row.error
    frames = read_frames(answer, broker.connection.version)
    receipts = [frame.get("receipt-id") for frame in frames if frame.command == "RECEIPT"]
    assert receipts == [event.receipt for event in events if event.receipt is not None]
    if row.error:
        assert frames[-1].command == "ERROR"
        assert frames[-1].get("message") == row.error
        assert frames[-1].get("receipt-id") == row.receipt_id
    if section == "CONNECT" and not row.error:
        assert frames[0].command == "CONNECTED"
        is_told = row.version.value != "1.0"
        assert frames[0].get("version") == (row.version.value if is_told else None)


@pytest.mark.parametrize(("section", "row"), ALL, ids=str)
def test_clause(section: str, row: Row) -> None:
    broker = begun(section, row)
    check(section, row, broker, broker.receive(row.sent))


@pytest.mark.parametrize(("section", "row"), ALL, ids=str)
def test_cuts_change_nothing(section: str, row: Row) -> None:
    for at in range(1, len(row.sent)):
        broker = begun(section, row)
        answer = broker.receive(row.sent[:at]) + broker.receive(row.sent[at:])
        check(section, row, broker, answer)
    single = begun(section, row)
    answer = b"".join(single.receive(bytes((byte,))) for byte in row.sent)
    check(section, row, single, answer)
