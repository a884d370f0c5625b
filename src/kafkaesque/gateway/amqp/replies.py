"""Direct reply-to: a name for answers that is the channel's own, and no queue of the client's.

Behind it is a queue that goes with the channel. So an answer finds it from any broker, and what is
sent when the client is gone has no queue.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.chassis.amqp.outgoing import Outgoing
from kafkaesque.gateway.amqp.errors import error_of, failed
from kafkaesque.gateway.amqp.ports import ChannelPort
from kafkaesque.gateway.queueing.own_queues import REPLY_TO, make_reply_queue
from kafkaesque.model.errors import RequestRefused
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.errors import AmqpError, ReplyCode
from kafkaesque.protocols.amqp.properties import Properties, write_properties


class Replies:
    """One channel's."""

    __slots__ = ("_channel", "_queue")

    def __init__(self, channel: ChannelPort) -> None:
        self._channel = channel
        self._queue: QueueState | None = None

    def make(self, method: m.BasicConsume, then: Callable[[QueueState], None]) -> None:
        """Make the queue, and go on with it."""
        channel = self._channel
        if not method.no_ack:
            what = "reply consumer cannot acknowledge"
            channel.go_on_with(partial(_raise, failed(ReplyCode.PRECONDITION_FAILED, what, method)))
            return
        if self._queue is not None:
            what = "reply consumer already set"
            channel.go_on_with(partial(_raise, failed(ReplyCode.PRECONDITION_FAILED, what, method)))
            return
        connection = channel.connection

        def on_made(outcome: QueueState | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                channel.go_on_with(partial(_raise, error_of(outcome, method)))
                return
            self._queue = outcome
            if channel.is_over:
                self.end()
                channel.done()
            else:
                channel.go_on_with(lambda: then(outcome))

        make_reply_queue(connection, on_made)

    def name_reply(self, outgoing: Outgoing) -> Outgoing:
        """Return a message whose answer comes to this channel, if it says that it wants that.

        Raises:
            AmqpError: nobody consumes answers here.
        """
        properties = outgoing.properties
        if properties is None or properties.reply_to != REPLY_TO:
            return outgoing
        if self._queue is None:
            what = "fast reply consumer does not exist"
            raise failed(ReplyCode.PRECONDITION_FAILED, what, m.BasicPublish)
        values = {name: getattr(properties, name) for name in Properties.__struct_fields__}
        # A blind copy's keys were taken out of the raw properties, and not of these.
        values["reply_to"] = self._queue.queue.name
        named = Properties(**values)
        return outgoing._replace(raw=write_properties(named), properties=named)

    def end(self) -> None:
        """The channel is gone."""
        queue, self._queue = self._queue, None
        if queue is not None:
            self._channel.connection.desk.delete_queue(queue)


def _raise(error: AmqpError) -> None:
    raise error
