"""SendMessage and SendMessageBatch."""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple, Protocol

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.requests.queue_requests import PutResult
from kafkaesque.gateway.sqs.attributes import QueueOptions
from kafkaesque.gateway.sqs.call import Call
from kafkaesque.gateway.sqs.finding import QueueFinder
from kafkaesque.gateway.sqs.stored import NOBODY, Extra, headers_of
from kafkaesque.model.errors import RequestRefused
from kafkaesque.protocols.sqs.digests import digest_of_attributes, digest_of_body
from kafkaesque.protocols.sqs.errors import SqsError, invalid_value
from kafkaesque.protocols.sqs.messages import (
    BATCH_BYTES_MAX,
    check_attributes,
    check_batch,
    check_body,
    check_id,
    check_system_attributes,
    size_of,
)
from kafkaesque.protocols.sqs.names import message_id, read_url, sequence_number
from kafkaesque.protocols.sqs.service import (
    BatchResultErrorEntry,
    MessageAttributeValue,
    MessageSystemAttributeValue,
    SendMessageBatchRequest,
    SendMessageBatchResult,
    SendMessageBatchResultEntry,
    SendMessageRequest,
    SendMessageResult,
)

#: Within this time messages are committed, or nobody knows whether they will be.
TIMEOUT_MS: Final = 20_000

_FULL: Final = SqsError("RequestThrottled", "The queue is full: its limits are reached.")


class Sent(Protocol):
    """What both requests say of one message."""

    @property
    def message_body(self) -> str: ...

    @property
    def delay_seconds(self) -> int | None: ...

    @property
    def message_attributes(self) -> dict[str, MessageAttributeValue]: ...

    @property
    def message_system_attributes(self) -> dict[str, MessageSystemAttributeValue]: ...

    @property
    def message_deduplication_id(self) -> str | None: ...

    @property
    def message_group_id(self) -> str | None: ...


class _Ready(NamedTuple):
    """A message that may be put, and the digests of it."""

    message: NewMessage
    md5_of_body: str
    md5_of_attributes: str | None
    md5_of_system_attributes: str | None


class Sending:
    """See the module."""

    __slots__ = ("_doors", "_finder")

    def __init__(self, doors: Doors, finder: QueueFinder) -> None:
        self._doors = doors
        self._finder = finder

    def send(self, call: Call[SendMessageRequest]) -> None:
        """Put one message; answered when it is committed.

        Raises:
            SqsError: the queue's URL is none.
        """

        def go_on(queue: QueueState) -> None:
            options = QueueOptions(queue.options)
            ready = self._read(call, options, call.request)

            def on_put(outcome: PutResult | RequestRefused) -> None:
                if isinstance(outcome, RequestRefused):
                    call.fail(outcome)
                elif outcome.offsets[0] < 0:
                    call.fail(_FULL)
                else:
                    call.done(_result(queue, options, ready, outcome.offsets[0]))

            self._doors.queues.put(queue.topic_id, [ready.message], TIMEOUT_MS, on_put)

        self._finder.find(call, read_url(call.request.queue_url), go_on)

    def send_batch(self, call: Call[SendMessageBatchRequest]) -> None:
        """Put messages, those of them that may be; answered when they are committed.

        Raises:
            SqsError: the queue's URL is none, or the batch is refused as a whole.
        """
        entries = call.request.entries
        check_batch(entries)
        size_bytes = sum(size_of(each.message_body, each.message_attributes) for each in entries)
        if size_bytes > BATCH_BYTES_MAX:
            raise SqsError(
                "BatchRequestTooLong",
                f"Batch requests cannot be longer than {BATCH_BYTES_MAX} bytes. You have sent "
                f"{size_bytes} bytes.",
            )
        self._finder.find(
            call, read_url(call.request.queue_url), lambda queue: self._put_batch(call, queue)
        )

    def _put_batch(self, call: Call[SendMessageBatchRequest], queue: QueueState) -> None:
        options = QueueOptions(queue.options)
        ready: dict[str, _Ready] = {}
        failed: list[BatchResultErrorEntry] = []
        for entry in call.request.entries:
            try:
                ready[entry.id] = self._read(call, options, entry)
            except SqsError as error:
                failed.append(failed_entry(entry.id, error))

        def on_put(outcome: PutResult | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                call.fail(outcome)
                return
            successful = []
            for (number, each), offset in zip(ready.items(), outcome.offsets, strict=True):
                if offset < 0:
                    failed.append(failed_entry(number, _FULL))
                else:
                    successful.append(_entry(queue, options, number, each, offset))
            call.done(SendMessageBatchResult(successful=tuple(successful), failed=tuple(failed)))

        if ready:
            messages = [each.message for each in ready.values()]
            self._doors.queues.put(queue.topic_id, messages, TIMEOUT_MS, on_put)
        else:
            call.done(SendMessageBatchResult(successful=(), failed=tuple(failed)))

    def _read(
        self,
        call: Call[SendMessageRequest] | Call[SendMessageBatchRequest],
        options: QueueOptions,
        sent: Sent,
    ) -> _Ready:
        """Return a message that may be put.

        Raises:
            SqsError: it may not.
        """
        check_body(sent.message_body)
        check_attributes(sent.message_attributes)
        trace = check_system_attributes(sent.message_system_attributes)
        size_bytes = size_of(sent.message_body, sent.message_attributes)
        if size_bytes > options.message_bytes_max:
            raise invalid_value(
                "One or more parameters are invalid. Reason: Message must be shorter than "
                f"{options.message_bytes_max} bytes."
            )
        group = sent.message_group_id or ""
        if group:
            check_id("MessageGroupId", group)
        is_heeded = bool(group) and options.knows_groups
        duplicate = _deduplication_id(options, sent)
        body = sent.message_body.encode()
        extra = Extra(
            sender=call.user or NOBODY,
            deduplication_id=duplicate,
            group="" if is_heeded else group,
            trace=trace or "",
        )
        scope = group if options.deduplicates_by_group else ""
        message = NewMessage(
            body,
            key=group.encode() or None,
            headers=headers_of(sent.message_attributes, extra),
            group=group.encode() if is_heeded else b"",
            not_before_ms=self._not_before_ms(options, sent.delay_seconds),
            identity=_identity(scope, duplicate) if duplicate else b"",
        )
        return _Ready(
            message,
            digest_of_body(sent.message_body),
            digest_of_attributes(sent.message_attributes),
            digest_of_attributes(sent.message_system_attributes),
        )

    def _not_before_ms(self, options: QueueOptions, delay_seconds: int | None) -> int:
        """Return when a message may be taken; 0: as the queue has it."""
        if delay_seconds is None:
            return 0
        most = options.delay_ms_max // 1000
        if options.is_fifo:
            if delay_seconds:
                raise invalid_value(
                    f"Value {delay_seconds} for parameter DelaySeconds is invalid. Reason: The "
                    "request include parameter that is not valid for this queue type."
                )
            return 0
        if not 0 <= delay_seconds <= most:
            raise invalid_value(
                f"Value {delay_seconds} for parameter DelaySeconds is invalid. Reason: "
                f"DelaySeconds must be >= 0 and <= {most}."
            )
        # Without a delay it does not wait as the queue has it either.
        return self._doors.clock.wall_ms() + delay_seconds * 1000


def _deduplication_id(options: QueueOptions, sent: Sent) -> str:
    """Return what a message's duplicates are known by; empty where nothing is."""
    said = sent.message_deduplication_id
    if not options.is_fifo:
        if said is not None:
            raise invalid_value(
                f"Value {said} for parameter MessageDeduplicationId is invalid. Reason: The "
                "request includes a parameter that is not valid for this queue type."
            )
        return ""
    if not sent.message_group_id:
        raise SqsError("MissingParameter", "The request must contain the parameter MessageGroupId.")
    if said is not None:
        check_id("MessageDeduplicationId", said)
        return said
    if not options.has_content_based_deduplication:
        raise invalid_value(
            "The queue should either have ContentBasedDeduplication enabled or "
            "MessageDeduplicationId provided explicitly."
        )
    return hashlib.sha256(sent.message_body.encode()).hexdigest()


def _identity(scope: str, deduplication_id: str) -> bytes:
    return hashlib.sha256(f"{scope}\n{deduplication_id}".encode()).digest()[:16]


def _result(
    queue: QueueState, options: QueueOptions, ready: _Ready, offset: int
) -> SendMessageResult:
    return SendMessageResult(
        md5_of_message_body=ready.md5_of_body,
        md5_of_message_attributes=ready.md5_of_attributes,
        md5_of_message_system_attributes=ready.md5_of_system_attributes,
        message_id=message_id(queue.topic_id, offset),
        sequence_number=sequence_number(offset) if options.is_fifo else None,
    )


def _entry(
    queue: QueueState, options: QueueOptions, number: str, ready: _Ready, offset: int
) -> SendMessageBatchResultEntry:
    return SendMessageBatchResultEntry(
        id=number,
        message_id=message_id(queue.topic_id, offset),
        md5_of_message_body=ready.md5_of_body,
        md5_of_message_attributes=ready.md5_of_attributes,
        md5_of_message_system_attributes=ready.md5_of_system_attributes,
        sequence_number=sequence_number(offset) if options.is_fifo else None,
    )


def failed_entry(number: str, error: SqsError) -> BatchResultErrorEntry:
    """Return what is said of an entry that was not done."""
    return BatchResultErrorEntry(
        id=number, sender_fault=error.is_senders, code=error.code, message=error.message
    )
