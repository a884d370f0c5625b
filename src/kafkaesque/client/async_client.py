"""The asyncio client."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Unpack
from weakref import WeakSet

from kafkaesque.client.async_queue_client import AsyncQueueClient, AsyncReceived
from kafkaesque.client.async_worker import AsyncWorker
from kafkaesque.client.config import ClientOptions
from kafkaesque.client.working import LOCK_S, OnError, make_worker_config


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
