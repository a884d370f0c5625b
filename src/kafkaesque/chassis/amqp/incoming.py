"""A queue's message as a consumer is given it: properties, dead-letter history, attempts."""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

import msgspec

from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.requests.queue_requests import QueueMessage
from kafkaesque.chassis.amqp.outgoing import CARBON_COPY
from kafkaesque.chassis.meanings import properties_of, stored_of
from kafkaesque.model.message_headers import DEATH
from kafkaesque.protocols.amqp.errors import AmqpError
from kafkaesque.protocols.amqp.properties import (
    NO_PROPERTIES,
    Properties,
    read_properties,
    write_properties,
)
from kafkaesque.protocols.amqp.stored_message import StoredMessage
from kafkaesque.protocols.amqp.wire import SHORT_STRING_BYTES_MAX, Long, Table, Timestamp

#: Attempts that count as failed, and all that there were. RabbitMQ writes all counts in 64 bits,
#: and Java's programs cast them.
DELIVERY_COUNT: Final = "x-delivery-count"
ACQUIRED_COUNT: Final = "x-acquired-count"
#: What RabbitMQ calls the reasons of a death.
_REASONS: Final = {"too_long": "maxlen", "attempts": "delivery_limit"}


class _Death(msgspec.Struct, frozen=True, kw_only=True):
    """Why a message was given up, as the broker that moved it has said."""

    queue: str
    reason: str = ""
    at_ms: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0
    #: Where it was sent; None: to a queue, or with its own key.
    exchange: str | None = None
    key: str | None = None


_death: Final = msgspec.json.Decoder(_Death)


class _Sent(NamedTuple):
    """How a message has come to a queue."""

    exchange: str
    #: The routing key, and those of copies.
    keys: list[str]


class Incoming(NamedTuple):
    """What a delivery says of a message."""

    exchange: str
    routing_key: str
    properties: bytes
    is_redelivered: bool


def read_incoming(message: QueueMessage, queue: QueueState, now_ms: int) -> Incoming:
    """Return what a delivery of a message says."""
    stored = stored_of(message.headers)
    is_redelivered = message.attempt > 1
    deaths = [_read_death(value) for name, value in message.headers if name == DEATH and value]
    if stored is not None and not is_redelivered and not deaths:
        return Incoming(stored.exchange, stored.routing_key, stored.properties, False)
    if stored is None:
        key = (message.key or b"").decode("utf-8", "replace")
        fits = key and len(key.encode()) <= SHORT_STRING_BYTES_MAX
        stored = StoredMessage("", key if fits else queue.queue.name, NO_PROPERTIES)
        properties = properties_of(message.headers, now_ms)
    else:
        try:
            properties = read_properties(stored.properties)
        except AmqpError:
            # Not one that a publisher could have sent.
            properties = Properties()
    known = [each for each in deaths if each is not None]
    values = {name: getattr(properties, name) for name in Properties.__struct_fields__}
    headers: Table = dict(properties.headers or {})
    if message.failures:
        headers[DELIVERY_COUNT] = Long(message.failures)
    if is_redelivered:
        headers[ACQUIRED_COUNT] = Long(message.attempt - 1)
    first = _Sent(stored.exchange, [stored.routing_key, *_copies(headers)])
    sent = _ways(known, first, queue)
    if known:
        headers.update(_history(known, sent, properties.expiration))
        values["expiration"] = None
        if sent[-1].keys != first.keys:
            # It was for those who had the keys of before.
            headers.pop(CARBON_COPY, None)
    values["headers"] = headers or None
    raw = write_properties(Properties(**values))
    return Incoming(sent[-1].exchange, sent[-1].keys[0], raw, is_redelivered)


def _read_death(raw: bytes) -> _Death | None:
    """Return what a header says, which a producer can write as well; None: nothing that can be."""
    try:
        found = _death.decode(raw)
        names = (found.exchange or "", found.key or "")
        is_short = all(len(each.encode()) <= SHORT_STRING_BYTES_MAX for each in names)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return found if is_short else None


def _copies(headers: Table) -> list[str]:
    """Return the keys that a message was published with beside its own, but for blind copies."""
    found = headers.get(CARBON_COPY)
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def _ways(deaths: list[_Death], first: _Sent, queue: QueueState) -> list[_Sent]:
    """Return how a message was sent: to where it died, each time, and here."""
    sent = [first]
    places = [*(each.queue for each in deaths[1:]), queue.queue.name]
    for death, place in zip(deaths, places, strict=True) if deaths else ():
        if death.exchange is None:
            sent.append(_Sent("", [place]))
        else:
            keys = sent[-1].keys if death.key is None else [death.key]
            sent.append(_Sent(death.exchange, keys))
    return sent


def _history(deaths: list[_Death], sent: list[_Sent], expiration: str | None) -> Table:
    """Return the headers that tell how a message has died: the last death first."""
    entries: dict[tuple[str, str], Table] = {}
    for death, (exchange, keys) in zip(deaths, sent, strict=False):
        reason = _REASONS.get(death.reason, death.reason)
        known = entries.pop((death.queue, reason), None)
        count = known["count"] if known is not None else 0
        entry: Table = known or {
            "reason": reason,
            "queue": death.queue,
            "time": Timestamp(death.at_ms // 1000),
            "exchange": exchange,
            "routing-keys": list(keys),
        }
        entry["count"] = Long(count + 1 if isinstance(count, int) else 1)
        if expiration is not None and reason == "expired" and len(entries) == 0:
            entry["original-expiration"] = expiration
        entries[death.queue, reason] = entry
    first, last = deaths[0], deaths[-1]
    return {
        "x-death": list(reversed(entries.values())),
        "x-first-death-reason": _REASONS.get(first.reason, first.reason),
        "x-first-death-queue": first.queue,
        "x-first-death-exchange": sent[0].exchange,
        "x-last-death-reason": _REASONS.get(last.reason, last.reason),
        "x-last-death-queue": last.queue,
        "x-last-death-exchange": sent[-2].exchange,
    }
