"""What a transaction does: kept until its end, and then sent as one request."""

from collections.abc import Sequence
from typing import Any, Final

from kafkaesque.client.calls import Calls
from kafkaesque.client.delivery import Delivery
from kafkaesque.client.errors import (
    InvalidArgument,
    LockLost,
    MessageTooLarge,
    QueueFull,
)
from kafkaesque.client.message import Body, Message, as_message, encode_message, wall_ms
from kafkaesque.client.steps import Steps
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.records import Record
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.messages import run_transaction_request as wire

#: What one transaction has at most.
MESSAGES_MAX: Final = 10_000
BYTES_MAX: Final = 16 * 1024 * 1024
#: What it has for one queue, or one topic.
BATCH_BYTES_MAX: Final = 8 * 1024 * 1024

_Place = tuple[str, int]


class TransactionWork:
    """Messages to be put, messages that are done with, and records, all or none of which hold."""

    __slots__ = ("_acks", "_count", "_puts", "_sends", "_size")

    def __init__(self) -> None:
        self._puts: dict[str, list[Record]] = {}
        self._acks: dict[_Place, list[Delivery]] = {}
        self._sends: dict[str, list[Record]] = {}
        self._count = self._size = 0

    def put(self, queue: str, message: Message | Body) -> None:
        """Put a message when the transaction ends.

        Raises:
            InvalidArgument: something about it makes no sense.
            MessageTooLarge: the transaction would have too much.
        """
        self._add(self._puts.setdefault(queue, []), as_message(message))

    def ack(self, *messages: Delivery) -> None:
        """Messages are done with when the transaction ends.

        Raises:
            InvalidArgument: one is named twice.
            MessageTooLarge: the transaction would have too much.
        """
        for message in messages:
            known = self._acks.setdefault((message.queue, message.partition), [])
            if any(each.offset == message.offset for each in known):
                raise InvalidArgument(f"{message!r} is acknowledged twice")
            known.append(message)
            self._note(0)

    def send(self, topic: str, message: Message | Body) -> None:
        """Append a record to a topic when the transaction ends; its partition follows its key.

        Raises:
            InvalidArgument: it says what only queues know.
            MessageTooLarge: the transaction would have too much.
        """
        made = as_message(message)
        of_queues = (made.priority, made.group, made.delay, made.expires, made.id)
        if any(each not in (0, "", b"", None) for each in of_queues):
            raise InvalidArgument("a record of a topic has a value, a key and headers")
        self._add(self._sends.setdefault(topic, []), made)

    def _add(self, records: list[Record], message: Message) -> None:
        record = encode_message(message, len(records), wall_ms())
        headers = sum(len(name) + len(value or b"") for name, value in record.headers)
        self._note(len(record.key or b"") + len(record.value or b"") + headers + 100)
        records.append(record)

    def _note(self, size: int) -> None:
        self._count, self._size = self._count + 1, self._size + size
        if self._count > MESSAGES_MAX or self._size > BYTES_MAX:
            raise MessageTooLarge(
                f"a transaction has at most {MESSAGES_MAX:,} messages and {BYTES_MAX:,} bytes"
            )

    def commit(self, calls: Calls, timeout_s: float | None) -> Steps[None]:
        """Do all of it.

        Raises:
            LockLost, QueueFull: nothing was done.
            OutcomeUnknown: all of it is done, or nothing.
            KafkaesqueError: nothing was done, as the broker refuses it.
        """
        if not self._count:
            return
        queues, topics = self._queues(), self._topics()
        answer = yield from calls.ask(
            "committing a transaction",
            ApiKey.RUN_TRANSACTION,
            lambda ms: wire.RunTransactionRequest(calls.config.vhost, queues, topics, ms),
            calls.deadline(timeout_s),
            is_repeatable=False,
        )
        if answer.is_committed:
            return
        raise _why(answer, [each.queue for each in queues])

    def _queues(self) -> list[wire.TransactionQueue]:
        places: dict[_Place, None] = dict.fromkeys((name, 0) for name in self._puts)
        places.update(dict.fromkeys(self._acks))
        return [
            wire.TransactionQueue(
                name,
                partition,
                _batch(name, self._puts.get(name, ()) if partition == 0 else ()),
                [
                    wire.TransactionClaim(each.offset, each.offset + 1, each.attempt)
                    for each in sorted(
                        self._acks.get((name, partition), ()), key=lambda each: each.offset
                    )
                ],
            )
            for name, partition in places
        ]

    def _topics(self) -> list[wire.TransactionTopic]:
        return [
            wire.TransactionTopic(name, -1, _batch(name, records))
            for name, records in self._sends.items()
        ]


def _batch(name: str, records: Sequence[Record]) -> bytes | None:
    if not records:
        return None
    batch = bytes(encode_batch(list(records)))
    if len(batch) > BATCH_BYTES_MAX:
        raise MessageTooLarge(
            f"{len(batch):,} bytes for {name!r}; a transaction has at most {BATCH_BYTES_MAX:,} "
            "for one queue or topic"
        )
    return batch


def _why(answer: Any, queues: list[str]) -> LockLost | QueueFull:
    """Return why nothing was done."""
    lost = [name for name, each in zip(queues, answer.queues, strict=False) for _ in each.stale]
    if lost:
        names = ", ".join(sorted(set(lost)))
        return LockLost(
            f"nothing was done: the locks of {len(lost)} messages of {names} had ended, or they "
            "were settled"
        )
    full = [name for name, each in zip(queues, answer.queues, strict=False) if -1 in each.offsets]
    return QueueFull(f"nothing was done: {', '.join(full) or 'a queue'} is full")
