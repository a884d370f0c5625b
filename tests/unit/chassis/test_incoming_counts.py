"""Counts in a delivery's headers are as wide as RabbitMQ writes them: Java's programs cast them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafkaesque.broker.requests.queue_requests import QueueMessage
from kafkaesque.chassis.amqp.incoming import read_incoming
from kafkaesque.model.message_headers import DEATH


@pytest.mark.parametrize(
    ("name", "value"), [(b"x-delivery-count", 1), (b"x-acquired-count", 2), (b"count", 2)]
)
def test_counts_have_64_bits(name: bytes, value: int) -> None:
    death = b'{"queue": "work", "reason": "rejected", "at_ms": 1}'
    headers = ((DEATH, death), (DEATH, death))
    message = QueueMessage(0, 3, 1, 1_000, None, b"x", headers)
    queue: Any = SimpleNamespace(queue=SimpleNamespace(name="dead"))
    written = read_incoming(message, queue, 2_000).properties
    field = bytes((len(name),)) + name + b"l" + value.to_bytes(8, "big")
    assert field in written
