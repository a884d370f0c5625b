"""The synchronous client's queues."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final, Self, TypeVar, Unpack

from kafkaesque.client.calls import Calls
from kafkaesque.client.config import ClientOptions, make_config
from kafkaesque.client.delivery import Delivery, Peeked, QueueDescription
from kafkaesque.client.errors import Empty
from kafkaesque.client.message import Body, Message, as_message
from kafkaesque.client.options import OptionValue, write_changes, write_options
from kafkaesque.client.queue_calls import WAIT_S_MAX, Action, Maintenance, QueueCalls
from kafkaesque.client.steps import Steps
from kafkaesque.client.sync_driver import SyncDriver
from kafkaesque.client.transaction import TransactionWork
from kafkaesque.model.records import Record

T = TypeVar("T")

PEEK_COUNT: Final = 10
GET_COUNT: Final = 64


class Received(Delivery):
    """A message that was taken: it is locked until it is settled, or its lock ends.

    As a context manager it is acknowledged at the end, or released as failed if there is an
    exception.
    """

    __slots__ = ("_client",)

    def __init__(
        self,
        client: "QueueClient",
        queue: str,
        record: Record,
        attempt: int,
        failures: int,
        partition: int = 0,
    ) -> None:
        super().__init__(queue, record, attempt, failures, partition)
        self._client = client

    def ack(self) -> None:
        """See `QueueClient.ack`."""
        self._client.ack(self)

    def release(
        self,
        *,
        delay: float | timedelta | None = None,
        failed: bool = False,
        to_tail: bool = False,
    ) -> None:
        """See `QueueClient.release`."""
        self._client.release(self, delay=delay, failed=failed, to_tail=to_tail)

    def reject(self) -> None:
        """See `QueueClient.reject`."""
        self._client.reject(self)

    def extend(self, lock: float | timedelta) -> None:
        """See `QueueClient.extend`."""
        self._client.extend(self, lock=lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.ack()
        else:
            self.release(failed=True)


class QueueClient:
    """What can be done with queues; see `Client`."""

    def __init__(self, bootstrap_servers: str, **options: Unpack[ClientOptions]) -> None:
        """Name some brokers as `host:port,host:port`; nothing is connected yet.

        Raises:
            InvalidArgument: an option makes no sense, or a file of TLS cannot be read.
        """
        self.config: Final = make_config(bootstrap_servers, options)
        self._calls: Final = Calls(self.config)
        self._queues: Final = QueueCalls(self._calls)
        self._driver: Final = SyncDriver(self.config)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; whatever is asked afterwards raises `Closed`."""
        self._calls.connections.close()

    def _run(self, steps: Steps[T]) -> T:
        return self._driver.run(steps)

    def _received(
        self, queue: str, record: Record, attempt: int, failures: int, partition: int
    ) -> Received:
        return Received(self, queue, record, attempt, failures, partition)

    # -- putting

    def put(self, queue: str, message: Message | Body, *, timeout: float | None = None) -> int:
        """Put a message; return its number in the queue when it is committed.

        It does not wait for a consumer. A message with an id is put again until there is an answer,
        if the queue has `deduplication.ms`: it is in the queue exactly once. Any other one is put
        again only while it is certain that nothing was done.

        Raises:
            QueueNotFound, QueueFull, NotAuthorized, MessageTooLarge: nothing was done.
            BrokerUnavailable, Timeout: no broker took it in time; nothing was done.
            OutcomeUnknown: it may be in the queue.
        """
        return self._run(self._queues.put(queue, [as_message(message)], timeout))[0]

    def put_many(
        self, queue: str, messages: Iterable[Message | Body], *, timeout: float | None = None
    ) -> list[int]:
        """Put messages, in order; return their numbers in the queue when all are committed.

        They go in batches of at most 1,000 messages and 1 MiB: after an error, some of the first
        batches may be in the queue.

        Raises:
            QueueFull: those that `refused` names are not in the queue, all others are.
            KafkaesqueError: as of `put`.
        """
        return self._run(self._queues.put(queue, [as_message(each) for each in messages], timeout))

    # -- taking

    def get(
        self,
        queue: str,
        timeout: float | None = None,
        *,
        lock: float | timedelta | None = None,
    ) -> Received:
        """Take a message, and wait for one if there is none; None: without end.

        It is locked for `lock` seconds, or as long as the queue has it, and comes again if it is
        not settled by then. `lock=0` has no end: only settle such messages, or they stay locked.

        Raises:
            Empty: no message came in time.
            QueueNotFound, QueueInUse, NotAuthorized: as the broker refuses it.
            BrokerUnavailable, Timeout: no broker could be reached, or none has answered. What an
                answer that was lost has locked comes again when its lock ends.
        """
        found = self.get_many(queue, 1, timeout, lock=lock)
        if not found:
            raise Empty(f"no message came to queue {queue!r} in time")
        return found[0]

    def get_many(
        self,
        queue: str,
        count: int = GET_COUNT,
        timeout: float | None = None,
        *,
        lock: float | timedelta | None = None,
    ) -> list[Received]:
        """Wait for the first message, and take it with what else is there, at most `count`.

        The list is empty if none came in time. It is in the order in which they were put, also if
        some have a higher priority.

        Raises:
            KafkaesqueError: as of `get`.
        """
        ends_s = None if timeout is None else time.monotonic() + timeout
        while True:
            left_s = None if ends_s is None else max(0.0, ends_s - time.monotonic())
            wait_s = WAIT_S_MAX if left_s is None else left_s
            found = self._run(self._queues.take(queue, count, lock, wait_s, left_s, self._received))
            if found or (ends_s is not None and time.monotonic() >= ends_s):
                return found

    def poll(self, queue: str, *, lock: float | timedelta | None = None) -> Received | None:
        """Take a message if there is one now; never wait for one.

        Raises:
            KafkaesqueError: as of `get`.
        """
        found = self._run(self._queues.take(queue, 1, lock, 0, None, self._received))
        return found[0] if found else None

    # -- settling

    def ack(self, *messages: Delivery) -> None:
        """Messages are done with: nobody gets them again.

        Raises:
            LockLost: for some it was too late; somebody else may have them, or they were settled.
            KafkaesqueError: as the broker refuses it.
        """
        self._run(self._queues.settle(messages, Action.ACCEPT))

    def release(
        self,
        *messages: Delivery,
        delay: float | timedelta | None = None,
        failed: bool = False,
        to_tail: bool = False,
    ) -> None:
        """Let others have messages, at once or after a delay.

        With `failed` the attempt counts against the queue's `delivery.limit`, and without a delay
        of its own the message waits as the queue has it. With `to_tail` it goes behind all others.

        Raises:
            LockLost: as of `ack`.
        """
        steps = self._queues.settle(
            messages, Action.RELEASE, is_failed=failed, to_tail=to_tail, delay=delay
        )
        self._run(steps)

    def reject(self, *messages: Delivery) -> None:
        """Give messages up: they are dead letters, whatever their attempts.

        Raises:
            LockLost: as of `ack`.
        """
        self._run(self._queues.settle(messages, Action.REJECT))

    def extend(self, *messages: Delivery, lock: float | timedelta) -> None:
        """Lock messages for so many seconds from now.

        Raises:
            LockLost: as of `ack`.
        """
        self._run(self._queues.settle(messages, Action.EXTEND, lock=lock))

    @contextmanager
    def transaction(self, *, timeout: float | None = None) -> Iterator[TransactionWork]:
        """Put messages, acknowledge others, and append to topics: all of it, or nothing.

            with client.transaction() as transaction:
                transaction.put("bills", bill)
                transaction.ack(order)

        Nothing is done before the end, and nothing at all if there is an exception. What was to be
        acknowledged stays locked then, until its lock ends or it is settled otherwise.

        Raises:
            LockLost: nothing was done, because a lock had ended.
            QueueFull: nothing was done, because a queue has no room.
            OutcomeUnknown: all of it is done, or nothing.
            KafkaesqueError: nothing was done, as the broker refuses it.
        """
        work = TransactionWork()
        yield work
        self._run(work.commit(self._calls, timeout))

    # -- looking

    def peek(
        self, queue: str, count: int = PEEK_COUNT, *, start: int = 0, partition: int = 0
    ) -> list[Peeked]:
        """Return messages of a partition from a number on, without taking them.

        Most queues have one partition, the first.
        """
        return self._run(self._queues.peek(queue, start, count, Delivery, partition))

    def describe(self, queue: str) -> QueueDescription:
        """Return a queue's options and how many messages it has.

        Raises:
            QueueNotFound: there is none of the name.
        """
        return self._run(self._queues.describe([queue], with_counts=True))[0]

    def queues(self) -> list[QueueDescription]:
        """Return all queues of the virtual host, without counts."""
        return self._run(self._queues.describe(None, with_counts=False))

    # -- queues themselves

    def create_queue(
        self, queue: str, *, replication_factor: int = -1, **options: OptionValue
    ) -> None:
        """Let a queue exist; it is well if there is one with the same options.

        Options are those of docs/options.md with underscores: `max_length=5`.

        Raises:
            QueueExists: there is one with other options.
            RequestRefused: an option or the name makes no sense.
        """
        self._run(self._queues.create(queue, write_options(options), replication_factor))

    def alter_queue(self, queue: str, **options: OptionValue | None) -> None:
        """Change options of a queue; None sets one back.

        Raises:
            QueueNotFound, RequestRefused: nothing was changed.
        """
        self._run(self._queues.alter(queue, write_changes(options)))

    def delete_queue(self, queue: str) -> None:
        """Delete a queue with all its messages.

        Raises:
            QueueNotFound: there is none of the name.
            OutcomeUnknown: it may be deleted.
        """
        self._run(self._queues.delete(queue))

    def purge(self, queue: str) -> None:
        """Remove all messages that wait; those that somebody has taken stay.

        Raises:
            OutcomeUnknown: they may be removed.
        """
        self._run(self._queues.maintain(queue, Maintenance.PURGE))

    def redrive(self, queue: str, target: str = "") -> None:
        """Move all messages that wait or are parked to another queue.

        Without a target, let those that are parked be ready again where they are.

        Raises:
            OutcomeUnknown: they may be on their way.
        """
        action = Maintenance.REDRIVE if target else Maintenance.UNPARK
        self._run(self._queues.maintain(queue, action, target))
