"""Finds the queues that requests name, and asks all partitions of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from kafkaesque.broker.metadata.queue_names import QueueName
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.errors import code_of, message_of
from kafkaesque.model.errors import LeaderNotAvailable, RequestRefused, UnknownQueue
from kafkaesque.model.ids import TopicId

#: How long a request for a queue that is unknown here waits for the metadata of now.
METADATA_MS_MAX: Final = 5_000

ResultT = TypeVar("ResultT")


def log_of(context: Context, vhost: str, queue: str) -> TopicId:
    """Return the id of a queue's log.

    Raises:
        UnknownQueue: there is no such queue.
    """
    return context.doors.queues.find(QueueName(vhost, queue)).topic_id


def look_up(
    context: Context, queues: Iterable[QueueName], on_known: Callable[[bool], None]
) -> None:
    """Call with True at once, or, if one of these queues is unknown here, when it is sure.

    Who has made a queue over another broker may be ahead of this one. With False where it cannot be
    found out, as there is no controller.
    """
    names = list(queues)

    def is_known() -> bool:
        known = context.doors.cluster.state.queues
        return all(each in known for each in names)

    if is_known():
        on_known(True)
    else:
        context.doors.cluster.when_current(
            METADATA_MS_MAX, lambda is_current: on_known(is_current or is_known())
        )


def doubtful() -> RequestRefused:
    """Return what is said of a queue that is unknown here, if it is not sure: ask again."""
    return LeaderNotAvailable("this broker cannot find out whether there is such a queue")


def when_known(
    context: Context,
    call: Call,
    queues: Iterable[QueueName],
    response: Callable[..., Any],
    go_on: Callable[[], None],
) -> None:
    """Go on when these queues are known, or there are none; else answer with a `response`."""

    def on_known(is_sure: bool) -> None:
        if is_sure:
            go_on()
            return
        refusal = doubtful()
        call.answer(response(error_code=code_of(refusal), error_message=message_of(refusal)))

    look_up(context, queues, on_known)


def partitions_of(context: Context, log_id: TopicId) -> range:
    queue = context.doors.cluster.state.queues_by_log.get(log_id)
    return range(0 if queue is None else len(queue.partitions))


def ask_all(
    context: Context,
    request: q.AnyQueueRequest,
    result_type: type[ResultT],
    timeout_ms: int,
    answer: Callable[[ResultT | RequestRefused], None],
) -> None:
    """Ask all partitions of a queue; the answer is the first one's, or a refusal of any."""
    numbers = partitions_of(context, TopicId(request.log_id))
    outcomes: dict[int, ResultT | RequestRefused] = {}

    def on_done(number: int, outcome: ResultT | RequestRefused) -> None:
        outcomes[number] = outcome
        if len(outcomes) == len(numbers):
            refused = [each for each in outcomes.values() if isinstance(each, RequestRefused)]
            answer(refused[0] if refused else outcomes[numbers[0]])

    for number in numbers:
        each = replace(request, partition=number)
        context.doors.queues.ask(each, result_type, timeout_ms, partial(on_done, number))
    if not numbers:
        answer(UnknownQueue("the queue does not exist any more"))
