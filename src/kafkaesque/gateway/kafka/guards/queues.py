"""Queues: what their messages are asked for, and the queues themselves."""

from importlib import import_module
from typing import Any, Final

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.broker.metadata.queue_names import QueueName, queue_resource
from kafkaesque.chassis.rights import Rights
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.guards.filtering import Guard, keep_allowed
from kafkaesque.gateway.kafka.queue_admin import Maintenance
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.describe_queues_request import QueueName as AskedQueue
from kafkaesque.protocols.kafka.messages.describe_queues_response import DescribedQueue

FORBIDDEN: Final = ErrorCode.QUEUE_AUTHORIZATION_FAILED


def _may(rights: Rights, operation: Operation, vhost: str, queue: str) -> bool:
    return rights.may(operation, ResourceType.QUEUE, queue_resource(QueueName(vhost, queue)))


def _words(rights: Rights, operation: Operation, vhost: str, queue: str) -> str:
    name = queue_resource(QueueName(vhost, queue))
    return rights.refusal(operation, ResourceType.QUEUE, name)


def _refuse(call: Call, message: str) -> bool:
    name = ApiKey(call.header.api_key).name
    module = import_module(f"kafkaesque.protocols.kafka.messages.{name.lower()}_response")
    kind = "".join(word.capitalize() for word in name.split("_")) + "Response"
    call.answer(getattr(module, kind)(error_code=FORBIDDEN, error_message=message))
    return False


def _guard(operation: Operation, *, or_cluster: bool = False) -> Guard:
    def guard(rights: Rights, context: Context, call: Call) -> bool:
        request = call.read()
        if (or_cluster and rights.could_cluster(operation)) or _may(
            rights, operation, request.vhost, request.queue
        ):
            call.prepare(request)
            return True
        return _refuse(call, _words(rights, operation, request.vhost, request.queue))

    return guard


put_messages: Final[Guard] = _guard(Operation.WRITE)
take_messages: Final[Guard] = _guard(Operation.READ)
create_queue: Final[Guard] = _guard(Operation.CREATE, or_cluster=True)
alter_queue: Final[Guard] = _guard(Operation.ALTER, or_cluster=True)
delete_queue: Final[Guard] = _guard(Operation.DELETE, or_cluster=True)


def maintain_queue(rights: Rights, context: Context, call: Call) -> bool:
    """Whoever purges, or moves messages elsewhere, could as well take them all."""
    request = call.read()
    if not _may(rights, Operation.READ, request.vhost, request.queue):
        return _refuse(call, _words(rights, Operation.READ, request.vhost, request.queue))
    is_moved = request.action == Maintenance.REDRIVE and request.target
    if is_moved and not _may(rights, Operation.WRITE, request.vhost, request.target):
        return _refuse(call, _words(rights, Operation.WRITE, request.vhost, request.target))
    call.prepare(request)
    return True


def describe_queues(rights: Rights, context: Context, call: Call) -> bool:
    """Who asks for all is shown those that it may describe."""
    request = call.read()

    def is_allowed(queue: Any) -> bool:
        return _may(rights, Operation.DESCRIBE, queue.vhost, queue.queue)

    def could_describe(queue: Any) -> bool:
        name = queue_resource(QueueName(queue.vhost, queue.queue))
        return rights.could(Operation.DESCRIBE, ResourceType.QUEUE, name)

    if request.queues is None:
        named = [AskedQueue(*each.queue) for each in context.doors.queues.all()]
        request.queues = [each for each in named if could_describe(each)]
        call.prepare(request)
        return True

    def absent(queue: Any) -> DescribedQueue:
        words = _words(rights, Operation.DESCRIBE, queue.vhost, queue.queue)
        return DescribedQueue(
            error_code=FORBIDDEN, error_message=words, vhost=queue.vhost, queue=queue.queue
        )

    keep_allowed(call, request, "queues", is_allowed, "queues", absent)
    return True
