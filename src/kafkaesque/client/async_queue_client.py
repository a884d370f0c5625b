"""The asyncio client's queues: the same names as in `queue_client`."""

import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final, Self, TypeVar, Unpack

from kafkaesque.client.async_driver import AsyncDriver
from kafkaesque.client.calls import Calls
from kafkaesque.client.config import ClientOptions, make_config
from kafkaesque.client.delivery import Delivery, Peeked, QueueDescription
from kafkaesque.client.errors import Empty
from kafkaesque.client.message import Body, Message, as_message
from kafkaesque.client.options import OptionValue, write_changes, write_options
from kafkaesque.client.queue_calls import WAIT_S_MAX, Action, Maintenance, QueueCalls
from kafkaesque.client.steps import Steps
from kafkaesque.client.transaction import TransactionWork
from kafkaesque.model.records import Record

T = TypeVar("T")

PEEK_COUNT: Final = 10
GET_COUNT: Final = 64


class AsyncReceived(Delivery):
    """A message that was taken: it is locked until it is settled, or its lock ends.

    As a context manager it is acknowledged at the end, or released as failed if there is an
    exception.
    """

    __slots__ = ("_client",)

    def __init__(
        self,
        client: "AsyncQueueClient",
        queue: str,
        record: Record,
        attempt: int,
        failures: int,
        partition: int = 0,
    ) -> None:
        super().__init__(queue, record, attempt, failures, partition)
        self._client = client

    async def ack(self) -> None:
        """See `AsyncQueueClient.ack`."""
        await self._client.ack(self)

    async def release(
        self,
        *,
        delay: float | timedelta | None = None,
        failed: bool = False,
        to_tail: bool = False,
    ) -> None:
        """See `AsyncQueueClient.release`."""
        await self._client.release(self, delay=delay, failed=failed, to_tail=to_tail)

    async def reject(self) -> None:
        """See `AsyncQueueClient.reject`."""
        await self._client.reject(self)

    async def extend(self, lock: float | timedelta) -> None:
        """See `AsyncQueueClient.extend`."""
        await self._client.extend(self, lock=lock)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            await self.ack()
        else:
            await self.release(failed=True)


class AsyncQueueClient:
    """What can be done with queues; see `Client`."""

    def __init__(self, bootstrap_servers: str, **options: Unpack[ClientOptions]) -> None:
        """Name some brokers as `host:port,host:port`; nothing is connected yet.

        Raises:
            InvalidArgument: an option makes no sense, or a file of TLS cannot be read.
        """
        self.config: Final = make_config(bootstrap_servers, options)
        self._calls: Final = Calls(self.config)
        self._queues: Final = QueueCalls(self._calls)
        self._driver: Final = AsyncDriver(self.config)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """As `Client.close`."""
        self._calls.connections.close()

    async def _run(self, steps: Steps[T]) -> T:
        return await self._driver.run(steps)

    def _received(
        self, queue: str, record: Record, attempt: int, failures: int, partition: int
    ) -> AsyncReceived:
        return AsyncReceived(self, queue, record, attempt, failures, partition)

    # -- putting

    async def put(
        self, queue: str, message: Message | Body, *, timeout: float | None = None
    ) -> int:
        """As `Client.put`."""
        return (await self._run(self._queues.put(queue, [as_message(message)], timeout)))[0]

    async def put_many(
        self, queue: str, messages: Iterable[Message | Body], *, timeout: float | None = None
    ) -> list[int]:
        """As `Client.put_many`."""
        return await self._run(
            self._queues.put(queue, [as_message(each) for each in messages], timeout)
        )

    # -- taking

    async def get(
        self,
        queue: str,
        timeout: float | None = None,
        *,
        lock: float | timedelta | None = None,
    ) -> AsyncReceived:
        """As `Client.get`."""
        found = await self.get_many(queue, 1, timeout, lock=lock)
        if not found:
            raise Empty(f"no message came to queue {queue!r} in time")
        return found[0]

    async def get_many(
        self,
        queue: str,
        count: int = GET_COUNT,
        timeout: float | None = None,
        *,
        lock: float | timedelta | None = None,
    ) -> list[AsyncReceived]:
        """As `Client.get_many`."""
        ends_s = None if timeout is None else time.monotonic() + timeout
        while True:
            left_s = None if ends_s is None else max(0.0, ends_s - time.monotonic())
            wait_s = WAIT_S_MAX if left_s is None else left_s
            found = await self._run(
                self._queues.take(queue, count, lock, wait_s, left_s, self._received)
            )
            if found or (ends_s is not None and time.monotonic() >= ends_s):
                return found

    async def poll(
        self, queue: str, *, lock: float | timedelta | None = None
    ) -> AsyncReceived | None:
        """As `Client.poll`."""
        found = await self._run(self._queues.take(queue, 1, lock, 0, None, self._received))
        return found[0] if found else None

    # -- settling

    async def ack(self, *messages: Delivery) -> None:
        """As `Client.ack`."""
        await self._run(self._queues.settle(messages, Action.ACCEPT))

    async def release(
        self,
        *messages: Delivery,
        delay: float | timedelta | None = None,
        failed: bool = False,
        to_tail: bool = False,
    ) -> None:
        """As `Client.release`."""
        steps = self._queues.settle(
            messages, Action.RELEASE, is_failed=failed, to_tail=to_tail, delay=delay
        )
        await self._run(steps)

    async def reject(self, *messages: Delivery) -> None:
        """As `Client.reject`."""
        await self._run(self._queues.settle(messages, Action.REJECT))

    async def extend(self, *messages: Delivery, lock: float | timedelta) -> None:
        """As `Client.extend`."""
        await self._run(self._queues.settle(messages, Action.EXTEND, lock=lock))

    @asynccontextmanager
    async def transaction(self, *, timeout: float | None = None) -> AsyncIterator[TransactionWork]:
        """As `Client.transaction`; what is said within is kept, and needs no `await`."""
        work = TransactionWork()
        yield work
        await self._run(work.commit(self._calls, timeout))

    # -- looking

    async def peek(
        self, queue: str, count: int = PEEK_COUNT, *, start: int = 0, partition: int = 0
    ) -> list[Peeked]:
        """As `Client.peek`."""
        return await self._run(self._queues.peek(queue, start, count, Delivery, partition))

    async def describe(self, queue: str) -> QueueDescription:
        """As `Client.describe`."""
        return (await self._run(self._queues.describe([queue], with_counts=True)))[0]

    async def queues(self) -> list[QueueDescription]:
        """As `Client.queues`."""
        return await self._run(self._queues.describe(None, with_counts=False))

    # -- queues themselves

    async def create_queue(
        self, queue: str, *, replication_factor: int = -1, **options: OptionValue
    ) -> None:
        """As `Client.create_queue`."""
        await self._run(self._queues.create(queue, write_options(options), replication_factor))

    async def alter_queue(self, queue: str, **options: OptionValue | None) -> None:
        """As `Client.alter_queue`."""
        await self._run(self._queues.alter(queue, write_changes(options)))

    async def delete_queue(self, queue: str) -> None:
        """As `Client.delete_queue`."""
        await self._run(self._queues.delete(queue))

    async def purge(self, queue: str) -> None:
        """As `Client.purge`."""
        await self._run(self._queues.maintain(queue, Maintenance.PURGE))

    async def redrive(self, queue: str, target: str = "") -> None:
        """As `Client.redrive`."""
        action = Maintenance.REDRIVE if target else Maintenance.UNPARK
        await self._run(self._queues.maintain(queue, action, target))
