"""Records in bulk over librdkafka, with whatever settings a client has to log in by."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

TIMEOUT_S: Final = 120.0


def produce(settings: Mapping[str, Any], topic: str, value: bytes, count: int) -> None:
    """Send so many records, and wait until all are acknowledged.

    Raises:
        TimeoutError: that takes too long.
    """
    more = {"queue.buffering.max.kbytes": 500_000, "linger.ms": 5, "acks": "all"}
    producer = Producer({**settings, **more})
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, value)
            except BufferError:
                producer.poll(0.05)
            else:
                break
    if producer.flush(TIMEOUT_S):
        raise TimeoutError("records were not acknowledged in time")


def fetch(settings: Mapping[str, Any], topic: str, count: int) -> None:
    """Read so many records of the partition 0 from the beginning.

    Raises:
        TimeoutError: that takes too long.
    """
    consumer = Consumer({**settings, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    left, until = count, time.monotonic() + TIMEOUT_S
    while left > 0:
        left -= len(consumer.consume(min(left, 5_000), 0.2))
        if time.monotonic() > until:
            raise TimeoutError("records did not come in time")
    consumer.close()
