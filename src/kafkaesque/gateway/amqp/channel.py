"""One channel: carries out what comes on it, in order.

Publishes ask nobody here: their confirms come when they come.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkaesque.chassis.channel_facts import ChannelFacts
from kafkaesque.gateway.amqp.authorization import check_rights
from kafkaesque.gateway.amqp.consuming import Consuming
from kafkaesque.gateway.amqp.errors import error_of, failed
from kafkaesque.gateway.amqp.exchanges import Exchanges
from kafkaesque.gateway.amqp.ports import AmqpLink, ChannelPort
from kafkaesque.gateway.amqp.publishing import Publishing
from kafkaesque.gateway.amqp.queues import Queues
from kafkaesque.gateway.amqp.replies import Replies
from kafkaesque.gateway.amqp.settling import Settling
from kafkaesque.gateway.amqp.texts import check_texts
from kafkaesque.gateway.amqp.transaction import Transaction
from kafkaesque.gateway.queueing.event_line import EventLine
from kafkaesque.model.errors import ConfigError, InvariantBroken, RequestRefused
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.errors import AmqpError, ReplyCode
from kafkaesque.protocols.amqp.events import (
    Acknowledged,
    AcknowledgedRun,
    ChannelFailed,
    Event,
    MethodReceived,
    Published,
    PublishedRun,
)
from kafkaesque.protocols.amqp.methods import Method


class Finish(Event, frozen=True, kw_only=True):
    """The connection is about to end in good order: tell when all before is done."""

    on_done: Callable[[], None]


class Channel(ChannelPort):
    """See the module."""

    __slots__ = (
        "_consuming",
        "_exchanges",
        "_has_failed",
        "_line",
        "_publishing",
        "_queues",
        "_settling",
        "_transaction",
    )

    def __init__(self, connection: AmqpLink, number: int) -> None:
        super().__init__(connection, number)
        self._line: Final = EventLine[Event](
            connection, self._carry_out, self._on_mistake, self._on_turn
        )
        #: By a mistake of the client's: what comes behind it is dropped.
        self._has_failed = False
        replies = Replies(self)
        self._publishing: Final = Publishing(self, self._line, replies)
        self._settling: Final = Settling(self)
        self._transaction: Final = Transaction(self, self._publishing, self._settling)
        self._consuming: Final = Consuming(self, self._settling, replies)
        self._exchanges: Final = Exchanges(self, self._publishing)
        self._queues: Final = Queues(self, self._exchanges)

    # -- events

    def push(self, event: Event) -> None:
        """Carry out an event after those before it."""
        self._line.push(event, len(event.body) if isinstance(event, Published) else 0)

    def push_run(self, run: PublishedRun) -> None:
        """Publish messages after the events before them: together, where nothing is against it."""
        is_plain = self._line.is_free and not self._has_failed and not self._transaction.is_on
        try:
            is_done = is_plain and self._publishing.publish_run(run)
        except AmqpError as mistake:
            # The first one's mistake ends the channel, and the others are dropped.
            self.fail(mistake)
            return
        if not is_done:
            for event in run.singles():
                self.push(event)

    def finish(self, on_done: Callable[[], None]) -> None:
        """Call when all that has come is done, and what was published is in its queues."""
        self._line.push(Finish(on_done=on_done))

    def describe(self, consumers_max: int) -> ChannelFacts:
        """Return what the admin port shows of it, and of so many consumers."""
        consuming, transaction = self._consuming, self._transaction
        return ChannelFacts(
            number=self.number,
            is_confirming=self._publishing.is_confirming,
            is_transactional=transaction.is_on,
            prefetch=consuming.prefetch,
            prefetch_together=consuming.prefetch_together,
            unacknowledged=len(self._settling.unacked),
            unconfirmed=self._publishing.unconfirmed,
            publishes_uncommitted=transaction.publishes,
            acks_uncommitted=transaction.acks,
            consumer_count=consuming.count,
            consumers=consuming.describe(consumers_max),
        )

    def begin(self) -> None:
        """What is carried out has to wait for an answer."""
        self._line.begin()

    def done(self) -> None:
        """It has its answer."""
        self._line.done()

    def go_on_with(self, act: Callable[[], None], method: Method | None = None) -> None:
        """See `EventLine`."""
        self._line.go_on_with(act, lambda mistake: self._on_mistake(mistake, method))

    def _on_mistake(self, mistake: Exception, method: Method | None = None) -> None:
        if isinstance(mistake, AmqpError):
            self.fail(mistake)
        elif isinstance(mistake, RequestRefused | ConfigError):
            self.fail(error_of(mistake, method or m.BasicPublish()))

    def _on_turn(self) -> None:
        """Nothing more can be carried out; more of what has come together may follow."""
        if not self.connection.is_receiving:
            self.flush()

    def _carry_out(self, event: Event) -> None:
        match event:
            case Finish():
                self._settling.flush()
                self.when_published(event.on_done)
            case _ if self._has_failed:
                pass
            case Published():
                # What has come is published, also if the client is gone meanwhile.
                self._publish(event)
            case _ if self.is_ended:
                pass
            case Acknowledged():
                self._settle(event)
            case AcknowledgedRun():
                self._settle_run(event)
            case ChannelFailed():
                self.fail(event.error)
            case MethodReceived():
                # It may ask for what was acknowledged before it.
                self._settling.flush()
                self._carry_out_method(event.method)
            case _:
                raise InvariantBroken(f"{type(event).__name__} on a channel")

    def _carry_out_method(self, method: Method) -> None:
        check_texts(method)
        try:
            check_rights(self, method)
            self._do(method)
        except (RequestRefused, ConfigError) as refusal:
            raise error_of(refusal, method) from refusal

    def _do(self, method: Method) -> None:
        """Do what a method asks for."""
        match method:
            case (
                m.QueueDeclare()
                | m.QueueBind()
                | m.QueueUnbind()
                | m.QueuePurge()
                | m.QueueDelete()
            ):
                self._queues.take(method)
            case m.ExchangeDeclare() | m.ExchangeDelete() | m.ExchangeBind() | m.ExchangeUnbind():
                self._exchanges.take(method)
            case m.BasicConsume() | m.BasicCancel() | m.BasicGet() | m.BasicQos():
                self._consuming.take(method)
            case m.BasicNack() | m.BasicReject() | m.BasicRecover() | m.BasicRecoverAsync():
                self._settle(method)
            case m.TxSelect() | m.TxCommit() | m.TxRollback():
                self._transaction.take(method)
            case m.ConfirmSelect():
                self._select(method)
            case m.ChannelFlow():
                self.send(m.ChannelFlowOk(active=True))
            case m.AccessRequest():
                self.send(m.AccessRequestOk(ticket=1))
            case m.ChannelClose():
                self._close()
            case m.BasicCancelOk() | m.ChannelFlowOk():
                pass
            case _:
                raise InvariantBroken(f"nobody does {type(method).__name__}")

    def _publish(self, event: Published) -> None:
        if self._transaction.is_on:
            self._transaction.add_publish(event)
        else:
            self._publishing.publish(event, None)

    def _settle(self, said: Acknowledged | Method) -> None:
        if isinstance(said, m.BasicRecover | m.BasicRecoverAsync):
            self._settling.recover(said)
        elif self._transaction.is_on:
            self._transaction.add_ack(said)
        else:
            self._settling.take(said)

    def _settle_run(self, run: AcknowledgedRun) -> None:
        if self._transaction.is_on:
            for event in run.singles():
                self._settle(event)
        else:
            self._settling.take_run(run)

    def _select(self, method: m.ConfirmSelect) -> None:
        if self._transaction.is_on:
            what = "cannot switch from tx to confirm mode"
            raise failed(ReplyCode.PRECONDITION_FAILED, what, method)
        self._publishing.select(method)

    # -- what its parts use

    def flush(self) -> None:
        """Send on what was said of deliveries, and ask for more."""
        self._settling.flush(is_awaited=False)
        self._consuming.go_on()

    def go_on(self) -> None:
        """What has stood against deliveries may have ended."""
        self._consuming.go_on()

    def when_published(self, on_done: Callable[[], None]) -> None:
        """Call when all that was published is in its queues, or is known not to be."""
        self._publishing.when_idle(on_done)

    # -- the end

    def fail(self, error: AmqpError) -> None:
        """Tell the client its mistake: it ends the channel, or the connection."""
        connection = self.connection
        if not error.code.closes_channel:
            connection.fail(error)
            return
        if self.is_ended:
            return
        if connection.codec.can_be_failed(self.number):
            connection.write(connection.codec.close_channel(self.number, error))
        self.end(is_failed=True)
        self._has_failed = True

    def _close(self) -> None:
        """The client closes it: answer when what it has published is in its queues."""

        def answer() -> None:
            codec = self.connection.codec
            if self.connection.connection is not None and self.number in codec.channels:
                self.connection.write(codec.send(self.number, m.ChannelCloseOk()))
            self.connection.forget_channel(self.number)
            self.done()

        self.end(is_failed=False)
        self.begin()
        self.when_published(answer)

    def end(self, *, is_failed: bool) -> None:
        """Give back what it holds; nothing is sent any more."""
        if self.is_ended:
            return
        self.flush()
        self.is_ended = True
        self._transaction.drop()
        self._consuming.end(is_failed=is_failed)
        self._settling.end()
