"""Queues of several partitions, as a whole: each request goes to the partitions that it is about.

Messages have numbers over the whole queue (`whole_numbers`). A request that several partitions do
is done when all have done it. If one refuses, the others may have done their part: so what may be
done twice is to be asked again, and of putting it is said that nobody knows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.doors.parted_takes import OnTaken, PartedTakes
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.metadata.effective_options import effective_options
from kafkaesque.broker.options.queues import make_policy
from kafkaesque.broker.queues.calls import QueueCalls
from kafkaesque.broker.queues.counting import whole_counts
from kafkaesque.broker.queues.unheeded import unheeded
from kafkaesque.broker.queues.whole_numbers import (
    Share,
    claims_by_partition,
    part_of,
    shares_of,
    whole_claim,
    whole_message,
    whole_number,
)
from kafkaesque.broker.replication.leaders_table import LeadersTable
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.env.clock import Clock
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.errors import (
    InvalidRequest,
    LeaderNotAvailable,
    RequestRefused,
    RequestTimedOut,
)
from kafkaesque.model.ids import TopicId
from kafkaesque.queues.requests import Claim

#: How long a message that would be refused waits for the options that hold.
OPTIONS_MS_MAX: Final = 5_000
#: Queues of which it is remembered whose turn it is.
_TURNS_MAX: Final = 10_000

ResultT = TypeVar("ResultT")

#: Gets a result of the request's kind, which `match` cannot tell a type checker.
_OnDone = Callable[[Any], None]
_Outcomes = dict[int, Any]


class PartedQueues:
    """See the module."""

    __slots__ = ("_calls", "_leaders", "_metadata", "_takes", "_turns")

    def __init__(
        self, *, clock: Clock, metadata: MetadataView, leaders: LeadersTable, calls: QueueCalls
    ) -> None:
        self._metadata = metadata
        self._leaders = leaders
        self._calls = calls
        self._takes = PartedTakes(clock, calls)
        self._turns: dict[TopicId, int] = {}

    def ask(
        self,
        queue: QueueState,
        request: q.AnyQueueRequest,
        result_type: type[ResultT],
        timeout_ms: int,
        on_done: Callable[[ResultT | RequestRefused], None],
    ) -> None:
        """Ask the partitions that a request is about; its own `partition` says nothing."""
        self._ask(queue, request, result_type, timeout_ms, on_done)

    def _ask(
        self,
        queue: QueueState,
        request: q.AnyQueueRequest,
        result_type: type[Any],
        timeout_ms: int,
        on_done: _OnDone,
    ) -> None:
        everywhere = partial(self._ask_all, queue, request, result_type, timeout_ms)
        match request:
            case q.PutMessages():
                self._put(queue, request, timeout_ms, on_done)
            case q.TakeMessages():
                self.take(queue, request, lambda number, found: on_done(_whole(number, found)))
            case q.SettleMessages() | q.ReleaseMessages() | q.RejectMessages() | q.ExtendLocks():
                self._settle(queue, request, timeout_ms, on_done)
            case q.PeekMessages():
                self._peek(queue, request, timeout_ms, on_done)
            case q.AttachConsumer() if request.is_exclusive is True:
                on_done(
                    InvalidRequest(
                        f"queue {queue.queue} has several partitions, and no consumer has them "
                        "for itself"
                    )
                )
            case q.AttachConsumer():
                everywhere(lambda found: on_done(_merged(found, _attached)))
            case q.AskQueue():
                everywhere(
                    lambda found: on_done(
                        _merged(found, lambda parts: whole_counts(list(parts.values())))
                    )
                )
            case q.SeekCursor() | q.MoveMessages():
                on_done(InvalidRequest("this is asked of one partition"))
            case _:
                everywhere(lambda found: on_done(_merged(found, lambda parts: parts[0])))

    def _ask_all(
        self,
        queue: QueueState,
        request: q.AnyQueueRequest,
        result_type: type[Any],
        timeout_ms: int,
        on_all: Callable[[_Outcomes], None],
    ) -> None:
        parts = {number: replace(request, partition=number) for number in _numbers(queue)}
        self._gather(parts, result_type, timeout_ms, on_all)

    def _gather(
        self,
        parts: dict[int, Any],
        result_type: type[Any],
        timeout_ms: int,
        on_all: Callable[[_Outcomes], None],
    ) -> None:
        """Ask several partitions, and call once all have answered."""
        outcomes: _Outcomes = {}

        def on_one(number: int, outcome: object) -> None:
            outcomes[number] = outcome
            if len(outcomes) == len(parts):
                on_all(outcomes)

        for number, part in parts.items():
            self._calls.ask(part, result_type, timeout_ms, partial(on_one, number))

    def _order(self, queue: QueueState) -> list[int]:
        """Return all partitions, from another one on each time; those without a leader are last."""
        if len(self._turns) > _TURNS_MAX:
            self._turns.clear()
        turn = self._turns[queue.topic_id] = self._turns.get(queue.topic_id, -1) + 1
        first = turn % len(queue.partitions)
        order = [*_numbers(queue)[first:], *_numbers(queue)[:first]]
        return sorted(order, key=self._leaderless(queue).__contains__)

    def _leaderless(self, queue: QueueState) -> set[int]:
        """Return the partitions that have no leader, as far as this broker knows."""
        leader = self._leaders.leader
        return {
            number for number in _numbers(queue) if leader(queue.partitions[number].group) is None
        }

    # -- putting

    def _put(
        self, queue: QueueState, request: q.PutMessages, timeout_ms: int, on_done: _OnDone
    ) -> None:
        otherwise = self._order(queue)[0]
        try:
            shares = shares_of(request.records, len(queue.partitions), otherwise)
        except RequestRefused as refusal:
            on_done(refusal)
            return
        if len(shares) <= 1:
            number = next(iter(shares), otherwise)

            def on_put(outcome: q.PutResult | RequestRefused) -> None:
                if isinstance(outcome, q.PutResult):
                    on_done(q.PutResult(_numbered(number, outcome.offsets)))
                else:
                    on_done(outcome)

            part = replace(request, partition=number)
            self._calls.ask(part, q.PutResult, timeout_ms, on_put)
            return

        def put() -> None:
            self._put_shares(request, shares, timeout_ms, on_done)

        if request.is_strict is True and self._unheeded(queue, request):
            self._metadata.when_current(
                OPTIONS_MS_MAX, lambda is_known: self._put_if_heeded(queue, request, put, on_done)
            )
        else:
            put()

    def _unheeded(self, queue: QueueState, request: q.PutMessages) -> str:
        options = effective_options(self._metadata.state, queue)
        return unheeded(request.records, make_policy(options))

    def _put_if_heeded(
        self,
        queue: QueueState,
        request: q.PutMessages,
        put: Callable[[], None],
        on_done: _OnDone,
    ) -> None:
        """Put if the options of now allow it: one partition would refuse what another has taken."""
        now = self._metadata.state.queues_by_log.get(queue.topic_id, queue)
        why = self._unheeded(now, request)
        if why:
            on_done(InvalidRequest(why))
        else:
            put()

    def _put_shares(
        self,
        request: q.PutMessages,
        shares: dict[int, Share],
        timeout_ms: int,
        on_done: _OnDone,
    ) -> None:
        parts = {
            number: replace(request, partition=number, records=bytes(encode_batch(share.records)))
            for number, share in shares.items()
        }

        def on_all(outcomes: _Outcomes) -> None:
            refusals = [each for each in outcomes.values() if isinstance(each, RequestRefused)]
            doubts = [each for each in refusals if isinstance(each, RequestTimedOut)]
            if not refusals:
                on_done(q.PutResult(_in_place(shares, outcomes)))
            elif len(refusals) == len(parts) and not doubts:
                on_done(refusals[0])
            else:
                why = (doubts or refusals)[0]
                on_done(RequestTimedOut(f"{why}; some of the messages may be in the queue"))

        self._gather(parts, q.PutResult, timeout_ms, on_all)

    # -- taking and settling

    def take(self, queue: QueueState, take: q.TakeMessages, on_taken: OnTaken) -> None:
        """Take messages of any partition, and say of which; they have the offsets there."""
        leaderless = self._leaderless(queue)
        self._takes.take(take, self._order(queue), on_taken, leaderless=leaderless)

    def _settle(
        self,
        queue: QueueState,
        request: q.SettleMessages | q.ReleaseMessages | q.RejectMessages | q.ExtendLocks,
        timeout_ms: int,
        on_done: _OnDone,
    ) -> None:
        found = claims_by_partition(request.claims)
        known = {number: found[number] for number in sorted(found) if number in _numbers(queue)}
        # What no partition has, nobody has taken.
        stale = [each for each in request.claims if part_of(each.first)[0] not in known]
        if not known:
            on_done(q.ClaimsResult(stale))
            return

        def merge(parts: _Outcomes) -> q.ClaimsResult:
            lost = [whole_claim(number, each) for number in known for each in parts[number].stale]
            return q.ClaimsResult([*stale, *lost])

        asked = {
            number: replace(request, partition=number, claims=claims)
            for number, claims in known.items()
        }
        self._gather(asked, q.ClaimsResult, timeout_ms, lambda all_: on_done(_merged(all_, merge)))

    # -- looking

    def _peek(
        self, queue: QueueState, request: q.PeekMessages, timeout_ms: int, on_done: _OnDone
    ) -> None:
        """Ask one partition after the other, until there is enough."""
        first, start = part_of(max(0, request.start))
        shown: list[q.PeekedMessage] = []

        def go_on(number: int, start: int) -> None:
            left = request.messages_max - len(shown)
            if left <= 0 or number >= len(queue.partitions):
                on_done(q.PeekedMessages(shown))
                return

            def on_peeked(outcome: q.PeekedMessages | RequestRefused) -> None:
                if isinstance(outcome, RequestRefused):
                    on_done(outcome)
                    return
                shown.extend(
                    replace(each, message=whole_message(number, each.message))
                    for each in outcome.messages
                )
                go_on(number + 1, 0)

            part = replace(request, partition=number, start=start, messages_max=left)
            self._calls.ask(part, q.PeekedMessages, timeout_ms, on_peeked)

        go_on(first, start)


def _numbers(queue: QueueState) -> range:
    return range(len(queue.partitions))


def _numbered(number: int, offsets: Sequence[int]) -> list[int]:
    """Return the numbers of messages; of one that was refused it stays what it is."""
    return [each if each < 0 else whole_number(number, each) for each in offsets]


def _in_place(shares: dict[int, Share], outcomes: _Outcomes) -> list[int]:
    """Return the numbers of messages in the order in which they came."""
    found: dict[int, int] = {}
    for number, share in shares.items():
        found.update(zip(share.places, _numbered(number, outcomes[number].offsets), strict=True))
    return [found[place] for place in sorted(found)]


def _whole(number: int, outcome: q.TakenMessages | RequestRefused) -> object:
    if isinstance(outcome, RequestRefused):
        return outcome
    if not outcome.messages:
        return outcome
    messages = [whole_message(number, each) for each in outcome.messages]
    return q.TakenMessages(messages, whole_number(number, outcome.unsent_from))


def _merged(outcomes: _Outcomes, merge: Callable[[_Outcomes], object]) -> object:
    """Return what all have answered, or why one has not: a final word before what passes."""
    refused = [each for each in outcomes.values() if isinstance(each, RequestRefused)]
    if not refused:
        return merge(outcomes)
    passing = (LeaderNotAvailable, RequestTimedOut)
    return min(refused, key=lambda each: isinstance(each, passing))


def _attached(parts: _Outcomes) -> q.AttachedConsumer:
    claims: list[Claim] = [
        whole_claim(number, each) for number in sorted(parts) for each in parts[number].claims
    ]
    return q.AttachedConsumer(any(each.is_active for each in parts.values()), claims)
