"""States of a connection and of its channels, as the broker sees them: transitions are data.

A pair of state and method that is not listed is an error of whoever sends it: of the peer, who is
told so, or ours.
"""

from __future__ import annotations

from enum import Enum

from kafkaesque.protocols.amqp import methods
from kafkaesque.protocols.amqp.methods import METHODS, Method


class ConnectionState(Enum):
    """How far a connection is."""

    AWAITS_HEADER = "awaits the protocol header"
    STARTS = "is to send start"
    AWAITS_START_OK = "awaits start-ok"
    AUTHENTICATES = "is to send secure or tune"
    AWAITS_SECURE_OK = "awaits secure-ok"
    AWAITS_TUNE_OK = "awaits tune-ok"
    AWAITS_OPEN = "awaits open"
    OPEN = "is open"
    #: The client has sent close.
    CLOSES = "is to send close-ok"
    #: We have sent close: whatever comes but its answer is dropped.
    AWAITS_CLOSE_OK = "awaits close-ok"
    CLOSED = "is closed"


_C = ConnectionState
Transitions = dict[tuple["ConnectionState", type[Method]], ConnectionState]

_BEFORE_OPEN = (
    _C.STARTS,
    _C.AWAITS_START_OK,
    _C.AUTHENTICATES,
    _C.AWAITS_SECURE_OK,
    _C.AWAITS_TUNE_OK,
    _C.AWAITS_OPEN,
)

#: What may come on channel 0, and what follows.
RECEIVED: Transitions = {
    (_C.AWAITS_START_OK, methods.ConnectionStartOk): _C.AUTHENTICATES,
    (_C.AWAITS_SECURE_OK, methods.ConnectionSecureOk): _C.AUTHENTICATES,
    (_C.AWAITS_TUNE_OK, methods.ConnectionTuneOk): _C.AWAITS_OPEN,
    (_C.AWAITS_OPEN, methods.ConnectionOpen): _C.OPEN,
    (_C.OPEN, methods.ConnectionUpdateSecret): _C.OPEN,
    (_C.OPEN, methods.ConnectionClose): _C.CLOSES,
    (_C.AWAITS_CLOSE_OK, methods.ConnectionCloseOk): _C.CLOSED,
    # Both have said it at once.
    (_C.AWAITS_CLOSE_OK, methods.ConnectionClose): _C.AWAITS_CLOSE_OK,
    **{(state, methods.ConnectionClose): _C.CLOSES for state in _BEFORE_OPEN[1:]},
}

#: What we may send on channel 0, and what follows.
SENT: Transitions = {
    (_C.STARTS, methods.ConnectionStart): _C.AWAITS_START_OK,
    (_C.AUTHENTICATES, methods.ConnectionSecure): _C.AWAITS_SECURE_OK,
    (_C.AUTHENTICATES, methods.ConnectionTune): _C.AWAITS_TUNE_OK,
    (_C.OPEN, methods.ConnectionOpenOk): _C.OPEN,
    (_C.OPEN, methods.ConnectionBlocked): _C.OPEN,
    (_C.OPEN, methods.ConnectionUnblocked): _C.OPEN,
    (_C.OPEN, methods.ConnectionUpdateSecretOk): _C.OPEN,
    (_C.CLOSES, methods.ConnectionCloseOk): _C.CLOSED,
    (_C.AWAITS_CLOSE_OK, methods.ConnectionCloseOk): _C.AWAITS_CLOSE_OK,
    **{(state, methods.ConnectionClose): _C.AWAITS_CLOSE_OK for state in (*_BEFORE_OPEN, _C.OPEN)},
}


#: It is our turn, or nobody's: nothing is read. The header is read apart from frames.
PAUSED = frozenset((_C.AWAITS_HEADER, _C.STARTS, _C.AUTHENTICATES, _C.CLOSES, _C.CLOSED))


class ChannelState(Enum):
    """How far a channel is."""

    OPEN = "is open"
    #: A publish's header has to come, or more of its body.
    AWAITS_HEADER = "awaits a content header"
    AWAITS_BODY = "awaits a content body"
    #: It has failed, and we have not said so yet: what comes is dropped.
    FAILED = "has failed"
    #: The client has sent close.
    CLOSES = "is to send close-ok"
    #: We have sent close: whatever comes but its answer is dropped.
    AWAITS_CLOSE_OK = "awaits close-ok"


#: What clients send on an open channel.
CLIENT_METHODS: frozenset[type[Method]] = frozenset(
    (
        methods.AccessRequest,
        methods.BasicAck,
        methods.BasicCancel,
        methods.BasicCancelOk,
        methods.BasicConsume,
        methods.BasicGet,
        methods.BasicNack,
        methods.BasicPublish,
        methods.BasicQos,
        methods.BasicRecover,
        methods.BasicRecoverAsync,
        methods.BasicReject,
        methods.ChannelClose,
        methods.ChannelFlow,
        methods.ChannelFlowOk,
        methods.ConfirmSelect,
        methods.ExchangeBind,
        methods.ExchangeDeclare,
        methods.ExchangeDelete,
        methods.ExchangeUnbind,
        methods.QueueBind,
        methods.QueueDeclare,
        methods.QueueDelete,
        methods.QueuePurge,
        methods.QueueUnbind,
        methods.TxCommit,
        methods.TxRollback,
        methods.TxSelect,
    )
)

#: What brokers send on an open channel.
BROKER_METHODS: frozenset[type[Method]] = frozenset(
    kind
    for kind in METHODS.values()
    if kind.class_id != methods.ConnectionOpen.class_id
    and (
        kind not in CLIENT_METHODS
        or kind
        in (
            methods.BasicAck,
            methods.BasicCancel,
            methods.BasicCancelOk,
            methods.BasicNack,
            methods.ChannelClose,
            methods.ChannelFlow,
            methods.ChannelFlowOk,
        )
    )
    and kind not in (methods.ChannelOpen, methods.ChannelCloseOk)
)
