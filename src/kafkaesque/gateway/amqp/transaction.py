"""tx.select, tx.commit, tx.rollback: publishes and acknowledgements that wait for the commit.

Nothing is done before the commit. Then the messages go to their queues in order; when all are
there, the acknowledgements follow, and then the answer. So what is acknowledged was published; but
a failure on the way leaves some of the messages in their queues, and the client is told that nobody
knows. A queue alone is a unit: its messages of one commit go in batches of up to 512.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from kafkaesque.gateway.amqp.errors import failed
from kafkaesque.gateway.amqp.ports import ChannelPort
from kafkaesque.gateway.amqp.publishing import Publishing
from kafkaesque.gateway.amqp.settling import Settling
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.errors import AmqpError, ReplyCode
from kafkaesque.protocols.amqp.events import Acknowledged, Published

#: What one transaction has at most: messages and acknowledgements, and bytes.
ENTRIES_MAX: Final = 10_000
BYTES_MAX: Final = 16 * 1024 * 1024

_Said = Acknowledged | m.Method


class Transaction:
    """One channel's."""

    __slots__ = ("_acks", "_channel", "_publishes", "_publishing", "_settling", "_size", "is_on")

    def __init__(self, channel: ChannelPort, publishing: Publishing, settling: Settling) -> None:
        self._channel = channel
        self._publishing = publishing
        self._settling = settling
        self.is_on = False
        self._publishes: list[Published] = []
        self._acks: list[_Said] = []
        self._size = 0

    @property
    def publishes(self) -> int:
        """How many wait for its end."""
        return len(self._publishes)

    @property
    def acks(self) -> int:
        """How many acknowledgements do."""
        return len(self._acks)

    def take(self, method: m.Method) -> None:
        """Begin, commit or roll back.

        Raises:
            AmqpError: the channel confirms, or has no transactions.
        """
        if isinstance(method, m.TxSelect):
            if self._publishing.is_confirming:
                what = "cannot switch from confirm to tx mode"
                raise failed(ReplyCode.PRECONDITION_FAILED, what, method)
            self.is_on = True
            self._channel.send(m.TxSelectOk())
        elif not self.is_on:
            raise failed(ReplyCode.PRECONDITION_FAILED, "channel is not transactional", method)
        elif isinstance(method, m.TxRollback):
            self.drop()
            self._channel.send(m.TxRollbackOk())
        else:
            self._commit(method)

    def add_publish(self, event: Published) -> None:
        """Keep a message.

        Raises:
            AmqpError, RequestRefused: there is too much, or the message cannot be published.
        """
        self._publishing.check(event)
        self._size += len(event.body)
        self._publishes.append(event)
        self._check()

    def add_ack(self, said: _Said) -> None:
        """Keep an acknowledgement.

        Raises:
            AmqpError: there is no such delivery, or there is too much.
        """
        if isinstance(said, Acknowledged | m.BasicNack):
            self._settling.check(said.delivery_tag, said.multiple, m.BasicAck)
        elif isinstance(said, m.BasicReject):
            self._settling.check(said.delivery_tag, False, m.BasicReject)
        self._acks.append(said)
        self._check()

    def _check(self) -> None:
        count = len(self._publishes) + len(self._acks)
        if count > ENTRIES_MAX or self._size > BYTES_MAX:
            what = f"a transaction has at most {ENTRIES_MAX} entries and {BYTES_MAX} bytes"
            raise failed(ReplyCode.PRECONDITION_FAILED, what, m.TxCommit)

    def drop(self) -> None:
        """Forget what was kept."""
        self._publishes, self._acks, self._size = [], [], 0

    def _commit(self, method: m.Method) -> None:
        publishes, acks = self._publishes, self._acks
        self.drop()
        channel = self._channel
        left, is_refused = len(publishes) + 1, False

        def on_one(is_in: bool) -> None:
            nonlocal left, is_refused
            left -= 1
            is_refused = is_refused or not is_in
            if left == 0:
                channel.go_on_with(end)

        def publish() -> None:
            for each in publishes:
                self._publishing.publish(each, on_one)
            channel.begin()
            on_one(True)

        def end() -> None:
            if is_refused:
                raise half_done()
            for each in acks:
                self._settling.take(each)
            channel.begin()
            self._settling.flush(lambda is_done: channel.go_on_with(partial(answer, is_done)))

        def answer(is_settled: bool) -> None:
            if not is_settled:
                raise half_done()
            channel.send(m.TxCommitOk())

        def half_done() -> AmqpError:
            what = "the transaction is not committed as a whole: some of it may be"
            return failed(ReplyCode.INTERNAL_ERROR, what, method)

        # Where messages go has to be known before the first one does.
        self._publishing.find_out(publish)
