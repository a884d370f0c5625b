"""Runs a function for each message of a queue, as tasks."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Self

from kafkaesque.client.async_queue_client import AsyncQueueClient, AsyncReceived
from kafkaesque.client.async_queue_consumer import AsyncQueueConsumer
from kafkaesque.client.errors import Closed, KafkaesqueError, LockLost
from kafkaesque.client.working import (
    AGAIN_S_MAX,
    AGAIN_S_MIN,
    PASSING,
    TAKE_WAIT_S,
    Reject,
    WorkerConfig,
    delay_of,
)


class AsyncWorker:
    """As `Worker`, with a coroutine function."""

    def __init__(
        self,
        client: AsyncQueueClient,
        config: WorkerConfig,
        function: Callable[[AsyncReceived], Awaitable[object]],
        consumer: AsyncQueueConsumer | None = None,
    ) -> None:
        self._client: Final = client
        self._consumer: Final = consumer
        self._config: Final = config
        self._function: Final = function
        self._in_hand: dict[asyncio.Task[None], AsyncReceived] = {}
        self._stopping: Final = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._extending: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def is_running(self) -> bool:
        """Whether it takes messages."""
        return self._task is not None and not self._task.done() and not self._stopping.is_set()

    def start(self) -> Self:
        """Begin to take messages.

        Raises:
            Closed: it was started before.
        """
        if self._task is not None:
            raise Closed("a worker is started once")
        self._task = asyncio.create_task(self._take())
        self._extending = asyncio.create_task(self._extend())
        # Whoever never asks for the error has been told of it by `on_error`.
        self._task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return self

    async def stop(self, timeout: float | None = None) -> bool:
        """As `Worker.stop`."""
        self._stopping.set()
        if asyncio.current_task() in self._in_hand or self._task is None:
            return self._task is None
        tasks = {self._task, *self._in_hand}
        _, left = await asyncio.wait(tasks, timeout=timeout)
        if not left and self._in_hand:
            # Taken by the last request, while we waited.
            _, left = await asyncio.wait(set(self._in_hand), timeout=timeout)
        if not left and self._extending is not None:
            self._extending.cancel()
        if not left and self._consumer is not None:
            # Not before: what the function has would be ready for others.
            await self._consumer.close()
        return not left

    async def run(self) -> None:
        """As `Worker.run`."""
        task = self.start()._task
        try:
            if task is not None:
                await asyncio.shield(task)
        finally:
            await self.stop()

    # -- taking

    async def _take(self) -> None:
        again_s = AGAIN_S_MIN
        while not self._stopping.is_set():
            await self._wait_for_room()
            room = self._config.concurrency - len(self._in_hand)
            if self._stopping.is_set():
                return
            try:
                found = await self._found(room)
            except PASSING as error:
                self._config.on_error(error, None)
                await self._pause(again_s)
                again_s = min(2 * again_s, AGAIN_S_MAX)
                continue
            except KafkaesqueError as error:
                self._stopping.set()
                self._config.on_error(error, None)
                raise
            again_s = AGAIN_S_MIN
            for message in found:
                task = asyncio.create_task(self._work(message))
                self._in_hand[task] = message
                task.add_done_callback(self._on_worked)

    async def _found(self, count: int) -> list[AsyncReceived]:
        config = self._config
        if self._consumer is not None:
            return await self._consumer.get_many(count, TAKE_WAIT_S, lock=config.lock_s)
        return await self._client.get_many(config.queue, count, TAKE_WAIT_S, lock=config.lock_s)

    async def _wait_for_room(self) -> None:
        while len(self._in_hand) >= self._config.concurrency and not self._stopping.is_set():
            await asyncio.wait(set(self._in_hand), return_when=asyncio.FIRST_COMPLETED)

    def _on_worked(self, task: asyncio.Task[None]) -> None:
        del self._in_hand[task]

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass

    # -- working

    async def _work(self, message: AsyncReceived) -> None:
        try:
            await self._work_on(message)
        except Exception as error:
            # Nobody knows how it stands: it comes again when its lock ends.
            self._config.on_error(error, message)

    async def _work_on(self, message: AsyncReceived) -> None:
        try:
            await self._function(message)
        except Reject as error:
            self._config.on_error(error, message)
            await message.reject()
        except Exception as error:
            self._config.on_error(error, message)
            await message.release(failed=True, delay=delay_of(error))
        else:
            await message.ack()

    async def _extend(self) -> None:
        """Extend the locks of what the function has, until `stop` ends it."""
        while True:
            await asyncio.sleep(self._config.extend_every_s)
            messages = list(self._in_hand.values())
            if messages:
                try:
                    await self._client.extend(*messages, lock=self._config.lock_s)
                except LockLost:
                    pass  # one was settled meanwhile, or its own settlement will say so
                except KafkaesqueError as error:
                    self._config.on_error(error, None)
