"""States of a connection, as the broker sees them: transitions are data.

A pair of state and packet that is not listed is an error of whoever sends it: of the peer, who is
told so where the version has a way to, or ours.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from kafkaesque.protocols.mqtt.packets import PacketType


class ConnectionState(Enum):
    """How far a connection is."""

    AWAITS_CONNECT = "awaits CONNECT"
    #: We are to send CONNACK, or AUTH for one more step.
    CONNECTS = "is to send CONNACK"
    AWAITS_AUTH = "awaits AUTH"
    OPEN = "is open"
    #: The client has said that it closes. What is still answered may or may not be read.
    DISCONNECTED = "was ended by the client"
    #: The peer was wrong, and has not been told. What it asked for before that is still answered.
    FAILED = "has failed"
    CLOSED = "is closed"


_C = ConnectionState
_P = PacketType
Transitions = dict[tuple[ConnectionState, PacketType], ConnectionState]

_FROM_CLIENTS: Final = (
    _P.PUBLISH,
    _P.PUBACK,
    _P.PUBREC,
    _P.PUBREL,
    _P.PUBCOMP,
    _P.SUBSCRIBE,
    _P.UNSUBSCRIBE,
    _P.PINGREQ,
    _P.AUTH,
)
_FROM_BROKERS: Final = (
    _P.PUBACK,
    _P.PUBREC,
    _P.PUBREL,
    _P.PUBCOMP,
    _P.SUBACK,
    _P.UNSUBACK,
    _P.PINGRESP,
    _P.AUTH,
)

#: What may come, and what follows.
RECEIVED: Final[Transitions] = {
    (_C.AWAITS_CONNECT, _P.CONNECT): _C.CONNECTS,
    (_C.AWAITS_AUTH, _P.AUTH): _C.CONNECTS,
    (_C.AWAITS_AUTH, _P.DISCONNECT): _C.DISCONNECTED,
    **{(_C.OPEN, each): _C.OPEN for each in _FROM_CLIENTS},
    (_C.OPEN, _P.DISCONNECT): _C.DISCONNECTED,
}

#: What we may send, and what follows; a CONNACK that refuses closes.
SENT: Final[Transitions] = {
    (_C.CONNECTS, _P.CONNACK): _C.OPEN,
    (_C.CONNECTS, _P.AUTH): _C.AWAITS_AUTH,
    **{
        (state, each): state
        for state in (_C.OPEN, _C.DISCONNECTED, _C.FAILED)
        for each in _FROM_BROKERS
    },
}

#: Nothing is read ever again.
ENDED: Final = frozenset((_C.DISCONNECTED, _C.FAILED, _C.CLOSED))
#: It is our turn, or nobody's: nothing is read.
PAUSED: Final = ENDED | {_C.CONNECTS}
