"""Reads records of topics as a member of a group, for asyncio."""

import asyncio
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Self

from kafkaesque.client.errors import Empty
from kafkaesque.client.streams.consumer import Consumer
from kafkaesque.client.streams.records import StreamRecord
from kafkaesque.client.working import TAKE_WAIT_S


class AsyncConsumer:
    """As `Consumer`, with `await`; one task reads."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer: Final = consumer
        #: librdkafka blocks: it has a thread of its own.
        self._thread: Final = ThreadPoolExecutor(1, "kafkaesque-consumer")
        #: The library's answer to a task that has been cancelled: it is for the next one.
        self._pending: asyncio.Future[StreamRecord | None] | None = None
        self.topics: Final = consumer.topics

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def __aiter__(self) -> AsyncIterator[StreamRecord]:
        """Yield records until `stop`; each is acknowledged when the next one is asked for."""
        while True:
            record = await self.next(None)
            if record is None:
                return
            yield record
            await self.ack(record)

    async def get(self, timeout: float | None = None) -> StreamRecord:
        """As `Consumer.get`."""
        record = await self.next(timeout)
        if record is None:
            raise Empty(f"no record came from {', '.join(self.topics)} in time")
        return record

    async def next(self, timeout: float | None) -> StreamRecord | None:
        """As `Consumer.next`."""
        ends_s = None if timeout is None else time.monotonic() + timeout
        while True:
            if self._pending is None:
                left_s = TAKE_WAIT_S if ends_s is None else max(0.0, ends_s - time.monotonic())
                loop = asyncio.get_running_loop()
                self._pending = loop.run_in_executor(
                    self._thread, self._consumer.next, min(left_s, TAKE_WAIT_S)
                )
            await asyncio.wait({self._pending})
            done, self._pending = self._pending, None
            record = done.result()
            is_over = ends_s is not None and time.monotonic() >= ends_s
            if record is not None or is_over or self._consumer.is_stopping:
                return record

    async def poll(self) -> StreamRecord | None:
        """As `Consumer.poll`."""
        return await self.next(0)

    async def ack(self, record: StreamRecord) -> None:
        """As `Consumer.ack`."""
        self._consumer.ack(record)

    async def commit(self) -> None:
        """As `Consumer.commit`."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._consumer.commit)

    def stop(self) -> None:
        """As `Consumer.stop`."""
        self._consumer.stop()

    @property
    def is_stopping(self) -> bool:
        """As `Consumer.is_stopping`."""
        return self._consumer.is_stopping

    async def close(self) -> None:
        """As `Consumer.close`."""
        self.stop()
        await asyncio.get_running_loop().run_in_executor(self._thread, self._consumer.close)
        self._thread.shutdown(wait=False)
