"""`/queues`: listed with their numbers, declared, purged and deleted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from kafkaesque.access.audit import DataChange
from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.admin.api.fan_out import Gathered
from kafkaesque.admin.api.part_pages import QUEUES, QueueRow, QueuesAnswer, QueuesQuestion
from kafkaesque.admin.api.queue_part import together
from kafkaesque.admin.rabbitmq.calls import Call, Route
from kafkaesque.admin.rabbitmq.context import CHANGE_MS_MAX, Context, node_name
from kafkaesque.admin.rabbitmq.errors import REFUSED, ApiRefused, not_found
from kafkaesque.admin.rabbitmq.values import NewQueue, QueueShown
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.metadata.effective_options import applied_to
from kafkaesque.broker.metadata.queue_names import QueueName, queue_resource
from kafkaesque.broker.options.queue_arguments import QUEUE_TYPE, QUEUE_TYPES
from kafkaesque.broker.options.queues import STREAM_TOPIC
from kafkaesque.broker.requests.commands import CreateTopic, Done
from kafkaesque.broker.requests.queue_commands import CreateQueue
from kafkaesque.broker.requests.queue_requests import AskQueue, PurgeQueue, QueueCounts
from kafkaesque.chassis.amqp.arguments import (
    Declaration,
    arguments_of,
    check_equivalent,
    declaration_of,
    read_declaration,
    replicas_of,
)
from kafkaesque.chassis.amqp.streams import (
    as_stream,
    deletion_of,
    stream_topic,
    stream_topic_command,
)
from kafkaesque.model.errors import RequestRefused
from kafkaesque.protocols.amqp.methods import QueueDeclare
from kafkaesque.routing.exchanges.topology import RESERVED_PREFIX
from kafkaesque.routing.policies import Applied

#: How long the answer to a declaration waits for the new queue's leader.
LED_MS_MAX: Final = 5_000

Rows = Mapping[QueueName, QueueRow]


class QueuePages:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context: Final = context

    def routes(self) -> list[Route]:
        """Return the operations."""
        one = "/queues/{vhost}/{queue}"
        return [
            Route(method="GET", path="/queues", handle=self.list_all),
            Route(method="GET", path="/queues/{vhost}", handle=self.list_vhost),
            Route(method="GET", path=one, handle=self.show),
            Route(method="PUT", path=one, handle=self.declare),
            Route(method="DELETE", path=one, handle=self.delete),
            Route(method="DELETE", path=f"{one}/contents", handle=self.purge),
        ]

    def find(self, call: Call) -> QueueState:
        """Return the queue that a path names.

        Raises:
            ApiRefused: there is none, or the client may not see it.
        """
        self._context.vhost(call)
        found = self._context.doors.cluster.state.queues.get(call.queue)
        if found is None or not call.sees_queue(call.queue):
            raise not_found(f"there is no queue {call.queue.name!r} in {call.vhost!r}")
        return found

    # -- lists

    def list_all(self, call: Call) -> None:
        """List those of all virtual hosts that the client may see."""
        self._list(call, self._context.doors.queues.all())

    def list_vhost(self, call: Call) -> None:
        """List those of one virtual host."""
        self._context.vhost(call)
        every = self._context.doors.queues.all()
        self._list(call, [each for each in every if each.queue.vhost == call.vhost])

    def _list(self, call: Call, queues: Sequence[QueueState]) -> None:
        seen = [each for each in queues if call.sees_queue(each.queue)]

        def on_rows(rows: Rows) -> None:
            call.show_list([self._shown(each, rows) for each in seen])

        self.with_rows(call, None, on_rows)

    def with_rows(
        self, call: Call, names: Sequence[QueueName] | None, then: Callable[[Rows], None]
    ) -> None:
        """Go on with what leaders say of queues; None: of all."""

        def on_all(gathered: Gathered[QueuesAnswer]) -> None:
            rows: dict[QueueName, QueueRow] = {}
            for answer in gathered.answers.values():
                for row in answer.queues:
                    name = QueueName(row.vhost, row.name)
                    before = rows.get(name)
                    rows[name] = row if before is None else together(before, row)
            call.guard(partial(then, rows))

        wanted = None if names is None else [(each.vhost, each.name) for each in names]
        self._context.fan_out.ask_all(QUEUES, QueuesQuestion(names=wanted), on_all)

    def show(self, call: Call) -> None:
        """Show one."""
        queue = self.find(call)
        self.with_rows(call, [queue.queue], lambda rows: call.show(self._shown(queue, rows)))

    def _shown(self, queue: QueueState, rows: Rows) -> QueueShown:
        said = declaration_of(queue)
        row = rows.get(queue.queue)
        leader = self._context.doors.cluster.leaders.leader(queue.partitions[0].group)
        kind = None if said is None else said.text(QUEUE_TYPE)
        node = msgspec.UNSET if leader is None else node_name(leader)
        applied = applied_to(self._context.doors.cluster.state, queue)
        policy, operator = applied
        return QueueShown(
            name=queue.queue.name,
            vhost=queue.queue.vhost,
            type=kind or QUEUE_TYPES[0],
            durable=True if said is None else said.durable,
            auto_delete=said is not None and said.auto_delete,
            exclusive=said is not None and said.is_exclusive,
            arguments=arguments_of(queue),
            node=node,
            leader=node,
            members=[node_name(each) for each in queue.partitions[0].replicas],
            state="down" if leader is None else "running",
            consumers=msgspec.UNSET if row is None else row.consumers,
            messages=msgspec.UNSET if row is None else messages_of(row),
            messages_ready=msgspec.UNSET if row is None else row.ready,
            messages_unacknowledged=msgspec.UNSET if row is None else row.in_flight,
            message_bytes=msgspec.UNSET if row is None else row.bytes,
            policy=None if policy is None else policy.name,
            operator_policy=None if operator is None else operator.name,
            effective_policy_definition=_settings(applied),
        )

    # -- changes

    def declare(self, call: Call) -> None:
        """Declare one; the same declaration again is as good."""
        self._context.vhost(call)
        name, body = call.queue, call.body(NewQueue)
        call.need(Operation.CREATE, ResourceType.QUEUE, queue_resource(name))
        commands = self.plan(name, body)

        def on_committed() -> None:
            if commands:
                self._done_when_led(call, name)
            else:
                call.done()

        self._context.submit_all(call, commands, on_committed)

    def _done_when_led(self, call: Call, name: QueueName) -> None:
        """Answer once a new queue's leader does: what is asked next gets its numbers."""
        queue = self._context.doors.cluster.state.queues.get(name)
        if queue is None:
            # Deleted meanwhile.
            call.done(is_new=True)
            return
        ask = self._context.doors.queues.ask_whole
        request = AskQueue(log_id=queue.topic_id)
        # It is there, also where nobody leads it in time.
        ask(request, QueueCounts, LED_MS_MAX, lambda _: call.done(is_new=True))

    def plan(self, name: QueueName, body: NewQueue) -> list[CreateTopic | CreateQueue]:
        """Return the commands that declare a queue; none if it is there already.

        Raises:
            ApiRefused, AmqpError: it cannot be so, or is there and differs.
        """
        queues = self._context.doors.cluster.state.queues
        said, options = read_declaration(
            QueueDeclare(
                queue=name.name,
                durable=body.durable,
                auto_delete=body.auto_delete,
                arguments=body.arguments,
            ),
            "",
            lambda other: other == name.name or name._replace(name=other) in queues,
        )
        found = queues.get(name)
        if found is not None:
            check_equivalent(found, said, options)
            return []
        if name.name.startswith(RESERVED_PREFIX):
            raise ApiRefused(REFUSED, f"queue name {name.name!r} contains reserved prefix 'amq.*'")
        command = CreateQueue(
            vhost=name.vhost,
            name=name.name,
            options=options,
            replication_factor=replicas_of(said, len(self._context.doors.cluster.state.brokers)),
        )
        return self._with_topic(command, said) if said.is_stream else [command]

    def _with_topic(
        self, command: CreateQueue, said: Declaration
    ) -> list[CreateTopic | CreateQueue]:
        """Return the commands that make a stream: its topic first, if that is not there."""
        topic = stream_topic(command.vhost, command.name)
        known = self._context.doors.cluster.state.topics.get(topic)
        if known is not None and len(known.partitions) != 1:
            raise ApiRefused(400, f"a stream has one partition, and topic {topic!r} more")
        queue = as_stream(command, said, topic, is_new=known is None)
        return [queue] if known is not None else [stream_topic_command(command, said, topic), queue]

    def delete(self, call: Call) -> None:
        """Delete one with all that it holds; if that is asked, only an unused or an empty one."""
        queue = self.find(call)
        _check_free(queue)
        name = queue.queue
        command = deletion_of(queue)
        if not call.flag("if-empty") and not call.flag("if-unused"):
            self._context.submit(call, command, call.done)
            return

        def on_rows(rows: Rows) -> None:
            row = rows.get(name)
            if row is None:
                raise ApiRefused(503, f"the leader of queue {name.name!r} has not answered")
            if call.flag("if-unused") and row.consumers:
                raise ApiRefused(400, f"queue {name.name!r} in vhost {name.vhost!r} in use")
            if call.flag("if-empty") and messages_of(row):
                raise ApiRefused(400, f"queue {name.name!r} in vhost {name.vhost!r} not empty")
            self._context.submit(call, command, call.done)

        self.with_rows(call, [name], on_rows)

    def purge(self, call: Call) -> None:
        """Remove all messages that wait; those that consumers have stay."""
        queue = self.find(call)
        _check_free(queue)
        if queue.options.get(STREAM_TOPIC):
            raise ApiRefused(400, "a stream is not purged: its topic's retention removes messages")
        call.need(Operation.READ, ResourceType.QUEUE, queue_resource(queue.queue))
        left = len(queue.partitions)
        refusals: list[RequestRefused] = []

        def on_one(outcome: Done | RequestRefused) -> None:
            nonlocal left
            left -= 1
            if isinstance(outcome, RequestRefused):
                refusals.append(outcome)
            if left:
                return
            resource, worst = queue_resource(queue.queue), refusals[0] if refusals else outcome
            audit = self._context.doors.access.audit
            audit.change_of_queue(call.client, DataChange.PURGE, resource, worst)
            if refusals:
                call.refuse(refusals[0])
            else:
                call.done()

        for number in range(left):
            request = PurgeQueue(log_id=queue.topic_id, partition=number)
            self._context.doors.queues.ask(request, Done, CHANGE_MS_MAX, on_one)


def _settings(applied: Applied) -> dict[str, object]:
    """Return what policies say together: of two limits the smaller one."""
    policy, operator = applied
    found = {} if policy is None else dict(policy.definition)
    for name, value in ({} if operator is None else operator.definition).items():
        before = found.get(name)
        is_smaller = isinstance(before, int) and isinstance(value, int) and before < value
        found[name] = before if is_smaller else value
    return found


def messages_of(row: QueueRow) -> int:
    """Return how many messages a queue has, wherever they are."""
    return row.ready + row.delayed + row.in_flight + row.parked + row.moving


def _check_free(queue: QueueState) -> None:
    """Refuse what only the connection that has declared a queue may do.

    Raises:
        ApiRefused: it is exclusive.
    """
    said = declaration_of(queue)
    if said is not None and said.is_exclusive:
        name = queue.queue
        raise ApiRefused(
            400, f"cannot obtain exclusive access to queue {name.name!r} in vhost {name.vhost!r}"
        )
