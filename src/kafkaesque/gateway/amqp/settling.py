"""Deliveries of one channel that the client has said nothing about, and what it says then."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from typing import Final

from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.gateway.amqp.errors import failed
from kafkaesque.gateway.amqp.ports import ChannelPort
from kafkaesque.gateway.queueing.settlements import (
    FAIL,
    REJECT,
    RELEASE,
    SETTLE,
    Delivery,
    Kind,
    Settlements,
    claim_of,
)
from kafkaesque.model.ids import TopicId
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.errors import ReplyCode
from kafkaesque.protocols.amqp.events import Acknowledged, AcknowledgedRun
from kafkaesque.queues.requests import Claim

#: A message that was fetched singly is locked for so long, and again for as long as it is held.
GET_LOCK_MS: Final = 60_000
_EXTEND_MS: Final = GET_LOCK_MS // 3


class Settling(Settlements):
    """See the module."""

    __slots__ = ("_channel", "_is_extending", "last_tag", "unacked")

    def __init__(self, channel: ChannelPort) -> None:
        super().__init__(channel.connection.desk)
        self._channel = channel
        #: By delivery tag, rising.
        self.unacked: Final[dict[int, Delivery]] = {}
        self.last_tag = 0
        self._is_extending = False

    def held(self) -> Iterable[Delivery]:
        """See `Settlements`."""
        return self.unacked.values()

    def add(self, delivery: Delivery) -> int:
        """Return the tag of a delivery that the client has to answer."""
        self.last_tag += 1
        self.unacked[self.last_tag] = delivery
        if delivery.consumer is None and not self._is_extending:
            self._is_extending = True
            self._channel.connection.shared.clock.call_later(_EXTEND_MS, self._extend)
        return self.last_tag

    def next_tag(self) -> int:
        """Return the tag of a delivery that needs no answer."""
        self.last_tag += 1
        return self.last_tag

    def _extend(self) -> None:
        """Keep the locks of what was fetched singly: there is no consumer that they belong to."""
        held: dict[TopicId, list[Claim]] = {}
        for each in self.unacked.values():
            if each.consumer is None:
                held.setdefault(each.log_id, []).append(claim_of(each))
        self._is_extending = bool(held)
        for log_id, claims in held.items():
            self._ask(q.ExtendLocks(log_id=log_id, claims=claims, lock_ms=GET_LOCK_MS))
        if held:
            self._channel.connection.shared.clock.call_later(_EXTEND_MS, self._extend)

    # -- what the client says

    def recover(self, method: m.BasicRecover | m.BasicRecoverAsync) -> None:
        """All deliveries of the channel are to come again."""
        self._end(0, True, RELEASE, type(method))
        if isinstance(method, m.BasicRecover):
            self._channel.send(m.BasicRecoverOk())

    def take(self, said: Acknowledged | m.Method) -> None:
        """Deliveries are done with, are not wanted, or are to come again.

        Raises:
            AmqpError: there is no delivery of the tag.
        """
        match said:
            case Acknowledged():
                self._end(said.delivery_tag, said.multiple, SETTLE, m.BasicAck)
            case m.BasicNack():
                kind = RELEASE if said.requeue else REJECT
                self._end(said.delivery_tag, said.multiple, kind, m.BasicNack)
            case m.BasicReject():
                kind = FAIL if said.requeue else REJECT
                self._end(said.delivery_tag, False, kind, m.BasicReject)

    def take_run(self, run: AcknowledgedRun) -> None:
        """Deliveries are done with, one after the other.

        Raises:
            AmqpError: there is no delivery of a tag; those before it are done with.
        """
        unacked = self.unacked
        done: list[Delivery] = []
        for tag in range(run.first, run.last + 1):
            delivery = unacked.pop(tag, None)
            if delivery is None:
                self.settle_all(done)
                what = f"unknown delivery tag {tag}"
                raise failed(ReplyCode.PRECONDITION_FAILED, what, m.BasicAck)
            done.append(delivery)
        self.settle_all(done)

    def check(self, tag: int, multiple: bool, method: type[m.Method]) -> None:
        """Check that there is a delivery of a tag.

        Raises:
            AmqpError: there is none.
        """
        self._tags(tag, multiple, method)

    def _tags(self, tag: int, multiple: bool, method: type[m.Method]) -> list[int]:
        if tag == 0 and multiple:
            return list(self.unacked)
        if tag not in self.unacked:
            what = f"unknown delivery tag {tag}"
            raise failed(ReplyCode.PRECONDITION_FAILED, what, method)
        return list(takewhile(lambda each: each <= tag, self.unacked)) if multiple else [tag]

    def _end(self, tag: int, multiple: bool, kind: Kind, method: type[m.Method]) -> None:
        for each in self._tags(tag, multiple, method):
            delivery = self.unacked.pop(each)
            self.settle(delivery, kind)

    def end(self) -> None:
        """Give back what was fetched singly; the rest goes back with its consumers."""
        for delivery in self.unacked.values():
            if delivery.consumer is None:
                self._gathered.setdefault((delivery.log_id, FAIL), []).append(delivery)
        self.unacked.clear()
        self.flush()
