"""queue.declare, bind, unbind, purge and delete."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from kafkaesque.access.audit import DataChange
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.metadata.queue_names import QueueName, queue_resource
from kafkaesque.broker.options.queues import STREAM_TOPIC
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.commands import Done
from kafkaesque.broker.requests.queue_commands import CreateQueue
from kafkaesque.chassis.amqp.arguments import (
    Declaration,
    check_equivalent,
    check_redeclared,
    read_declaration,
    replicas_of,
)
from kafkaesque.chassis.amqp.streams import (
    as_stream,
    deletion_of,
    stream_topic,
    stream_topic_command,
)
from kafkaesque.gateway.amqp.consuming import check_exclusive, check_owner
from kafkaesque.gateway.amqp.errors import error_of, failed, no_queue
from kafkaesque.gateway.amqp.exchanges import Exchanges
from kafkaesque.gateway.amqp.ports import ChannelPort
from kafkaesque.gateway.queueing.desk import TIMEOUT_MS
from kafkaesque.gateway.queueing.own_queues import REPLY_TO, generated_name, is_for_answers
from kafkaesque.gateway.queueing.sweeping import is_orphan
from kafkaesque.model.errors import (
    InvalidRequest,
    RequestRefused,
    TopicExists,
    UnknownQueue,
)
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.errors import AmqpError, ReplyCode

RESERVED: Final = "amq."
COUNT_TIMEOUT_MS: Final = 10_000


class Queues:
    """One channel's."""

    __slots__ = ("_channel", "_exchanges")

    def __init__(self, channel: ChannelPort, exchanges: Exchanges) -> None:
        self._channel = channel
        self._exchanges = exchanges

    def take(self, method: m.Method) -> None:
        """Carry out a method.

        Raises:
            AmqpError: it is not allowed, or not as things are.
        """
        match method:
            case m.QueueDeclare():
                self._declare(method)
            case m.QueuePurge():
                self._purge(method)
            case m.QueueDelete():
                self._delete(method)
            case m.QueueBind() | m.QueueUnbind():
                self._exchanges.take(method)

    def _name(self, name: str) -> QueueName:
        return QueueName(self._channel.connection.vhost, name)

    def _ask(self, act: Callable[[], None]) -> None:
        """Do something whose answer comes later."""
        self._channel.begin()
        act()

    # -- declare

    def _declare(self, method: m.QueueDeclare) -> None:
        channel = self._channel
        name = method.queue
        if not name and not method.passive:
            name = generated_name(channel.connection.desk.doors.dice)
        found = self._name(name)
        go_on = partial(self._declare_found, method, found)
        desk = channel.connection.desk
        self._ask(lambda: desk.find(found, lambda q_: channel.go_on_with(lambda: go_on(q_))))

    def _declare_found(
        self, method: m.QueueDeclare, name: QueueName, queue: QueueState | None
    ) -> None:
        channel = self._channel
        desk = channel.connection.desk
        if is_for_answers(name.name):
            # Who works for a client may find out whether it waits for the answer.
            is_gone = queue is None or is_orphan(desk.doors.cluster, queue)
            if is_gone and name.name != REPLY_TO:
                raise no_queue(name.name, name.vhost, method)
            if not method.nowait:
                channel.send(m.QueueDeclareOk(queue=name.name, message_count=0, consumer_count=1))
            return
        if queue is not None and is_orphan(desk.doors.cluster, queue):
            # The connection that it belonged to is gone with its broker.
            self._ask(
                lambda: desk.delete_queue(
                    queue,
                    lambda: desk.when(
                        lambda: desk.look(name) is not queue,
                        lambda: channel.go_on_with(lambda: self._declare_found(method, name, None)),
                    ),
                )
            )
            return
        if method.passive:
            if queue is None:
                raise no_queue(name.name, name.vhost, method)
            check_owner(channel, queue, method)
            self._answer(method, queue)
            return
        owner = channel.connection.owner
        if queue is not None:
            check_owner(channel, queue, method)
            check_exclusive(queue, method)
            # Of an argument that is wrong and not that of the queue, RabbitMQ tells the latter.
            check_redeclared(queue, method, owner)
        elif method.queue.startswith(RESERVED):
            what = f"queue name '{name.name}' contains reserved prefix 'amq.*'"
            raise failed(ReplyCode.ACCESS_REFUSED, what, method)
        said, options = read_declaration(
            method,
            owner,
            lambda other: other == name.name or desk.look(name._replace(name=other)) is not None,
        )
        if queue is not None:
            check_equivalent(queue, said, options)
            self._answer(method, queue)
        else:
            self._create(method, name, said, options)

    def _create(
        self,
        method: m.QueueDeclare,
        name: QueueName,
        said: Declaration,
        options: Mapping[str, str],
    ) -> None:
        channel = self._channel
        desk, rights = channel.connection.desk, channel.connection.rights
        command = CreateQueue(
            vhost=name.vhost,
            name=name.name,
            options=dict(options),
            replication_factor=replicas_of(said, len(desk.doors.cluster.state.brokers)),
        )

        def on_made(outcome: QueueState | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                channel.go_on_with(partial(_raise, error_of(outcome, method)))
            else:
                channel.go_on_with(lambda: on_seen(outcome))

        def on_seen(queue: QueueState) -> None:
            if said.is_exclusive and channel.connection.connection is None:
                # It has gone while the queue was made.
                desk.delete_queue(queue)
                return
            check_owner(channel, queue, method)
            check_equivalent(queue, said, options)
            desk.sweeping.watch(queue)
            self._send_ok(method, queue, 0, 0)

        if said.is_exclusive:
            channel.connection.exclusive.add(name)
        if said.is_stream:
            self._ask(lambda: self._create_stream(command, said, on_made))
            return
        signed = command if rights is None else rights.sign(command)
        self._ask(lambda: desk.make_queue(signed, on_made))

    def _create_stream(
        self,
        command: CreateQueue,
        said: Declaration,
        on_made: Callable[[QueueState | RequestRefused], None],
    ) -> None:
        """Make a stream: its topic first, if that is not there."""
        channel = self._channel
        desk, rights = channel.connection.desk, channel.connection.rights
        topic = stream_topic(command.vhost, command.name)
        create = stream_topic_command(command, said, topic)

        def on_topic(refusal: RequestRefused | None) -> None:
            if refusal is not None and not isinstance(refusal, TopicExists):
                on_made(refusal)
                return
            desk.when(lambda: topic in desk.doors.cluster.state.topics, make(refusal is None))

        def make(is_new: bool) -> Callable[[], None]:
            made = as_stream(command, said, topic, is_new=is_new)
            return lambda: submit(made)

        def submit(made: CreateQueue) -> None:
            found = desk.doors.cluster.state.topics.get(topic)
            if found is not None and len(found.partitions) != 1:
                on_made(InvalidRequest(f"a stream has one partition, and topic {topic!r} more"))
                return
            desk.make_queue(made if rights is None else rights.sign(made), on_made)

        desk.submit(create if rights is None else rights.sign(create), on_topic)

    def _answer(self, method: m.QueueDeclare, queue: QueueState) -> None:
        use = self._channel.connection.desk.sweeping.use(queue)
        if method.nowait:
            self._channel.last_queue = queue.queue.name
            if use.is_use is True:
                ask = self._channel.connection.desk.doors.queues.ask_whole
                ask(use, q.QueueCounts, COUNT_TIMEOUT_MS, lambda _: None)
            return
        self._count(
            queue,
            method,
            lambda counts: self._send_ok(method, queue, counts.ready, counts.consumers),
            use,
        )

    def _send_ok(
        self, method: m.QueueDeclare, queue: QueueState, messages: int, consumers: int
    ) -> None:
        name = self._channel.last_queue = queue.queue.name
        if not method.nowait:
            self._channel.send(
                m.QueueDeclareOk(queue=name, message_count=messages, consumer_count=consumers)
            )

    def _count(
        self,
        queue: QueueState,
        method: m.Method,
        then: Callable[[q.QueueCounts], None],
        request: q.AskQueue | None = None,
    ) -> None:
        """Go on with what is in a queue."""
        channel = self._channel

        def on_counted(outcome: q.QueueCounts | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                channel.go_on_with(partial(_raise, _out_of_reach(queue, outcome, method)))
            else:
                channel.go_on_with(lambda: then(outcome))

        ask = channel.connection.desk.doors.queues.ask_whole
        asked = request or q.AskQueue(log_id=queue.topic_id)
        # What the channel has published before counts.
        self._ask(
            lambda: channel.when_published(
                lambda: ask(asked, q.QueueCounts, COUNT_TIMEOUT_MS, on_counted)
            )
        )

    # -- purge and delete

    def _with_queue(
        self, name: str, method: m.Method, then: Callable[[QueueState | None], None]
    ) -> None:
        channel = self._channel
        found = self._name(channel.queue_name(name, method))

        def on_found(queue: QueueState | None) -> None:
            if queue is not None:
                check_owner(channel, queue, method)
            then(queue)

        desk = channel.connection.desk
        self._ask(lambda: desk.find(found, lambda q_: channel.go_on_with(lambda: on_found(q_))))

    def _purge(self, method: m.QueuePurge) -> None:
        channel = self._channel

        def purge(queue: QueueState, count: int) -> None:
            def on_done(outcome: Done | RequestRefused) -> None:
                channel.go_on_with(lambda: answer(outcome))

            def answer(outcome: Done | RequestRefused) -> None:
                resource = queue_resource(queue.queue)
                doors.access.audit.change_of_queue(client, DataChange.PURGE, resource, outcome)
                if isinstance(outcome, RequestRefused):
                    raise _out_of_reach(queue, outcome, method)
                if not method.nowait:
                    channel.send(m.QueuePurgeOk(message_count=count))

            doors, rights = channel.connection.desk.doors, channel.connection.rights
            client = None if rights is None else rights.client
            request = q.PurgeQueue(log_id=queue.topic_id)
            self._ask(lambda: doors.queues.ask_whole(request, Done, TIMEOUT_MS, on_done))

        def on_found(queue: QueueState | None) -> None:
            if queue is None:
                raise no_queue(method.queue, channel.connection.vhost, method)
            if queue.options.get(STREAM_TOPIC):
                what = f"queue.purge not supported by stream queue '{queue.queue.name}'"
                raise failed(ReplyCode.NOT_IMPLEMENTED, what, method)
            self._count(queue, method, lambda counts: purge(queue, counts.ready))

        self._with_queue(method.queue, method, on_found)

    def _delete(self, method: m.QueueDelete) -> None:
        def on_found(queue: QueueState | None) -> None:
            if queue is None:
                # It is not there any more, which is what was asked for.
                self._deleted(method, 0)
                return
            self._count(queue, method, lambda counts: delete(queue, counts))

        def delete(queue: QueueState, counts: q.QueueCounts) -> None:
            where = f"queue '{queue.queue.name}' in vhost '{queue.queue.vhost}'"
            if method.if_unused and counts.consumers:
                raise failed(ReplyCode.PRECONDITION_FAILED, f"{where} in use", method)
            if method.if_empty and counts.ready + counts.in_flight + counts.delayed:
                raise failed(ReplyCode.PRECONDITION_FAILED, f"{where} not empty", method)
            self._submit_delete(queue, method, counts.ready)

        self._with_queue(method.queue, method, on_found)

    def _submit_delete(self, queue: QueueState, method: m.QueueDelete, count: int) -> None:
        channel = self._channel
        desk, rights = channel.connection.desk, channel.connection.rights
        command = deletion_of(queue)

        def on_deleted(refusal: RequestRefused | None) -> None:
            if refusal is not None and not isinstance(refusal, UnknownQueue):
                channel.go_on_with(partial(_raise, error_of(refusal, method)))
                return
            desk.when(
                lambda: desk.look(queue.queue) is not queue,
                lambda: channel.go_on_with(lambda: self._deleted(method, count)),
            )

        signed = command if rights is None else rights.sign(command)
        self._ask(lambda: desk.submit(signed, on_deleted))

    def _deleted(self, method: m.QueueDelete, count: int) -> None:
        if not method.nowait:
            self._channel.send(m.QueueDeleteOk(message_count=count))


def _out_of_reach(queue: QueueState, refusal: RequestRefused, method: m.Method) -> AmqpError:
    if isinstance(refusal, UnknownQueue):
        return no_queue(queue.queue.name, queue.queue.vhost, method)
    what = f"queue '{queue.queue.name}' in vhost '{queue.queue.vhost}' cannot be reached: {refusal}"
    return failed(ReplyCode.NOT_FOUND, what, method)


def _raise(error: AmqpError) -> None:
    raise error
