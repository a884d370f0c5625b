"""One cluster for the client's tests, with queues of their own for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkaesque import Client
from kafkaesque.testing import LiveCluster


@pytest.fixture(scope="package")
def cluster() -> Iterator[LiveCluster]:
    with LiveCluster(29) as live:
        yield live


@pytest.fixture
def client(cluster: LiveCluster) -> Iterator[Client]:
    with Client(cluster.bootstrap_servers) as made:
        yield made


@pytest.fixture
def queue(request: pytest.FixtureRequest, client: Client) -> str:
    name = f"{request.path.stem}-{request.node.name}".translate(str.maketrans("[]", "--"))
    client.create_queue(name)
    return name
