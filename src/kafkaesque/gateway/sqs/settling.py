"""DeleteMessage and ChangeMessageVisibility, alone and in batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.queues.whole_numbers import part_of
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.gateway.sqs.attributes import QueueOptions
from kafkaesque.gateway.sqs.call import Call, RequestT, error_of
from kafkaesque.gateway.sqs.finding import QueueFinder
from kafkaesque.gateway.sqs.receiving import check_visibility
from kafkaesque.gateway.sqs.sending import failed_entry
from kafkaesque.model.errors import RequestRefused
from kafkaesque.protocols.sqs.errors import SqsError, invalid_value
from kafkaesque.protocols.sqs.messages import check_batch
from kafkaesque.protocols.sqs.names import read_receipt, read_url
from kafkaesque.protocols.sqs.service import (
    BatchResultErrorEntry,
    ChangeMessageVisibilityBatchRequest,
    ChangeMessageVisibilityBatchResult,
    ChangeMessageVisibilityBatchResultEntry,
    ChangeMessageVisibilityRequest,
    DeleteMessageBatchRequest,
    DeleteMessageBatchResult,
    DeleteMessageBatchResultEntry,
    DeleteMessageRequest,
)
from kafkaesque.queues.requests import Claim

TIMEOUT_MS: Final = 20_000

#: What has become of each message that was asked for, by what the client calls it: None is done.
Outcomes = dict[str, SqsError | None]
OnOutcomes = Callable[[Outcomes], None]

_NOT_IN_FLIGHT: Final = SqsError(
    "MessageNotInflight", "The message is not in flight: its visibility timeout has ended."
)
#: Names the only message of a request that is no batch.
_ALONE: Final = ""


class Settling:
    """See the module."""

    __slots__ = ("_doors", "_finder")

    def __init__(self, doors: Doors, finder: QueueFinder) -> None:
        self._doors = doors
        self._finder = finder

    # -- deleting

    def delete(self, call: Call[DeleteMessageRequest]) -> None:
        """Delete a message; one that is deleted already is well.

        Raises:
            SqsError: the queue's URL is none.
        """
        receipts = {_ALONE: call.request.receipt_handle}
        self._finder.find(
            call,
            read_url(call.request.queue_url),
            lambda queue: self._delete(queue, receipts, lambda found: _answer(call, found)),
        )

    def delete_batch(self, call: Call[DeleteMessageBatchRequest]) -> None:
        """Delete messages, those of them that can be.

        Raises:
            SqsError: the queue's URL is none, or the batch is refused as a whole.
        """
        check_batch(call.request.entries)
        receipts = {each.id: each.receipt_handle for each in call.request.entries}

        def on_done(outcomes: Outcomes) -> None:
            done, failed = _sorted(outcomes)
            successful = tuple(DeleteMessageBatchResultEntry(id=each) for each in done)
            call.done(DeleteMessageBatchResult(successful=successful, failed=failed))

        self._finder.find(
            call,
            read_url(call.request.queue_url),
            lambda queue: self._delete(queue, receipts, on_done),
        )

    def _delete(self, queue: QueueState, receipts: Mapping[str, str], on_done: OnOutcomes) -> None:
        claims, outcomes = _read_receipts(queue, receipts)
        is_fifo = QueueOptions(queue.options).is_fifo

        def on_settled(outcome: q.ClaimsResult | RequestRefused) -> None:
            stale = _take(outcome, claims, outcomes)
            if stale and is_fifo:
                self._find_expired(queue, stale, outcomes, on_done)
            else:
                # Of a standard queue: deleted before, or with somebody else by now.
                outcomes.update(dict.fromkeys(stale))
                on_done(outcomes)

        if not claims:
            on_done(outcomes)
            return
        request = q.SettleMessages(
            log_id=queue.topic_id, claims=list(claims.values()), may_be_late=not is_fifo
        )
        self._doors.queues.ask_whole(request, q.ClaimsResult, TIMEOUT_MS, on_settled)

    def _find_expired(
        self,
        queue: QueueState,
        stale: Mapping[str, Claim],
        outcomes: Outcomes,
        on_done: OnOutcomes,
    ) -> None:
        """Tell receipts that have expired from those of messages that are deleted already."""
        names = list(stale)

        def look(number: int) -> None:
            if number == len(names):
                on_done(outcomes)
                return
            name = names[number]
            partition, offset = part_of(stale[name].first)

            def on_peeked(outcome: q.PeekedMessages | RequestRefused) -> None:
                if isinstance(outcome, RequestRefused):
                    outcomes[name] = error_of(outcome)
                elif any(each.message.offset == offset for each in outcome.messages):
                    outcomes[name] = invalid_value(
                        "Value for parameter ReceiptHandle is invalid. Reason: The receipt handle "
                        "has expired."
                    )
                else:
                    outcomes[name] = None
                look(number + 1)

            # If it is gone there, it is nowhere.
            peek = q.PeekMessages(
                log_id=queue.topic_id,
                partition=partition,
                start=offset,
                messages_max=1,
                bytes_max=1,
            )
            self._doors.queues.ask(peek, q.PeekedMessages, TIMEOUT_MS, on_peeked)

        look(0)

    # -- visibility

    def change(self, call: Call[ChangeMessageVisibilityRequest]) -> None:
        """Let a message be invisible for so long from now; 0: give it back.

        Raises:
            SqsError: the queue's URL is none, or the timeout out of range.
        """
        request = call.request
        if request.visibility_timeout is None:
            raise SqsError(
                "MissingParameter", "The request must contain the parameter VisibilityTimeout."
            )
        check_visibility(request.visibility_timeout)
        wanted = {_ALONE: (request.receipt_handle, request.visibility_timeout)}
        self._finder.find(
            call,
            read_url(request.queue_url),
            lambda queue: self._change(queue, wanted, {}, lambda found: _answer(call, found)),
        )

    def change_batch(self, call: Call[ChangeMessageVisibilityBatchRequest]) -> None:
        """Let messages be invisible for so long from now, those of them that can be.

        Raises:
            SqsError: the queue's URL is none, or the batch is refused as a whole.
        """
        check_batch(call.request.entries)
        outcomes: Outcomes = {}
        wanted: dict[str, tuple[str, int]] = {}
        for each in call.request.entries:
            try:
                check_visibility(each.visibility_timeout or 0)
                wanted[each.id] = (each.receipt_handle, each.visibility_timeout or 0)
            except SqsError as error:
                outcomes[each.id] = error

        def on_done(outcomes: Outcomes) -> None:
            done, failed = _sorted(outcomes)
            successful = tuple(ChangeMessageVisibilityBatchResultEntry(id=each) for each in done)
            call.done(ChangeMessageVisibilityBatchResult(successful=successful, failed=failed))

        self._finder.find(
            call,
            read_url(call.request.queue_url),
            lambda queue: self._change(queue, wanted, outcomes, on_done),
        )

    def _change(
        self,
        queue: QueueState,
        wanted: Mapping[str, tuple[str, int]],
        outcomes: Outcomes,
        on_done: OnOutcomes,
    ) -> None:
        receipts = {name: receipt for name, (receipt, _) in wanted.items()}
        claims, faults = _read_receipts(queue, receipts)
        outcomes |= faults
        by_seconds: dict[int, dict[str, Claim]] = {}
        for name, claim in claims.items():
            by_seconds.setdefault(wanted[name][1], {})[name] = claim
        waiting = list(by_seconds.items())

        def go_on() -> None:
            if not waiting:
                on_done(outcomes)
                return
            seconds, some = waiting.pop()

            def on_changed(outcome: q.ClaimsResult | RequestRefused) -> None:
                stale = _take(outcome, some, outcomes)
                outcomes.update(dict.fromkeys(stale, _NOT_IN_FLIGHT))
                go_on()

            request = _change_request(queue, list(some.values()), seconds)
            self._doors.queues.ask_whole(request, q.ClaimsResult, TIMEOUT_MS, on_changed)

        go_on()


def _change_request(
    queue: QueueState, claims: list[Claim], seconds: int
) -> q.ReleaseMessages | q.ExtendLocks:
    if seconds:
        return q.ExtendLocks(log_id=queue.topic_id, claims=claims, lock_ms=seconds * 1000)
    # It was received, and that counts.
    return q.ReleaseMessages(log_id=queue.topic_id, claims=claims, is_failed=True, delay_ms=0)


def _read_receipts(
    queue: QueueState, receipts: Mapping[str, str]
) -> tuple[dict[str, Claim], Outcomes]:
    """Return what receipts name, and what is wrong with those that name nothing."""
    claims: dict[str, Claim] = {}
    faults: Outcomes = {}
    for name, receipt in receipts.items():
        try:
            offset, attempt = read_receipt(queue.topic_id, receipt)
        except SqsError as error:
            faults[name] = error
        else:
            claims[name] = Claim(offset, offset + 1, attempt)
    return claims, faults


def _take(
    outcome: q.ClaimsResult | RequestRefused, claims: Mapping[str, Claim], outcomes: Outcomes
) -> dict[str, Claim]:
    """Take what has become of claims; return those that fit to nothing any more."""
    if isinstance(outcome, RequestRefused):
        outcomes.update(dict.fromkeys(claims, error_of(outcome)))
        return {}
    stale = {Claim(*each) for each in outcome.stale}
    outcomes.update({name: None for name, claim in claims.items() if claim not in stale})
    return {name: claim for name, claim in claims.items() if claim in stale}


def _answer(call: Call[RequestT], outcomes: Outcomes) -> None:
    (outcome,) = outcomes.values()
    if outcome is None:
        call.done()
    else:
        call.fail(outcome)


def _sorted(outcomes: Outcomes) -> tuple[list[str], tuple[BatchResultErrorEntry, ...]]:
    """Return what was done and what was not."""
    done = [name for name, outcome in outcomes.items() if outcome is None]
    failed = tuple(
        failed_entry(name, outcome) for name, outcome in outcomes.items() if outcome is not None
    )
    return done, failed
