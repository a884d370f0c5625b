"""The broker's side of AMQP connections: order, errors by their codes, and bounds."""

from __future__ import annotations

import pytest

from kafkaesque.model.errors import InvariantBroken
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.connection import Connection
from kafkaesque.protocols.amqp.errors import AmqpError, ReplyCode
from kafkaesque.protocols.amqp.events import (
    Acknowledged,
    ChannelFailed,
    ConnectionFailed,
    HeaderAccepted,
    HeaderRefused,
    HeartbeatReceived,
    MethodReceived,
    Published,
)
from kafkaesque.protocols.amqp.frames import (
    BODY,
    HEADER,
    HEARTBEAT_FRAME,
    METHOD,
    PROTOCOL_HEADER,
    write_frame,
)
from kafkaesque.protocols.amqp.method_codec import read_method
from kafkaesque.protocols.amqp.methods import METHODS
from kafkaesque.protocols.amqp.properties import NO_PROPERTIES
from kafkaesque.protocols.amqp.states import (
    BROKER_METHODS,
    CLIENT_METHODS,
    RECEIVED,
    SENT,
    ConnectionState,
)
from tests.unit.protocols_amqp.peer import (
    HANDSHAKE,
    OPENED,
    Broker,
    failure,
    header,
    method,
    opened,
    publish,
)


def test_a_handshake() -> None:
    broker = Broker()
    events = broker.receive(HANDSHAKE)
    assert isinstance(events[0], HeaderAccepted)
    assert [type(each.method) for each in events if isinstance(each, MethodReceived)] == [
        m.ConnectionStartOk,
        m.ConnectionTuneOk,
        m.ConnectionOpen,
    ]
    assert [type(each) for each in broker.sent_methods()] == [
        m.ConnectionStart,
        m.ConnectionTune,
        m.ConnectionOpenOk,
    ]
    connection = broker.connection
    assert connection.state is ConnectionState.OPEN
    assert connection.frame_bytes_max == 10_000
    assert connection.channel_max == 100
    assert connection.heartbeat_s == 5


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1",
        b"AMQP\0\1\0\0",
        b"AMQP\3\1\0\0",
        b"AMQP\0\0\x09\x02",
        b"\x16\x03",
        b"AMQX",
    ],
)
def test_another_protocol_is_told_ours(data: bytes) -> None:
    connection = Connection()
    assert connection.receive(data) == [HeaderRefused(answer=PROTOCOL_HEADER)]
    assert connection.state is ConnectionState.CLOSED
    assert connection.receive(OPENED) == []


@pytest.mark.parametrize("data", [b"", b"A", b"AMQP", b"AMQP\0\0\x09"])
def test_half_a_header_is_none_yet(data: bytes) -> None:
    connection = Connection()
    assert connection.receive(data) == []
    assert connection.receive(PROTOCOL_HEADER[len(data) :]) == [HeaderAccepted()]


def test_a_client_that_does_not_wait_is_read_when_it_is_its_turn() -> None:
    connection = Connection()
    assert connection.receive(HANDSHAKE) == [HeaderAccepted()]
    assert connection.is_paused
    connection.send(0, m.ConnectionStart())
    (event,) = connection.receive(b"")
    assert isinstance(event, MethodReceived)
    assert isinstance(event.method, m.ConnectionStartOk)


def test_a_message() -> None:
    broker = opened()
    for body, pieces in ((b"", 1), (b"x", 1), (b"hello", 2), (b"y" * 9000, 9000)):
        assert broker.receive(publish(1, body, pieces=pieces)) == [
            Published(
                channel=1,
                exchange="e",
                routing_key="k",
                mandatory=False,
                properties=NO_PROPERTIES,
                body=body,
            )
        ]


def test_messages_on_two_channels_may_be_interleaved() -> None:
    broker = opened()
    broker.receive(method(2, m.ChannelOpen()))
    first, second = (method(each, m.BasicPublish(mandatory=each == 2)) for each in (1, 2))
    data = first + second + header(2, 1) + header(1, 1)
    events = broker.receive(data + write_frame(BODY, 1, b"a") + write_frame(BODY, 2, b"b"))
    assert [(each.channel, each.body, each.mandatory) for each in events] == [  # type: ignore[attr-defined]
        (1, b"a", False),
        (2, b"b", True),
    ]


def test_acknowledgements_and_heartbeats() -> None:
    broker = opened()
    data = method(1, m.BasicAck(delivery_tag=2**63, multiple=True)) + HEARTBEAT_FRAME
    assert broker.receive(data) == [
        Acknowledged(channel=1, delivery_tag=2**63, multiple=True),
        HeartbeatReceived(),
    ]


FRAME_ERRORS = [
    (b"\x05\0\1\0\0\0\0\xce", ReplyCode.FRAME_ERROR, "unknown frame type 5"),
    (b"\1\0\1\0\0\x27\x09", ReplyCode.FRAME_ERROR, "frame of 9993 bytes is above frame_max 10000"),
    (b"\1\0\1\xff\xff\xff\xff", ReplyCode.FRAME_ERROR, "above frame_max"),
    (HEARTBEAT_FRAME[:-1] + b"\xcf", ReplyCode.FRAME_ERROR, "ends with 0xcf, not 0xce"),
    (b"\x08\0\1\0\0\0\0\xce", ReplyCode.UNEXPECTED_FRAME, "belongs to channel 0"),
]
CONNECTION_ERRORS = [
    *FRAME_ERRORS,
    (write_frame(METHOD, 1, b"\0\x3c"), ReplyCode.SYNTAX_ERROR, "at least 4 bytes"),
    (write_frame(METHOD, 1, b"\0\x3c\0\x63"), ReplyCode.COMMAND_INVALID, "unknown method 60.99"),
    (
        write_frame(METHOD, 1, b"\0\x3c\0\x14\0"),
        ReplyCode.SYNTAX_ERROR,
        "BasicConsume cannot be read: it ends too soon",
    ),
    (
        write_frame(METHOD, 1, b"\0\x3c\0\x46\0\0"),
        ReplyCode.SYNTAX_ERROR,
        "BasicGet cannot be read: it ends too soon",
    ),
    (
        write_frame(METHOD, 1, b"\0\x3c\0\x3c"),
        ReplyCode.COMMAND_INVALID,
        "BasicDeliver: only a broker sends this",
    ),
    (write_frame(METHOD, 1, b"\0\x3c\0\x28\0"), ReplyCode.SYNTAX_ERROR, "BasicPublish cannot"),
    (write_frame(METHOD, 1, b"\0\x3c\0\x50\0"), ReplyCode.SYNTAX_ERROR, "BasicAck cannot"),
    (write_frame(METHOD, 1, b"\0\x5a\0\x14\0"), ReplyCode.SYNTAX_ERROR, "1 bytes too many"),
    (method(1, m.BasicGetEmpty()), ReplyCode.COMMAND_INVALID, "only a broker sends this"),
    (method(1, m.ConnectionOpen()), ReplyCode.COMMAND_INVALID, "only a broker sends this"),
    (method(0, m.TxSelect()), ReplyCode.CHANNEL_ERROR, "in connection state running"),
    (method(0, m.ConnectionStartOk()), ReplyCode.CHANNEL_ERROR, "in connection state running"),
    (method(0, m.ConnectionOpen()), ReplyCode.CHANNEL_ERROR, "in connection state running"),
    (header(0, 1), ReplyCode.UNEXPECTED_FRAME, "channel 0 has no content"),
    (method(1, m.ChannelOpen()), ReplyCode.CHANNEL_ERROR, "second 'channel.open'"),
    (method(2, m.TxSelect()), ReplyCode.CHANNEL_ERROR, "expected 'channel.open'"),
    (header(2, 1), ReplyCode.CHANNEL_ERROR, "expected 'channel.open'"),
    (method(101, m.ChannelOpen()), ReplyCode.NOT_ALLOWED, "(101) is above channel_max (100)"),
    (header(1, 1), ReplyCode.UNEXPECTED_FRAME, "expected method frame"),
    (write_frame(BODY, 1, b"x"), ReplyCode.UNEXPECTED_FRAME, "expected method frame"),
    (
        method(1, m.BasicPublish()) + method(1, m.TxSelect()),
        ReplyCode.UNEXPECTED_FRAME,
        "expected content header",
    ),
    (
        method(1, m.BasicPublish()) + header(1, 1, class_id=50),
        ReplyCode.UNEXPECTED_FRAME,
        "for class 50 instead",
    ),
    (
        method(1, m.BasicPublish()) + write_frame(HEADER, 1, b"\0\x3c"),
        ReplyCode.SYNTAX_ERROR,
        "at least 14 bytes",
    ),
    (
        method(1, m.BasicPublish()) + header(1, 1, b"\0\1"),
        ReplyCode.SYNTAX_ERROR,
        "flags of no property",
    ),
    (
        method(1, m.BasicPublish()) + header(1, 1, b"\x80\0\5x"),
        ReplyCode.SYNTAX_ERROR,
        "cut short",
    ),
    (
        method(1, m.BasicPublish()) + header(1, 1, b"\0\0x"),
        ReplyCode.SYNTAX_ERROR,
        "1 bytes too many",
    ),
    (
        method(1, m.BasicPublish()) + header(1, 1) + header(1, 1),
        ReplyCode.UNEXPECTED_FRAME,
        "expected content body",
    ),
    (
        method(1, m.BasicPublish()) + header(1, 1) + write_frame(BODY, 1, b"xx"),
        ReplyCode.UNEXPECTED_FRAME,
        "expected content body",
    ),
    (method(1, m.BasicPublish(immediate=True)), ReplyCode.NOT_IMPLEMENTED, "immediate=true"),
    (method(1, m.BasicQos(prefetch_size=1)), ReplyCode.NOT_IMPLEMENTED, "prefetch_size!=0 (1)"),
    (method(1, m.BasicRecover(requeue=False)), ReplyCode.NOT_IMPLEMENTED, "requeue=false"),
    (method(1, m.BasicRecoverAsync()), ReplyCode.NOT_IMPLEMENTED, "requeue=false"),
    (method(1, m.ChannelFlow(active=False)), ReplyCode.NOT_IMPLEMENTED, "active=false"),
]


@pytest.mark.parametrize(
    ("data", "code", "what"),
    CONNECTION_ERRORS,
    ids=[f"{number}-{each[2]}" for number, each in enumerate(CONNECTION_ERRORS)],
)
def test_mistakes_that_close_the_connection(data: bytes, code: ReplyCode, what: str) -> None:
    broker = opened()
    events = broker.receive(publish(1, b"before") + data)
    assert isinstance(events[0], Published)
    assert isinstance(events[-1], ConnectionFailed)
    error = failure(events)
    assert error.code is code
    assert what in str(error)
    assert not code.closes_channel
    close = broker.sent_methods()[-1]
    assert isinstance(close, m.ConnectionClose)
    assert close.reply_code == code
    assert close.reply_text.startswith(f"{code.name} - ")
    # What follows is dropped; and only where frames cannot be told is the answer lost, too.
    later = broker.receive(publish(1, b"after") + method(0, m.ConnectionCloseOk()))
    is_readable = all(data is not each[0] for each in FRAME_ERRORS[:4])
    assert [type(each) for each in later] == [MethodReceived] * is_readable
    assert (broker.connection.state is ConnectionState.CLOSED) == is_readable


def test_a_body_that_is_too_large_closes_the_channel_before_it_has_come() -> None:
    broker = opened(body_bytes_max=100)
    broker.receive(publish(1, b"x" * 100))
    start = method(1, m.BasicPublish()) + header(1, 101)
    (event,) = broker.receive(start)
    assert isinstance(event, ChannelFailed)
    assert event.error.code is ReplyCode.PRECONDITION_FAILED
    assert event.error.code.closes_channel
    assert "message size 101 is larger than configured max size 100" in str(event.error)
    body = write_frame(BODY, 1, b"x" * 101)
    assert broker.receive(body + publish(1, b"dropped") + method(1, m.BasicAck())) == []
    assert not broker.connection.can_deliver(1)
    events = broker.receive(method(1, m.ChannelCloseOk()) + method(1, m.ChannelOpen()))
    assert len(events) == 2
    assert broker.connection.can_deliver(1)


def test_a_body_that_is_too_large_is_refused_when_it_comes_at_once() -> None:
    broker = opened(body_bytes_max=100)
    events = broker.receive(publish(1, b"x" * 101) + publish(1, b"dropped"))
    assert [type(each) for each in events] == [ChannelFailed]


def test_channels_close_from_either_side_and_from_both_at_once() -> None:
    broker = opened()
    connection = broker.connection
    broker.receive(method(1, m.ChannelClose()))
    assert list(connection.channels) == []
    broker.receive(method(1, m.ChannelOpen()))
    connection.close_channel(1, AmqpError(ReplyCode.NOT_FOUND, "no queue 'q'", 50, 10))
    with pytest.raises(InvariantBroken, match="closing"):
        connection.send(1, m.BasicAck())
    (event,) = broker.receive(method(1, m.ChannelClose()))
    assert isinstance(event, MethodReceived)
    assert list(connection.channels) == [1]
    broker.receive(method(1, m.ChannelCloseOk()))
    assert list(connection.channels) == []
    assert broker.receive(method(1, m.ChannelCloseOk())) == []


def test_a_client_closes_the_connection() -> None:
    broker = opened()
    broker.receive(method(0, m.ConnectionClose()) + publish(1, b"late"))
    assert isinstance(broker.sent_methods()[-1], m.ConnectionCloseOk)
    assert broker.connection.state is ConnectionState.CLOSED
    assert not any(isinstance(each, Published) for each in broker.events)


@pytest.mark.parametrize(
    ("tune", "what"),
    [
        (m.ConnectionTuneOk(channel_max=101, frame_max=9000), "channel_max = 101 is higher"),
        (m.ConnectionTuneOk(channel_max=0, frame_max=9000), "channel_max = no limit is higher"),
        (m.ConnectionTuneOk(channel_max=1, frame_max=10_001), "frame_max = 10001 is higher"),
        (m.ConnectionTuneOk(channel_max=1, frame_max=4095), "frame_max = 4095 is lower"),
    ],
)
def test_limits_above_ours_are_not_allowed(tune: m.ConnectionTuneOk, what: str) -> None:
    broker = Broker()
    events = broker.receive(PROTOCOL_HEADER + method(0, m.ConnectionStartOk()) + method(0, tune))
    assert failure(events).code is ReplyCode.NOT_ALLOWED
    assert what in str(failure(events))


def test_frames_are_short_before_limits_are_agreed_upon() -> None:
    broker = Broker()
    long = m.ConnectionStartOk(response=b"x" * 9000)
    assert failure(broker.receive(PROTOCOL_HEADER + method(0, long))).code is ReplyCode.FRAME_ERROR


def test_channels_wait_until_the_connection_is_open() -> None:
    broker = Broker()
    data = PROTOCOL_HEADER + method(0, m.ConnectionStartOk()) + method(1, m.ChannelOpen())
    assert failure(broker.receive(data)).code is ReplyCode.COMMAND_INVALID


def test_a_farewell_that_the_peer_takes_for_answered_has_no_answer() -> None:
    """It may say so in the same bytes, before the broker's turn has come."""
    broker = opened()
    assert broker.connection.send(1, m.ChannelCloseOk()) == b""
    assert broker.connection.send(7, m.ChannelCloseOk()) == b""


def test_what_the_broker_must_not_send_is_a_defect_of_ours() -> None:
    broker = opened()
    connection = broker.connection
    for channel, found in (
        (0, m.ConnectionTune()),
        (0, m.ChannelOpenOk()),
        (1, m.QueueDeclare()),
        (1, m.BasicDeliver()),
        (7, m.ChannelClose()),
        (7, m.BasicAck()),
    ):
        with pytest.raises(InvariantBroken):
            connection.send(channel, found)
    with pytest.raises(InvariantBroken):
        connection.send_content(1, m.BasicAck(), NO_PROPERTIES, b"")
    with pytest.raises(InvariantBroken):
        connection.send_content(2, m.BasicReturn(), NO_PROPERTIES, b"")


def test_messages_that_are_sent() -> None:
    broker = opened()
    connection = broker.connection
    for body in (b"", b"hello", b"z" * 25_000):
        broker.sent.clear()
        writer = connection.deliver_writer(1, "tag")
        broker.note(writer.write(7, "e", "k.é", NO_PROPERTIES, body, redelivered=True))
        found = read_method(broker.sent[0].payload)
        assert found == m.BasicDeliver(
            consumer_tag="tag", delivery_tag=7, redelivered=True, exchange="e", routing_key="k.é"
        )
        assert broker.sent[1].payload[4:12] == len(body).to_bytes(8, "big")
        assert b"".join(each.payload for each in broker.sent[2:]) == body
        assert all(len(each.payload) <= 10_000 - 8 for each in broker.sent)
    broker.sent.clear()
    refused = m.BasicReturn(reply_code=312, reply_text="NO_ROUTE")
    broker.note(connection.send_content(1, refused, NO_PROPERTIES, b"x"))
    assert [each.kind for each in broker.sent] == [METHOD, HEADER, BODY]


def test_every_method_is_somebodys() -> None:
    control = {kind for _, kind in (*RECEIVED, *SENT)}
    opening = {m.ChannelOpen, m.ChannelCloseOk}
    assert set(METHODS.values()) == control | CLIENT_METHODS | BROKER_METHODS | opening


def test_a_reply_text_is_cut_to_what_fits() -> None:
    error = AmqpError(ReplyCode.NOT_FOUND, "é" * 300)
    assert len(error.reply_text.encode()) <= 255
    assert error.reply_text.startswith("NOT_FOUND - éé")
