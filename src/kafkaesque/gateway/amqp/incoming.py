"""A queue's message as a consumer is given it: properties, dead-letter history, attempts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST, QueueName
from kafkaesque.broker.requests.queue_requests import QueueMessage
from kafkaesque.chassis.meanings import properties_of, stored_of
from kafkaesque.gateway.amqp.arguments import (
    DEAD_LETTER_EXCHANGE,
    DEAD_LETTER_KEY,
    Declaration,
    declaration_of,
)
from kafkaesque.model.message_headers import DEATH
from kafkaesque.protocols.amqp.errors import AmqpError
from kafkaesque.protocols.amqp.properties import (
    NO_PROPERTIES,
    Properties,
    read_properties,
    write_properties,
)
from kafkaesque.protocols.amqp.stored_message import StoredMessage
from kafkaesque.protocols.amqp.wire import SHORT_STRING_BYTES_MAX, Table, Timestamp

if TYPE_CHECKING:
    from kafkaesque.gateway.amqp.desk import Desk

#: Attempts that count as failed, and all that there were.
DELIVERY_COUNT: Final = "x-delivery-count"
ACQUIRED_COUNT: Final = "x-acquired-count"
#: What RabbitMQ calls the reasons of a death.
_REASONS: Final = {"too_long": "maxlen", "attempts": "delivery_limit"}


class _Death(msgspec.Struct, frozen=True, kw_only=True):
    """Why a message was given up, as the broker that moved it has said."""

    queue: str
    vhost: str = DEFAULT_VHOST
    reason: str = ""
    at_ms: int = 0


_death: Final = msgspec.json.Decoder(_Death)


class Incoming(NamedTuple):
    """What a delivery says of a message."""

    exchange: str
    routing_key: str
    properties: bytes
    is_redelivered: bool


def read_incoming(message: QueueMessage, queue: QueueState, desk: Desk, now_ms: int) -> Incoming:
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
        headers[DELIVERY_COUNT] = message.failures
    if is_redelivered:
        headers[ACQUIRED_COUNT] = message.attempt - 1
    exchange, routing_key = stored.exchange, stored.routing_key
    if known:
        headers.update(_history(known, stored, properties.expiration, desk))
        values["expiration"] = None
        exchange, routing_key = _sent_to(known[-1], stored, queue, desk)
    values["headers"] = headers or None
    raw = write_properties(Properties(**values))
    return Incoming(exchange, routing_key, raw, is_redelivered)


def _read_death(raw: bytes) -> _Death | None:
    try:
        return _death.decode(raw)
    except msgspec.MsgspecError:
        return None


def _declared(death: _Death, desk: Desk) -> Declaration | None:
    found = desk.doors.cluster.state.queues.get(QueueName(death.vhost, death.queue))
    return None if found is None else declaration_of(found)


def _sent_to(last: _Death, stored: StoredMessage, queue: QueueState, desk: Desk) -> tuple[str, str]:
    """Return exchange and key under which a dead letter has come here."""
    declared = _declared(last, desk)
    if declared is None:
        return "", queue.queue.name
    exchange = declared.text(DEAD_LETTER_EXCHANGE) or ""
    key = declared.text(DEAD_LETTER_KEY)
    return exchange, stored.routing_key if key is None else key


def _history(
    deaths: list[_Death], stored: StoredMessage, expiration: str | None, desk: Desk
) -> Table:
    """Return the headers that tell how a message has died: the last death first."""
    entries: dict[tuple[str, str], Table] = {}
    exchange, key = stored.exchange, stored.routing_key
    for death in deaths:
        reason = _REASONS.get(death.reason, death.reason)
        known = entries.pop((death.queue, reason), None)
        count = known["count"] if known is not None else 0
        entry: Table = known or {
            "reason": reason,
            "queue": death.queue,
            "time": Timestamp(death.at_ms // 1000),
            "exchange": exchange,
            "routing-keys": [key],
        }
        entry["count"] = count + 1 if isinstance(count, int) else 1
        if expiration is not None and reason == "expired" and len(entries) == 0:
            entry["original-expiration"] = expiration
        entries[death.queue, reason] = entry
        declared = _declared(death, desk)
        if declared is not None:
            exchange = declared.text(DEAD_LETTER_EXCHANGE) or ""
            key = declared.text(DEAD_LETTER_KEY) or key
    first, last = deaths[0], deaths[-1]
    return {
        "x-death": list(reversed(entries.values())),
        "x-first-death-reason": _REASONS.get(first.reason, first.reason),
        "x-first-death-queue": first.queue,
        "x-first-death-exchange": stored.exchange,
        "x-last-death-reason": _REASONS.get(last.reason, last.reason),
        "x-last-death-queue": last.queue,
        "x-last-death-exchange": exchange if len(deaths) > 1 else stored.exchange,
    }
