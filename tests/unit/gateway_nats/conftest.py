"""One simulated broker that all tests share; every test has subjects of its own."""

from __future__ import annotations

import pytest

from tests.unit.gateway_nats.kit import Ground


@pytest.fixture(scope="package")
def ground() -> Ground:
    return Ground()
