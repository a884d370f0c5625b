"""Messages of QoS 1 and 2 under way (section 4.3), of one session: they outlive its connections.

What these say is what is to be done next. They hold packet ids and how far each is, and no message.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple

from kafkaesque.model.errors import InvariantBroken
from kafkaesque.protocols.mqtt.reasons import ReasonCode

PACKET_ID_MAX: Final = 65_535


class Stage(Enum):
    """What the peer owes for a message that was sent to it."""

    AWAITS_PUBACK = "PUBACK"
    AWAITS_PUBREC = "PUBREC"
    AWAITS_PUBCOMP = "PUBCOMP"


class Outcome(Enum):
    """What is to be done upon an acknowledgement."""

    #: The message is the peer's: its packet id is free.
    DONE = "done"
    #: The peer has refused it; nobody sends it again, and its packet id is free.
    REFUSED = "refused"
    #: Send PUBREL with SUCCESS.
    RELEASE = "release"
    #: Nothing of this id is under way: send PUBREL with PACKET_ID_NOT_FOUND (upon PUBREC).
    UNKNOWN = "unknown"
    #: It answers something else, and changes nothing; 5.0 calls it a protocol error.
    MISPLACED = "misplaced"


# To look a member up in its class takes as long as three calls.
_AWAITS_PUBACK: Final = Stage.AWAITS_PUBACK
_DONE: Final = Outcome.DONE


class Owed(NamedTuple):
    """What is to be sent again when a client has come back (4.4.0-1)."""

    packet_id: int
    #: A PUBREL, or else the message itself, marked as sent before.
    is_release: bool


class OutgoingExchanges:
    """Messages that were sent and not completed, in the order in which they were sent."""

    __slots__ = ("_stages", "in_flight_max")

    def __init__(self, in_flight_max: int) -> None:
        self._stages: dict[int, Stage] = {}
        #: The peer's receive maximum, or less.
        self.in_flight_max = in_flight_max

    def __len__(self) -> int:
        return len(self._stages)

    @property
    def has_room(self) -> bool:
        """Whether one more may be sent (3.3.4-9)."""
        return len(self._stages) < self.in_flight_max

    def has(self, packet_id: int) -> bool:
        """Tell whether a packet id is in use."""
        return packet_id in self._stages

    def begin(self, packet_id: int, qos: int) -> None:
        """A message is sent.

        Raises:
            InvariantBroken: its id is in use (2.2.1-4), or there is no room.
        """
        stages = self._stages
        has_room = len(stages) < self.in_flight_max
        if packet_id in stages or not 0 < packet_id <= PACKET_ID_MAX or not has_room:
            raise InvariantBroken(f"no message can be sent with packet id {packet_id}")
        stages[packet_id] = _AWAITS_PUBACK if qos == 1 else Stage.AWAITS_PUBREC

    def try_begin(self, packet_id: int) -> bool:
        """A message of QoS 1 is sent, if its id is free and there is room; tell whether it is."""
        stages = self._stages
        if len(stages) >= self.in_flight_max or packet_id in stages:
            return False
        stages[packet_id] = _AWAITS_PUBACK
        return True

    def resume(self, packet_id: int) -> None:
        """A message was sent by another connection of the session, and PUBREC has come for it."""
        self._stages[packet_id] = Stage.AWAITS_PUBCOMP

    def on_puback(self, packet_id: int) -> Outcome:
        """QoS 1: the peer has it, or has refused it."""
        stages = self._stages
        if stages.get(packet_id) is not _AWAITS_PUBACK:
            return self._end(packet_id, _AWAITS_PUBACK)
        del stages[packet_id]
        return _DONE

    def on_pubrec(self, packet_id: int, reason: ReasonCode) -> Outcome:
        """QoS 2: the peer has it, or has refused it (4.3.3-4)."""
        stage = self._stages.get(packet_id)
        if stage is None:
            return Outcome.UNKNOWN
        if stage is Stage.AWAITS_PUBACK:
            return Outcome.MISPLACED
        if reason.is_error:
            if stage is Stage.AWAITS_PUBCOMP:
                # It was received before, and is released already.
                return Outcome.MISPLACED
            del self._stages[packet_id]
            return Outcome.REFUSED
        # Any number of times: the peer may have lost the PUBREL with a connection.
        self._stages[packet_id] = Stage.AWAITS_PUBCOMP
        return Outcome.RELEASE

    def on_pubcomp(self, packet_id: int) -> Outcome:
        """QoS 2: the peer has forgotten the id."""
        return self._end(packet_id, Stage.AWAITS_PUBCOMP)

    def _end(self, packet_id: int, expected: Stage) -> Outcome:
        stage = self._stages.get(packet_id)
        if stage is None:
            return Outcome.UNKNOWN
        if stage is not expected:
            return Outcome.MISPLACED
        del self._stages[packet_id]
        return _DONE

    def owed(self) -> Iterator[Owed]:
        """Yield what is sent again upon a resumed session, in the order of the first sending."""
        for packet_id, stage in self._stages.items():
            yield Owed(packet_id, stage is Stage.AWAITS_PUBCOMP)


class IncomingExchanges:
    """Messages of QoS 2 that have come and are not released: a repeat of them is not new."""

    __slots__ = ("_awaiting_release",)

    def __init__(self) -> None:
        self._awaiting_release: set[int] = set()

    def __len__(self) -> int:
        return len(self._awaiting_release)

    def on_publish(self, packet_id: int) -> bool:
        """Tell whether a message is new (4.3.3-10); its mark as sent before says nothing."""
        if packet_id in self._awaiting_release:
            return False
        self._awaiting_release.add(packet_id)
        return True

    def refuse(self, packet_id: int) -> None:
        """It was answered by a PUBREC that refuses it: what comes next with its id is new."""
        self._awaiting_release.discard(packet_id)

    def on_pubrel(self, packet_id: int) -> ReasonCode:
        """Forget an id; return what PUBCOMP is to say (4.3.3-11, -12)."""
        if packet_id not in self._awaiting_release:
            return ReasonCode.PACKET_ID_NOT_FOUND
        self._awaiting_release.remove(packet_id)
        return ReasonCode.SUCCESS
