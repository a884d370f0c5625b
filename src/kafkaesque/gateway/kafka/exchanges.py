"""DescribeExchanges, AlterVhost, AlterExchange, AlterBinding and PublishMessages: APIs of ours.

Arguments of exchanges and bindings travel as a JSON object; an empty text is an empty object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, Final

import msgspec

from kafkaesque.broker.doors.publication import Publication
from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.metadata.queue_planner import MESSAGE_BYTES_MAX
from kafkaesque.broker.requests.commands import ControllerResult
from kafkaesque.broker.requests.exchange_commands import (
    BindDestination,
    CreateVhost,
    DeclareExchange,
    DeleteExchange,
    DeleteVhost,
    ExchangeCommand,
    UnbindDestination,
)
from kafkaesque.chassis.meanings import shown_headers, stored_of
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.errors import code_of, message_of
from kafkaesque.model.batch import check_batches
from kafkaesque.model.errors import InvalidRequest, RequestRefused
from kafkaesque.model.message_headers import PREFIX
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.protocols.amqp.errors import AmqpError
from kafkaesque.protocols.amqp.properties import Properties, read_properties
from kafkaesque.protocols.amqp.wire import MALFORMED
from kafkaesque.protocols.kafka.messages.alter_binding_request import AlterBindingRequest
from kafkaesque.protocols.kafka.messages.alter_binding_response import AlterBindingResponse
from kafkaesque.protocols.kafka.messages.alter_exchange_request import AlterExchangeRequest
from kafkaesque.protocols.kafka.messages.alter_exchange_response import AlterExchangeResponse
from kafkaesque.protocols.kafka.messages.alter_vhost_request import AlterVhostRequest
from kafkaesque.protocols.kafka.messages.alter_vhost_response import AlterVhostResponse
from kafkaesque.protocols.kafka.messages.describe_exchanges_request import DescribeExchangesRequest
from kafkaesque.protocols.kafka.messages.describe_exchanges_response import (
    DescribedBinding,
    DescribedExchange,
    DescribedVhost,
    DescribeExchangesResponse,
)
from kafkaesque.protocols.kafka.messages.publish_messages_request import PublishMessagesRequest
from kafkaesque.protocols.kafka.messages.publish_messages_response import (
    PublishedMessage,
    PublishMessagesResponse,
)
from kafkaesque.routing.exchanges.records import Arguments, Destination
from kafkaesque.routing.exchanges.topology import Binding, Exchange
from kafkaesque.routing.message import RoutedMessage

#: Messages of one request.
MESSAGES_MAX: Final = 10_000

_arguments_decoder = msgspec.json.Decoder(dict[str, Any])


class Action(IntEnum):
    """What is to become of a virtual host, an exchange or a binding."""

    CREATE = 0
    DELETE = 1


class DestinationType(IntEnum):
    """What a binding leads to."""

    QUEUE = 0
    EXCHANGE = 1
    TOPIC = 2


def destination_of(kind: int, name: str) -> Destination:
    """Return where a binding leads.

    Raises:
        InvalidRequest: there is no such type.
    """
    if kind not in DestinationType.__members__.values():
        raise InvalidRequest(f"no type of destinations has the number {kind}")
    return Destination(name, kind == DestinationType.EXCHANGE, kind == DestinationType.TOPIC)


# -- changes


def on_alter_vhost(context: Context, call: Call) -> None:
    """Create or delete a virtual host."""
    request: AlterVhostRequest = call.read()

    def make() -> ExchangeCommand:
        if _is_deletion(request.action):
            return DeleteVhost(vhost=request.vhost)
        return CreateVhost(vhost=request.vhost)

    _submit(context, call, make, request.timeout_ms, AlterVhostResponse)


def on_alter_exchange(context: Context, call: Call) -> None:
    """Declare or delete an exchange."""
    request: AlterExchangeRequest = call.read()

    def make() -> ExchangeCommand:
        if _is_deletion(request.action):
            return DeleteExchange(
                vhost=request.vhost, name=request.exchange, if_unused=request.if_unused
            )
        return DeclareExchange(
            vhost=request.vhost,
            name=request.exchange,
            type=request.type,
            is_durable=request.is_durable,
            is_auto_delete=request.is_auto_delete,
            is_internal=request.is_internal,
            arguments=_arguments(request.arguments),
        )

    _submit(context, call, make, request.timeout_ms, AlterExchangeResponse)


def on_alter_binding(context: Context, call: Call) -> None:
    """Bind a queue, an exchange or a topic, or unbind it."""
    request: AlterBindingRequest = call.read()

    def make() -> ExchangeCommand:
        kind = UnbindDestination if _is_deletion(request.action) else BindDestination
        return kind(
            vhost=request.vhost,
            source=request.source,
            destination=destination_of(request.destination_type, request.destination),
            key=request.routing_key,
            arguments=_arguments(request.arguments),
        )

    _submit(context, call, make, request.timeout_ms, AlterBindingResponse)


def _is_deletion(action: int) -> bool:
    if action not in Action.__members__.values():
        raise InvalidRequest(f"no action has the number {action}")
    return action == Action.DELETE


def _arguments(text: str) -> dict[str, object]:
    if not text:
        return {}
    try:
        return _arguments_decoder.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidRequest(f"arguments have to be a JSON object: {error}") from None


def _submit(
    context: Context,
    call: Call,
    make: Callable[[], ExchangeCommand],
    timeout_ms: int,
    response: Callable[..., Any],
) -> None:
    def on_outcome(outcome: ControllerResult | RequestRefused) -> None:
        if isinstance(outcome, RequestRefused):
            call.answer(response(error_code=code_of(outcome), error_message=message_of(outcome)))
        else:
            call.answer(response())

    try:
        command = call.on_behalf(make())
    except RequestRefused as refusal:
        on_outcome(refusal)
    else:
        context.doors.exchanges.submit(command, max(1, timeout_ms), on_outcome)


# -- describing


def on_describe(context: Context, call: Call) -> None:
    """Describe one virtual host, or all, with its exchanges and, if that is asked, bindings."""
    request: DescribeExchangesRequest = call.read()
    door = context.doors.exchanges
    try:
        names = door.vhosts() if request.vhost is None else [request.vhost]
        found = [_vhost(context, name, with_bindings=request.with_bindings) for name in names]
    except RequestRefused as refusal:
        call.answer(
            DescribeExchangesResponse(
                error_code=code_of(refusal), error_message=message_of(refusal)
            )
        )
    else:
        call.answer(DescribeExchangesResponse(vhosts=found))


def _vhost(context: Context, name: str, *, with_bindings: bool) -> DescribedVhost:
    door = context.doors.exchanges
    exchanges = door.vhost(name).exchanges
    return DescribedVhost(
        vhost=name,
        exchanges=[_exchange(exchanges[each]) for each in sorted(exchanges)],
        bindings=[_binding(each) for each in door.bindings(name)] if with_bindings else [],
    )


def _exchange(exchange: Exchange) -> DescribedExchange:
    said = exchange.definition
    return DescribedExchange(
        exchange=said.name,
        type=said.type,
        is_durable=said.is_durable,
        is_auto_delete=said.is_auto_delete,
        is_internal=said.is_internal,
        arguments=_text(said.arguments),
        binding_count=len(exchange.bindings),
    )


def _binding(binding: Binding) -> DescribedBinding:
    to = binding.destination
    kind = DestinationType.EXCHANGE if to.is_exchange else DestinationType.QUEUE
    return DescribedBinding(
        source=binding.source,
        destination_type=DestinationType.TOPIC if to.is_topic else kind,
        destination=to.name,
        routing_key=binding.key,
        arguments=_text(binding.arguments),
    )


def _text(arguments: Arguments) -> str:
    return msgspec.json.encode(arguments).decode() if arguments else ""


# -- publishing


def on_publish(context: Context, call: Call) -> None:
    """Publish messages; answered when each is committed wherever it is routed to."""
    request: PublishMessagesRequest = call.read()

    def on_done(outcomes: Sequence[int | RequestRefused]) -> None:
        call.answer(PublishMessagesResponse(messages=[_published(each) for each in outcomes]))

    try:
        publications = _publications(request)
    except RequestRefused as refusal:
        call.answer(
            PublishMessagesResponse(error_code=code_of(refusal), error_message=message_of(refusal))
        )
    else:
        door = context.doors.exchanges
        door.publish(
            request.vhost, request.exchange, publications, max(1, request.timeout_ms), on_done
        )


def _publications(request: PublishMessagesRequest) -> list[Publication]:
    if request.records is None:
        raise InvalidRequest("there are no records")
    check_batches(request.records, MESSAGE_BYTES_MAX)
    records = decode_batch(request.records, MESSAGE_BYTES_MAX)
    if len(records) != len(request.routing_keys):
        raise InvalidRequest(
            f"{len(records)} records have {len(request.routing_keys)} routing keys"
        )
    if len(records) > MESSAGES_MAX:
        raise InvalidRequest(f"a request has at most {MESSAGES_MAX} messages")
    return [
        _publication(record, key) for record, key in zip(records, request.routing_keys, strict=True)
    ]


def _publication(record: Record, key: str) -> Publication:
    message = NewMessage(record.value, record.key, record.headers)
    stored = stored_of(record.headers)
    if stored is None:
        return Publication(_routed(record, key), message)
    try:
        properties = read_properties(stored.properties)
    except (AmqpError, *MALFORMED):
        raise InvalidRequest("the properties of a message cannot be read") from None
    said = {name: getattr(properties, name) for name in Properties.__struct_fields__}
    routed = RoutedMessage(
        key=key, headers=properties.headers, properties=said, body=record.value or b""
    )
    return Publication(routed, message, shown_headers(record.headers), show=shown_headers)


def _routed(record: Record, key: str) -> RoutedMessage:
    headers = {
        name: None if value is None else value.decode(errors="surrogateescape")
        for name, value in record.headers
        if not name.startswith(PREFIX)
    }
    return RoutedMessage(key=key, headers=headers, body=record.value or b"")


def _published(outcome: int | RequestRefused) -> PublishedMessage:
    if isinstance(outcome, RequestRefused):
        return PublishedMessage(code_of(outcome), message_of(outcome), 0)
    return PublishedMessage(destination_count=outcome)
