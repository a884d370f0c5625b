"""What the API changes of queues; each change has a dry run, and names its command."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeVar

from kafkaesque.access.audit import DataChange
from kafkaesque.access.operations import CLUSTER_NAME, Operation, ResourceType
from kafkaesque.admin.api.calls import Call
from kafkaesque.admin.api.changes import CHANGE_MS_MAX, OptionChanges, answer_change
from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.queue_values import NewQueue, QueueDryRun, Redrive
from kafkaesque.admin.api.queues import QueuePages
from kafkaesque.broker.metadata.change_rights import way_refusal, ways_of
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST, QueueName, queue_resource
from kafkaesque.broker.metadata.queue_planner import plan_queue, plan_queue_change
from kafkaesque.broker.metadata.records import PartitionPlacement
from kafkaesque.broker.requests.commands import Done
from kafkaesque.broker.requests.queue_commands import (
    ChangeQueue,
    ClientQueueCommand,
    CreateQueue,
    DeleteQueue,
)
from kafkaesque.broker.requests.queue_requests import (
    AnyQueueRequest,
    AskQueue,
    PurgeQueue,
    QueueCounts,
    RedriveQueue,
    UnparkMessages,
)
from kafkaesque.model.counted import are, counted
from kafkaesque.model.errors import (
    InvalidRequest,
    QueueNotAuthorized,
    RequestRefused,
)
from kafkaesque.model.ids import TopicId

_NO_ID: Final = TopicId(bytes(16))

ResultT = TypeVar("ResultT")

AnyCall = Call[QueueDryRun, Any]
Sentence = Callable[[int], str]


class QueueChangePages:
    """See the module."""

    def __init__(self, context: Context, queues: QueuePages) -> None:
        self._context = context
        self._queues = queues

    # -- metadata

    def create_queue(self, call: Call[QueueDryRun, NewQueue]) -> None:
        """Create a queue; one that is there with the same options is as good."""
        body = call.body
        name = QueueName(body.vhost, body.name)
        command = CreateQueue(
            vhost=body.vhost,
            name=body.name,
            options=dict(body.options),
            replication_factor=body.replication_factor or -1,
        )
        words = _words("create", name)
        if body.replication_factor is not None:
            words += ["--replication-factor", str(body.replication_factor)]
        for option, value in body.options.items():
            words += ["--config", f"{option}={value}"]
        if not call.query.dry_run:
            self._submit(call, command, f"queue {body.name} is created", words, 201)
            return
        _check_ways(call, body.vhost, body.options)
        plan_queue(
            self._context.doors.cluster.state,
            command,
            place=_place_nothing,
            number=lambda _: (),
            new_id=lambda: _NO_ID,
            wall_ms=0,
        )
        answer_change(self._context, call, f"queue {body.name} can be created", words)

    def delete_queue(self, call: Call[QueueDryRun, None]) -> None:
        """Delete a queue with all that it holds."""
        queue = self._queues.find(call)
        if queue is None:
            return
        name = queue.queue
        words = [*_words("delete", name), "--yes"]
        if call.query.dry_run:

            def tell(count: int) -> str:
                held = counted(count, "message")
                return f"queue {name.name} with its {held} would be deleted for good"

            self._count(
                call,
                queue,
                _all_messages,
                lambda count: answer_change(self._context, call, tell(count), words),
            )
            return
        command = DeleteQueue(vhost=name.vhost, name=name.name)
        self._submit(call, command, f"queue {name.name} is deleted", words)

    def change_options(self, call: Call[QueueDryRun, OptionChanges]) -> None:
        """Change options of a queue, if they are still those that the client has seen."""
        queue = self._queues.find(call)
        if queue is None or not call.may_change(self._queues.options_of(queue)):
            return
        name, given = queue.queue, call.body.options
        command = ChangeQueue(vhost=name.vhost, name=name.name, changes=dict(given))
        words = _words("alter", name)
        for option, value in given.items():
            words += (
                ["--delete-config", option] if value is None else ["--config", f"{option}={value}"]
            )
        told = f"{', '.join(given)} of queue {name.name}"
        if call.query.dry_run:
            _check_ways(call, name.vhost, given)
            plan_queue_change(self._context.doors.cluster.state, command)
            answer_change(self._context, call, f"{told} can be changed", words)
        else:
            self._submit(call, command, f"{told} is changed", words)

    def _submit(
        self,
        call: AnyCall,
        command: ClientQueueCommand,
        what: str,
        words: list[str],
        status: int = 200,
    ) -> None:
        cluster = self._context.doors.cluster

        def on_outcome(outcome: object) -> None:
            if isinstance(outcome, RequestRefused):
                call.refuse_with(outcome)
            else:
                # What is asked next is to see it.
                cluster.when_current(
                    CHANGE_MS_MAX, lambda _: answer_change(self._context, call, what, words, status)
                )

        cluster.submit(call.sign(command), CHANGE_MS_MAX, on_outcome)

    # -- messages

    def purge_queue(self, call: Call[QueueDryRun, None]) -> None:
        """Remove all messages that wait; those that consumers have stay."""
        queue = self._queues.find(call)
        if queue is None:
            return
        name = queue.queue.name

        def ask(number: int) -> AnyQueueRequest:
            return PurgeQueue(log_id=queue.topic_id, partition=number)

        def tell(count: int) -> str:
            would = "would be" if call.query.dry_run else are(count)
            wait = "waits" if count == 1 else "wait"
            held = counted(count, "message")
            return f"{held} that {wait} in queue {name} {would} removed for good"

        words = [*_words("purge", queue.queue), "--yes"]
        self._do(call, queue, ask, _waiting, tell, words, DataChange.PURGE)

    def redrive_queue(self, call: Call[QueueDryRun, Redrive]) -> None:
        """Move messages to another queue, or let what was given up here be ready again."""
        queue = self._queues.find(call)
        if queue is None:
            return
        body, name = call.body, queue.queue
        is_dry = call.query.dry_run
        words = _words("redrive", name)
        if body.stop:
            if body.to is not None:
                raise InvalidRequest("stop, or say where to: not both")

            def tell_stop(_: int) -> str:
                would = "would be" if is_dry else "are"
                return f"no more messages of queue {name.name} {would} moved"

            ask = _redrive(queue, "")
            words += ["--stop"]
            self._do(call, queue, ask, _waiting, tell_stop, words, DataChange.REDRIVE)
        elif body.to is None:

            def tell_parked(count: int) -> str:
                would = "would be" if is_dry else are(count)
                held = counted(count, "message")
                return f"{held} that queue {name.name} has given up {would} ready again"

            ask = _unpark(queue)
            self._do(call, queue, ask, _parked, tell_parked, words, DataChange.UNPARK)
        else:
            target = self._target(call, queue, body.to)

            def tell_moved(count: int) -> str:
                would = "would be" if is_dry else are(count)
                held = counted(count, "message")
                return f"{held} of queue {name.name} {would} moved to {target}"

            ask = _redrive(queue, target)
            words += ["--to", target]
            detail = {"to": target}
            self._do(call, queue, ask, _movable, tell_moved, words, DataChange.REDRIVE, detail)

    def _target(self, call: AnyCall, queue: QueueState, name: str) -> str:
        """Return a queue that messages can be moved to.

        Raises:
            RequestRefused: there is none of the name, or the client may not write to it.
        """
        target = QueueName(queue.queue.vhost, name)
        if target == queue.queue:
            raise InvalidRequest(f"messages are in queue {name} already")
        resource = queue_resource(target)
        if not call.may(Operation.WRITE, ResourceType.QUEUE, resource):
            words = call.refusal(Operation.WRITE, ResourceType.QUEUE, resource)
            raise QueueNotAuthorized(words)
        self._context.doors.queues.find(target)
        return name

    def _do(
        self,
        call: AnyCall,
        queue: QueueState,
        ask: Callable[[int], AnyQueueRequest],
        count: Callable[[QueueCounts], int],
        tell: Sentence,
        words: list[str],
        change: DataChange,
        detail: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Count what it is about, ask all partitions, tell the audit log, and answer."""

        def note(outcome: object) -> None:
            audit, resource = self._context.doors.access.audit, queue_resource(queue.queue)
            audit.change_of_queue(call.client, change, resource, outcome, detail)

        def on_counted(found: int) -> None:
            if call.query.dry_run:
                answer_change(self._context, call, tell(found), words)
                return

            def on_refused(refusal: RequestRefused) -> None:
                note(refusal)
                call.refuse_with(refusal)

            def on_done(_: Sequence[Done]) -> None:
                note(Done())
                answer_change(self._context, call, tell(found), words)

            self._ask_all(queue, ask, Done, on_refused, on_done)

        self._count(call, queue, count, on_counted)

    def _count(
        self,
        call: AnyCall,
        queue: QueueState,
        count: Callable[[QueueCounts], int],
        on_done: Callable[[int], None],
    ) -> None:
        def ask(number: int) -> AnyQueueRequest:
            return AskQueue(log_id=queue.topic_id, partition=number)

        def on_all(told: Sequence[QueueCounts]) -> None:
            on_done(sum(count(each) for each in told))

        self._ask_all(queue, ask, QueueCounts, call.refuse_with, on_all)

    def _ask_all(
        self,
        queue: QueueState,
        make: Callable[[int], AnyQueueRequest],
        kind: type[ResultT],
        on_refused: Callable[[RequestRefused], None],
        on_done: Callable[[Sequence[ResultT]], None],
    ) -> None:
        """Ask the leaders of all partitions; the first refusal is the answer."""
        left = len(queue.partitions)
        told: list[ResultT] = []
        refusals: list[RequestRefused] = []

        def on_one(outcome: ResultT | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                refusals.append(outcome)
            else:
                told.append(outcome)
            if len(refusals) + len(told) < left:
                return
            if refusals:
                on_refused(refusals[0])
            else:
                on_done(told)

        for number in range(left):
            self._context.doors.queues.ask(make(number), kind, CHANGE_MS_MAX, on_one)


def _check_ways(call: AnyCall, vhost: str, options: Mapping[str, str | None]) -> None:
    """Refuse in a dry run what the controller would: it tells nobody of what he may not see.

    Raises:
        NotAuthorized: no rule allows to read or write where messages are to come from or go.
    """
    for way in ways_of(vhost, options):
        is_creation = way.operation is Operation.CREATE and call.may(
            Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME
        )
        if not is_creation and not call.may(*way):
            raise way_refusal(way, call.refusal(*way))


def _words(command: str, name: QueueName) -> list[str]:
    words = ["kafkaesque", "queue", command, name.name]
    return words if name.vhost == DEFAULT_VHOST else [*words, "--vhost", name.vhost]


def _place_nothing(_: int) -> tuple[PartitionPlacement, ...]:
    return ()


def _redrive(queue: QueueState, target: str) -> Callable[[int], AnyQueueRequest]:
    return lambda number: RedriveQueue(log_id=queue.topic_id, partition=number, target=target)


def _unpark(queue: QueueState) -> Callable[[int], AnyQueueRequest]:
    return lambda number: UnparkMessages(log_id=queue.topic_id, partition=number)


def _waiting(counts: QueueCounts) -> int:
    return counts.ready + counts.delayed + counts.parked


def _parked(counts: QueueCounts) -> int:
    return counts.parked


def _movable(counts: QueueCounts) -> int:
    return counts.ready + counts.parked


def _all_messages(counts: QueueCounts) -> int:
    return _waiting(counts) + counts.in_flight + counts.moving
