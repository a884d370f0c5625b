"""One simulated broker that all tests share; every test has queues of its own."""

from __future__ import annotations

import pytest

from tests.unit.gateway_stomp.kit import Ground, StompClient


@pytest.fixture(scope="package")
def ground() -> Ground:
    return Ground()


@pytest.fixture
def client(ground: Ground) -> StompClient:
    return ground.stomp()
