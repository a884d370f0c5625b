"""What comes in one piece is answered as if it had come one by one, up to the farewell."""

from __future__ import annotations

import random

import pytest

from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.content_path import write_content
from kafkaesque.protocols.amqp.frames import METHOD, PROTOCOL_HEADER, write_frame
from kafkaesque.protocols.amqp.method_codec import write_method
from kafkaesque.protocols.amqp.properties import Properties, write_properties
from tests.unit.gateway_amqp.kit import PATIENCE_MS, Ground

CLOSE_OK = write_frame(METHOD, 0, write_method(m.ConnectionCloseOk()))


def method(channel: int, found: m.Method) -> bytes:
    return write_frame(METHOD, channel, write_method(found))


OPENING = PROTOCOL_HEADER + b"".join(
    method(0, each)
    for each in (
        m.ConnectionStartOk(response=b"\0guest\0guest"),
        m.ConnectionTuneOk(channel_max=2_047, frame_max=131_072),
    )
)
OPEN = method(0, m.ConnectionOpen(vhost="/"))
CLOSE = method(0, m.ConnectionClose(reply_code=200))


def published(channel: int, exchange: str = "") -> bytes:
    raw = write_method(m.BasicPublish(exchange=exchange, routing_key="q"))
    return bytes(write_content(channel, raw, write_properties(Properties()), b"body", 131_072))


def anything(channel: int) -> list[bytes]:
    """What clients say on a channel, rightly and wrongly."""
    methods: list[m.Method] = [
        m.ChannelOpen(),
        m.ChannelClose(reply_code=200),
        m.ChannelCloseOk(),
        m.ChannelFlow(active=True),
        m.QueueDeclare(queue="q"),
        m.QueueDeclare(queue="none", passive=True),
        m.QueueDelete(queue="q"),
        m.ExchangeDeclare(exchange="e", type="fanout"),
        m.ExchangeDeclare(exchange="e", type="no such type"),
        m.QueueBind(queue="q", exchange="e"),
        m.BasicConsume(queue="q", consumer_tag="t"),
        m.BasicConsume(queue="q", consumer_tag="t"),
        m.BasicCancel(consumer_tag="t"),
        m.BasicGet(queue="q"),
        m.BasicAck(delivery_tag=7),
        m.BasicQos(prefetch_count=3),
        m.BasicRecover(requeue=True),
        m.ConfirmSelect(),
        m.TxSelect(),
        m.TxCommit(),
    ]
    return [
        *(method(channel, each) for each in methods),
        published(channel),
        published(channel, "no such exchange"),
        method(0, m.ConnectionOpen(vhost="/")),
        CLOSE,
    ]


@pytest.fixture(scope="module")
def ground() -> Ground:
    return Ground()


def heard(ground: Ground, data: bytes) -> bytes:
    """Return all that a connection is answered, until it is closed."""
    raw = ground.raw()
    raw.link.write((data,))
    ground.loop.run_until(lambda: raw.is_closed, PATIENCE_MS)
    return bytes(raw.received)


@pytest.mark.parametrize(
    "before",
    [
        OPEN,
        method(0, m.ConnectionOpen(vhost="no such vhost")),
        OPEN + method(1, m.ChannelOpen()),
        OPEN + method(1, m.ChannelOpen()) + method(1, m.ChannelClose(reply_code=200)),
        OPEN + method(1, m.ChannelOpen()) + published(1, "no such exchange"),
    ],
)
def test_the_farewell_comes_with_what_it_follows(ground: Ground, before: bytes) -> None:
    assert heard(ground, OPENING + before + CLOSE).endswith(CLOSE_OK)


@pytest.mark.parametrize("farewell", [CLOSE + CLOSE_OK, CLOSE + CLOSE + CLOSE_OK], ids=len)
@pytest.mark.parametrize("wrong", [OPEN, 2 * method(1, m.ChannelOpen())], ids=len)
def test_a_client_that_leaves_and_takes_its_leave_for_answered_ends_no_broker(
    ground: Ground, wrong: bytes, farewell: bytes
) -> None:
    """The broker has closed the connection for a mistake: both have, and the client answers."""
    raw = ground.raw()
    raw.link.write((OPENING + OPEN + wrong,))
    ground.wait(50)
    raw.link.write((farewell,))
    ground.loop.run_until(lambda: raw.is_closed, PATIENCE_MS)
    assert heard(ground, OPENING + OPEN + CLOSE).endswith(CLOSE_OK)


@pytest.mark.parametrize("again", [b"", method(1, m.ChannelOpen())], ids=len)
def test_a_channel_that_both_have_closed_ends_no_broker(ground: Ground, again: bytes) -> None:
    raw = ground.raw()
    raw.link.write((OPENING + OPEN + method(1, m.ChannelOpen()),))
    raw.link.write((published(1, "no such exchange"),))
    ground.wait(50)
    left = method(1, m.ChannelClose(reply_code=200)) + method(1, m.ChannelCloseOk())
    raw.link.write((left + again,))
    ground.wait(50)
    raw.link.write((CLOSE,))
    ground.loop.run_until(lambda: raw.is_closed, PATIENCE_MS)
    assert raw.received.endswith(CLOSE_OK)


def test_a_channel_that_is_closed_in_the_same_piece_is_answered_once(ground: Ground) -> None:
    raw = ground.raw()
    left = method(1, m.ChannelOpen()) + method(1, m.ChannelClose(reply_code=200))
    raw.link.write((OPENING + OPEN + left,))
    ground.wait(50)
    raw.link.write((method(1, m.ChannelOpen()),))
    ground.wait(50)
    answers = (m.ChannelCloseOk(), m.ChannelOpenOk())
    assert raw.received.endswith(b"".join(method(1, each) for each in answers))


@pytest.mark.parametrize("seed", range(60))
def test_whatever_comes_in_one_piece_ends_the_connection_and_not_the_broker(
    ground: Ground, seed: int
) -> None:
    dice = random.Random(seed)
    said = b"".join(
        dice.choice(anything(dice.choice((1, 1, 2)))) for _ in range(dice.randrange(1, 12))
    )
    opened = OPEN + method(1, m.ChannelOpen())
    heard(ground, OPENING + opened + said + CLOSE)
    assert heard(ground, OPENING + OPEN + CLOSE).endswith(CLOSE_OK)
