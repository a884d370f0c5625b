"""One channel: carries out what comes on it, in order.

Theory of operation. Events wait in a queue. Most are done at once; one that has to ask somebody
(`begin`) lets those behind it wait until it has its answer (`done`). Publishes ask nobody here:
their confirms come when they come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kafkaesque.gateway.amqp.authorization import check_rights
from kafkaesque.gateway.amqp.consuming import Consuming
from kafkaesque.gateway.amqp.errors import error_of, failed
from kafkaesque.gateway.amqp.exchanges import Exchanges
from kafkaesque.gateway.amqp.publishing import Publishing
from kafkaesque.gateway.amqp.queues import Queues
from kafkaesque.gateway.amqp.settling import Settling
from kafkaesque.gateway.amqp.transaction import Transaction
from kafkaesque.model.errors import ConfigError, InvariantBroken, RequestRefused
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.errors import AmqpError, ReplyCode
from kafkaesque.protocols.amqp.events import (
    Acknowledged,
    ChannelFailed,
    Event,
    MethodReceived,
    Published,
)
from kafkaesque.protocols.amqp.methods import Method

if TYPE_CHECKING:
    from kafkaesque.gateway.amqp.connection import AmqpConnection


class Finish(Event, frozen=True, kw_only=True):
    """The connection is about to end in good order: tell when all before is done."""

    on_done: Callable[[], None]


class Channel:
    """See the module."""

    __slots__ = (
        "_has_failed",
        "_is_busy",
        "_is_ended",
        "_is_running",
        "_waiting",
        "arrived",
        "carried",
        "connection",
        "consuming",
        "exchanges",
        "last_queue",
        "number",
        "publishing",
        "queues",
        "settling",
        "transaction",
    )

    def __init__(self, connection: AmqpConnection, number: int) -> None:
        self.connection: Final = connection
        self.number: Final = number
        self._waiting: Final[deque[Event]] = deque()
        self._is_busy = False
        self._is_running = False
        self._is_ended = False
        #: By a mistake of the client's: what comes behind it is dropped.
        self._has_failed = False
        #: Events that have come, and that were begun.
        self.arrived = self.carried = 0
        #: What an empty name of a queue stands for.
        self.last_queue = ""
        self.transaction: Final = Transaction(self)
        self.publishing: Final = Publishing(self)
        self.settling: Final = Settling(self)
        self.consuming: Final = Consuming(self)
        self.queues: Final = Queues(self)
        self.exchanges: Final = Exchanges(self)

    @property
    def is_ended(self) -> bool:
        """Whether one side has closed it."""
        return self._is_ended

    @property
    def is_over(self) -> bool:
        """Whether nobody hears what is sent on it."""
        return self._is_ended or self.connection.connection is None

    # -- events

    def push(self, event: Event) -> None:
        """Carry out an event after those before it."""
        self._waiting.append(event)
        self.arrived += 1
        size = len(event.body) if isinstance(event, Published) else 0
        self.connection.add_waiting(1, size)
        if not self._is_busy:
            self._run()

    def finish(self, on_done: Callable[[], None]) -> None:
        """Call when all that has come is done, and what was published is in its queues."""
        self._waiting.append(Finish(on_done=on_done))
        self.arrived += 1
        self._run()

    def begin(self) -> None:
        """What is carried out has to wait for an answer."""
        self._is_busy = True

    def done(self) -> None:
        """It has its answer."""
        self._is_busy = False
        self._run()

    def go_on_with(self, act: Callable[[], None], method: Method | None = None) -> None:
        """Go on with what had to wait, which may have to wait again; then with what is behind it.

        What is raised then is the client's mistake, too.
        """
        self._is_busy = False
        try:
            act()
        except AmqpError as error:
            self.fail(error)
        except (RequestRefused, ConfigError) as refusal:
            self.fail(error_of(refusal, method or m.BasicPublish()))
        self._run()

    def _run(self) -> None:
        if self._is_running:
            return
        self._is_running = True
        while self._waiting and not self._is_busy:
            event = self._waiting.popleft()
            self.carried += 1
            if not isinstance(event, Finish):
                size = len(event.body) if isinstance(event, Published) else 0
                self.connection.add_waiting(-1, -size)
            try:
                self._carry_out(event)
            except AmqpError as error:
                self.fail(error)
            except (RequestRefused, ConfigError) as refusal:
                self.fail(error_of(refusal, m.BasicPublish()))
        self._is_running = False
        self.flush()

    def _carry_out(self, event: Event) -> None:
        match event:
            case Finish():
                self.when_published(event.on_done)
            case _ if self._has_failed:
                pass
            case Published():
                # What has come is published, also if the client is gone meanwhile.
                self.publishing.take(event)
            case _ if self._is_ended:
                pass
            case Acknowledged():
                self.settling.ack(event)
            case ChannelFailed():
                self.fail(event.error)
            case MethodReceived():
                self._carry_out_method(event.method)
            case _:
                raise InvariantBroken(f"{type(event).__name__} on a channel")

    def _carry_out_method(self, method: Method) -> None:
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
                self.queues.take(method)
            case m.ExchangeDeclare() | m.ExchangeDelete() | m.ExchangeBind() | m.ExchangeUnbind():
                self.exchanges.take(method)
            case m.BasicConsume() | m.BasicCancel() | m.BasicGet() | m.BasicQos():
                self.consuming.take(method)
            case m.BasicNack() | m.BasicReject() | m.BasicRecover() | m.BasicRecoverAsync():
                self.settling.take(method)
            case m.TxSelect() | m.TxCommit() | m.TxRollback():
                self.transaction.take(method)
            case m.ConfirmSelect():
                self.publishing.select(method)
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

    # -- what its parts use

    def send(self, method: Method) -> None:
        """Send a method without content, if that is still of use."""
        if not self._is_ended:
            self.connection.send(self.number, method)

    def queue_name(self, name: str, method: Method) -> str:
        """Return which queue is meant: an empty name is that of the last one declared.

        Raises:
            AmqpError: none was.
        """
        if name:
            return name
        if not self.last_queue:
            vhost = self.connection.vhost
            raise failed(
                ReplyCode.NOT_FOUND, f"no previously declared queue in vhost '{vhost}'", method
            )
        return self.last_queue

    def flush(self) -> None:
        """Send on what was said of deliveries, and ask for more."""
        self.settling.flush()
        self.consuming.go_on()

    def go_on(self) -> None:
        """What has stood against deliveries may have ended."""
        self.consuming.go_on()

    def when_published(self, on_done: Callable[[], None]) -> None:
        """Call when all that was published is in its queues, or is known not to be."""
        self.publishing.when_idle(on_done)

    # -- the end

    def fail(self, error: AmqpError) -> None:
        """Tell the client its mistake: it ends the channel, or the connection."""
        connection = self.connection
        if not error.code.closes_channel:
            connection.fail(error)
            return
        if self._is_ended:
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
            self.connection.channels.pop(self.number, None)
            self.done()

        self.end(is_failed=False)
        self.begin()
        self.when_published(answer)

    def end(self, *, is_failed: bool) -> None:
        """Give back what it holds; nothing is sent any more."""
        if self._is_ended:
            return
        self.flush()
        self._is_ended = True
        self.transaction.drop()
        self.consuming.end(is_failed=is_failed)
        self.settling.end()
