"""What each operation of SQS needs: one table. One without a row stops the start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.chassis.rights import Rights
from kafkaesque.protocols.sqs.errors import SqsError
from kafkaesque.protocols.sqs.names import read_arn, read_handle, read_url


class Need(NamedTuple):
    """An operation on a queue, by name."""

    operation: Operation
    queue: str
    #: Whether one who may do it to the cluster needs no rule for the queue.
    or_cluster: bool = False


#: What a request of an operation needs.
Row = Callable[[Any], Iterator[Need]]


def _of_url(*operations: Operation, or_cluster: bool = False) -> Row:
    def needs(request: Any) -> Iterator[Need]:
        queue = read_url(request.queue_url)
        for each in operations:
            yield Need(each, queue, or_cluster)

    return needs


def _of_name(operation: Operation, *, or_cluster: bool = False) -> Row:
    def needs(request: Any) -> Iterator[Need]:
        yield Need(operation, request.queue_name, or_cluster)

    return needs


def _nothing(_: Any) -> Iterator[Need]:
    """Shows what the client may see."""
    yield from ()


def _of_source(*operations: Operation) -> Row:
    def needs(request: Any) -> Iterator[Need]:
        for each in operations:
            yield Need(each, read_arn(request.source_arn) or "")

    return needs


def _of_move(request: Any) -> Iterator[Need]:
    """Takes from one queue and puts into another; without a target, where it is looked up."""
    yield Need(Operation.READ, read_arn(request.source_arn) or "")
    yield Need(Operation.WRITE, read_arn(request.source_arn) or "")
    if request.destination_arn:
        yield Need(Operation.WRITE, read_arn(request.destination_arn) or "")


def _of_task(request: Any) -> Iterator[Need]:
    words = read_handle(request.task_handle, 2)
    yield Need(Operation.READ, words[0] if words else "")
    yield Need(Operation.WRITE, words[0] if words else "")


_O: Final = Operation
ROWS: Final[Mapping[str, Row]] = {
    "AddPermission": _of_url(_O.ALTER, or_cluster=True),
    "CancelMessageMoveTask": _of_task,
    "ChangeMessageVisibility": _of_url(_O.READ),
    "ChangeMessageVisibilityBatch": _of_url(_O.READ),
    "CreateQueue": _of_name(_O.CREATE, or_cluster=True),
    "DeleteMessage": _of_url(_O.READ),
    "DeleteMessageBatch": _of_url(_O.READ),
    "DeleteQueue": _of_url(_O.DELETE, or_cluster=True),
    "GetQueueAttributes": _of_url(_O.DESCRIBE),
    "GetQueueUrl": _of_name(_O.DESCRIBE),
    "ListDeadLetterSourceQueues": _of_url(_O.DESCRIBE),
    "ListMessageMoveTasks": _of_source(_O.DESCRIBE),
    "ListQueueTags": _of_url(_O.DESCRIBE),
    "ListQueues": _nothing,
    "PurgeQueue": _of_url(_O.READ),
    "ReceiveMessage": _of_url(_O.READ),
    "RemovePermission": _of_url(_O.ALTER, or_cluster=True),
    "SendMessage": _of_url(_O.WRITE),
    "SendMessageBatch": _of_url(_O.WRITE),
    "SetQueueAttributes": _of_url(_O.ALTER, or_cluster=True),
    "StartMessageMoveTask": _of_move,
    "TagQueue": _of_url(_O.ALTER, or_cluster=True),
    "UntagQueue": _of_url(_O.ALTER, or_cluster=True),
}


def check_rights(rights: Rights | None, operation: str, request: Any) -> None:
    """Check that a client may have an operation done; without `rights` it may.

    Raises:
        SqsError: no rule allows it, or the queue's URL is none.
    """
    if rights is None:
        return
    for need in ROWS[operation](request):
        refusal = find_refusal(rights, need)
        if refusal is not None:
            raise refusal


def find_refusal(rights: Rights | None, need: Need, words: str = "") -> SqsError | None:
    """Return what a client is told that may not do something; None where it may.

    With `words` it is told these: the queue is not one that it has named.
    """
    if rights is None or is_allowed(rights, need):
        return None
    words = words or rights.refusal(need.operation, ResourceType.QUEUE, need.queue)
    return SqsError("AccessDenied", f"{words[0].upper()}{words[1:]}.")


def is_allowed(rights: Rights, need: Need) -> bool:
    """Tell whether a client may do something to a queue; that it may not is audited."""
    if need.or_cluster and rights.could_cluster(need.operation):
        return True
    return rights.may(need.operation, ResourceType.QUEUE, need.queue)
