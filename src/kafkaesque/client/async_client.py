"""The asyncio client."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Unpack
from weakref import WeakSet

from kafkaesque.client.async_queue_client import AsyncQueueClient, AsyncReceived
from kafkaesque.client.async_worker import AsyncWorker
from kafkaesque.client.config import ClientOptions
from kafkaesque.client.serializers import JSON, TEXT, Serializer
from kafkaesque.client.working import LOCK_S, OnError, make_worker_config

if TYPE_CHECKING:
    # With librdkafka, which is loaded when it is needed.
    from kafkaesque.client.streams.async_consumer import AsyncConsumer
    from kafkaesque.client.streams.async_producer import AsyncProducer
    from kafkaesque.client.streams.consumer import Start


class AsyncClient(AsyncQueueClient):
    """A cluster's queues, for any number of tasks of one loop: `Client`, with `await`.

        async with AsyncClient("127.0.0.1:9092") as client:
            await client.put("orders", {"id": 7})
            message = await client.get("orders", timeout=10)
            await message.ack()

    A task that is cancelled in an operation leaves its outcome unknown.
    """

    def __init__(self, bootstrap_servers: str, **options: Unpack[ClientOptions]) -> None:
        """As `Client`."""
        super().__init__(bootstrap_servers, **options)
        self._workers: WeakSet[AsyncWorker] = WeakSet()

    async def close(self) -> None:
        """As `Client.close`."""
        for worker in list(self._workers):
            await worker.stop()
        await super().close()

    def worker(
        self,
        queue: str,
        function: Callable[[AsyncReceived], Awaitable[object]],
        *,
        concurrency: int = 1,
        lock: float | timedelta = LOCK_S,
        on_error: OnError | None = None,
    ) -> AsyncWorker:
        """As `Client.worker`, for a coroutine function."""
        config = make_worker_config(queue, concurrency, lock, on_error)
        worker = AsyncWorker(self, config, function)
        self._workers.add(worker)
        return worker

    def notify(
        self,
        queue: str,
        callback: Callable[[AsyncReceived], Awaitable[object]],
        *,
        concurrency: int = 1,
        lock: float | timedelta = LOCK_S,
        on_error: OnError | None = None,
    ) -> AsyncWorker:
        """As `Client.notify`, for a coroutine function; the tasks are those of the running loop."""
        worker = self.worker(queue, callback, concurrency=concurrency, lock=lock, on_error=on_error)
        return worker.start()

    # -- streams

    def producer(
        self,
        *,
        key: Serializer[Any] = TEXT,
        value: Serializer[Any] = JSON,
        transactional_id: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> "AsyncProducer":
        """As `Client.producer`."""
        from kafkaesque.client.streams.async_producer import AsyncProducer
        from kafkaesque.client.streams.producer import Producer

        producer = Producer(
            self.config,
            key=key,
            value=value,
            transactional_id=transactional_id,
            settings=settings or {},
        )
        return AsyncProducer(producer, self.config.timeout_s)

    def consumer(
        self,
        *topics: str,
        group: str,
        key: Serializer[Any] = TEXT,
        value: Serializer[Any] = JSON,
        start: "Start" = "earliest",
        settings: Mapping[str, Any] | None = None,
    ) -> "AsyncConsumer":
        """As `Client.consumer`."""
        from kafkaesque.client.streams.async_consumer import AsyncConsumer
        from kafkaesque.client.streams.consumer import Consumer

        consumer = Consumer(
            self.config,
            topics,
            group=group,
            key=key,
            value=value,
            start=start,
            settings=settings or {},
        )
        return AsyncConsumer(consumer)
