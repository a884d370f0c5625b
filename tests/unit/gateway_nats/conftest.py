"""A simulated broker for each test: it takes milliseconds, and nothing of another test is there."""

from __future__ import annotations

import pytest

from tests.unit.gateway_nats.kit import Ground


@pytest.fixture
def ground() -> Ground:
    return Ground()
