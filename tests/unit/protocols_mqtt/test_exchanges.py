"""Packet ids in flight (section 4.3)."""

from __future__ import annotations

import pytest

from kafkaesque.model.errors import InvariantBroken
from kafkaesque.protocols.mqtt.exchanges import (
    IncomingExchanges,
    Outcome,
    OutgoingExchanges,
    Owed,
)
from kafkaesque.protocols.mqtt.reasons import ReasonCode

OK, REFUSED = ReasonCode.SUCCESS, ReasonCode.QUOTA_EXCEEDED


def test_qos_1() -> None:
    outgoing = OutgoingExchanges(2)
    outgoing.begin(7, 1)
    assert list(outgoing.owed()) == [Owed(7, is_release=False)]
    assert outgoing.on_puback(7) is Outcome.DONE
    assert outgoing.on_puback(7) is Outcome.UNKNOWN
    assert list(outgoing.owed()) == []


def test_qos_2() -> None:
    outgoing = OutgoingExchanges(2)
    outgoing.begin(7, 2)
    assert outgoing.on_pubcomp(7) is Outcome.MISPLACED
    assert outgoing.on_pubrec(7, OK) is Outcome.RELEASE
    assert list(outgoing.owed()) == [Owed(7, is_release=True)]
    assert outgoing.on_pubrec(7, OK) is Outcome.RELEASE
    assert outgoing.on_pubrec(7, REFUSED) is Outcome.MISPLACED
    assert outgoing.on_pubcomp(7) is Outcome.DONE
    assert outgoing.on_pubcomp(7) is Outcome.UNKNOWN
    assert outgoing.on_pubrec(7, OK) is Outcome.UNKNOWN


def test_a_message_that_was_refused_is_not_sent_again() -> None:
    outgoing = OutgoingExchanges(2)
    outgoing.begin(7, 2)
    assert outgoing.on_pubrec(7, REFUSED) is Outcome.REFUSED
    assert list(outgoing.owed()) == []


@pytest.mark.parametrize("qos", [1, 2])
def test_the_wrong_acknowledgement_changes_nothing(qos: int) -> None:
    outgoing = OutgoingExchanges(2)
    outgoing.begin(7, qos)
    found = outgoing.on_pubrec(7, OK) if qos == 1 else outgoing.on_puback(7)
    assert found is Outcome.MISPLACED
    assert list(outgoing.owed()) == [Owed(7, is_release=False)]


def test_ids_in_use_and_more_than_there_is_room_for_are_mistakes_of_ours() -> None:
    outgoing = OutgoingExchanges(2)
    outgoing.begin(7, 2)
    for wrong in (7, 0, 65_536):
        with pytest.raises(InvariantBroken):
            outgoing.begin(wrong, 1)
    outgoing.begin(8, 1)
    assert not outgoing.has_room
    with pytest.raises(InvariantBroken):
        outgoing.begin(9, 1)


def test_what_is_owed_comes_in_the_order_of_the_first_sending() -> None:
    """4.6.0-1, also when what came later got further."""
    outgoing = OutgoingExchanges(9)
    for number in (5, 3, 4):
        outgoing.begin(number, 2)
    outgoing.on_pubrec(3, OK)
    assert [owed.packet_id for owed in outgoing.owed()] == [5, 3, 4]


def test_messages_that_come() -> None:
    incoming = IncomingExchanges()
    assert incoming.on_publish(7)
    assert not incoming.on_publish(7)
    assert incoming.on_publish(8)
    assert len(incoming) == 2
    assert incoming.on_pubrel(7) is ReasonCode.SUCCESS
    assert incoming.on_pubrel(7) is ReasonCode.PACKET_ID_NOT_FOUND
    assert incoming.on_publish(7)
    incoming.refuse(7)
    assert incoming.on_publish(7)
