"""What can be done with queues, as steps that both clients take.

Any broker serves any queue; the APIs are those of `codegen/kafka_schema`, from PutMessages
(20010) to MaintainQueue (20019), in version 0.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from enum import IntEnum
from typing import Any, Final, TypeVar

from kafkaesque.client.calls import Calls
from kafkaesque.client.delivery import Delivery, Peeked, QueueDescription, claims_of
from kafkaesque.client.errors import (
    InvalidArgument,
    KafkaesqueError,
    LockLost,
    MessageTooLarge,
    OutcomeUnknown,
    QueueFull,
    Timeout,
    error_of,
)
from kafkaesque.client.message import Message, encode_message, milliseconds, wall_ms
from kafkaesque.client.steps import Steps
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.messages import (
    alter_queue_request,
    create_queue_request,
    delete_queue_request,
    describe_queues_request,
    maintain_queue_request,
    peek_messages_request,
    put_messages_request,
    settle_messages_request,
    take_messages_request,
)

#: Messages and bytes of one request.
BATCH_MESSAGES_MAX: Final = 1_000
BATCH_BYTES_MAX: Final = 1024 * 1024
#: The largest message that brokers accept, with its headers.
MESSAGE_BYTES_MAX: Final = 8 * 1024 * 1024
_RECORD_OVERHEAD_BYTES: Final = 100
#: Messages of one batch that are not in memory twice at least.
_DECODED_BYTES_MAX: Final = 128 * 1024 * 1024
#: Bytes of messages that are taken at a time; at least one message is.
TAKE_BYTES_MAX: Final = 4 * 1024 * 1024
TAKE_MESSAGES_MAX: Final = 1_000
#: A broker is asked to wait so long; who wants to wait for longer asks again.
WAIT_S_MAX: Final = 5.0
#: Who wants to wait for less is given so much for opening a connection.
CONNECT_S: Final = 5.0
_DEDUPLICATION: Final = "deduplication.ms"

DeliveryT = TypeVar("DeliveryT", bound=Delivery)


class Action(IntEnum):
    """What becomes of messages that were taken."""

    ACCEPT = 0
    RELEASE = 1
    REJECT = 2
    EXTEND = 3


class Maintenance(IntEnum):
    """What can be done to a whole queue."""

    PURGE = 0
    REDRIVE = 1
    UNPARK = 2


class QueueCalls:
    """Queues of one virtual host."""

    __slots__ = ("_calls", "_vhost")

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._vhost = calls.config.vhost

    # -- putting

    def put(
        self, queue: str, messages: Sequence[Message], timeout_s: float | None
    ) -> Steps[list[int]]:
        """Put messages, in order; return their numbers in the queue.

        A message with an id is put again until there is an answer, if the queue knows duplicates;
        all others are put again only while it is certain that nothing was done.

        Raises:
            QueueFull: some were refused, the others are in the queue.
            OutcomeUnknown: some may be in the queue.
            KafkaesqueError: nothing was done, as the broker refuses it.
        """
        deadline_s = self._calls.deadline(timeout_s)
        offsets: list[int] = []
        for batch in _batches(messages):
            offsets += yield from self._put_batch(queue, batch, deadline_s)
        refused = [number for number, offset in enumerate(offsets) if offset < 0]
        if refused:
            raise QueueFull(
                f"queue {queue!r} is full: {len(refused)} of {len(offsets)} messages were refused",
                refused,
            )
        return offsets

    def _put_batch(self, queue: str, batch: "_Batch", deadline_s: float) -> Steps[list[int]]:
        def ask(until_s: float, *, is_repeatable: bool) -> Steps[list[int]]:
            answer = yield from self._calls.ask(
                f"putting into queue {queue!r}",
                ApiKey.PUT_MESSAGES,
                lambda ms: put_messages_request.PutMessagesRequest(
                    self._vhost, queue, ms, batch.records
                ),
                until_s,
                is_repeatable=is_repeatable,
            )
            return list(answer.offsets)

        begun_s = self._calls.monotonic()
        try:
            return (yield from ask(deadline_s, is_repeatable=False))
        except OutcomeUnknown:
            if not batch.has_ids:
                raise
            window_s = yield from self._window_s(queue, deadline_s)
            if not window_s:
                raise
            # An id that is forgotten would let the message in a second time.
            return (yield from ask(min(deadline_s, begun_s + window_s), is_repeatable=True))

    def _window_s(self, queue: str, deadline_s: float) -> Steps[float]:
        """Return for how long a queue remembers ids; 0: not at all, or nobody knows."""
        try:
            (shown,) = yield from self._describe([queue], deadline_s, with_counts=False)
        except KafkaesqueError:
            return 0
        return int(shown.options.get(_DEDUPLICATION, "0")) / 1000

    # -- taking

    def take(
        self,
        queue: str,
        count: int,
        lock: float | timedelta | None,
        wait_s: float,
        left_s: float | None,
        make: Callable[[str, Record, int, int, int], DeliveryT],
    ) -> Steps[list[DeliveryT]]:
        """Take messages: wait for the first at most so long, and return it with what else is there.

        Brokers are looked for at most until `left_s` are over; None: as the client has it.

        Raises:
            Timeout: no broker has answered.
            KafkaesqueError: as the broker refuses it.
        """
        request, wait_s = self.take_request(queue, count, lock, wait_s)
        # Asked again it takes others: what an answer that was lost has locked comes when its lock
        # has ended.
        try:
            answer = yield from self._calls.ask(
                f"taking from queue {queue!r}",
                ApiKey.TAKE_MESSAGES,
                lambda _: request,
                self._calls.deadline(self.take_time(left_s)),
                is_repeatable=True,
                wait_s=wait_s,
            )
        except OutcomeUnknown as error:
            raise Timeout(str(error)) from None
        return self.taken(queue, answer, make)

    def take_request(
        self,
        queue: str,
        count: int,
        lock: float | timedelta | None,
        wait_s: float,
        consumer: int = 0,
    ) -> tuple[take_messages_request.TakeMessagesRequest, float]:
        """Return a request for messages, and for how long the broker waits for the first.

        Raises:
            InvalidArgument: no messages are asked for, or too many.
        """
        if not 0 < count <= TAKE_MESSAGES_MAX:
            raise InvalidArgument(f"1 to {TAKE_MESSAGES_MAX} messages are taken, not {count}")
        wait_s = min(wait_s, WAIT_S_MAX)
        request = take_messages_request.TakeMessagesRequest(
            self._vhost,
            queue,
            consumer,
            messages_max=count,
            bytes_max=TAKE_BYTES_MAX,
            lock_ms=-1 if lock is None else milliseconds(lock),
            wait_ms=int(wait_s * 1000),
        )
        return request, wait_s

    def take_time(self, left_s: float | None) -> float | None:
        """Return for how long brokers are looked for: whoever has little time is given some."""
        if left_s is None:
            return None
        return max(left_s, min(CONNECT_S, self._calls.config.timeout_s))

    def taken(
        self,
        queue: str,
        answer: Any,
        make: Callable[[str, Record, int, int, int], DeliveryT],
    ) -> list[DeliveryT]:
        """Return the messages of an answer."""
        return [
            make(queue, record, attempt, failures, answer.partition)
            for record, attempt, failures in zip(
                _records(answer.records), answer.attempts, answer.failures, strict=True
            )
        ]

    # -- settling

    def settle(
        self,
        deliveries: Sequence[Delivery],
        action: Action,
        *,
        is_failed: bool = False,
        to_tail: bool = False,
        delay: float | timedelta | None = None,
        lock: float | timedelta | None = None,
    ) -> Steps[None]:
        """Say what becomes of messages that were taken.

        Raises:
            LockLost: for some of them it was too late.
            KafkaesqueError: as the broker refuses it.
        """
        by_queue: dict[tuple[str, int], list[Delivery]] = {}
        for each in deliveries:
            by_queue.setdefault((each.queue, each.partition), []).append(each)
        deadline_s = self._calls.deadline(None)
        lost = 0
        for (queue, partition), ours in by_queue.items():
            claims = [settle_messages_request.Claim(*each) for each in claims_of(ours)]

            def make(
                ms: int,
                queue: str = queue,
                partition: int = partition,
                claims: list[Any] = claims,
            ) -> Any:
                return settle_messages_request.SettleMessagesRequest(
                    self._vhost,
                    queue,
                    action,
                    claims,
                    is_failed=is_failed,
                    to_tail=to_tail,
                    delay_ms=-1 if delay is None else milliseconds(delay),
                    lock_ms=-1 if lock is None else milliseconds(lock),
                    timeout_ms=ms,
                    partition=partition,
                )

            answer = yield from self._calls.ask(
                f"settling messages of queue {queue!r}",
                ApiKey.SETTLE_MESSAGES,
                make,
                deadline_s,
                is_repeatable=True,
            )
            lost += len(answer.stale)
        if lost:
            raise LockLost(
                f"{lost} of {len(deliveries)} messages: the lock had ended, or it was settled"
            )

    # -- looking

    def peek(
        self,
        queue: str,
        start: int,
        count: int,
        make: Callable[[str, Record, int, int, int], Delivery],
        partition: int = 0,
    ) -> Steps[list[Peeked]]:
        """Return messages of a partition without taking them, from a number on."""
        answer = yield from self._calls.ask(
            f"peeking into queue {queue!r}",
            ApiKey.PEEK_MESSAGES,
            lambda ms: peek_messages_request.PeekMessagesRequest(
                self._vhost, queue, start, count, TAKE_BYTES_MAX, ms, partition
            ),
            self._calls.deadline(None),
            is_repeatable=True,
        )
        return [
            Peeked(
                make(queue, record, state.attempt, state.failures, partition),
                state.place,
                state.not_before_ms,
                state.not_after_ms,
            )
            for record, state in zip(_records(answer.records), answer.states, strict=True)
        ]

    def describe(
        self, queues: Sequence[str] | None, *, with_counts: bool
    ) -> Steps[list[QueueDescription]]:
        """Describe queues, or all of the virtual host."""
        return self._describe(queues, self._calls.deadline(None), with_counts=with_counts)

    def _describe(
        self, queues: Sequence[str] | None, deadline_s: float, *, with_counts: bool
    ) -> Steps[list[QueueDescription]]:
        asked = describe_queues_request.QueueName
        named = None if queues is None else [asked(self._vhost, each) for each in queues]
        answer = yield from self._calls.ask(
            "describing queues",
            ApiKey.DESCRIBE_QUEUES,
            lambda ms: describe_queues_request.DescribeQueuesRequest(named, with_counts, ms),
            deadline_s,
            is_repeatable=True,
        )
        found = []
        for each in answer.queues:
            if named is None and each.vhost != self._vhost:
                continue
            if each.error_code:
                raise error_of(each.error_code, each.error_message, f"queue {each.queue!r}")
            found.append(_description(each))
        return found

    # -- queues themselves

    def create(
        self, queue: str, options: Mapping[str, str], replication_factor: int
    ) -> Steps[None]:
        """Let a queue exist; one with the same options is well."""
        chosen = [create_queue_request.SetOption(*each) for each in options.items()]
        yield from self._calls.ask(
            f"creating queue {queue!r}",
            ApiKey.CREATE_QUEUE,
            lambda ms: create_queue_request.CreateQueueRequest(
                self._vhost, queue, replication_factor, chosen, ms
            ),
            self._calls.deadline(None),
            is_repeatable=True,
        )

    def alter(self, queue: str, options: Mapping[str, str | None]) -> Steps[None]:
        """Change options; None sets one back."""
        chosen = [alter_queue_request.SetOption(*each) for each in options.items()]
        yield from self._calls.ask(
            f"altering queue {queue!r}",
            ApiKey.ALTER_QUEUE,
            lambda ms: alter_queue_request.AlterQueueRequest(self._vhost, queue, chosen, ms),
            self._calls.deadline(None),
            is_repeatable=True,
        )

    def delete(self, queue: str) -> Steps[None]:
        """Delete a queue with all its messages."""
        yield from self._calls.ask(
            f"deleting queue {queue!r}",
            ApiKey.DELETE_QUEUE,
            lambda ms: delete_queue_request.DeleteQueueRequest(self._vhost, queue, ms),
            self._calls.deadline(None),
            is_repeatable=False,
        )

    def maintain(self, queue: str, action: Maintenance, target: str = "") -> Steps[None]:
        """Do something to all messages that wait or are parked."""
        yield from self._calls.ask(
            f"{action.name.lower()} of queue {queue!r}",
            ApiKey.MAINTAIN_QUEUE,
            lambda ms: maintain_queue_request.MaintainQueueRequest(
                self._vhost, queue, action, target, ms
            ),
            self._calls.deadline(None),
            is_repeatable=False,
        )


class _Batch:
    """Messages of one request."""

    __slots__ = ("has_ids", "records")

    def __init__(self, records: list[Record], *, has_ids: bool) -> None:
        self.records = bytes(encode_batch(records))
        #: Whether duplicates of each of them can be known.
        self.has_ids = has_ids


def _batches(messages: Sequence[Message]) -> list[_Batch]:
    """Return messages in batches of bounded size; all are checked before the first is sent."""
    now_ms = wall_ms()
    batches: list[_Batch] = []
    records: list[Record] = []
    size, has_ids = 0, True
    for message in messages:
        record = encode_message(message, len(records), now_ms)
        bytes_more = _size_of(record)
        if bytes_more > MESSAGE_BYTES_MAX:
            raise MessageTooLarge(f"a message of {bytes_more} bytes; {MESSAGE_BYTES_MAX} at most")
        if records and (size + bytes_more > BATCH_BYTES_MAX or len(records) == BATCH_MESSAGES_MAX):
            batches.append(_Batch(records, has_ids=has_ids))
            records, size, has_ids = [], 0, True
            record = record._replace(offset=0)
        records.append(record)
        size += bytes_more
        has_ids = has_ids and message.id is not None
    if records:
        batches.append(_Batch(records, has_ids=has_ids))
    return batches


def _size_of(record: Record) -> int:
    headers = sum(len(name.encode()) + len(value or b"") + 10 for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers + _RECORD_OVERHEAD_BYTES


def _records(data: memoryview | bytes | None) -> list[Record]:
    return [] if data is None else decode_batch(data, _DECODED_BYTES_MAX)


def _description(shown: Any) -> QueueDescription:
    return QueueDescription(
        name=shown.queue,
        leader=shown.leader_id,
        replicas=tuple(shown.replicas),
        options={each.name: each.value for each in shown.options},
        set_options=frozenset(each.name for each in shown.options if each.is_set),
        counts={each.name: each.count for each in shown.counts},
    )
