"""RunTransaction: it needs what each of its parts would need alone."""

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.broker.metadata.queue_names import QueueName, queue_resource
from kafkaesque.chassis.rights import Rights
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.run_transaction_request import RunTransactionRequest
from kafkaesque.protocols.kafka.messages.run_transaction_response import RunTransactionResponse


def run(rights: Rights, context: Context, call: Call) -> bool:
    """Puts need Write on their queue, settlements Read, and records Write on their topic."""
    request: RunTransactionRequest = call.read()
    for asked in request.queues:
        name = queue_resource(QueueName(request.vhost, asked.queue))
        # One that does neither is asked for something, too: whether the queue exists.
        needs_read = bool(asked.claims) or not asked.records
        may_write = not asked.records or rights.may(Operation.WRITE, ResourceType.QUEUE, name)
        may_read = not needs_read or rights.may(Operation.READ, ResourceType.QUEUE, name)
        if not (may_write and may_read):
            return _refuse(call, ErrorCode.QUEUE_AUTHORIZATION_FAILED, "Queue")
    for topic in request.topics:
        if not rights.may(Operation.WRITE, ResourceType.TOPIC, topic.topic):
            return _refuse(call, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic")
    call.prepare(request)
    return True


def _refuse(call: Call, code: ErrorCode, kind: str) -> bool:
    message = f"{kind} authorization failed."
    call.answer(RunTransactionResponse(error_code=code, error_message=message))
    return False
