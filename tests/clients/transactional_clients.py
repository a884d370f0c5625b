"""Transactional producers of three libraries behind one face, and a reader of all there is."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from aiokafka import AIOKafkaProducer
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from kafka import KafkaProducer

from tests.clients.kafka_helpers import partitions_of, unique
from tests.waiting import DEADLINE_S, eventually

#: Values by partition, in the order of the log.
Contents = dict[int, list[bytes]]


class TransactionalClient(Protocol):
    """What every library can do; `begin`, `commit` and `abort` raise what the library raises."""

    def __init__(self, bootstrap_servers: str, transactional_id: str, **options: Any) -> None:
        """Begin as the producer of this transactional id; who was it before is shut out."""

    def begin(self) -> None: ...

    def send(self, topic: str, partition: int, value: bytes) -> None:
        """Hand a record over; it may not have been sent yet."""

    def flush(self) -> None:
        """Return when all records are in the partitions' logs."""

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class Librdkafka:
    """confluent-kafka."""

    def __init__(self, bootstrap_servers: str, transactional_id: str, **options: Any) -> None:
        self._failed: list[KafkaError] = []
        named = {key.replace("_", "."): value for key, value in options.items()}
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "transactional.id": transactional_id,
                "linger.ms": 1,
                **named,
            }
        )
        self.producer.init_transactions(DEADLINE_S)

    def begin(self) -> None:
        self.producer.begin_transaction()

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self.producer.produce(topic, value, partition=partition, on_delivery=self._on_delivery)

    def _on_delivery(self, error: KafkaError | None, _: object) -> None:
        if error is not None:
            self._failed.append(error)

    def flush(self) -> None:
        remaining = self.producer.flush(DEADLINE_S)
        if self._failed:
            raise KafkaException(self._failed[0])
        assert remaining == 0

    def commit(self) -> None:
        self.producer.commit_transaction(DEADLINE_S)

    def abort(self) -> None:
        self.producer.abort_transaction(DEADLINE_S)

    def close(self) -> None:
        self.producer.purge()


class KafkaPython:
    """kafka-python."""

    def __init__(self, bootstrap_servers: str, transactional_id: str, **options: Any) -> None:
        self._futures: list[Any] = []
        self.producer = KafkaProducer(
            bootstrap_servers=bootstrap_servers.split(","),
            transactional_id=transactional_id,
            **options,
        )
        self.producer.init_transactions()

    def begin(self) -> None:
        self._futures.clear()
        self.producer.begin_transaction()

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._futures.append(self.producer.send(topic, value, partition=partition))

    def flush(self) -> None:
        self.producer.flush(DEADLINE_S)
        for future in self._futures:
            future.get(DEADLINE_S)

    def commit(self) -> None:
        self.producer.commit_transaction()

    def abort(self) -> None:
        self.producer.abort_transaction()

    def close(self) -> None:
        self.producer.close(timeout=1)


class Aiokafka:
    """aiokafka, on a loop that runs while something is asked of it."""

    def __init__(self, bootstrap_servers: str, transactional_id: str, **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._futures: list[Any] = []
        self._is_open = True
        self._run(self._start(bootstrap_servers, transactional_id, options))

    async def _start(
        self, bootstrap_servers: str, transactional_id: str, options: Mapping[str, Any]
    ) -> None:
        self.producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap_servers, transactional_id=transactional_id, **options
        )
        await self.producer.start()

    def _run(self, work: Any) -> Any:
        return self._loop.run_until_complete(asyncio.wait_for(work, DEADLINE_S))

    def begin(self) -> None:
        self._futures.clear()
        self._run(self.producer.begin_transaction())

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._futures.append(self._run(self.producer.send(topic, value, partition=partition)))

    def flush(self) -> None:
        self._run(self._gather())

    async def _gather(self) -> None:
        await asyncio.gather(*self._futures)

    def commit(self) -> None:
        self._run(self.producer.commit_transaction())

    def abort(self) -> None:
        self._run(self.producer.abort_transaction())

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            for future in self._futures:
                if future.done() and not future.cancelled():
                    future.exception()
            with suppress(Exception):  # one that is shut out says so once more
                self._run(self.producer.stop())
            self._loop.close()


CLIENTS: Sequence[type[TransactionalClient]] = (Librdkafka, KafkaPython, Aiokafka)


def await_committed(bootstrap_servers: str, topic: str, wanted: Contents) -> None:
    """Wait until readers of what is committed see this: a commit is told before its markers are."""
    eventually(
        lambda: read_all(bootstrap_servers, topic) == wanted, f"what is committed in {topic}"
    )


def read_all(bootstrap_servers: str, topic: str, *, is_committed: bool = True) -> Contents:
    """Return all that such a reader sees up to where it would have to wait."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": unique("reader"),
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            # The end is told by a fetch that waited in vain.
            "fetch.wait.max.ms": 50,
            "isolation.level": "read_committed" if is_committed else "read_uncommitted",
        }
    )
    try:
        contents: Contents = {each: [] for each in partitions_of(consumer, topic)}
        consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in contents])
        ended: set[int] = set()

        def reads_on() -> bool:
            for message in consumer.consume(1000, 0.1):
                error, partition, value = message.error(), message.partition(), message.value()
                assert partition is not None
                if error is None:
                    assert value is not None
                    contents[partition].append(value)
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(partition)
                elif error.fatal() or not error.retriable():
                    raise KafkaException(error)
            return len(ended) == len(contents)

        eventually(reads_on, f"the end of {topic}, {len(ended)} partitions seen")
        return contents
    finally:
        consumer.close()
