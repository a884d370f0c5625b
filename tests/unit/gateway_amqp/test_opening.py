"""The handshake, channels, heartbeats, and what ends a connection or a channel."""

from __future__ import annotations

import pytest

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.chassis.rights import check_rows
from kafkaesque.gateway.amqp import authorization
from kafkaesque.model.errors import InvariantBroken
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.frames import HEARTBEAT_FRAME, METHOD, PROTOCOL_HEADER, write_frame
from kafkaesque.protocols.amqp.handshake import CAPABILITIES
from kafkaesque.protocols.amqp.method_codec import write_method
from kafkaesque.protocols.amqp.states import CLIENT_METHODS
from tests.unit.gateway_amqp.kit import PATIENCE_MS, AmqpClient, Ground


def frame(channel: int, method: m.Method) -> bytes:
    return write_frame(METHOD, channel, write_method(method))


def test_the_broker_says_what_it_is_and_tunes(ground: Ground) -> None:
    client = ground.client()
    assert client.start.mechanisms.split() == [b"PLAIN", b"AMQPLAIN", b"ANONYMOUS"]
    assert client.start.server_properties["capabilities"] == dict(CAPABILITIES)
    assert client.tune == m.ConnectionTune(channel_max=2_047, frame_max=131_072, heartbeat_s=60)


@pytest.mark.parametrize("said", [b"AMQP\x00\x00\x09\x00", b"AMQP\x00\x01\x00\x00", b"GET / HTTP"])
def test_another_protocol_is_answered_with_ours(ground: Ground, said: bytes) -> None:
    raw = ground.raw()
    raw.link.write((said,))
    ground.loop.run_until(lambda: raw.is_closed, PATIENCE_MS)
    assert raw.received == PROTOCOL_HEADER


def test_who_says_nothing_is_closed(ground: Ground) -> None:
    raw = ground.raw()
    ground.wait(9_000)
    assert not raw.is_closed
    ground.wait(2_000)
    assert raw.is_closed


@pytest.mark.parametrize(
    ("sent", "code", "text"),
    [
        (frame(0, m.ConnectionStartOk(mechanism="DIGEST")), 503, "unknown authentication"),
        (frame(0, m.ConnectionStartOk(response=b"guest")), 502, "malformed"),
        (frame(0, m.ConnectionOpen()), 503, ""),
        (frame(1, m.ChannelOpen()), 503, ""),
    ],
)
def test_a_handshake_that_is_wrong(ground: Ground, sent: bytes, code: int, text: str) -> None:
    raw = ground.raw()
    raw.link.write((PROTOCOL_HEADER + sent,))
    ground.loop.run_until(lambda: raw.is_closed, PATIENCE_MS)
    assert b"\x00\x0a\x00\x32" + code.to_bytes(2, "big") in raw.received
    assert text.encode() in raw.received


@pytest.mark.parametrize(
    "start_ok",
    [
        m.ConnectionStartOk(
            mechanism="AMQPLAIN",
            response=b"\x05LOGINS\x00\x00\x00\x01a\x08PASSWORDS\x00\x00\x00\x01b",
        ),
        m.ConnectionStartOk(mechanism="PLAIN", response=b"\0anybody\0anything"),
        m.ConnectionStartOk(mechanism="ANONYMOUS"),
    ],
)
def test_an_open_listener_lets_everybody_in(ground: Ground, start_ok: m.ConnectionStartOk) -> None:
    raw = ground.raw()
    opened = frame(0, m.ConnectionOpenOk())
    sent = (start_ok, m.ConnectionTuneOk(channel_max=9, frame_max=8_192), m.ConnectionOpen())
    raw.link.write((PROTOCOL_HEADER + b"".join(frame(0, each) for each in sent),))
    ground.loop.run_until(lambda: raw.received.endswith(opened), PATIENCE_MS)


@pytest.mark.parametrize(
    "tune",
    [
        m.ConnectionTuneOk(frame_max=4_095),
        m.ConnectionTuneOk(frame_max=200_000),
        m.ConnectionTuneOk(channel_max=3_000, frame_max=8_192),
    ],
)
def test_limits_beyond_ours_are_refused(ground: Ground, tune: m.ConnectionTuneOk) -> None:
    raw = ground.raw()
    start_ok = m.ConnectionStartOk(response=b"\0a\0b")
    raw.link.write((PROTOCOL_HEADER + frame(0, start_ok) + frame(0, tune),))
    ground.loop.run_until(lambda: raw.is_closed, PATIENCE_MS)
    assert b"NOT_ALLOWED - negotiated" in raw.received


def test_the_smallest_frames_that_the_specification_allows(ground: Ground) -> None:
    client = AmqpClient(ground, ground.cluster.names[0], frame_max=4_096)
    client.open()
    queue, body = client.queue(), bytes(range(256)) * 100
    client.send_content(m.BasicPublish(routing_key=queue), body)
    # A frame that is longer than was agreed on would be refused as it is read.
    assert client.get(queue)[2] == body


def test_there_is_no_such_virtual_host(ground: Ground) -> None:
    raw = ground.raw()
    sent = (
        m.ConnectionStartOk(response=b"\0a\0b"),
        m.ConnectionTuneOk(channel_max=9, frame_max=8_192),
        m.ConnectionOpen(vhost="other"),
    )
    raw.link.write((PROTOCOL_HEADER + b"".join(frame(0, each) for each in sent),))
    ground.loop.run_until(lambda: raw.is_closed, PATIENCE_MS)
    assert b"NOT_ALLOWED - vhost other not found" in raw.received


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (frame(2, m.BasicGet(queue="q")), 504),
        (frame(1, m.ChannelOpen()), 504),
        (frame(2_048, m.ChannelOpen()), 530),
        (write_frame(METHOD, 1, b"\0\x63\0\x01"), 503),
        (write_frame(METHOD, 1, b"\0\x3c\0\x0a"), 502),
        (write_frame(7, 1, b""), 501),
        (write_frame(2, 1, bytes(14)), 505),
        (write_frame(METHOD, 1, b"")[:-1] + b"\0", 501),
        (write_frame(METHOD, 1, bytes(200_000)), 501),
        (frame(1, m.BasicQos(prefetch_size=1)), 540),
        (frame(1, m.BasicRecover(requeue=False)), 540),
        (frame(1, m.ChannelFlow(active=False)), 540),
        (frame(1, m.BasicPublish(immediate=True)), 540),
    ],
)
def test_mistakes_that_end_the_connection(client: AmqpClient, sent: bytes, code: int) -> None:
    client.write(sent)
    closed = client.expect(m.ConnectionClose, 0)
    assert closed.reply_code == code, closed


def test_a_connection_that_failed_is_closed_when_it_has_answered(client: AmqpClient) -> None:
    client.send(1, m.BasicQos(prefetch_size=1))
    client.fails(540, "prefetch_size!=0 (1)")


def test_who_never_answers_a_close_is_closed(ground: Ground, client: AmqpClient) -> None:
    client.send(1, m.BasicQos(prefetch_size=1))
    client.expect(m.ConnectionClose, 0)
    ground.wait(6_000)
    assert client.client.is_closed


def test_leaving_is_answered_when_all_is_done(ground: Ground, client: AmqpClient) -> None:
    name = client.queue()
    for number in range(700):
        client.publish(b"%d" % number, name)
    client.send(0, m.ConnectionClose())
    client.expect(m.ConnectionCloseOk, 0)
    ground.loop.run_until(lambda: client.client.is_closed, PATIENCE_MS)
    other = ground.client()
    other.open()
    assert other.count(name) == (700, 0)


def test_small_things(client: AmqpClient) -> None:
    assert client.call(m.AccessRequest(realm="/"), m.AccessRequestOk).ticket == 1
    assert client.call(m.ChannelFlow(active=True), m.ChannelFlowOk).active
    client.send(0, m.ConnectionUpdateSecret(new_secret=b"s", reason="r"))
    client.expect(m.ConnectionUpdateSecretOk, 0)
    client.call(m.BasicQos(prefetch_count=3), m.BasicQosOk)


def test_a_channel_that_failed_can_be_opened_again(client: AmqpClient) -> None:
    for _ in range(3):
        client.send(1, m.BasicAck(delivery_tag=1))
        # What comes before the client knows is dropped.
        client.send(1, m.BasicGet(queue="none"))
        client.fails_channel(406)


def test_other_channels_go_on(client: AmqpClient) -> None:
    client.open(2)
    client.send(2, m.BasicAck(delivery_tag=1))
    client.fails_channel(406, channel=2)
    client.queue()


def test_heartbeats_are_sent_and_expected(ground: Ground) -> None:
    raw = ground.raw()
    sent = (
        m.ConnectionStartOk(response=b"\0a\0b"),
        m.ConnectionTuneOk(channel_max=9, frame_max=8_192, heartbeat_s=2),
        m.ConnectionOpen(),
    )
    raw.link.write((PROTOCOL_HEADER + b"".join(frame(0, each) for each in sent),))
    for _ in range(10):
        ground.wait(1_000)
        raw.link.write((HEARTBEAT_FRAME,))
    assert raw.received.count(HEARTBEAT_FRAME) >= 8
    ground.wait(3_000)
    assert not raw.is_closed
    ground.wait(3_000)
    assert raw.is_closed


def test_a_method_without_a_row_stops_the_start() -> None:
    rows = {kind: row for kind, row in authorization.ROWS.items() if kind is not m.BasicGet}
    with pytest.raises(InvariantBroken, match="no row says what BasicGet needs"):
        check_rows(rows, CLIENT_METHODS)


@pytest.mark.parametrize(
    ("method", "needs"),
    [
        (m.QueueDeclare(queue="q"), [(Operation.CREATE, ResourceType.QUEUE, "q")]),
        (m.QueueDeclare(queue="q", passive=True), [(Operation.DESCRIBE, ResourceType.QUEUE, "q")]),
        (m.QueueDeclare(), [(Operation.CREATE, ResourceType.QUEUE, "amq.gen-")]),
        (m.QueueDelete(), [(Operation.DELETE, ResourceType.QUEUE, "last")]),
        (m.QueuePurge(queue="q"), [(Operation.READ, ResourceType.QUEUE, "q")]),
        (m.BasicGet(queue="q"), [(Operation.READ, ResourceType.QUEUE, "q")]),
        (m.BasicConsume(queue="q"), [(Operation.READ, ResourceType.QUEUE, "q")]),
        (m.BasicConsume(queue="amq.rabbitmq.reply-to"), []),
        (
            m.QueueBind(queue="q", exchange="e"),
            [
                (Operation.WRITE, ResourceType.QUEUE, "q"),
                (Operation.READ, ResourceType.EXCHANGE, "e"),
            ],
        ),
        (m.ExchangeDeclare(exchange="e"), [(Operation.CREATE, ResourceType.EXCHANGE, "e")]),
        (m.ExchangeDelete(exchange="e"), [(Operation.DELETE, ResourceType.EXCHANGE, "e")]),
        (
            m.ExchangeBind(destination="d", source="s"),
            [
                (Operation.WRITE, ResourceType.EXCHANGE, "d"),
                (Operation.READ, ResourceType.EXCHANGE, "s"),
            ],
        ),
    ],
)
def test_what_methods_need(method: m.Method, needs: list[tuple[object, ...]]) -> None:
    assert [tuple(each) for each in authorization.ROWS[type(method)](method, "last")] == needs
