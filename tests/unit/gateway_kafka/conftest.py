"""A single broker for tests that need no more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.gateway_kafka.live import LiveCluster


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveCluster]:
    """One broker, new for each test."""
    cluster = LiveCluster(tmp_path)
    yield cluster
    cluster.close()


@pytest.fixture
def live_trio(tmp_path: Path) -> Iterator[LiveCluster]:
    """Three brokers, new for each test."""
    cluster = LiveCluster(tmp_path, count=3)
    yield cluster
    cluster.close()
