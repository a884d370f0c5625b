"""Brokers for tests: one that the tests of a module share, three that are new for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkaesque.model.options import OptionValue
from tests.unit.gateway_kafka.live import LiveCluster

#: Enough to be spread over three brokers, few enough to be made in no time.
OPTIONS: dict[str, OptionValue] = {"offsets.topic.num.partitions": 8}


class _Keeper:
    """Keeps one broker as long as it comes out of each test as it went in."""

    def __init__(self, directories: pytest.TempPathFactory) -> None:
        self._directories = directories
        self._cluster: LiveCluster | None = None

    def cluster(self) -> LiveCluster:
        if self._cluster is None:
            root = self._directories.mktemp("live")
            self._cluster = LiveCluster(root, options=OPTIONS)
        return self._cluster

    def take_back(self) -> None:
        """Removes what a test has left; a broker that cannot be cleaned is used no more."""
        cluster = self.cluster()
        try:
            cluster.clean()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.close()


@pytest.fixture(scope="module")
def keeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Keeper]:
    """Who keeps this module's broker."""
    found = _Keeper(tmp_path_factory)
    yield found
    found.close()


@pytest.fixture
def live(keeper: _Keeper) -> Iterator[LiveCluster]:
    """One broker without topics and with its options as configured."""
    yield keeper.cluster()
    keeper.take_back()


@pytest.fixture
def live_trio(tmp_path: Path) -> Iterator[LiveCluster]:
    """Three brokers, new for each test."""
    cluster = LiveCluster(tmp_path, count=3, options=OPTIONS)
    yield cluster
    cluster.close()
