"""One broker, and three, that all tests share; every test has a topic of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.gateway_text.person import Person, TextCluster


@pytest.fixture(scope="package")
def one_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TextCluster]:
    cluster = TextCluster(tmp_path_factory.mktemp("one"))
    yield cluster
    cluster.close()


@pytest.fixture(scope="package")
def three_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TextCluster]:
    cluster = TextCluster(tmp_path_factory.mktemp("three"), count=3)
    yield cluster
    cluster.close()


@pytest.fixture
def cluster(one_broker: TextCluster) -> Iterator[TextCluster]:
    yield one_broker
    one_broker.leave()


@pytest.fixture
def trio(three_brokers: TextCluster) -> Iterator[TextCluster]:
    yield three_brokers
    three_brokers.leave()


@pytest.fixture
def person(cluster: TextCluster) -> Person:
    return cluster.person()


_topics = iter(range(1_000_000))


@pytest.fixture
def topic() -> str:
    """The name of a topic that no other test has, and that is not there yet."""
    return f"flights{next(_topics)}"
