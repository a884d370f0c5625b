"""What clients must not send, row by row: the answer, however the bytes are cut."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import pytest

from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.connection import BODY_BYTES_MAX
from kafkaesque.protocols.amqp.frames import BODY, HEADER, HEARTBEAT, METHOD, write_frame
from kafkaesque.protocols.amqp.method_codec import write_method
from kafkaesque.protocols.amqp.properties import Properties, write_properties
from kafkaesque.protocols.amqp.wire import Table
from tests.unit.gateway_amqp.kit import PATIENCE_MS, AmqpClient, Ground


def frame(method: m.Method, channel: int = 1) -> bytes:
    return write_frame(METHOD, channel, write_method(method))


def message(
    method: m.BasicPublish,
    body: bytes = b"x",
    *,
    properties: Properties | None = None,
    raw: bytes | None = None,
    size: int | None = None,
    class_id: int = 60,
) -> bytes:
    raw = write_properties(properties or Properties()) if raw is None else raw
    head = struct.pack(">HHQ", class_id, 0, len(body) if size is None else size) + raw
    return frame(method) + write_frame(HEADER, 1, head) + write_frame(BODY, 1, body)


def declare(queue: str = "q", durable: bool = True, **arguments: object) -> bytes:
    table: Table = {name.replace("_", "-"): value for name, value in arguments.items()}
    return frame(m.QueueDeclare(queue=queue, durable=durable, arguments=table))


ALTERNATE = "alternate-exchange"
TO_Q = m.BasicPublish(routing_key="q")
CHANNEL, CONNECTION = m.ChannelClose, m.ConnectionClose


@dataclass(frozen=True, kw_only=True)
class Row:
    """Channel 1 is open; queue `q` and the internal exchange `inner` are there."""

    what: str
    sent: bytes
    closes: type[m.ChannelClose | m.ConnectionClose]
    code: int
    text: str

    def __str__(self) -> str:
        return self.what


def row(
    what: str,
    sent: bytes,
    closes: type[m.ChannelClose | m.ConnectionClose],
    code: int,
    text: str = "",
) -> Row:
    return Row(what=what, sent=sent, closes=closes, code=code, text=text)


ROWS = (
    # -- these end the channel
    row("a reserved queue", declare("amq.mine"), CHANNEL, 403, "reserved prefix 'amq.*'"),
    row(
        "a reserved queue, with an argument that is wrong",
        declare("amq.mine", x_expires=0),
        CHANNEL,
        403,
        "reserved prefix 'amq.*'",
    ),
    row(
        "a reserved exchange",
        frame(m.ExchangeDeclare(exchange="amq.mine")),
        CHANNEL,
        403,
        "reserved prefix 'amq.*'",
    ),
    row(
        "a binding of the default exchange",
        frame(m.QueueBind(queue="q", exchange="", routing_key="k")),
        CHANNEL,
        403,
        "not permitted on the default exchange",
    ),
    row(
        "the default exchange looked at",
        frame(m.ExchangeDeclare(exchange="", passive=True)),
        CHANNEL,
        403,
        "not permitted on the default exchange",
    ),
    row(
        "a broker's exchange deleted",
        frame(m.ExchangeDelete(exchange="amq.topic")),
        CHANNEL,
        403,
        "ACCESS_REFUSED - deletion of system exchange 'amq.topic' in vhost '/' not allowed",
    ),
    row("the default exchange deleted", frame(m.ExchangeDelete(exchange="")), CHANNEL, 403),
    row(
        "an internal exchange",
        message(m.BasicPublish(exchange="inner")),
        CHANNEL,
        403,
        "cannot publish to internal exchange 'inner' in vhost '/'",
    ),
    row(
        "two exclusive consumers",
        frame(m.BasicConsume(queue="q", exclusive=True))
        + frame(m.BasicConsume(queue="q", exclusive=True)),
        CHANNEL,
        403,
        "queue 'q' in vhost '/' in exclusive use",
    ),
    row("no such queue", frame(m.BasicGet(queue="none")), CHANNEL, 404, "no queue 'none'"),
    row("no queue was declared", frame(m.BasicGet()), CHANNEL, 404, "no previously declared queue"),
    row(
        "no such exchange",
        message(m.BasicPublish(exchange="none")),
        CHANNEL,
        404,
        "no exchange 'none' in vhost '/'",
    ),
    row(
        "a binding of an exchange that is not there",
        frame(m.ExchangeBind(destination="none", source="amq.topic")),
        CHANNEL,
        404,
        "no exchange 'none'",
    ),
    row("another declaration", declare(x_max_length=5), CHANNEL, 406, "inequivalent arg"),
    row(
        "another declaration, which would be wrong anyway",
        declare(x_max_length=-5),
        CHANNEL,
        406,
        "inequivalent arg 'x-max-length'",
    ),
    row(
        "two other arguments: the first one of RabbitMQ's order is told",
        declare(x_max_length=5, x_message_ttl=7),
        CHANNEL,
        406,
        "inequivalent arg 'x-message-ttl'",
    ),
    row(
        "another alternate exchange",
        frame(m.ExchangeDeclare(exchange="inner", internal=True, arguments={ALTERNATE: "a"})),
        CHANNEL,
        406,
        "'alternate-exchange' for exchange 'inner' in vhost '/': received the value 'a' but",
    ),
    row("not durable", declare(durable=False), CHANNEL, 406, "inequivalent arg 'durable'"),
    row(
        "an argument of a wrong type", declare("r", x_max_length="5"), CHANNEL, 406, "x-max-length"
    ),
    row("an argument out of range", declare("r", x_expires=0), CHANNEL, 406, "x-expires"),
    row(
        "an exchange of another type",
        frame(m.ExchangeDeclare(exchange="amq.topic", type="direct", durable=True)),
        CHANNEL,
        406,
        "inequivalent arg 'type' for exchange 'amq.topic'",
    ),
    row(
        "an unknown tag", frame(m.BasicAck(delivery_tag=9)), CHANNEL, 406, "unknown delivery tag 9"
    ),
    row("a tag that is 0", frame(m.BasicReject()), CHANNEL, 406, "unknown delivery tag 0"),
    row(
        "a queue in use",
        frame(m.BasicConsume(queue="q")) + frame(m.QueueDelete(queue="q", if_unused=True)),
        CHANNEL,
        406,
        "in use",
    ),
    row(
        "a queue that is not empty",
        message(TO_Q) + frame(m.QueueDelete(queue="q", if_empty=True)),
        CHANNEL,
        406,
        "not empty",
    ),
    row(
        "an expiration that is none",
        message(TO_Q, properties=Properties(expiration="soon")),
        CHANNEL,
        406,
        "expiration",
    ),
    row(
        "an expiration that is none, and no such exchange",
        message(m.BasicPublish(exchange="none"), properties=Properties(expiration="soon")),
        CHANNEL,
        404,
        "no exchange 'none' in vhost '/'",
    ),
    row(
        "somebody else's name",
        message(TO_Q, properties=Properties(user_id="other")),
        CHANNEL,
        406,
        "user_id property set to 'other' but authenticated user was 'guest'",
    ),
    row(
        "copies to what is no list",
        message(TO_Q, properties=Properties(headers={"CC": "q"})),
        CHANNEL,
        406,
    ),
    row(
        "a message that is too large",
        frame(TO_Q)
        + write_frame(HEADER, 1, struct.pack(">HHQ", 60, 0, BODY_BYTES_MAX + 1) + b"\0\0"),
        CHANNEL,
        406,
        "is larger than configured max size",
    ),
    row(
        "transactions behind confirms",
        frame(m.ConfirmSelect()) + frame(m.TxSelect()),
        CHANNEL,
        406,
        "cannot switch from confirm to tx mode",
    ),
    row("a commit of nothing", frame(m.TxCommit()), CHANNEL, 406, "channel is not transactional"),
    row(
        "a message from one active consumer's queue",
        declare("single", x_single_active_consumer=True) + frame(m.BasicGet(queue="single")),
        CHANNEL,
        405,
    ),
    # -- and these the connection
    row("a frame above the limit", write_frame(METHOD, 1, bytes(131_065)), CONNECTION, 501),
    row("a frame that ends wrong", frame(m.TxSelect())[:-1] + b"\0", CONNECTION, 501),
    row("a frame of no type", write_frame(5, 1, b""), CONNECTION, 501),
    row("a method that is cut", write_frame(METHOD, 1, b"\0\x3c\0\x0a\0"), CONNECTION, 502),
    row("a method that is too long", write_frame(METHOD, 1, b"\0\x5a\0\x0a\0"), CONNECTION, 502),
    row("properties that are cut", message(TO_Q, raw=b"\x80\0\x05a"), CONNECTION, 502),
    row(
        "a table that is cut",
        write_frame(METHOD, 1, b"\0\x32\0\x0a\0\0\x01r\x02\0\0\0\x09\x01a"),
        CONNECTION,
        502,
    ),
    row(
        "a table with a type of its own",
        write_frame(METHOD, 1, b"\0\x32\0\x0a\0\0\x01r\x02\0\0\0\x04\x01aZ\0"),
        CONNECTION,
        502,
    ),
    row("an unknown class", write_frame(METHOD, 1, b"\0\x63\0\x01"), CONNECTION, 503),
    row("an unknown method", write_frame(METHOD, 1, b"\0\x3c\0\x63"), CONNECTION, 503),
    row("a broker's method", frame(m.BasicQosOk()), CONNECTION, 503),
    row(
        "an unknown type of exchange",
        frame(m.ExchangeDeclare(exchange="e", type="bogus")),
        CONNECTION,
        503,
        "bogus",
    ),
    row(
        "an unknown type, and an exchange of another one",
        frame(m.ExchangeDeclare(exchange="amq.topic", type="bogus")),
        CONNECTION,
        503,
        "unknown exchange type 'bogus'",
    ),
    row("a channel that is not open", frame(m.TxSelect(), 2), CONNECTION, 504),
    row("connection.open once more", frame(m.ConnectionOpen(), 0), CONNECTION, 504),
    row("a channel that is open", frame(m.ChannelOpen()), CONNECTION, 504, "channel.open' seen"),
    row("a heartbeat on a channel", write_frame(HEARTBEAT, 1, b""), CONNECTION, 505),
    row("a body out of place", write_frame(BODY, 1, b"x"), CONNECTION, 505),
    row("a header out of place", write_frame(HEADER, 1, bytes(14)), CONNECTION, 505),
    row("a header of another class", message(TO_Q, class_id=50), CONNECTION, 505),
    row("a body beyond its size", message(TO_Q, b"long", size=2), CONNECTION, 505),
    row("a method in place of a header", frame(TO_Q) + frame(m.TxSelect()), CONNECTION, 505),
    row("content on channel 0", write_frame(HEADER, 0, bytes(14)), CONNECTION, 505),
    row(
        "a consumer tag that is in use",
        2 * frame(m.BasicConsume(queue="q", consumer_tag="c")),
        CONNECTION,
        530,
        "attempt to reuse consumer tag 'c'",
    ),
    row("a channel above the maximum", frame(m.ChannelOpen(), 2_048), CONNECTION, 530),
    row("immediate", message(m.BasicPublish(immediate=True)), CONNECTION, 540, "immediate=true"),
    row("a prefetch of bytes", frame(m.BasicQos(prefetch_size=1)), CONNECTION, 540),
    row("messages thrown away", frame(m.BasicRecover(requeue=False)), CONNECTION, 540),
    row("flow off", frame(m.ChannelFlow(active=False)), CONNECTION, 540, "active=false"),
)


def prepared(ground: Ground) -> AmqpClient:
    client = ground.client()
    client.open()
    client.call(m.QueueDeclare(queue="q", durable=True), m.QueueDeclareOk)
    inner = m.ExchangeDeclare(exchange="inner", internal=True)
    client.call(inner, m.ExchangeDeclareOk)
    client.call(m.ChannelClose(), m.ChannelCloseOk)
    client.open()
    return client


def end(client: AmqpClient) -> m.ChannelClose | m.ConnectionClose:
    """Return what closes something, behind whatever comes before."""
    while True:
        found = client.next()
        if isinstance(found, m.ChannelClose | m.ConnectionClose):
            return found


@pytest.mark.parametrize("found", ROWS, ids=str)
def test_bad_input_is_answered_however_it_is_cut(ground: Ground, found: Row) -> None:
    whole = prepared(ground)
    whole.write(found.sent)
    closed = end(whole)
    assert type(closed) is found.closes, closed
    assert closed.reply_code == found.code, closed
    assert found.text in closed.reply_text, closed
    if found.closes is CHANNEL:
        # The connection goes on.
        whole.send(1, m.ChannelCloseOk())
        whole.open()
        whole.call(m.QueueDelete(queue="q"), m.QueueDeleteOk)
    whole.client.link.abort()
    if len(found.sent) > 1_000:
        return
    ground.wait(500)
    in_pieces = prepared(ground)
    for at in range(len(found.sent)):
        in_pieces.write(found.sent[at : at + 1])
    assert end(in_pieces) == closed


def test_a_client_that_hangs_up_at_any_byte_leaves_nothing(ground: Ground) -> None:
    """Nothing that is cut is done, nothing is held, and others go on."""
    other = prepared(ground)
    sent = b"".join(
        (
            frame(m.ChannelOpen()),
            frame(m.ConfirmSelect()),
            declare("cut"),
            message(m.BasicPublish(routing_key="cut", mandatory=True), b"body"),
            frame(m.BasicConsume(queue="cut", consumer_tag="c")),
            frame(m.BasicAck(delivery_tag=1)),
            frame(m.ChannelClose()),
        )
    )
    publishes = sent.index(b"body") + len(b"body")
    for cut in range(0, len(sent), 2):
        client = ground.client()
        client.write(sent[:cut])
        ground.wait(60)
        client.client.link.abort()
    ground.loop.run_until(lambda: other.count("cut")[1] == 0, PATIENCE_MS)
    left = other.call(m.QueuePurge(queue="cut"), m.QueuePurgeOk).message_count
    assert 0 < left <= (len(sent) - publishes) / 2
    assert other.count("q") == (0, 0)
