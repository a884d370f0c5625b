"""What a client may do in a session, and sessions drawn from a seed.

A step means the same at both brokers, whatever tags and names these have given out: it names
deliveries by their place, and a queue that the broker has named by being the last one declared.
So any step can be left out of a session, and the rest still means something.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.frames import BODY, HEADER, METHOD, write_frame
from kafkaesque.protocols.amqp.properties import Properties
from kafkaesque.protocols.amqp.wire import Table

CONNECTIONS: Final = 2
CHANNELS: Final = (1, 2)
QUEUES: Final = ("q1", "q2", "q3")
EXCHANGES: Final = ("e1", "e2")
#: A queue or exchange that mostly is not there.
RARE: Final = "rare"
STEPS_MIN, STEPS_MAX = 5, 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that a client does, on a channel of a connection."""

    connection: int = 0
    channel: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Step):
    """Send a method without content."""

    method: m.Method


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish(Step):
    """Send a message."""

    method: m.BasicPublish
    properties: Properties
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle(Step):
    """Say what becomes of a delivery: of that at a place among those that are not settled.

    Without a place it is one that was never made.
    """

    method: m.BasicAck | m.BasicNack | m.BasicReject
    place: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw(Step):
    """Send frames as they stand."""

    what: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave(Step):
    """End the connection, and make a new one."""

    is_polite: bool


def session(seed: int, number: int) -> list[Step]:
    """Return the steps of a session."""
    return _Session(random.Random(f"{seed} {number}")).steps()


_Make = Callable[["_Session"], Step]


class _Session:
    """Draws the steps of one session."""

    def __init__(self, dice: random.Random) -> None:
        self._dice: Final = dice
        self._bodies = 0
        #: What this session is about: some things are rare in most sessions.
        self._makes: list[_Make] = []
        self._weights: list[float] = []
        for make, weight in _WEIGHTS.items():
            self._makes.append(make)
            self._weights.append(weight * dice.choice((0.2, 1, 1, 3)))

    def steps(self) -> list[Step]:
        """Return them all: first something to work with."""
        dice = self._dice
        found: list[Step] = [Call(method=m.QueueDeclare(queue="q1", durable=True))]
        if dice.random() < 0.5:
            kind = dice.choice(("direct", "fanout", "topic", "headers"))
            found.append(Call(method=m.ExchangeDeclare(exchange="e1", type=kind, durable=True)))
            found.append(Call(method=m.QueueBind(queue="q1", exchange="e1", routing_key="a.b")))
        if dice.random() < 0.4:
            found.append(Call(method=m.ConfirmSelect()))
        for _ in range(dice.randint(STEPS_MIN, STEPS_MAX)):
            (make,) = dice.choices(self._makes, self._weights)
            found.append(make(self))
        return found

    # -- places and names

    def _where(self) -> tuple[int, int]:
        connection = 0 if self._dice.random() < 0.85 else 1
        return connection, CHANNELS[0] if self._dice.random() < 0.75 else CHANNELS[1]

    def _call(self, method: m.Method) -> Call:
        connection, channel = self._where()
        return Call(connection=connection, channel=channel, method=method)

    def _often(self, usual: Sequence[str], rare: Sequence[str]) -> str:
        return self._dice.choice(usual if self._dice.random() < 0.92 else rare)

    def _queue(self) -> str:
        return self._often(("q1", "q1", "q2", "q3"), ("", RARE, "amq.reserved"))

    def _exchange(self) -> str:
        return self._often(
            ("e1", "e1", "e2", "amq.topic", "amq.direct", "amq.fanout", "amq.headers"),
            ("", RARE, "amq.reserved"),
        )

    def _key(self) -> str:
        return self._dice.choice(("a.b", "a.b", "a.c.d", "q1", "q2", "q3", "", "x"))

    def _pattern(self) -> str:
        return self._dice.choice(("a.b", "a.b", "#", "*.b", "a.#", "q1", "", "a.*.d"))

    def _is(self, share: float) -> bool:
        return self._dice.random() < share

    # -- queues and exchanges

    def declare_queue(self) -> Step:
        """queue.declare."""
        arguments = self._dice.choice(_QUEUE_ARGUMENTS) if self._is(0.4) else {}
        return self._call(
            m.QueueDeclare(
                queue=self._queue(),
                passive=self._is(0.15),
                durable=self._is(0.85),
                exclusive=self._is(0.08),
                auto_delete=self._is(0.12),
                nowait=self._is(0.08),
                arguments=arguments,
            )
        )

    def bind_queue(self) -> Step:
        """queue.bind."""
        return self._call(
            m.QueueBind(
                queue=self._queue(),
                exchange=self._exchange(),
                routing_key=self._pattern(),
                nowait=self._is(0.05),
                arguments=self._binding_arguments(),
            )
        )

    def unbind_queue(self) -> Step:
        """queue.unbind."""
        return self._call(
            m.QueueUnbind(
                queue=self._queue(),
                exchange=self._exchange(),
                routing_key=self._pattern(),
                arguments=self._binding_arguments(),
            )
        )

    def _binding_arguments(self) -> Table:
        return dict(self._dice.choice(_BINDING_ARGUMENTS)) if self._is(0.3) else {}

    def purge(self) -> Step:
        """queue.purge."""
        return self._call(m.QueuePurge(queue=self._queue(), nowait=self._is(0.05)))

    def delete_queue(self) -> Step:
        """queue.delete."""
        return self._call(
            m.QueueDelete(
                queue=self._queue(),
                if_unused=self._is(0.3),
                if_empty=self._is(0.3),
                nowait=self._is(0.05),
            )
        )

    def declare_exchange(self) -> Step:
        """exchange.declare."""
        arguments: Table = {"alternate-exchange": self._exchange()} if self._is(0.15) else {}
        return self._call(
            m.ExchangeDeclare(
                exchange=self._exchange(),
                type=self._often(("direct", "fanout", "topic", "headers"), ("bogus", "")),
                passive=self._is(0.15),
                durable=self._is(0.85),
                auto_delete=self._is(0.12),
                internal=self._is(0.06),
                nowait=self._is(0.05),
                arguments=arguments,
            )
        )

    def delete_exchange(self) -> Step:
        """exchange.delete."""
        return self._call(
            m.ExchangeDelete(
                exchange=self._exchange(), if_unused=self._is(0.4), nowait=self._is(0.05)
            )
        )

    def bind_exchange(self) -> Step:
        """exchange.bind and exchange.unbind."""
        kind = m.ExchangeBind if self._is(0.7) else m.ExchangeUnbind
        return self._call(
            kind(
                # What is bound to exchanges that stay would stay, too.
                destination=self._often(EXCHANGES, ("", RARE)),
                source=self._exchange(),
                routing_key=self._pattern(),
                nowait=self._is(0.05),
                arguments=self._binding_arguments(),
            )
        )

    # -- messages

    def publish(self) -> Step:
        """basic.publish."""
        connection, channel = self._where()
        self._bodies += 1
        is_direct = self._is(0.5)
        rare = self._dice.choice(_PROPERTIES) if self._is(0.3) else Properties()
        return Publish(
            connection=connection,
            channel=channel,
            method=m.BasicPublish(
                exchange="" if is_direct else self._exchange(),
                routing_key=self._often(QUEUES, (RARE,)) if is_direct else self._key(),
                mandatory=self._is(0.3),
            ),
            properties=rare,
            body=b"" if self._is(0.05) else b"m%d" % self._bodies,
        )

    def consume(self) -> Step:
        """basic.consume."""
        arguments: Table = {"x-priority": 1} if self._is(0.05) else {}
        return self._call(
            m.BasicConsume(
                queue=self._queue(),
                consumer_tag=self._often(("c1", "c2", "c3", "c4"), ("",)),
                no_ack=self._is(0.25),
                exclusive=self._is(0.1),
                nowait=self._is(0.05),
                arguments=arguments,
            )
        )

    def cancel(self) -> Step:
        """basic.cancel."""
        tag = self._dice.choice(("c1", "c2", "c3", "c4"))
        return self._call(m.BasicCancel(consumer_tag=tag, nowait=self._is(0.1)))

    def get(self) -> Step:
        """basic.get."""
        return self._call(m.BasicGet(queue=self._queue(), no_ack=self._is(0.3)))

    def settle(self) -> Step:
        """basic.ack, nack and reject."""
        connection, channel = self._where()
        is_multiple, requeue = self._is(0.25), self._is(0.5)
        method: m.BasicAck | m.BasicNack | m.BasicReject = self._dice.choice(
            (
                m.BasicAck(multiple=is_multiple),
                m.BasicAck(multiple=is_multiple),
                m.BasicNack(multiple=is_multiple, requeue=requeue),
                m.BasicReject(requeue=requeue),
            )
        )
        place = None if self._is(0.03) else self._dice.random()
        return Settle(connection=connection, channel=channel, method=method, place=place)

    def recover(self) -> Step:
        """basic.recover and recover-async."""
        kind = m.BasicRecover if self._is(0.8) else m.BasicRecoverAsync
        return self._call(kind(requeue=self._is(0.9)))

    def qos(self) -> Step:
        """basic.qos."""
        count = self._dice.choice((0, 1, 2, 3))
        return self._call(m.BasicQos(prefetch_count=count, is_global=self._is(0.2)))

    # -- modes, channels, connections

    def select(self) -> Step:
        """confirm.select and tx.select."""
        return self._call(m.ConfirmSelect() if self._is(0.7) else m.TxSelect())

    def end_transaction(self) -> Step:
        """tx.commit and tx.rollback."""
        return self._call(m.TxCommit() if self._is(0.7) else m.TxRollback())

    def close_channel(self) -> Step:
        """channel.close."""
        return self._call(m.ChannelClose(reply_code=200, reply_text="bye"))

    def leave(self) -> Step:
        """connection.close, or nothing."""
        connection, _ = self._where()
        return Leave(connection=connection, is_polite=self._is(0.7))

    def nonsense(self) -> Step:
        """What no client may send."""
        connection, channel = self._where()
        what, make = self._dice.choice(list(_NONSENSE.items()))
        return Raw(connection=connection, channel=channel, what=what, data=make(channel))


_WEIGHTS: Final[dict[_Make, float]] = {
    _Session.publish: 14,
    _Session.declare_queue: 5,
    _Session.bind_queue: 4,
    _Session.consume: 4,
    _Session.get: 4,
    _Session.settle: 8,
    _Session.declare_exchange: 2.5,
    _Session.bind_exchange: 1.5,
    _Session.unbind_queue: 1,
    _Session.cancel: 1.5,
    _Session.purge: 0.7,
    _Session.delete_queue: 1,
    _Session.delete_exchange: 1,
    _Session.recover: 1,
    _Session.qos: 1.5,
    _Session.select: 1,
    _Session.end_transaction: 0.6,
    _Session.close_channel: 0.6,
    _Session.leave: 0.5,
    _Session.nonsense: 0.6,
}

_QUEUE_ARGUMENTS: Final[Sequence[Table]] = (
    {"x-max-length": 2},
    {"x-max-length": 2, "x-overflow": "reject-publish"},
    {"x-max-length": 1, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": "e2"},
    {"x-max-length": 2, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q2"},
    {"x-max-length-bytes": 4},
    {"x-dead-letter-exchange": "e1"},
    {"x-dead-letter-exchange": "e1", "x-dead-letter-routing-key": "a.b"},
    {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q3"},
    {"x-dead-letter-routing-key": "q3"},
    {"x-message-ttl": 600_000},
    {"x-message-ttl": 0, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q3"},
    {"x-expires": 600_000},
    {"x-max-priority": 5},
    {"x-single-active-consumer": True},
    {"x-single-active-consumer": "yes"},
    {"x-queue-type": "classic"},
    {"x-queue-type": "bogus"},
    {"x-queue-mode": "lazy"},
    {"x-message-ttl": -1},
    {"x-message-ttl": "soon"},
    {"x-expires": 0},
    {"x-max-length": -1},
    {"x-max-length": "many"},
    {"x-max-priority": -1},
    {"x-max-priority": 256},
    {"x-overflow": "bogus"},
    {"x-dead-letter-exchange": 7},
    {"x-anything": {"of": ["no", "meaning"]}},
)

_BINDING_ARGUMENTS: Final[Sequence[Table]] = (
    {"x-match": "all", "colour": "red"},
    {"x-match": "any", "colour": "red", "size": 1},
    {"colour": "red"},
    {"x-match": "bogus", "colour": "red"},
    {"x-match": "any"},
    {"x-match": "all", "colour": None},
)

_PROPERTIES: Final[Sequence[Properties]] = (
    Properties(delivery_mode=2, content_type="text/plain"),
    Properties(headers={"colour": "red"}),
    Properties(headers={"colour": "red", "size": 1}),
    Properties(headers={"colour": "blue", "size": 2}),
    Properties(headers={"CC": ["q2", "a.b"]}),
    Properties(headers={"BCC": ["q3"]}),
    Properties(headers={"CC": "q2"}),
    Properties(priority=3),
    Properties(priority=9),
    Properties(expiration="600000"),
    Properties(expiration="soon"),
    Properties(expiration="-1"),
    Properties(user_id="guest"),
    Properties(user_id="somebody"),
    Properties(correlation_id="1", reply_to="q1", message_id="i", type="t", app_id="a"),
)


def _method_frame(channel: int, payload: bytes) -> bytes:
    return write_frame(METHOD, channel, payload)


_PUBLISH: Final = b"\x00\x3c\x00\x28\x00\x00\x00\x02q1\x00"
#: What no client may send; the channel is open.
_NONSENSE: Final[dict[str, Callable[[int], bytes]]] = {
    "an unknown class": lambda at: _method_frame(at, b"\x00\x63\x00\x01"),
    "an unknown method": lambda at: _method_frame(at, b"\x00\x3c\x00\x63"),
    "a method that is cut": lambda at: _method_frame(at, b"\x00\x3c\x00\x0a\x00"),
    "a broker's method": lambda at: _method_frame(at, b"\x00\x3c\x00\x0b"),
    "a header out of place": lambda at: write_frame(HEADER, at, bytes(14)),
    "a body out of place": lambda at: write_frame(BODY, at, b"x"),
    "a method instead of a header": lambda at: (
        _method_frame(at, _PUBLISH) + _method_frame(at, b"\x00\x55\x00\x0a\x00")
    ),
    "a header of another class": lambda at: (
        _method_frame(at, _PUBLISH) + write_frame(HEADER, at, b"\x00\x32" + bytes(12))
    ),
    "a body that is too long": lambda at: (
        _method_frame(at, _PUBLISH)
        + write_frame(HEADER, at, b"\x00\x3c\x00\x00" + (2).to_bytes(8, "big") + b"\0\0")
        + write_frame(BODY, at, b"three")
    ),
    "a channel opened twice": lambda at: _method_frame(at, b"\x00\x14\x00\x0a\x00"),
    "a channel that is not open": lambda _: _method_frame(7, b"\x00\x55\x00\x0a\x00"),
    "a channel above the maximum": lambda _: _method_frame(60_000, b"\x00\x14\x00\x0a\x00"),
    "an unknown frame": lambda at: write_frame(5, at, b""),
    "a frame that ends wrong": lambda at: _method_frame(at, b"\x00\x55\x00\x0a\x00")[:-1] + b"\0",
    "immediate": lambda at: (
        _method_frame(at, b"\x00\x3c\x00\x28\x00\x00\x00\x02q1\x02")
        + write_frame(HEADER, at, b"\x00\x3c\x00\x00" + bytes(8) + b"\0\0")
    ),
    "a size of prefetch": lambda at: _method_frame(at, b"\x00\x3c\x00\x0a\0\0\0\x01\0\0\0"),
    "flow off": lambda at: _method_frame(at, b"\x00\x14\x00\x14\x00"),
    "a heartbeat on a channel": lambda at: write_frame(8, at, b""),
    "connection.open again": lambda _: _method_frame(0, b"\x00\x0a\x00\x28\x01/\x00\x00"),
    "content on channel 0": lambda _: write_frame(HEADER, 0, bytes(14)),
    "properties that are cut": lambda at: (
        _method_frame(at, _PUBLISH)
        + write_frame(HEADER, at, b"\x00\x3c\x00\x00" + bytes(8) + b"\x80\0\x05a")
    ),
    "a table that is cut": lambda at: _method_frame(
        at, b"\x00\x32\x00\x0a\x00\x00\x02q1\x02\x00\x00\x00\x09\x01a"
    ),
}
