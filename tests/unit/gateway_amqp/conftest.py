"""One simulated broker that all tests share; every test has queues of its own."""

from __future__ import annotations

import pytest

from tests.unit.gateway_amqp.kit import AmqpClient, Ground


@pytest.fixture(scope="package")
def ground() -> Ground:
    return Ground()


@pytest.fixture
def client(ground: Ground) -> AmqpClient:
    """A client with channel 1."""
    found = ground.client()
    found.open()
    return found
