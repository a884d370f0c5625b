"""One simulated broker that all tests share; every test has names of its own."""

from __future__ import annotations

import pytest

from tests.unit.gateway_mqtt.kit import Ground


@pytest.fixture(scope="package")
def ground() -> Ground:
    return Ground()
