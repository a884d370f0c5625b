"""What destinations stand for, as RabbitMQ reads them.

| destination | SEND | SUBSCRIBE |
|---|---|---|
| `/queue/NAME` | the queue, which is made if there is none | the same |
| `/amq/queue/NAME` | the queue, which somebody else has made | the same |
| `/topic/KEY` | the exchange `amq.topic` | a queue of the subscription's, bound by this key |
| `/exchange/NAME/KEY` | the exchange | a queue of the subscription's, bound by this key |
| `/temp-queue/NAME` | a queue of the connection's | the same |

`/` and `%` within a name are written `%2F` and `%25`. `/reply-queue/NAME` is `/amq/queue/NAME`.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote

from kafkaesque.gateway.queueing.own_queues import GENERATED, REPLY_PREFIX
from kafkaesque.protocols.amqp.wire import SHORT_STRING_BYTES_MAX
from kafkaesque.protocols.stomp.errors import StompError
from kafkaesque.routing.exchanges.topology import DEFAULT_EXCHANGE

TOPIC_EXCHANGE: Final = "amq.topic"


class Kind(Enum):
    """What a destination is."""

    QUEUE = "queue"
    #: Never made by a SEND or SUBSCRIBE.
    KNOWN_QUEUE = "known queue"
    EXCHANGE = "exchange"
    TEMPORARY = "temporary queue"


class Destination(NamedTuple):
    """Where messages go or come from."""

    kind: Kind
    #: A queue's name, or a key.
    name: str
    exchange: str = DEFAULT_EXCHANGE

    @property
    def is_queue(self) -> bool:
        """Whether it is a queue that others may know as well."""
        return self.kind in (Kind.QUEUE, Kind.KNOWN_QUEUE)


_QUEUES: Final = {
    "/queue/": Kind.QUEUE,
    "/amq/queue/": Kind.KNOWN_QUEUE,
    "/reply-queue/": Kind.KNOWN_QUEUE,
    "/temp-queue/": Kind.TEMPORARY,
}
_TOPIC: Final = "/topic/"
_EXCHANGE: Final = "/exchange/"


@lru_cache(maxsize=1024)
def read_destination(text: str) -> Destination:
    """Return what a destination stands for.

    Raises:
        StompError: it is none.
    """
    for prefix, kind in _QUEUES.items():
        if text.startswith(prefix):
            return Destination(kind, _read_name(text, text.removeprefix(prefix)))
    if text.startswith(_TOPIC):
        key = _read_name(text, text.removeprefix(_TOPIC))
        return Destination(Kind.EXCHANGE, key, TOPIC_EXCHANGE)
    if text.startswith(_EXCHANGE):
        exchange, slash, key = text.removeprefix(_EXCHANGE).partition("/")
        name = _read_name(text, key) if slash else ""
        return Destination(Kind.EXCHANGE, name, _read_name(text, exchange))
    raise StompError(
        f"there is no destination '{_short(text)}': write /queue/NAME, /topic/KEY, "
        "/exchange/NAME/KEY, /amq/queue/NAME or /temp-queue/NAME"
    )


def _read_name(text: str, name: str) -> str:
    if not name:
        raise StompError(f"the destination '{_short(text)}' has an empty name")
    if "/" in name:
        raise StompError(f"in the destination '{_short(text)}', write / within a name as %2F")
    found = unquote(name)
    if len(found.encode()) > SHORT_STRING_BYTES_MAX:
        raise StompError(f"a destination's name has at most {SHORT_STRING_BYTES_MAX} bytes")
    return found


def _short(text: str) -> str:
    return text if len(text) <= 100 else text[:100] + "..."


def write_destination(exchange: str, key: str) -> str:
    """Return the destination to which a message was published."""
    if exchange == DEFAULT_EXCHANGE:
        return write_queue(key)
    if exchange == TOPIC_EXCHANGE:
        return _TOPIC + _write_name(key)
    return f"{_EXCHANGE}{_write_name(exchange)}" + (f"/{_write_name(key)}" if key else "")


def write_queue(name: str) -> str:
    """Return a queue's destination; those that go by themselves are not made again by a SEND."""
    is_own = name.startswith((REPLY_PREFIX, GENERATED))
    prefix = "/amq/queue/" if is_own else "/queue/"
    return prefix + _write_name(name)


def _write_name(name: str) -> str:
    return name.replace("%", "%25").replace("/", "%2F")
