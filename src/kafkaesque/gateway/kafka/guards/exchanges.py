"""Virtual hosts, exchanges and bindings; the controller asks once more for what it changes.

RabbitMQ's three rights are ours so: configure is Create and Delete, write is Write, read is Read.
"""

from typing import Any, Final

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.broker.metadata.queue_names import QueueName, exchange_resource, queue_resource
from kafkaesque.chassis.rights import Rights
from kafkaesque.chassis.routing_keys import refusal_of_keys
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.exchanges import Action, DestinationType
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.alter_binding_response import AlterBindingResponse
from kafkaesque.protocols.kafka.messages.alter_exchange_response import AlterExchangeResponse
from kafkaesque.protocols.kafka.messages.alter_vhost_response import AlterVhostResponse
from kafkaesque.protocols.kafka.messages.publish_messages_response import PublishMessagesResponse

FORBIDDEN: Final = ErrorCode.EXCHANGE_AUTHORIZATION_FAILED


def _may(rights: Rights, operation: Operation, vhost: str, exchange: str) -> bool:
    return rights.may(operation, ResourceType.EXCHANGE, exchange_resource(vhost, exchange))


def _words(rights: Rights, operation: Operation, vhost: str, exchange: str) -> str:
    return rights.refusal(operation, ResourceType.EXCHANGE, exchange_resource(vhost, exchange))


def describe(rights: Rights, context: Context, call: Call) -> bool:
    """Who asks is shown the exchanges that he may describe, and their bindings."""

    def could(vhost: str, exchange: str) -> bool:
        name = exchange_resource(vhost, exchange)
        return rights.could(Operation.DESCRIBE, ResourceType.EXCHANGE, name)

    def amend(answer: Any) -> None:
        for each in answer.vhosts:
            each.exchanges = [one for one in each.exchanges if could(each.vhost, one.exchange)]
            each.bindings = [one for one in each.bindings if could(each.vhost, one.source)]
        answer.vhosts = [
            each
            for each in answer.vhosts
            if each.exchanges or rights.could(Operation.DESCRIBE, ResourceType.VHOST, each.vhost)
        ]

    def look_absent(answer: Any) -> None:
        amend(answer)
        if not answer.vhosts and not answer.error_code:
            # As if there were no such virtual host.
            answer.error_code = ErrorCode.UNKNOWN_VHOST
            answer.error_message = f"vhost '{request.vhost}' not found"

    request = call.read()
    call.prepare(request, amend if request.vhost is None else look_absent)
    return True


def alter_vhost(rights: Rights, context: Context, call: Call) -> bool:
    """Whoever may alter the cluster may do it, too."""
    request = call.read()
    operation = Operation.DELETE if request.action == Action.DELETE else Operation.CREATE
    if rights.could_cluster(Operation.ALTER) or rights.may(
        operation, ResourceType.VHOST, request.vhost
    ):
        call.prepare(request)
        return True
    refused = ErrorCode.VHOST_AUTHORIZATION_FAILED
    message = rights.refusal(operation, ResourceType.VHOST, request.vhost)
    call.answer(AlterVhostResponse(error_code=refused, error_message=message))
    return False


def alter_exchange(rights: Rights, context: Context, call: Call) -> bool:
    """Declaring needs Create, deleting Delete; of an alternate exchange the controller asks."""
    request = call.read()
    operation = Operation.DELETE if request.action == Action.DELETE else Operation.CREATE
    is_creator = operation is Operation.CREATE and rights.could_cluster(operation)
    if is_creator or _may(rights, operation, request.vhost, request.exchange):
        call.prepare(request)
        return True
    words = _words(rights, operation, request.vhost, request.exchange)
    call.answer(AlterExchangeResponse(error_code=FORBIDDEN, error_message=words))
    return False


def alter_binding(rights: Rights, context: Context, call: Call) -> bool:
    """A binding reads from where it begins, and writes where it leads."""
    request = call.read()
    name, vhost = request.destination, request.vhost
    source = exchange_resource(vhost, request.source)
    match request.destination_type:
        case DestinationType.EXCHANGE:
            kind, target = ResourceType.EXCHANGE, exchange_resource(vhost, name)
        case DestinationType.TOPIC:
            kind, target = ResourceType.TOPIC, name
        case _:
            kind, target = ResourceType.QUEUE, queue_resource(QueueName(vhost, name))
    for need in (
        (Operation.WRITE, kind, target),
        (Operation.READ, ResourceType.EXCHANGE, source),
    ):
        if not rights.may(*need):
            words = rights.refusal(*need)
            call.answer(AlterBindingResponse(error_code=FORBIDDEN, error_message=words))
            return False
    call.prepare(request)
    return True


def publish(rights: Rights, context: Context, call: Call) -> bool:
    """What an exchange passes messages on to asks nobody: whoever has bound it was asked."""
    request = call.read()
    vhost, exchange, keys = request.vhost, request.exchange, request.routing_keys
    words: str | None
    if _may(rights, Operation.WRITE, vhost, exchange):
        exchanges = context.doors.exchanges
        words = refusal_of_keys(rights, exchanges, Operation.WRITE, vhost, exchange, keys)
        if words is None:
            call.prepare(request)
            return True
    else:
        words = _words(rights, Operation.WRITE, vhost, exchange)
    call.answer(PublishMessagesResponse(error_code=FORBIDDEN, error_message=words))
    return False
