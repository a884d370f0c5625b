"""A subscription whose callback is a coroutine function."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from kafkaesque.client.events.listener import Listener
from kafkaesque.client.streams.consumer import Undecodable
from kafkaesque.client.streams.records import StreamRecord
from kafkaesque.client.working import OnRecordError, log

AsyncCallback = Callable[[StreamRecord], Awaitable[object]]


class AsyncSubscription:
    """As `Subscription`, as a task of the running loop."""

    def __init__(
        self, listener: Listener, callback: AsyncCallback, on_error: OnRecordError
    ) -> None:
        self._listener: Final = listener
        self._callback: Final = callback
        self._on_error: Final = on_error
        #: librdkafka blocks: it has a thread of its own.
        self._thread: Final = ThreadPoolExecutor(1, "kafkaesque-subscription")
        self._task: asyncio.Task[None] | None = None
        #: As `Subscription.error`.
        self.error: Exception | None = None

    async def start(self) -> None:
        """Wait until every event from now on will be read, and begin to call back."""
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._thread, self._listener.begin)
        except BaseException:
            self._thread.submit(self._listener.close)
            self._thread.shutdown(wait=False)
            raise
        self._task = asyncio.create_task(self._run())

    @property
    def is_active(self) -> bool:
        """As `Subscription.is_active`."""
        return self._task is not None and not self._task.done() and not self._listener.is_over

    async def stop(self) -> None:
        """As `Subscription.stop`."""
        self._listener.stop()
        if self._task is not None and self._task is not asyncio.current_task():
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while not self._listener.is_over:
                await self._hand_over(loop)
        except Exception as error:
            self.error = error
            log.error("a subscription has ended", exc_info=error)
        finally:
            self._listener.stop()
            self._thread.submit(self._listener.close)
            self._thread.shutdown(wait=False)

    async def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            record = await loop.run_in_executor(self._thread, self._listener.next)
        except Undecodable as error:
            self._on_error(error, error.record)
            return
        if record is None:
            return
        try:
            await self._callback(record)
        except Exception as error:
            self._on_error(error, record)
