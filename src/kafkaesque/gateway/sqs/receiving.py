"""ReceiveMessage: short and long polls.

A long poll is one waiting request at the leader of the queue's log, and costs nothing until a
message comes or its time is up; it stays there if the client asks again (`held_takes`). A client
that has hung up meanwhile gets nothing: what its request was given is given back at once, as if it
had not been attempted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from msgspec import UNSET

from kafkaesque.access.operations import Operation
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.gateway.sqs.attributes import QueueOptions
from kafkaesque.gateway.sqs.authorization import Need, find_refusal
from kafkaesque.gateway.sqs.call import Call
from kafkaesque.gateway.sqs.finding import QueueFinder
from kafkaesque.gateway.sqs.stored import Wanted, message_of
from kafkaesque.model.errors import RequestRefused
from kafkaesque.protocols.sqs.errors import SqsError, invalid_value
from kafkaesque.protocols.sqs.messages import check_id
from kafkaesque.protocols.sqs.names import read_url
from kafkaesque.protocols.sqs.service import (
    MESSAGE_SYSTEM_ATTRIBUTES,
    ReceiveMessageRequest,
    ReceiveMessageResult,
)

MESSAGES_MAX: Final = 10
WAIT_SECONDS_MAX: Final = 20
VISIBILITY_SECONDS_MAX: Final = 12 * 3600
#: Of all messages of one answer, but for a single one.
BYTES_MAX: Final = 4 * 1024 * 1024
#: Beyond the wait, the leader may take so long to answer.
TIMEOUT_MS: Final = 15_000
#: So long an attempt can be repeated.
ATTEMPT_MS: Final = 300_000
#: Attempts that are remembered, and what their messages have together: with more, the oldest are
#: forgotten.
ATTEMPTS_MAX: Final = 1_000
ATTEMPTS_BYTES_MAX: Final = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Attempt:
    """What a request with an attempt id was given."""

    messages: list[q.QueueMessage]
    ends_ms: int
    size_bytes: int


class Receiving:
    """See the module."""

    __slots__ = ("_attempts", "_attempts_bytes", "_doors", "_finder")

    def __init__(self, doors: Doors, finder: QueueFinder) -> None:
        self._doors = doors
        self._finder = finder
        #: By queue and attempt id. This broker's alone: a repetition elsewhere is a new request.
        self._attempts: OrderedDict[tuple[bytes, str], _Attempt] = OrderedDict()
        self._attempts_bytes = 0

    def receive(self, call: Call[ReceiveMessageRequest]) -> None:
        """Give messages to a client, now or when there are any.

        Raises:
            SqsError: a parameter is out of range.
        """
        request = call.request
        count = 1 if request.max_number_of_messages is None else request.max_number_of_messages
        _check_range("MaxNumberOfMessages", count, 1, MESSAGES_MAX)
        _check_range("WaitTimeSeconds", request.wait_time_seconds or 0, 0, WAIT_SECONDS_MAX)
        check_visibility(request.visibility_timeout or 0)
        wanted = _wanted(request)
        if request.receive_request_attempt_id is not None:
            check_id("ReceiveRequestAttemptId", request.receive_request_attempt_id)

        def go_on(queue: QueueState) -> None:
            if request.receive_request_attempt_id is not None:
                if not QueueOptions(queue.options).is_fifo:
                    raise invalid_value(
                        "Value for parameter ReceiveRequestAttemptId is invalid. Reason: The "
                        "request includes a parameter that is not valid for this queue type."
                    )
                self._repeat(call, queue, count, wanted, request.receive_request_attempt_id)
            else:
                self._take(call, queue, count, wanted)

        self._finder.find(call, read_url(request.queue_url), go_on)

    def _take(
        self, call: Call[ReceiveMessageRequest], queue: QueueState, count: int, wanted: Wanted
    ) -> None:
        said = call.request.wait_time_seconds
        wait_ms = QueueOptions(queue.options).wait_ms if said is None else said * 1000
        take = q.TakeMessages(
            log_id=queue.topic_id,
            messages_max=count,
            bytes_max=BYTES_MAX,
            lock_ms=_lock_ms(call.request),
            wait_ms=wait_ms,
            has_groups=True if QueueOptions(queue.options).is_fifo else UNSET,
        )

        name = queue.queue.name

        def on_taken(outcome: q.TakenMessages | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                call.fail(outcome)
            elif not call.is_wanted:
                self._give_back(queue, outcome.messages)
            elif (refusal := find_refusal(call.rights, Need(Operation.READ, name))) is not None:
                # The rule has gone while the request waited.
                self._give_back(queue, outcome.messages)
                call.fail(refusal)
            elif outcome.messages:
                self._remember(call.request, queue, outcome.messages)
                # What is in a message may have been made by anybody who may send one.
                call.try_to(lambda: self._answer(call, queue, outcome.messages, wanted))
            elif wait_ms:
                # As at Amazon, a long poll does not say that too many are in flight.
                call.done(ReceiveMessageResult())
            else:
                self._answer_empty(call, queue)

        self._doors.queues.ask_whole(take, q.TakenMessages, wait_ms + TIMEOUT_MS, on_taken)

    def _answer(
        self,
        call: Call[ReceiveMessageRequest],
        queue: QueueState,
        messages: Sequence[q.QueueMessage],
        wanted: Wanted,
    ) -> None:
        now_ms = self._doors.clock.wall_ms()
        shown = tuple(
            message_of(queue.topic_id, queue.queue.name, each, wanted, now_ms) for each in messages
        )
        call.done(ReceiveMessageResult(messages=shown))

    def _answer_empty(self, call: Call[ReceiveMessageRequest], queue: QueueState) -> None:
        """Say that there is none, or that too many are in flight for there to be any."""
        options = QueueOptions(queue.options)
        if options.is_fifo or not options.in_flight_max:
            call.done(ReceiveMessageResult())
            return

        def on_counted(outcome: q.QueueCounts | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused) or outcome.in_flight < options.in_flight_max:
                call.done(ReceiveMessageResult())
            else:
                call.fail(
                    SqsError(
                        "OverLimit",
                        f"Too many messages are in flight: {outcome.in_flight}. Delete some.",
                    )
                )

        request = q.AskQueue(log_id=queue.topic_id)
        self._doors.queues.ask_whole(request, q.QueueCounts, TIMEOUT_MS, on_counted)

    def _give_back(self, queue: QueueState, messages: Sequence[q.QueueMessage]) -> None:
        if messages:
            release = q.ReleaseMessages(
                log_id=queue.topic_id, claims=[each.claim for each in messages]
            )
            self._doors.queues.ask_whole(release, q.ClaimsResult, TIMEOUT_MS, lambda _: None)

    # -- attempts

    def _remember(
        self, request: ReceiveMessageRequest, queue: QueueState, messages: list[q.QueueMessage]
    ) -> None:
        if request.receive_request_attempt_id is None:
            return
        key = (bytes(queue.topic_id), request.receive_request_attempt_id)
        self._forget(key)
        size_bytes = sum(map(_size_of, messages))
        ends_ms = self._doors.clock.now_ms() + ATTEMPT_MS
        self._attempts[key] = _Attempt(messages, ends_ms, size_bytes)
        self._attempts_bytes += size_bytes
        while len(self._attempts) > ATTEMPTS_MAX or self._attempts_bytes > ATTEMPTS_BYTES_MAX:
            self._forget(next(iter(self._attempts)))

    def _forget(self, key: tuple[bytes, str]) -> _Attempt | None:
        found = self._attempts.pop(key, None)
        if found is not None:
            self._attempts_bytes -= found.size_bytes
        return found

    def _repeat(
        self,
        call: Call[ReceiveMessageRequest],
        queue: QueueState,
        count: int,
        wanted: Wanted,
        attempt_id: str,
    ) -> None:
        """Give what the same attempt was given before, if all of it is still in flight."""
        before = self._forget((bytes(queue.topic_id), attempt_id))
        if before is None or before.ends_ms <= self._doors.clock.now_ms():
            self._take(call, queue, count, wanted)
            return
        lock_ms = _lock_ms(call.request)
        if lock_ms is None:
            lock_ms = QueueOptions(queue.options).visibility_ms

        def on_extended(outcome: q.ClaimsResult | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                call.fail(outcome)
            elif outcome.stale:
                # Some are deleted, or were visible again meanwhile: it is another attempt.
                self._take(call, queue, count, wanted)
            else:
                self._remember(call.request, queue, before.messages)
                call.try_to(lambda: self._answer(call, queue, before.messages, wanted))

        claims = [each.claim for each in before.messages]
        extend = q.ExtendLocks(log_id=queue.topic_id, claims=claims, lock_ms=lock_ms)
        self._doors.queues.ask_whole(extend, q.ClaimsResult, TIMEOUT_MS, on_extended)


def _size_of(message: q.QueueMessage) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in message.headers)
    return len(message.value or b"") + len(message.key or b"") + headers


def check_visibility(seconds: int) -> None:
    """Refuse what is no visibility timeout.

    Raises:
        SqsError: it is out of range.
    """
    _check_range("VisibilityTimeout", seconds, 0, VISIBILITY_SECONDS_MAX)


def _lock_ms(request: ReceiveMessageRequest) -> int | None:
    if request.visibility_timeout is None:
        return None
    # A lock of no time would be one without an end.
    return request.visibility_timeout * 1000 or 1


def _wanted(request: ReceiveMessageRequest) -> Wanted:
    system = {*request.attribute_names, *request.message_system_attribute_names}
    unknown = system.difference(MESSAGE_SYSTEM_ATTRIBUTES)
    if unknown:
        raise SqsError("InvalidAttributeName", f"Unknown Attribute {min(unknown)}.")
    return Wanted(system=system, attributes=set(request.message_attribute_names))


def _check_range(parameter: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise invalid_value(
            f"Value {value} for parameter {parameter} is invalid. Reason: Must be between {least} "
            f"and {most}, if provided."
        )
