"""Deliveries of one channel that the client has said nothing about, and what it says then.

What is said between two turns is gathered by queue and sent as one request each. It is asked again
until there is an answer; a message whose settlement never arrives comes again.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import Final, NamedTuple, Protocol

from kafkaesque.broker.metadata.effective_options import effective_options
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.chassis.amqp.arguments import has_dead_letters
from kafkaesque.gateway.amqp.errors import failed
from kafkaesque.gateway.amqp.ports import ChannelPort
from kafkaesque.model.errors import RequestRefused, UnknownQueue
from kafkaesque.model.ids import TopicId
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.errors import ReplyCode
from kafkaesque.protocols.amqp.events import Acknowledged
from kafkaesque.queues.requests import Claim

#: Deliveries of one channel that wait for an answer, whatever its prefetch says.
UNACKED_MAX: Final = 65_535
TIMEOUT_MS: Final = 60_000
#: A message that was fetched singly is locked for so long, and again for as long as it is held.
GET_LOCK_MS: Final = 60_000
_EXTEND_MS: Final = GET_LOCK_MS // 3


class Holder(Protocol):
    """Whose deliveries are counted."""

    def on_settled(self) -> None:
        """The client has said what becomes of one message."""


class Delivery(NamedTuple):
    """A message that the client has."""

    log_id: TopicId
    offset: int
    attempt: int
    #: None: it was fetched singly.
    consumer: Holder | None
    #: Whether it stays where it is, whatever the client says: it is one of a stream.
    is_kept: bool = False


class _Kind(NamedTuple):
    """What becomes of messages: done with, given back or given up."""

    name: str
    is_failed: bool = False


_SETTLE: Final = _Kind("settle")
_REJECT: Final = _Kind("reject")
_RELEASE: Final = _Kind("release")
_FAIL: Final = _Kind("release", is_failed=True)


class Settling:
    """See the module."""

    __slots__ = ("_channel", "_gathered", "_is_extending", "last_tag", "unacked")

    def __init__(self, channel: ChannelPort) -> None:
        self._channel = channel
        #: By delivery tag, rising.
        self.unacked: Final[dict[int, Delivery]] = {}
        self.last_tag = 0
        self._gathered: dict[tuple[TopicId, _Kind], list[Delivery]] = {}
        self._is_extending = False

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
                held.setdefault(each.log_id, []).append(_claim(each))
        self._is_extending = bool(held)
        for log_id, claims in held.items():
            self._ask(q.ExtendLocks(log_id=log_id, claims=claims, lock_ms=GET_LOCK_MS))
        if held:
            self._channel.connection.shared.clock.call_later(_EXTEND_MS, self._extend)

    # -- what the client says

    def recover(self, method: m.BasicRecover | m.BasicRecoverAsync) -> None:
        """All deliveries of the channel are to come again."""
        self._end(0, True, _RELEASE, type(method))
        if isinstance(method, m.BasicRecover):
            self._channel.send(m.BasicRecoverOk())

    def take(self, said: Acknowledged | m.Method) -> None:
        """Deliveries are done with, are not wanted, or are to come again.

        Raises:
            AmqpError: there is no delivery of the tag.
        """
        match said:
            case Acknowledged():
                self._end(said.delivery_tag, said.multiple, _SETTLE, m.BasicAck)
            case m.BasicNack():
                kind = _RELEASE if said.requeue else _REJECT
                self._end(said.delivery_tag, said.multiple, kind, m.BasicNack)
            case m.BasicReject():
                kind = _FAIL if said.requeue else _REJECT
                self._end(said.delivery_tag, False, kind, m.BasicReject)

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

    def _end(self, tag: int, multiple: bool, kind: _Kind, method: type[m.Method]) -> None:
        for each in self._tags(tag, multiple, method):
            delivery = self.unacked.pop(each)
            self.settle(delivery, kind)

    def settle(self, delivery: Delivery, kind: _Kind = _SETTLE) -> None:
        """Say of a message what becomes of it, with the next `flush`."""
        if delivery.is_kept and delivery.consumer is not None:
            delivery.consumer.on_settled()
            return
        if kind is _REJECT and not self._has_dead_letters(delivery.log_id):
            # Nobody wants it.
            kind = _SETTLE
        self._gathered.setdefault((delivery.log_id, kind), []).append(delivery)
        if delivery.consumer is not None:
            delivery.consumer.on_settled()

    def _has_dead_letters(self, log_id: TopicId) -> bool:
        state = self._channel.connection.desk.doors.cluster.state
        queue = state.queues_by_log.get(log_id)
        return queue is not None and has_dead_letters(effective_options(state, queue))

    def flush(self, then: Callable[[bool], None] = lambda is_done: None) -> None:
        """Send what was said; `then` is told when all is answered, and whether all of it is done.

        Of a queue that is gone there is nothing to do.
        """
        gathered, self._gathered = self._gathered, {}
        left, is_done = len(gathered), True
        if not gathered:
            then(True)

        def on_one(outcome: q.ClaimsResult | RequestRefused) -> None:
            nonlocal left, is_done
            left -= 1
            if isinstance(outcome, q.ClaimsResult):
                is_done = is_done and not outcome.stale
            else:
                is_done = is_done and isinstance(outcome, UnknownQueue)
            if left == 0:
                then(is_done)

        for (log_id, kind), deliveries in gathered.items():
            self._ask(_request(log_id, kind, claims_of(deliveries)), on_one)

    def release(self, log_id: TopicId, claims: list[Claim], *, is_failed: bool = False) -> None:
        """Give back messages that the client has not been sent."""
        if claims:
            self._ask(q.ReleaseMessages(log_id=log_id, claims=claims, is_failed=is_failed))

    def _ask(
        self,
        request: q.AnyQueueRequest,
        on_done: Callable[[q.ClaimsResult | RequestRefused], None] = lambda outcome: None,
    ) -> None:
        ask = self._channel.connection.desk.doors.queues.ask
        ask(request, q.ClaimsResult, TIMEOUT_MS, on_done)

    def end(self) -> None:
        """Give back what was fetched singly; the rest goes back with its consumers."""
        for delivery in self.unacked.values():
            if delivery.consumer is None:
                self._gathered.setdefault((delivery.log_id, _FAIL), []).append(delivery)
        self.unacked.clear()
        self.flush()


def _claim(delivery: Delivery) -> Claim:
    return Claim(delivery.offset, delivery.offset + 1, delivery.attempt)


def claims_of(deliveries: list[Delivery]) -> list[Claim]:
    """Return the claims of messages; those that lie together are one."""
    claims: list[Claim] = []
    for each in sorted(deliveries, key=lambda delivery: delivery.offset):
        last = claims[-1] if claims else None
        if last is not None and last.end == each.offset and last.attempt == each.attempt:
            claims[-1] = Claim(last.first, last.end + 1, last.attempt)
        else:
            claims.append(_claim(each))
    return claims


def _request(log_id: TopicId, kind: _Kind, claims: list[Claim]) -> q.AnyQueueRequest:
    match kind.name:
        case "settle":
            # A lock that has ended does no harm if nobody has had the message since.
            return q.SettleMessages(log_id=log_id, claims=claims, may_be_late=True)
        case "reject":
            return q.RejectMessages(log_id=log_id, claims=claims)
        case _:
            return q.ReleaseMessages(log_id=log_id, claims=claims, is_failed=kind.is_failed)
