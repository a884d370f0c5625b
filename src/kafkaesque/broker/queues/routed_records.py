"""Messages of queues as routing sees them, whichever protocol's client has published them."""

from __future__ import annotations

from typing import Protocol

from kafkaesque.model.kernel_types import Headers
from kafkaesque.model.message_headers import PREFIX, STORED_AMQP
from kafkaesque.routing.exchanges.router import BLIND_CARBON_COPY, CARBON_COPY
from kafkaesque.routing.message import RoutedMessage


class KeptMessage(Protocol):
    """What a queue keeps of a message: a record has it."""

    @property
    def key(self) -> bytes | None:
        """The record's key."""

    @property
    def value(self) -> bytes | None:
        """The body."""

    @property
    def headers(self) -> Headers:
        """Its headers, those of gateways and brokers among them."""


def routed_of(message: KeptMessage, key: str | None) -> RoutedMessage:
    """Return a queue's message as routing sees it, under another key if one is given."""
    found = routed_of_amqp(message)
    if found is None:
        headers = {
            name: None if value is None else value.decode(errors="surrogateescape")
            for name, value in message.headers
            if not name.startswith(PREFIX)
        }
        own = "" if message.key is None else message.key.decode(errors="surrogateescape")
        found = RoutedMessage(key=own, headers=headers, body=message.value or b"")
    if key is None:
        return found
    # Copies were meant for the key that the message was published with.
    kept = {
        name: value
        for name, value in found.headers.items()
        if name not in (CARBON_COPY, BLIND_CARBON_COPY)
    }
    return RoutedMessage(key=key, headers=kept, properties=found.properties, body=found.body)


def routed_of_amqp(message: KeptMessage) -> RoutedMessage | None:
    """Return a message as its publisher, a client of AMQP, sees it; None: it has another one."""
    raw = next((value for name, value in message.headers if name == STORED_AMQP), None)
    if raw is None:
        return None
    # Only queues that clients of AMQP publish to need it.
    from kafkaesque.protocols.amqp.errors import AmqpError
    from kafkaesque.protocols.amqp.properties import read_properties
    from kafkaesque.protocols.amqp.stored_message import read_stored

    stored = read_stored(raw)
    if stored is None:
        return None
    try:
        said = read_properties(stored.properties)
    except AmqpError:
        return None
    values = {name: getattr(said, name) for name in said.__struct_fields__ if name != "headers"}
    return RoutedMessage(
        key=stored.routing_key,
        headers=said.headers,
        properties={name: value for name, value in values.items() if value is not None},
        body=message.value or b"",
    )
