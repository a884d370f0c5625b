"""A single broker for tests that need no more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkaesque.model.options import OptionValue
from tests.unit.gateway_kafka.live import LiveCluster

#: Enough to be spread over three brokers, few enough to be made in no time.
OPTIONS: dict[str, OptionValue] = {"offsets.topic.num.partitions": 8}


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveCluster]:
    """One broker, new for each test."""
    cluster = LiveCluster(tmp_path, options=OPTIONS)
    yield cluster
    cluster.close()


@pytest.fixture
def live_trio(tmp_path: Path) -> Iterator[LiveCluster]:
    """Three brokers, new for each test."""
    cluster = LiveCluster(tmp_path, count=3, options=OPTIONS)
    yield cluster
    cluster.close()
