"""Every clause of the table, in one piece and cut at every byte."""

from __future__ import annotations

import pytest

from kafkaesque.protocols.mqtt.packets import Version
from tests.unit.protocols_mqtt.clauses import ROWS, Row
from tests.unit.protocols_mqtt.peer import Broker, opened

ALL = [("CONNECT", row) for row in ROWS["CONNECT"]] + [("OPEN", row) for row in ROWS["OPEN"]]
#: CONNACK has a byte of flags before its reason.
REFUSALS = {"CONNECT": (0x20, 3), "OPEN": (0xE0, 2)}


def begun(section: str, row: Row) -> Broker:
    return Broker() if section == "CONNECT" else opened(row.version)


def shown(broker: Broker) -> list[str]:
    return [str(event) for event in broker.events if event is not broker.events[-1]]


@pytest.mark.parametrize(("section", "row"), ALL, ids=str)
def test_clause(section: str, row: Row) -> None:
    broker = begun(section, row)
    answer = broker.receive(row.sent)
    reason = None if broker.error is None else broker.error.reason
    assert reason == row.closes
    if row.closes is None:
        assert answer.hex() == row.answer.hex()
    elif row.answer:
        assert answer.startswith(row.answer)
    elif row.is_silent or row.version is Version.V3_1_1:
        assert answer == b""
    else:
        kind, at = REFUSALS[section]
        assert (answer[0], answer[at]) == (kind, row.closes)
        assert answer[1] == len(answer) - 2


@pytest.mark.parametrize(("section", "row"), ALL, ids=str)
def test_cuts_change_nothing(section: str, row: Row) -> None:
    whole = begun(section, row)
    answer = whole.receive(row.sent)
    for at in range(1, len(row.sent)):
        cut = begun(section, row)
        found = cut.receive(row.sent[:at]) + cut.receive(row.sent[at:])
        assert (shown(cut), found) == (shown(whole), answer)
    single = begun(section, row)
    assert b"".join(single.receive(bytes((byte,))) for byte in row.sent) == answer


def test_every_reason_to_hang_up_is_in_the_table() -> None:
    """All that the connection has, but for what takes several packets or time."""
    told = {row.closes.name for _, row in ALL if row.closes is not None}
    assert told == {
        "MALFORMED_PACKET",
        "PROTOCOL_ERROR",
        "UNSUPPORTED_VERSION",
        "CLIENT_ID_NOT_VALID",
        "TOPIC_NAME_INVALID",
        "RECEIVE_MAXIMUM_EXCEEDED",
        "TOPIC_ALIAS_INVALID",
        "PACKET_TOO_LARGE",
    }
