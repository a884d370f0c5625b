"""Runs a coroutine function for each record of topics."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Generic, Protocol, Self, TypeVar

from kafkaesque.client.errors import Closed
from kafkaesque.client.streams.records import StreamRecord

T = TypeVar("T")


class Work(Protocol):
    """A processor or a transformer."""

    def run(self) -> None:
        """Work until `stop`."""

    def stop(self) -> None:
        """Let `run` come to its end."""

    def close(self) -> None:
        """End without a run."""


class Bridge(Generic[T]):
    """A coroutine function as a function for the thread that works; it waits for the loop."""

    def __init__(self, function: Callable[[StreamRecord], Awaitable[T]]) -> None:
        self._function: Final = function
        self.loop: asyncio.AbstractEventLoop | None = None

    def __call__(self, record: StreamRecord) -> T:
        if self.loop is None:
            raise Closed("it does not run")
        return asyncio.run_coroutine_threadsafe(self._call(record), self.loop).result()

    async def _call(self, record: StreamRecord) -> T:
        return await self._function(record)


class AsyncProcessor(Generic[T]):
    """As `Processor` or `Transformer`: it works on a thread, and the function runs on the loop."""

    def __init__(self, bridge: Bridge[T], work: Work) -> None:
        self._bridge: Final = bridge
        self._work: Final = work

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def run(self) -> None:
        """As `Processor.run`. A task that is cancelled waits until the function has ended."""
        self._bridge.loop = asyncio.get_running_loop()
        task = asyncio.create_task(asyncio.to_thread(self._work.run))
        try:
            await asyncio.shield(task)
        finally:
            self.stop()
            await asyncio.wait({task})

    def stop(self) -> None:
        """As `Processor.stop`."""
        self._work.stop()

    async def close(self) -> None:
        """As `Processor.close`."""
        await asyncio.to_thread(self._work.close)
