"""A consumer that a queue knows, for asyncio."""

import asyncio
import time
from datetime import timedelta
from typing import Final, Self

from kafkaesque.client.async_driver import AsyncDriver
from kafkaesque.client.async_queue_client import AsyncQueueClient, AsyncReceived
from kafkaesque.client.attachment import Attachment
from kafkaesque.client.errors import Empty
from kafkaesque.client.queue_calls import WAIT_S_MAX
from kafkaesque.client.queue_client import GET_COUNT


class AsyncQueueConsumer:
    """As `QueueConsumer`; tasks may share it, and one of them takes at a time."""

    def __init__(
        self, client: AsyncQueueClient, attachment: Attachment, driver: AsyncDriver
    ) -> None:
        self._client: Final = client
        self._attachment: Final = attachment
        self._driver: Final = driver
        self._lock: Final = asyncio.Lock()

    async def __aenter__(self) -> Self:
        await self.begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def queue(self) -> str:
        """The queue's name."""
        return self._attachment.queue

    @property
    def is_active(self) -> bool:
        """As `QueueConsumer.is_active`."""
        return self._attachment.is_active

    async def begin(self) -> None:
        """As `QueueConsumer.begin`."""
        async with self._lock:
            await self._driver.run(self._attachment.begin())

    async def close(self) -> None:
        """As `QueueConsumer.close`."""
        self._attachment.stop()
        async with self._lock:
            await self._driver.run(self._attachment.end())

    async def get(
        self, timeout: float | None = None, *, lock: float | timedelta | None = None
    ) -> AsyncReceived:
        """As `QueueConsumer.get`."""
        found = await self.get_many(1, timeout, lock=lock)
        if not found:
            raise Empty(f"no message came to queue {self.queue!r} in time")
        return found[0]

    async def get_many(
        self,
        count: int = GET_COUNT,
        timeout: float | None = None,
        *,
        lock: float | timedelta | None = None,
    ) -> list[AsyncReceived]:
        """As `QueueConsumer.get_many`."""
        ends_s = None if timeout is None else time.monotonic() + timeout
        while True:
            left_s = None if ends_s is None else max(0.0, ends_s - time.monotonic())
            wait_s = WAIT_S_MAX if left_s is None else left_s
            found = await self._take(count, lock, wait_s, left_s)
            if found or (ends_s is not None and time.monotonic() >= ends_s):
                return found

    async def poll(self, *, lock: float | timedelta | None = None) -> AsyncReceived | None:
        """As `QueueConsumer.poll`."""
        found = await self._take(1, lock, 0, None)
        return found[0] if found else None

    async def _take(
        self, count: int, lock: float | timedelta | None, wait_s: float, left_s: float | None
    ) -> list[AsyncReceived]:
        make = self._client._received
        async with self._lock:
            return await self._driver.run(self._attachment.take(count, lock, wait_s, left_s, make))
