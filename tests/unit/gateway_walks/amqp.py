"""Clients of AMQP that say everything."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any, ClassVar, Final

from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.content_path import write_content
from kafkaesque.protocols.amqp.frames import (
    HEARTBEAT,
    METHOD,
    PROTOCOL_HEADER,
    FrameReader,
    write_frame,
)
from kafkaesque.protocols.amqp.method_codec import read_method, write_method
from kafkaesque.protocols.amqp.properties import Properties, write_properties
from kafkaesque.protocols.amqp.wire import Timestamp
from kafkaesque.sim.cluster import AMQP_PORT
from tests.unit.gateway_walks.speaker import Speaker

FRAME_MAX: Final = 131_072
EXCHANGES: Final = ("", "", "", "amq.topic", "amq.fanout", "amq.headers", "amq.direct", "e1", "e2")
TAGS: Final = ("", "t1", "t2", "t3")
#: Methods of servers, and those that are answered by hand below, are seldom said.
SELDOM: Final = tuple(m.METHODS.values())


def method(channel: int, found: m.Method) -> bytes:
    return write_frame(METHOD, channel, write_method(found))


class AmqpSpeaker(Speaker):
    port: ClassVar = AMQP_PORT

    def __init__(self, dice: random.Random) -> None:
        super().__init__(dice)
        self.frames = FrameReader()
        self.frames.frame_bytes_max = 2**31
        self.tags: list[int] = []

    def opening(self) -> bytes:
        heartbeat = self.dice.choice((0, 0, 1, 10))
        known = {"consumer_cancel_notify": True, "connection.blocked": True}
        properties: dict[str, Any] = {"capabilities": known} if self.dice.randrange(2) else {}
        said: list[m.Method] = [
            m.ConnectionStartOk(client_properties=properties, response=b"\0guest\0guest"),
            m.ConnectionTuneOk(
                channel_max=self.dice.choice((2_047, 2)),
                frame_max=FRAME_MAX,
                heartbeat_s=heartbeat,
            ),
            m.ConnectionOpen(vhost="/"),
        ]
        channels = [method(each, m.ChannelOpen()) for each in (1, 2)]
        return PROTOCOL_HEADER + b"".join([*(method(0, each) for each in said), *channels])

    def hear(self, data: bytes) -> None:
        with suppress(Exception):
            self.frames.feed(data)
            while (frame := self.frames.next_frame()) is not None:
                kind, _, payload = frame
                if kind == METHOD:
                    found = read_method(payload)
                    if isinstance(found, m.BasicDeliver | m.BasicGetOk):
                        self.tags.append(found.delivery_tag)

    def say(self) -> bytes:
        dice = self.dice
        channel = (
            dice.choice((1, 1, 1, 2, 2, 3)) if dice.randrange(60) else dice.choice((0, 9, 65_535))
        )
        choice = dice.randrange(100)
        if choice < 22:
            return self.published(channel)
        if choice < 24:
            return write_frame(HEARTBEAT, 0, b"")
        if choice < 27:
            return method(
                channel, dice.choice((m.ChannelOpen(), m.ChannelOpen(), m.ChannelCloseOk()))
            )
        if choice < 29:
            said: tuple[m.Method, ...] = (m.ChannelClose(reply_code=200),)
            if self.one_in(2):
                said += dice.choice(((m.ChannelCloseOk(),), (m.ChannelOpen(),), said))
            return b"".join(method(channel, each) for each in said)
        if choice == 29:
            return self.farewell() + (self.farewell() if self.one_in(2) else b"")
        if choice == 30:
            return method(channel, dice.choice(SELDOM)())
        if choice < 45:
            return self.settled(channel)
        return method(channel, self.asked())

    def farewell(self) -> bytes:
        return method(
            0, self.dice.choice((m.ConnectionClose(reply_code=200), m.ConnectionCloseOk()))
        )

    def headers(self) -> dict[str, object]:
        dice, found = self.dice, dict[str, object]()
        for _ in range(dice.choice((0, 0, 1, 3))):
            name = dice.choice(("CC", "BCC", "x-delay", "x-match", "a", self.word()))
            found[name] = dice.choice(HEADER_VALUES)
        return found

    def properties(self) -> Properties:
        dice = self.dice
        if dice.randrange(2):
            return Properties()
        return Properties(
            headers=self.headers() or None,
            delivery_mode=dice.choice((None, 1, 2, 9)),
            priority=dice.choice((None, None, 0, 5, 255)),
            expiration=dice.choice((None, None, None, "0", "1", "1000", "x", "99999999999999999")),
            correlation_id=dice.choice((None, None, self.word())),
            reply_to=dice.choice((None, "q0", "amq.rabbitmq.reply-to", self.word())),
            message_id=dice.choice((None, "m", self.word())),
            timestamp=dice.choice((None, None, Timestamp(0), Timestamp(2**63))),
            type=dice.choice((None, "t")),
            user_id=dice.choice((None, None, None, None, "guest", "other")),
            app_id=dice.choice((None, "app")),
            content_type=dice.choice((None, "text/plain", self.word())),
            content_encoding=dice.choice((None, None, "gzip")),
        )

    def published(self, channel: int) -> bytes:
        dice = self.dice
        properties = self.properties()
        try:
            raw = write_properties(properties)
        except Exception:
            raw = write_properties(Properties())
        publish = m.BasicPublish(
            exchange=dice.choice(EXCHANGES) if dice.randrange(12) else self.word(),
            routing_key=self.name(),
            mandatory=self.one_in(4),
            immediate=self.one_in(60),
        )
        frame_max = dice.choice((FRAME_MAX, 4_096, 30))
        written = bytes(write_content(channel, write_method(publish), raw, self.body(), frame_max))
        if self.one_in(25):
            written = written[: dice.randrange(len(written))]
            at = written.rfind(b"\xce")
            written = written[: at + 1]
        return written

    def settled(self, channel: int) -> bytes:
        dice = self.dice
        tag = (
            dice.choice(self.tags[-20:])
            if self.tags and dice.randrange(12)
            else dice.choice((0, 1, 7, 2**63))
        )
        multiple = self.one_in(3)
        requeue = self.one_in(2)
        found = dice.choice(
            (
                m.BasicAck(delivery_tag=tag, multiple=multiple),
                m.BasicAck(delivery_tag=tag, multiple=multiple),
                m.BasicNack(delivery_tag=tag, multiple=multiple, requeue=requeue),
                m.BasicReject(delivery_tag=tag, requeue=requeue),
                m.BasicRecover(requeue=True),
                m.BasicRecoverAsync(requeue=True),
            )
        )
        return method(channel, found)

    def arguments(self) -> dict[str, Any]:
        dice = self.dice
        found: dict[str, Any] = {}
        if dice.randrange(3):
            return found
        for _ in range(dice.choice((1, 1, 2, 3))):
            name, values = dice.choice(ARGUMENTS)
            found[name] = dice.choice(values)
        return found

    def asked(self) -> m.Method:
        found: m.Method = self.dice.choice(self.declared() if self.one_in(2) else self.used())()
        return found

    def declared(self) -> tuple[Any, ...]:
        """What makes and takes away, each as what makes the method."""
        dice, queue, nowait = self.dice, self.name(), self.one_in(6)
        exchange = dice.choice(EXCHANGES) if dice.randrange(10) else self.word()
        key = self.name()
        flags = {each: self.one_in(5) for each in ("exclusive", "auto_delete", "passive")}
        some = self.arguments
        return (
            lambda: m.QueueDeclare(
                queue=queue,
                durable=bool(dice.randrange(2)),
                nowait=nowait,
                arguments=some(),
                **flags,
            ),
            lambda: m.QueueDeclare(queue=dice.choice(("", queue)), durable=True, nowait=nowait),
            lambda: m.QueueDeclare(queue="", exclusive=True, nowait=nowait, arguments=some()),
            lambda: m.QueueDelete(
                queue=queue, if_unused=flags["exclusive"], if_empty=flags["passive"], nowait=nowait
            ),
            lambda: m.QueuePurge(queue=queue, nowait=nowait),
            lambda: m.QueueBind(
                queue=queue, exchange=exchange, routing_key=key, nowait=nowait, arguments=some()
            ),
            lambda: m.QueueUnbind(queue=queue, exchange=exchange, routing_key=key),
            lambda: m.ExchangeDeclare(
                exchange=exchange,
                type=dice.choice(
                    (
                        "direct",
                        "topic",
                        "fanout",
                        "headers",
                        "x-delayed-message",
                        "x-consistent-hash",
                        "x",
                    )
                ),
                nowait=nowait,
                durable=bool(dice.randrange(2)),
                internal=self.one_in(8),
                passive=flags["passive"],
                auto_delete=flags["auto_delete"],
                arguments=some(),
            ),
            lambda: m.ExchangeDelete(
                exchange=exchange, if_unused=flags["exclusive"], nowait=nowait
            ),
            lambda: m.ExchangeBind(
                destination=exchange,
                source=dice.choice(EXCHANGES),
                routing_key=key,
                nowait=nowait,
                arguments=some(),
            ),
            lambda: m.ExchangeUnbind(
                destination=exchange, source=dice.choice(EXCHANGES), routing_key=key, nowait=nowait
            ),
        )

    def used(self) -> tuple[Any, ...]:
        """What consumes, and what is said of a channel as a whole."""
        dice, queue, nowait = self.dice, self.name(), self.one_in(6)
        tag = dice.choice(TAGS) if dice.randrange(10) else self.word()
        some = self.arguments
        return (
            lambda: m.BasicConsume(
                queue=queue,
                consumer_tag=tag,
                no_ack=self.one_in(3),
                exclusive=self.one_in(5),
                nowait=nowait,
                arguments=some(),
            ),
            lambda: m.BasicConsume(queue=queue, consumer_tag=""),
            lambda: m.BasicConsume(queue="amq.rabbitmq.reply-to", consumer_tag=tag, no_ack=True),
            lambda: m.BasicCancel(consumer_tag=tag, nowait=nowait),
            lambda: m.BasicGet(queue=queue, no_ack=self.one_in(3)),
            lambda: m.BasicGet(queue=queue),
            lambda: m.BasicQos(
                prefetch_count=dice.choice((0, 1, 1, 3, 100)),
                is_global=self.one_in(3),
                prefetch_size=0 if dice.randrange(9) else 1,
            ),
            lambda: m.ConfirmSelect(nowait=nowait),
            m.TxSelect,
            m.TxCommit,
            m.TxRollback,
            lambda: m.ChannelFlow(active=bool(dice.randrange(2))),
            lambda: m.ConnectionUpdateSecret(new_secret=b"x", reason="r"),
            m.AccessRequest,
        )


HEADER_VALUES: Final[tuple[object, ...]] = (
    ["q0", "q1"],
    [1, "q0"],
    {"a": [None, {}]},
    5,
    -1,
    2.5,
    "x",
    b"\xff",
    None,
    True,
)
ARGUMENTS: Final[tuple[tuple[str, tuple[Any, ...]], ...]] = (
    ("x-max-length", (0, 1, 5, -1, "x", 2**63 - 1)),
    ("x-max-length-bytes", (0, 10, 100_000)),
    ("x-message-ttl", (0, 1, 1_000, -1, 2**31)),
    ("x-expires", (1, 1_000, 60_000, 0)),
    ("x-overflow", ("drop-head", "reject-publish", "reject-publish-dlx", "x")),
    ("x-dead-letter-exchange", ("", "e1", "amq.topic", "none")),
    ("x-dead-letter-routing-key", ("q0", "q1", "#")),
    ("x-dead-letter-strategy", ("at-least-once", "at-most-once")),
    ("x-max-priority", (1, 5, 255, 0, 256)),
    ("x-queue-type", ("classic", "quorum", "stream", "x")),
    ("x-single-active-consumer", (True, False)),
    ("x-priority", (0, 5, -5, "x", 2.5)),
    ("x-delivery-limit", (0, 1, -1)),
    ("x-consumer-timeout", (1_000, 60_000)),
    ("x-stream-offset", ("first", "last", "next", 0, 5, "1h", "x", None)),
    ("x-stream-filter", ("a", ["a", "b"])),
    ("x-match", ("all", "any", "any-with-x", "x")),
    ("x-delayed-type", ("direct", "topic", "x")),
    ("alternate-exchange", ("e1", "e2", "none")),
    ("a", (1, "x", None, True)),
    ("x-cancel-on-ha-failover", (True,)),
    ("hash-header", ("a", "")),
)
