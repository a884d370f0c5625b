"""What goes into the source topic, and what an independent client finds in topics."""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from contextlib import suppress
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)

PARTITIONS = 3
STEP_S = 0.02
READ_COUNT_MAX = 1000
POLL_S = 0.2
READ_TIMEOUT_S = 120.0


class Feeder(threading.Thread):
    """Sends numbers, one after another, to the source topic until told to stop."""

    def __init__(self, servers: str, topic: str, per_second: int) -> None:
        super().__init__(name="feeder", daemon=True)
        self._topic = topic
        self._per_step = max(1, round(per_second * STEP_S))
        self._ending = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "enable.gapless.guarantee": True,
                "message.timeout.ms": 0,
                "log_level": 0,
            }
        )
        self.sent = 0
        self.failures: list[str] = []

    def run(self) -> None:
        """Send at a steady rate."""
        while not self._ending.wait(STEP_S):
            for _ in range(self._per_step):
                with suppress(BufferError):
                    self._producer.produce(
                        self._topic,
                        value=b"%d" % self.sent,
                        partition=self.sent % PARTITIONS,
                        on_delivery=self._on_delivery,
                    )
                    self.sent += 1
            self._producer.poll(0)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(f"a record was not delivered: {error}")

    def finish(self, timeout_s: float) -> int:
        """Send no more; return how many records wait for an acknowledgement when the time is up."""
        self._ending.set()
        self.join()
        left: int = self._producer.flush(timeout_s)
        return left


def _reader(servers: str, topic: str) -> Consumer:
    settings: dict[str, Any] = {
        "bootstrap.servers": servers,
        "group.id": f"chaos-{uuid.uuid4().hex}",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "log_level": 0,
    }
    consumer = Consumer(settings)
    places = [TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(PARTITIONS)]
    consumer.assign(places)
    return consumer


class Follower(threading.Thread):
    """Counts the committed records of a topic as they come."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__(name="follower", daemon=True)
        self._consumer = _reader(servers, topic)
        self._ending = threading.Event()
        self.count = 0

    def run(self) -> None:
        """Read until told to stop; brokers that are away are waited for."""
        while not self._ending.is_set():
            messages = self._consumer.consume(READ_COUNT_MAX, POLL_S)
            self.count += sum(1 for message in messages if message.error() is None)
        self._consumer.close()

    def finish(self) -> None:
        """Read no more."""
        self._ending.set()
        self.join()


def read_all(servers: str, topic: str) -> Counter[bytes]:
    """Return all committed values of a topic that rests.

    Raises:
        TimeoutError: its ends were not reached in time.
    """
    consumer = _reader(servers, topic)
    found: Counter[bytes] = Counter()
    left = set(range(PARTITIONS))
    try:
        deadline = time.monotonic() + READ_TIMEOUT_S
        while left:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the end of {topic} was not reached in {READ_TIMEOUT_S:.0f} s")
            for message in consumer.consume(READ_COUNT_MAX, POLL_S):
                error = message.error()
                if error is None:
                    found[message.value() or b""] += 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
    finally:
        consumer.close()
    return found
