"""A simulated broker for each test: it takes milliseconds, and nothing of another test is there."""

from __future__ import annotations

import pytest

from tests.unit.gateway_amqp.kit import AmqpClient, Ground


@pytest.fixture
def ground() -> Ground:
    return Ground()


@pytest.fixture
def client(ground: Ground) -> AmqpClient:
    """A client with channel 1."""
    found = ground.client()
    found.open()
    return found
