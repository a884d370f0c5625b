"""Sends records to topics, for asyncio."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, Self

from kafkaesque.client.errors import Timeout
from kafkaesque.client.message import Headers, encode_headers
from kafkaesque.client.streams.producer import AGAIN_S, NO_ROOM, Producer
from kafkaesque.client.streams.records import Sent


class AsyncProducer:
    """As `Producer`, with `await`; librdkafka's own threads do the work."""

    def __init__(self, producer: Producer, timeout_s: float) -> None:
        self._producer: Final = producer
        self._timeout_s: Final = timeout_s

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def send(
        self,
        topic: str,
        value: Any,
        *,
        key: Any = None,
        headers: Headers | None = None,
        partition: int = -1,
        timestamp_ms: int | None = None,
    ) -> Sent:
        """Send a record, and return its place when it is committed.

        Tasks that send at the same time share batches. A task that is cancelled leaves the record
        on its way.

        Raises:
            KafkaesqueError: as of `Producer.send`, and what its future has.
        """
        raw_key, raw_value = self._producer.encode(key, value)
        said = encode_headers(headers or {})
        try:
            async with asyncio.timeout(self._timeout_s):
                while True:
                    future = self._producer.offer(
                        topic, raw_key, raw_value, said, partition, timestamp_ms
                    )
                    if future is not None:
                        break
                    await asyncio.sleep(AGAIN_S)
        except TimeoutError:
            raise Timeout(NO_ROOM) from None
        return await asyncio.shield(asyncio.wrap_future(future))

    async def flush(self, timeout: float | None = None) -> None:
        """As `Producer.flush`."""
        await asyncio.to_thread(self._producer.flush, timeout)

    async def close(self, timeout: float | None = None) -> None:
        """As `Producer.close`."""
        await asyncio.to_thread(self._producer.close, timeout)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """As `Producer.transaction`."""
        await asyncio.to_thread(self._producer.begin)
        try:
            yield
        except BaseException:
            await asyncio.to_thread(self._producer.abort)
            raise
        await asyncio.to_thread(self._producer.commit)
