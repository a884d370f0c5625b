"""The fixtures, for pytest: it finds them by itself where kafkaesque is installed.

The seed is 0, or what `--kafkaesque-seed` says; a test that fails names it.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kafkaesque.testing.live import LiveCluster
    from kafkaesque.testing.simulated import SimulatedCluster


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add our options."""
    parser.getgroup("kafkaesque").addoption(
        "--kafkaesque-seed",
        type=int,
        default=0,
        help="What decides on everything that a simulated cluster leaves to chance.",
    )


def pytest_report_header(config: pytest.Config) -> str | None:
    """Name the seed, if it was chosen."""
    seed = _seed(config)
    return f"kafkaesque: seed {seed}" if seed else None


@pytest.fixture
def kafkaesque_cluster(request: pytest.FixtureRequest) -> "SimulatedCluster":
    """Three brokers in virtual time, and a client of theirs."""
    from kafkaesque.testing.simulated import SimulatedCluster

    return SimulatedCluster(_seed(request.config))


@pytest.fixture
def kafkaesque_live(request: pytest.FixtureRequest) -> "Iterator[LiveCluster]":
    """Three brokers on real ports of 127.0.0.1, for any client library."""
    from kafkaesque.testing.live import LiveCluster

    with LiveCluster(_seed(request.config)) as cluster:
        yield cluster


def _seed(config: pytest.Config) -> int:
    return int(config.getoption("--kafkaesque-seed"))
