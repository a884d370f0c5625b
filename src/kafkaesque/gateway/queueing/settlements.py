"""What clients say of deliveries, on its way to their queues.

What is said between two turns is gathered by queue and sent as one request each. It is asked again
until there is an answer; a message whose settlement never arrives comes again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.chassis.amqp.arguments import has_dead_letters
from kafkaesque.gateway.queueing.desk import Desk
from kafkaesque.model.errors import RequestRefused, UnknownQueue
from kafkaesque.model.ids import TopicId
from kafkaesque.queues.requests import Claim

#: Deliveries of one client that wait for an answer, whatever its prefetch says.
UNACKED_MAX: Final = 65_535
TIMEOUT_MS: Final = 60_000


class Holder(Protocol):
    """Whose deliveries are counted."""

    def on_settled(self, count: int = 1) -> None:
        """The client has said what becomes of messages."""


class Delivery(NamedTuple):
    """A message that the client has."""

    log_id: TopicId
    offset: int
    attempt: int
    #: None: it was fetched singly.
    consumer: Holder | None
    #: Whether it stays where it is, whatever the client says: it is one of a stream.
    is_kept: bool = False


class Kind(NamedTuple):
    """What becomes of messages: done with, given back or given up."""

    name: str
    is_failed: bool = False


SETTLE: Final = Kind("settle")
REJECT: Final = Kind("reject")
RELEASE: Final = Kind("release")
FAIL: Final = Kind("release", is_failed=True)


class Settlements(ABC):
    """Of one client, or one part of it; how it names its deliveries is the protocol's."""

    __slots__ = ("_desk", "_gathered")

    def __init__(self, desk: Desk) -> None:
        self._desk: Final = desk
        self._gathered: dict[tuple[TopicId, Kind], list[Delivery]] = {}

    @abstractmethod
    def held(self) -> Iterable[Delivery]:
        """Return all deliveries that the client has said nothing about."""

    def settle(self, delivery: Delivery, kind: Kind = SETTLE) -> None:
        """Say of a message what becomes of it, with the next `flush`."""
        if delivery.is_kept and delivery.consumer is not None:
            delivery.consumer.on_settled()
            return
        if kind is REJECT and not self._has_dead_letters(delivery.log_id):
            # Nobody wants it.
            kind = SETTLE
        self._gathered.setdefault((delivery.log_id, kind), []).append(delivery)
        if delivery.consumer is not None:
            delivery.consumer.on_settled()

    def settle_all(self, deliveries: Sequence[Delivery]) -> None:
        """Say of messages that they are done with, with the next `flush`."""
        settled: dict[tuple[TopicId, Holder], list[Delivery]] = {}
        for each in deliveries:
            if each.consumer is None or each.is_kept:
                self.settle(each)
            else:
                settled.setdefault((each.log_id, each.consumer), []).append(each)
        for (log_id, consumer), found in settled.items():
            self._gathered.setdefault((log_id, SETTLE), []).extend(found)
            consumer.on_settled(len(found))

    def _has_dead_letters(self, log_id: TopicId) -> bool:
        queue = self._desk.doors.cluster.state.queues_by_log.get(log_id)
        return queue is not None and has_dead_letters(self._desk.options_of(queue))

    def flush(
        self, then: Callable[[bool], None] = lambda is_done: None, *, is_awaited: bool = True
    ) -> None:
        """Send what was said; `then` is told when all is answered, and whether all of it is done.

        Of a queue that is gone there is nothing to do. Where the client does not wait for it, what
        it is done with may be written a little later, with what else is written then.
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
            self._ask(_request(log_id, kind, claims_of(deliveries), is_awaited), on_one)

    def release(
        self,
        log_id: TopicId,
        claims: list[Claim],
        *,
        is_failed: bool = False,
        is_unsent: bool = False,
    ) -> None:
        """Give back messages; `is_unsent` says that no client has ever been sent one of them."""
        if claims:
            self._ask(
                q.ReleaseMessages(
                    log_id=log_id, claims=claims, is_failed=is_failed, is_unsent=is_unsent
                )
            )

    def _ask(
        self,
        request: q.AnyQueueRequest,
        on_done: Callable[[q.ClaimsResult | RequestRefused], None] = lambda outcome: None,
    ) -> None:
        self._desk.doors.queues.ask_whole(request, q.ClaimsResult, TIMEOUT_MS, on_done)


def claim_of(delivery: Delivery) -> Claim:
    """Return the claim of one message."""
    return Claim(delivery.offset, delivery.offset + 1, delivery.attempt)


def claims_of(deliveries: list[Delivery]) -> list[Claim]:
    """Return the claims of messages; those that lie together are one."""
    claims: list[Claim] = []
    first = end = attempt = -1
    for offset, its_attempt in sorted([(each.offset, each.attempt) for each in deliveries]):
        if offset == end and its_attempt == attempt:
            end += 1
            continue
        if end >= 0:
            claims.append(Claim(first, end, attempt))
        first, end, attempt = offset, offset + 1, its_attempt
    if end >= 0:
        claims.append(Claim(first, end, attempt))
    return claims


def _request(
    log_id: TopicId, kind: Kind, claims: list[Claim], is_awaited: bool
) -> q.AnyQueueRequest:
    match kind.name:
        case "settle":
            # A lock that has ended does no harm if nobody has had the message since.
            return q.SettleMessages(
                log_id=log_id, claims=claims, may_be_late=True, is_patient=not is_awaited
            )
        case "reject":
            return q.RejectMessages(log_id=log_id, claims=claims)
        case _:
            return q.ReleaseMessages(log_id=log_id, claims=claims, is_failed=kind.is_failed)
