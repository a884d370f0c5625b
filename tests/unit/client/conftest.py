"""One cluster for the client's tests, with queues of their own for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkaesque import Client
from kafkaesque.testing import LiveCluster
from tests.waiting import eventually


@pytest.fixture(scope="package")
def cluster() -> Iterator[LiveCluster]:
    with LiveCluster(29) as live:
        yield live


@pytest.fixture(autouse=True)
def _whole_at_the_end(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave the next test no broker that is dead, or just being started."""
    yield
    if "cluster" in request.fixturenames:
        cluster: LiveCluster = request.getfixturevalue("cluster")
        cluster.heal()
        eventually(cluster.is_whole, "the cluster is whole again")


@pytest.fixture
def client(cluster: LiveCluster) -> Iterator[Client]:
    with Client(cluster.bootstrap_servers) as made:
        yield made


@pytest.fixture
def queue(request: pytest.FixtureRequest, client: Client) -> str:
    name = f"{request.path.stem}-{request.node.name}".translate(str.maketrans("[]", "--"))
    client.create_queue(name)
    return name
