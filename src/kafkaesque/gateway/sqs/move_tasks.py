"""Message move tasks: all messages that wait in a queue of dead letters go to another queue.

The queue itself moves them, each once, and goes on after a failover: that is a redrive. What
clients are told of tasks stands in an option of the queue; whether the newest one runs, the queue
knows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from kafkaesque.access.audit import DataChange
from kafkaesque.access.operations import Operation
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST
from kafkaesque.broker.options.queues import MOVE_TASKS, REDRIVE_RATE
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.commands import Done
from kafkaesque.broker.requests.queue_commands import ChangeQueue
from kafkaesque.gateway.sqs.attributes import QueueOptions
from kafkaesque.gateway.sqs.authorization import Need, find_refusal
from kafkaesque.gateway.sqs.call import Call, OnQueue, RequestT, queue_name
from kafkaesque.gateway.sqs.data_changes import tell_change
from kafkaesque.gateway.sqs.finding import QueueFinder
from kafkaesque.model.errors import RequestRefused
from kafkaesque.protocols.sqs.errors import SqsError, invalid_value
from kafkaesque.protocols.sqs.names import read_arn, read_handle, write_arn, write_handle
from kafkaesque.protocols.sqs.service import (
    CancelMessageMoveTaskRequest,
    CancelMessageMoveTaskResult,
    ListMessageMoveTasksRequest,
    ListMessageMoveTasksResult,
    ListMessageMoveTasksResultEntry,
    StartMessageMoveTaskRequest,
    StartMessageMoveTaskResult,
)

TIMEOUT_MS: Final = 20_000
#: Tasks of a queue that are remembered.
TASKS_MAX: Final = 10
RATE_MAX: Final = 500

_UNKNOWN: Final = "The resource that you specified for the {} parameter doesn't exist."
_NO_SOURCE: Final = _UNKNOWN.format("SourceArn")
_NO_TARGET: Final = _UNKNOWN.format("DestinationArn")
_NO_TASK: Final = "Task does not exist."


class Task(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A move as it was begun, and how it has ended if that is known."""

    id: str
    target: str
    rate: int = 0
    started_ms: int
    to_move: int
    #: How many the queue had moved in all when it began.
    moved_before: int
    #: How many it has moved, once another one has begun.
    moved: int = -1
    is_cancelled: bool = False


_tasks: Final = msgspec.json.Decoder(tuple[Task, ...])


class MoveTasks:
    """See the module."""

    __slots__ = ("_doors", "_finder")

    def __init__(self, doors: Doors, finder: QueueFinder) -> None:
        self._doors = doors
        self._finder = finder

    # -- starting

    def start(self, call: Call[StartMessageMoveTaskRequest]) -> None:
        """Begin to move what waits in a queue of dead letters.

        Raises:
            SqsError: an ARN is none of a queue, or the rate out of range.
        """
        request = call.request
        rate = request.max_number_of_messages_per_second or 0
        if not 0 <= rate <= RATE_MAX or request.max_number_of_messages_per_second == 0:
            raise invalid_value(
                f"Value {rate} for parameter MaxNumberOfMessagesPerSecond is invalid. Reason: Must "
                f"be between 1 and {RATE_MAX}, if provided."
            )

        def go_on(source: QueueState) -> None:
            self._find_target(
                call,
                source,
                lambda target: self._count(
                    call, source, lambda counts: begin(source, target.queue.name, counts)
                ),
            )

        def begin(source: QueueState, target: str, counts: q.QueueCounts) -> None:
            if _is_running(counts):
                raise SqsError(
                    "UnsupportedOperation",
                    "There is already a task running. Only one active task is allowed for a source "
                    "queue arn at a given time.",
                )
            task = Task(
                id=self._doors.dice.unique_bytes(8).hex(),
                target=target,
                rate=rate,
                started_ms=self._doors.clock.wall_ms(),
                to_move=counts.ready + counts.parked,
                moved_before=_moved(counts),
            )
            tasks = (task, *_finished(_tasks_of(source), counts))[:TASKS_MAX]
            handle = write_handle([source.queue.name, task.id])
            self._keep(
                call,
                source,
                tasks,
                rate,
                lambda: self._redrive(
                    call,
                    source,
                    target,
                    lambda: call.done(StartMessageMoveTaskResult(task_handle=handle)),
                ),
            )

        self._find(call, read_arn(request.source_arn), go_on)

    def _find_target(
        self, call: Call[StartMessageMoveTaskRequest], source: QueueState, then: OnQueue
    ) -> None:
        """Go on with what is named, or with where the dead letters have come from."""
        name, said = source.queue.name, call.request.destination_arn
        sources = [
            each.queue.name
            for each in self._doors.queues.all()
            if each.queue.vhost == DEFAULT_VHOST
            and QueueOptions(each.options).dead_letter_queue == name
        ]
        if not sources:
            raise invalid_value("Source queue must be configured as a Dead Letter Queue.")
        if not said and len(sources) > 1:
            raise SqsError(
                "UnsupportedOperation",
                f"Name DestinationArn: {len(sources)} queues have this one for their dead letters.",
            )
        target = read_arn(said) if said else sources[0]
        if target is None:
            raise _not_found(_NO_TARGET)
        if target == name:
            raise invalid_value("Source and destination must not be the same queue.")
        unnamed = "" if said else "no rule allows write on the queue that they have come from"
        refusal = find_refusal(call.rights, Need(Operation.WRITE, target), unnamed)
        if refusal is not None:
            raise refusal

        def on_found(found: QueueState) -> None:
            if QueueOptions(found.options).is_fifo != QueueOptions(source.options).is_fifo:
                raise invalid_value("Source and destination must be queues of the same type.")
            then(found)

        self._finder.find_or(call, target, on_found, lambda: call.fail(_not_found(_NO_TARGET)))

    def _redrive(
        self, call: Call[RequestT], source: QueueState, target: str, then: Callable[[], None]
    ) -> None:
        def on_done(outcome: Done | RequestRefused) -> None:
            name, detail = source.queue.name, {"to": target or "nowhere: it was stopped"}
            tell_change(self._doors, call, DataChange.REDRIVE, name, outcome, detail)
            if isinstance(outcome, RequestRefused):
                call.fail(outcome)
            else:
                then()

        request = q.RedriveQueue(log_id=source.topic_id, target=target)
        self._doors.queues.ask_whole(request, Done, TIMEOUT_MS, on_done)

    def _keep(
        self,
        call: Call[RequestT],
        source: QueueState,
        tasks: tuple[Task, ...],
        rate: int,
        then: Callable[[], None],
    ) -> None:
        """Keep what is known of tasks; the controller asks for no right to change options."""
        said = msgspec.json.encode(tasks).decode()
        changes = {MOVE_TASKS: said, REDRIVE_RATE: str(rate) if rate else None}

        def on_kept(outcome: object) -> None:
            if isinstance(outcome, RequestRefused):
                call.fail(outcome)
            else:
                self._doors.cluster.when_current(TIMEOUT_MS, lambda _: then())

        command = ChangeQueue(vhost=source.queue.vhost, name=source.queue.name, changes=changes)
        self._doors.cluster.submit(call.sign(command), TIMEOUT_MS, on_kept)

    # -- cancelling and listing

    def cancel(self, call: Call[CancelMessageMoveTaskRequest]) -> None:
        """End a move that runs; what has been moved stays where it is.

        Raises:
            SqsError: there is no such task.
        """
        words = read_handle(call.request.task_handle, 2)
        if words is None:
            raise _not_found(_NO_TASK)
        name, task_id = words

        def go_on(source: QueueState) -> None:
            self._count(call, source, lambda counts: end(source, counts))

        def end(source: QueueState, counts: q.QueueCounts) -> None:
            tasks = _tasks_of(source)
            if not any(each.id == task_id for each in tasks):
                raise _not_found(_NO_TASK)
            if tasks[0].id != task_id or not counts.redriving_to:
                raise SqsError("UnsupportedOperation", "Only active tasks can be cancelled.")
            cancelled = msgspec.structs.replace(tasks[0], is_cancelled=True)
            moved = _moved(counts) - cancelled.moved_before
            result = CancelMessageMoveTaskResult(approximate_number_of_messages_moved=moved)
            self._redrive(
                call,
                source,
                "",
                lambda: self._keep(
                    call,
                    source,
                    (cancelled, *tasks[1:]),
                    cancelled.rate,
                    lambda: call.done(result),
                ),
            )

        self._find(call, name, go_on)

    def list_tasks(self, call: Call[ListMessageMoveTasksRequest]) -> None:
        """List the last moves of a queue, the newest first.

        Raises:
            SqsError: the ARN is none of a queue, or a parameter is out of range.
        """
        most = 1 if call.request.max_results is None else call.request.max_results
        if not 1 <= most <= TASKS_MAX:
            raise invalid_value(
                f"Value {most} for parameter MaxResults is invalid. Reason: Must be between 1 and "
                f"{TASKS_MAX}, if provided."
            )

        def go_on(source: QueueState) -> None:
            self._count(call, source, lambda counts: answer(source, counts))

        def answer(source: QueueState, counts: q.QueueCounts) -> None:
            tasks = _tasks_of(source)[:most]
            shown = tuple(
                self._shown(source, each, counts if number == 0 else None)
                for number, each in enumerate(tasks)
            )
            call.done(ListMessageMoveTasksResult(results=shown))

        self._find(call, read_arn(call.request.source_arn), go_on)

    def _shown(
        self, source: QueueState, task: Task, counts: q.QueueCounts | None
    ) -> ListMessageMoveTasksResultEntry:
        """Return what is said of a task; `counts` of the newest."""
        is_running = counts is not None and _is_running(counts)
        moved = task.moved if counts is None else _moved(counts) - task.moved_before
        is_lost = counts is not None and counts.parked > 0
        has_target = queue_name(task.target) in self._doors.cluster.state.queues
        reason = None
        if task.is_cancelled:
            status = "CANCELLING" if is_running else "CANCELLED"
        elif is_running:
            status = "RUNNING"
        elif is_lost and not has_target:
            status, reason = "FAILED", "AWS.SimpleQueueService.NonExistentQueue"
        else:
            status = "COMPLETED"
        handle = write_handle([source.queue.name, task.id])
        return ListMessageMoveTasksResultEntry(
            task_handle=handle if status == "RUNNING" else None,
            status=status,
            source_arn=write_arn(source.queue.name),
            destination_arn=write_arn(task.target),
            max_number_of_messages_per_second=task.rate or None,
            approximate_number_of_messages_moved=moved,
            approximate_number_of_messages_to_move=task.to_move,
            failure_reason=reason,
            started_timestamp=task.started_ms,
        )

    # -- both

    def _find(
        self, call: Call[RequestT], name: str | None, then: Callable[[QueueState], None]
    ) -> None:
        if name is None:
            raise _not_found(_NO_SOURCE)
        self._finder.find_or(call, name, then, lambda: call.fail(_not_found(_NO_SOURCE)))

    def _count(
        self, call: Call[RequestT], source: QueueState, then: Callable[[q.QueueCounts], None]
    ) -> None:
        def on_counted(outcome: q.QueueCounts | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                call.fail(outcome)
            else:
                call.try_to(lambda: then(outcome))

        request = q.AskQueue(log_id=source.topic_id)
        self._doors.queues.ask_whole(request, q.QueueCounts, TIMEOUT_MS, on_counted)


def _not_found(what: str) -> SqsError:
    # A new one each time: one that is raised again keeps the frames of all times before.
    return SqsError("ResourceNotFoundException", what)


def _tasks_of(source: QueueState) -> tuple[Task, ...]:
    said = source.options.get(MOVE_TASKS)
    try:
        return _tasks.decode(said) if said else ()
    except msgspec.MsgspecError:
        return ()


def _finished(tasks: tuple[Task, ...], counts: q.QueueCounts) -> tuple[Task, ...]:
    """Return tasks with what the newest has moved: from now on the queue counts another's."""
    if not tasks:
        return ()
    moved = _moved(counts) - tasks[0].moved_before
    return (msgspec.structs.replace(tasks[0], moved=moved), *tasks[1:])


def _moved(counts: q.QueueCounts) -> int:
    return counts.removed.get("redriven", 0)


def _is_running(counts: q.QueueCounts) -> bool:
    return bool(counts.redriving_to or counts.moving)
