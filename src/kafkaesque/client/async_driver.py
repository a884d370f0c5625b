"""Carries out the client's steps with asyncio; for any number of tasks of one loop."""

import asyncio
import ssl
from typing import Any, Final, TypeVar

from kafkaesque.client.config import ClientConfig
from kafkaesque.client.errors import Timeout
from kafkaesque.client.steps import Connect, Effect, Exchange, Sleep, Steps, Wire

T = TypeVar("T")

_READ_BYTES: Final = 256 * 1024


class StreamWire:
    """A connection of asyncio's."""

    __slots__ = ("reader", "writer")

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def is_stale(self) -> bool:
        """See `Wire`."""
        reader = self.reader
        return reader.at_eof() or reader.exception() is not None or self.writer.is_closing()

    def close(self) -> None:
        """See `Wire`."""
        # Without waiting for what was not sent: nobody reads the answer any more.
        self.writer.transport.abort()


class AsyncDriver:
    """Runs steps in the task that asks for it."""

    def __init__(self, config: ClientConfig) -> None:
        self._tls: Final[ssl.SSLContext | None] = (
            None if config.tls is None else config.tls.context()
        )
        self._timeout_s = config.timeout_s
        #: Every operation uses one connection at a time.
        self._slots = asyncio.Semaphore(config.connections_max)

    async def run(self, steps: Steps[T]) -> T:
        """Return what steps return; raise what they raise. A task that is cancelled ends them.

        Raises:
            Timeout: all connections were in use for too long; nothing was done.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._slots.acquire()
        except TimeoutError:
            steps.close()
            raise Timeout(
                "all connections are in use: raise connections_max, or wait for less"
            ) from None
        try:
            return await self._run(steps)
        finally:
            steps.close()
            self._slots.release()

    async def _run(self, steps: Steps[T]) -> T:
        try:
            effect = next(steps)
            while True:
                try:
                    result = await self._carry_out(effect)
                except Exception as error:
                    effect = steps.throw(error)
                else:
                    effect = steps.send(result)
        except StopIteration as stop:
            done: T = stop.value
            return done

    async def _carry_out(self, effect: Effect) -> Any:
        match effect:
            case Connect():
                return await self._connect(effect)
            case Exchange():
                return await _exchange(effect)
            case Sleep():
                return await asyncio.sleep(effect.seconds)

    async def _connect(self, effect: Connect) -> Wire:
        host, port = effect.address
        async with asyncio.timeout(effect.timeout_s):
            reader, writer = await asyncio.open_connection(
                host, port, ssl=self._tls, server_hostname=host if self._tls else None
            )
        return StreamWire(reader, writer)


async def _exchange(effect: Exchange) -> None:
    wire, answer = effect.wire, effect.reader
    if not isinstance(wire, StreamWire):
        raise TypeError("a wire of another driver")
    async with asyncio.timeout(effect.timeout_s):
        wire.writer.write(effect.data)
        await wire.writer.drain()
        while answer.wanted:
            data = await wire.reader.read(min(answer.wanted, _READ_BYTES))
            if not data:
                raise EOFError
            answer.feed(data)
