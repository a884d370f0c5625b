"""The asyncio client."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Unpack
from weakref import WeakSet

from kafkaesque.client.async_queue_client import AsyncQueueClient, AsyncReceived
from kafkaesque.client.async_queue_consumer import AsyncQueueConsumer
from kafkaesque.client.async_worker import AsyncWorker
from kafkaesque.client.attachment import Attachment
from kafkaesque.client.config import ClientOptions
from kafkaesque.client.events.filters import Filter, as_filter
from kafkaesque.client.message import When
from kafkaesque.client.serializers import JSON, TEXT, Serializer
from kafkaesque.client.streams.attempts import (
    ATTEMPTS,
    BACKOFF_S,
    log_record_error,
    make_attempt_policy,
)
from kafkaesque.client.streams.records import Event, Sent, StreamRecord
from kafkaesque.client.working import LOCK_S, OnError, OnRecordError, make_worker_config

if TYPE_CHECKING:
    # With librdkafka, which is loaded when it is needed.
    from kafkaesque.client.events.async_subscription import AsyncSubscription
    from kafkaesque.client.streams.async_consumer import AsyncConsumer
    from kafkaesque.client.streams.async_processor import AsyncProcessor
    from kafkaesque.client.streams.async_producer import AsyncProducer
    from kafkaesque.client.streams.consumer import Start
    from kafkaesque.client.streams.processor import Delivery


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
        self._consumers: WeakSet[AsyncQueueConsumer] = WeakSet()
        self._subscriptions: WeakSet[AsyncSubscription] = WeakSet()
        #: Of `publish`; made when it is first needed.
        self._publisher: AsyncProducer | None = None

    async def close(self) -> None:
        """As `Client.close`."""
        for worker in list(self._workers):
            await worker.stop()
        for consumer in list(self._consumers):
            await consumer.close()
        for subscription in list(self._subscriptions):
            await subscription.stop()
        publisher, self._publisher = self._publisher, None
        if publisher is not None:
            await publisher.close()
        await super().close()

    def attach(self, queue: str) -> AsyncQueueConsumer:
        """As `Client.attach`."""
        attachment = Attachment(self._calls, self._queues, queue)
        consumer = AsyncQueueConsumer(self, attachment, self._driver)
        self._consumers.add(consumer)
        return consumer

    def worker(
        self,
        queue: str,
        function: Callable[[AsyncReceived], Awaitable[object]],
        *,
        concurrency: int = 1,
        lock: float | timedelta = LOCK_S,
        attach: bool = False,
        on_error: OnError | None = None,
    ) -> AsyncWorker:
        """As `Client.worker`, for a coroutine function."""
        config = make_worker_config(queue, concurrency, lock, on_error)
        worker = AsyncWorker(self, config, function, self.attach(queue) if attach else None)
        self._workers.add(worker)
        return worker

    def notify(
        self,
        queue: str,
        callback: Callable[[AsyncReceived], Awaitable[object]],
        *,
        concurrency: int = 1,
        lock: float | timedelta = LOCK_S,
        attach: bool = False,
        on_error: OnError | None = None,
    ) -> AsyncWorker:
        """As `Client.notify`, for a coroutine function; the tasks are those of the running loop."""
        worker = self.worker(
            queue, callback, concurrency=concurrency, lock=lock, attach=attach, on_error=on_error
        )
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

    def processor(
        self,
        *topics: str,
        group: str,
        function: Callable[[StreamRecord], Awaitable[object]],
        key: Serializer[Any] = TEXT,
        value: Serializer[Any] = JSON,
        start: "Start" = "earliest",
        delivery: "Delivery" = "at-least-once",
        attempts: int = ATTEMPTS,
        backoff: float = BACKOFF_S,
        dead_letters: str | None = None,
        on_error: OnRecordError | None = None,
    ) -> "AsyncProcessor[object]":
        """As `Client.processor`, for a coroutine function."""
        from kafkaesque.client.streams.async_processor import AsyncProcessor, Bridge
        from kafkaesque.client.streams.making import Source, make_processor

        policy = make_attempt_policy(attempts, backoff, dead_letters, on_error)
        source = Source(topics=topics, group=group, key=key, value=value, start=start)
        bridge = Bridge(function)
        work = make_processor(self.config, source, bridge, policy, delivery)
        return AsyncProcessor(bridge, work)

    def transformer(
        self,
        *topics: str,
        group: str,
        function: Callable[[StreamRecord], Awaitable[Iterable[Event]]],
        transactional_id: str,
        key: Serializer[Any] = TEXT,
        value: Serializer[Any] = JSON,
        attempts: int = ATTEMPTS,
        backoff: float = BACKOFF_S,
        dead_letters: str | None = None,
        on_error: OnRecordError | None = None,
    ) -> "AsyncProcessor[Iterable[Event]]":
        """As `Client.transformer`, for a coroutine function."""
        from kafkaesque.client.streams.async_processor import AsyncProcessor, Bridge
        from kafkaesque.client.streams.making import Source, make_transformer

        policy = make_attempt_policy(attempts, backoff, dead_letters, on_error)
        source = Source(topics=topics, group=group, key=key, value=value)
        bridge = Bridge(function)
        work = make_transformer(self.config, source, bridge, policy, transactional_id)
        return AsyncProcessor(bridge, work)

    # -- events

    async def publish(self, event: Event) -> Sent:
        """As `Client.publish`."""
        if self._publisher is None:
            self._publisher = self.producer()
        return await self._publisher.send(
            event.topic, event.value, key=event.key, headers=event.headers
        )

    async def subscribe(
        self,
        wanted: Filter | str,
        callback: Callable[[StreamRecord], Awaitable[object]],
        expiry: When | None = None,
        *,
        value: Serializer[Any] = JSON,
        on_error: OnRecordError | None = None,
    ) -> "AsyncSubscription":
        """As `Client.subscribe`, for a coroutine function; the task is one of the running loop."""
        from kafkaesque.client.events.async_subscription import AsyncSubscription
        from kafkaesque.client.events.listener import Listener, expiry_s

        listener = Listener(self.config, as_filter(wanted), value, expiry_s(expiry))
        subscription = AsyncSubscription(listener, callback, on_error or log_record_error)
        await subscription.start()
        self._subscriptions.add(subscription)
        return subscription

    async def unsubscribe(self, handle: "AsyncSubscription") -> None:
        """As `Client.unsubscribe`."""
        await handle.stop()
