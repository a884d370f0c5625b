"""Queues as the APIs of ours have them; Kafka has none."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafkaesque.broker.metadata.queue_names import QueueName, queue_resource
from kafkaesque.cli.exit_codes import FAILED, UNREACHABLE, WRONG_USAGE
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.kafka_request import ask
from kafkaesque.cli.missing_rules import missing_rule, on_queue, refused
from kafkaesque.cli.troubles import CLOSED
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.dead_letters import Death, deaths_of
from kafkaesque.model.kernel_types import Headers
from kafkaesque.model.message_headers import PREFIX
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.alter_queue_request import AlterQueueRequest
from kafkaesque.protocols.kafka.messages.alter_queue_request import SetOption as ChangedOption
from kafkaesque.protocols.kafka.messages.create_queue_request import CreateQueueRequest, SetOption
from kafkaesque.protocols.kafka.messages.delete_queue_request import DeleteQueueRequest
from kafkaesque.protocols.kafka.messages.describe_queues_request import DescribeQueuesRequest
from kafkaesque.protocols.kafka.messages.describe_queues_request import QueueName as AskedQueue
from kafkaesque.protocols.kafka.messages.describe_queues_response import DescribedQueue
from kafkaesque.protocols.kafka.messages.maintain_queue_request import MaintainQueueRequest
from kafkaesque.protocols.kafka.messages.peek_messages_request import PeekMessagesRequest
from kafkaesque.protocols.kafka.messages.put_messages_request import PutMessagesRequest
from kafkaesque.protocols.kafka.messages.settle_messages_request import (
    Claim,
    SettleMessagesRequest,
)
from kafkaesque.protocols.kafka.messages.take_messages_request import TakeMessagesRequest
from kafkaesque.protocols.kafka.messages.take_messages_response import TakeMessagesResponse
from kafkaesque.protocols.kafka.wire import Message

#: So long a broker tries before it says that there is no leader or no controller.
TIMEOUT_MS: Final = 10_000
#: Beyond what a broker waits: the answer is on its way then.
SPARE_S: Final = 5.0
#: The longest that one request waits for a message; brokers wait for no longer.
WAIT_MS_MAX: Final = 20_000
BYTES_MAX: Final = 1024 * 1024
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
#: Messages that are asked for at a time.
MESSAGES_MAX: Final = 1_000
#: The place of a message that was refused because the queue is full.
FULL: Final = -1

ACCEPT, RELEASE = 0, 1
PURGE, REDRIVE, UNPARK = 0, 1, 2
_VERSION: Final = 0
#: What each request needs with the queue, as `kafkaesque rule create -o` has it.
_NEEDED: Final[Mapping[ApiKey, str]] = {
    ApiKey.PUT_MESSAGES: "write",
    ApiKey.TAKE_MESSAGES: "read",
    ApiKey.ATTACH_CONSUMER: "read",
    ApiKey.SETTLE_MESSAGES: "read",
    ApiKey.PEEK_MESSAGES: "read",
    ApiKey.MAINTAIN_QUEUE: "read",
    ApiKey.DESCRIBE_QUEUES: "describe",
    ApiKey.CREATE_QUEUE: "create",
    ApiKey.ALTER_QUEUE: "alter",
    ApiKey.DELETE_QUEUE: "delete",
}
_SENTENCES: Final[Mapping[int, tuple[str, int]]] = {
    ErrorCode.INVALID_CONFIG: ("kafkaesque queue create --help; docs/options.md", WRONG_USAGE),
    ErrorCode.INVALID_REQUEST: ("", WRONG_USAGE),
    ErrorCode.QUEUE_ALREADY_EXISTS: ("kafkaesque queue alter, to change its options", FAILED),
    ErrorCode.REQUEST_TIMED_OUT: ("kafkaesque doctor", FAILED),
    ErrorCode.LEADER_NOT_AVAILABLE: ("kafkaesque doctor", FAILED),
    ErrorCode.NOT_CONTROLLER: ("kafkaesque doctor", FAILED),
}


@dataclass(frozen=True, slots=True)
class Queue:
    """Which queue of which cluster is meant."""

    bootstrap: str
    vhost: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A message of a queue."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    attempt: int
    failures: int
    #: Of a queue that has several.
    partition: int = 0
    #: Where it is, if it was looked at and not taken.
    place: str = ""
    not_before_ms: int = 0
    not_after_ms: int = 0

    @property
    def own_headers(self) -> Headers:
        """Those that its publisher gave."""
        return tuple(each for each in self.headers if not each[0].startswith(PREFIX))

    @property
    def deaths(self) -> list[Death]:
        """How it came here, oldest first; what cannot be read is left out."""
        return deaths_of(self.headers)


class NotAttached(CommandFailed):
    """The queue gives messages only to a consumer that it knows."""


def _ask(queue: Queue, api_key: ApiKey, request: Message, wait_ms: int = 0) -> Any:
    """Return an answer that is no refusal.

    Raises:
        CommandFailed: no broker answers, or it refuses.
    """
    timeout_s = (TIMEOUT_MS + wait_ms) / 1000 + SPARE_S
    try:
        answer = ask(queue.bootstrap, api_key, _VERSION, request, timeout_s)
    except CommandFailed as failure:
        if CLOSED not in failure.message:
            raise
        raise CommandFailed(
            f"{failure.message}: it is a broker of Apache Kafka or of an earlier release, which "
            "have no queues, or it requires a log-in",
            hint="KAFKAESQUE_USER and KAFKAESQUE_PASSWORD_FILE, if it requires a log-in",
            exit_code=UNREACHABLE,
        ) from None
    if answer.error_code:
        raise refusal(queue, api_key, answer.error_code, answer.error_message)
    return answer


def refusal(queue: Queue, api_key: ApiKey, code: int, message: str | None) -> CommandFailed:
    """Return the failure for an error of a broker's, with what helps."""
    if code == ErrorCode.UNKNOWN_QUEUE:
        return unknown(queue)
    # The broker says itself what is missing; others, of an earlier release, do not.
    right = on_queue(_NEEDED[api_key], queue_resource(QueueName(queue.vhost, queue.name)))
    said = refused(message, queue.bootstrap)
    missing = said or missing_rule(code, queue.bootstrap, right)
    if missing is not None:
        return missing
    name = ErrorCode(code).name if code in ErrorCode.__members__.values() else str(code)
    hint, exit_code = _SENTENCES.get(code, ("", FAILED))
    words = message or name.lower().replace("_", " ")
    # Some of a broker's sentences name the queue, and some do not.
    sentence = words if words.startswith("queue ") else f"queue {queue.name}: {words}"
    kind = NotAttached if code == ErrorCode.QUEUE_IN_USE else CommandFailed
    return kind(sentence, hint=hint, exit_code=exit_code)


def unknown(queue: Queue) -> CommandFailed:
    """Return the failure for a queue that is not there, with the name that may be meant."""
    try:
        names = [each.queue for each in list_queues(queue.bootstrap) if each.vhost == queue.vhost]
    except CommandFailed:
        names = []
    near = difflib.get_close_matches(queue.name, names, n=1)
    hint = (
        f"did you mean {near[0]}?"
        if near
        else f"kafkaesque queue list, or: kafkaesque queue create {queue.name}"
    )
    return CommandFailed(f"queue {queue.name} does not exist", hint=hint)


# -- queues


def create(queue: Queue, options: Mapping[str, str], replication_factor: int) -> None:
    """Create a queue; one that is there with the same options is as good.

    Raises:
        CommandFailed: no broker answers, or it refuses.
    """
    given = [SetOption(name, value) for name, value in options.items()]
    request = CreateQueueRequest(queue.vhost, queue.name, replication_factor, given, TIMEOUT_MS)
    _ask(queue, ApiKey.CREATE_QUEUE, request)


def alter(queue: Queue, changes: Mapping[str, str | None]) -> None:
    """Change options; None sets one back.

    Raises:
        CommandFailed: no broker answers, or it refuses.
    """
    given = [ChangedOption(name, value) for name, value in changes.items()]
    request = AlterQueueRequest(queue.vhost, queue.name, given, TIMEOUT_MS)
    _ask(queue, ApiKey.ALTER_QUEUE, request)


def delete(queue: Queue) -> None:
    """Delete a queue with all its messages.

    Raises:
        CommandFailed: no broker answers, or it refuses.
    """
    _ask(queue, ApiKey.DELETE_QUEUE, DeleteQueueRequest(queue.vhost, queue.name, TIMEOUT_MS))


def maintain(queue: Queue, action: int, target: str = "") -> None:
    """Purge, redrive or unpark.

    Raises:
        CommandFailed: no broker answers, or it refuses.
    """
    request = MaintainQueueRequest(queue.vhost, queue.name, action, target, TIMEOUT_MS)
    _ask(queue, ApiKey.MAINTAIN_QUEUE, request)


def list_queues(bootstrap: str, *, with_counts: bool = False) -> Sequence[DescribedQueue]:
    """Return all queues that the user may see.

    Raises:
        CommandFailed: no broker answers, or it refuses.
    """
    request = DescribeQueuesRequest(None, with_counts, TIMEOUT_MS)
    answer = _ask(Queue(bootstrap, "", "*"), ApiKey.DESCRIBE_QUEUES, request)
    found: Sequence[DescribedQueue] = answer.queues
    return found


def describe_all(
    bootstrap: str, queues: Sequence[DescribedQueue], *, timeout_ms: int
) -> Sequence[DescribedQueue]:
    """Return queues with their counts; with an error those whose leaders do not answer in time.

    Raises:
        CommandFailed: no broker answers, or it refuses.
    """
    if not queues:
        return []
    names = [AskedQueue(each.vhost, each.queue) for each in queues]
    request = DescribeQueuesRequest(names, True, timeout_ms)
    found: Sequence[DescribedQueue] = _ask(
        Queue(bootstrap, "", "*"), ApiKey.DESCRIBE_QUEUES, request
    ).queues
    return found


def describe(queue: Queue) -> DescribedQueue:
    """Return one queue; without counts, and with an error, where its leader does not answer.

    Raises:
        CommandFailed: no broker answers, or there is no such queue.
    """
    request = DescribeQueuesRequest([AskedQueue(queue.vhost, queue.name)], True, TIMEOUT_MS)
    found: DescribedQueue = _ask(queue, ApiKey.DESCRIBE_QUEUES, request).queues[0]
    is_there = found.log_id != bytes(16)
    if found.error_code and not is_there:
        key = ApiKey.DESCRIBE_QUEUES
        raise refusal(queue, key, found.error_code, found.error_message)
    return found


# -- messages


def put(queue: Queue, messages: Sequence[Record]) -> list[int]:
    """Put messages, in order; return where each is, or `FULL`.

    Raises:
        CommandFailed: no broker answers, or it refuses.
    """
    records = bytes(encode_batch(messages))
    request = PutMessagesRequest(queue.vhost, queue.name, TIMEOUT_MS, records)
    offsets: list[int] = _ask(queue, ApiKey.PUT_MESSAGES, request).offsets
    return offsets


def take(queue: Queue, count: int, wait_ms: int, lock_ms: int) -> list[Shown]:
    """Lock messages, at most so many, and wait for the first; -1: lock them as the queue has it.

    Raises:
        CommandFailed: no broker answers, or it refuses.
    """
    request = take_request(queue, 0, count, wait_ms, lock_ms)
    return shown_of(_ask(queue, ApiKey.TAKE_MESSAGES, request, wait_ms))


def take_request(
    queue: Queue, consumer: int, count: int, wait_ms: int, lock_ms: int
) -> TakeMessagesRequest:
    """Return a request for messages, of a consumer or of nobody (0)."""
    most = min(count, MESSAGES_MAX)
    return TakeMessagesRequest(queue.vhost, queue.name, consumer, most, BYTES_MAX, lock_ms, wait_ms)


def shown_of(answer: TakeMessagesResponse) -> list[Shown]:
    """Return the messages of an answer."""
    return [
        _shown(record, attempt=attempt, failures=failures, partition=answer.partition)
        for record, attempt, failures in zip(
            _records(answer.records), answer.attempts, answer.failures, strict=True
        )
    ]


def settle(queue: Queue, messages: Sequence[Shown], action: int) -> int:
    """Acknowledge messages that were taken, or release them; return how many it was too late for.

    Raises:
        CommandFailed: no broker answers, or it refuses.
    """
    stale = 0
    for partition in sorted({each.partition for each in messages}):
        claims = [
            Claim(each.offset, each.offset + 1, each.attempt)
            for each in messages
            if each.partition == partition
        ]
        request = SettleMessagesRequest(
            queue.vhost,
            queue.name,
            action,
            claims,
            may_be_late=True,
            timeout_ms=TIMEOUT_MS,
            partition=partition,
        )
        stale += len(_ask(queue, ApiKey.SETTLE_MESSAGES, request).stale)
    return stale


def peek(queue: Queue, start: int, count: int, partition: int = 0) -> list[Shown]:
    """Return messages of a partition from an offset on, without taking them.

    Raises:
        CommandFailed: no broker answers, or it refuses.
    """
    found: list[Shown] = []
    while len(found) < count:
        most = min(count - len(found), MESSAGES_MAX)
        request = PeekMessagesRequest(
            queue.vhost, queue.name, start, most, BYTES_MAX, TIMEOUT_MS, partition=partition
        )
        answer = _ask(queue, ApiKey.PEEK_MESSAGES, request)
        found += [
            _shown(
                record,
                attempt=state.attempt,
                failures=state.failures,
                partition=partition,
                place=state.place,
                not_before_ms=state.not_before_ms,
                not_after_ms=state.not_after_ms,
            )
            for record, state in zip(_records(answer.records), answer.states, strict=True)
        ]
        if not answer.states:
            break
        start = found[-1].offset + 1
    return found


def _records(batch: Any) -> Sequence[Record]:
    return [] if batch is None else decode_batch(batch, ANSWER_BYTES_MAX)


def _shown(record: Record, **more: Any) -> Shown:
    return Shown(
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        key=record.key,
        value=record.value,
        headers=record.headers,
        **more,
    )
