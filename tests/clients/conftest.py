"""Fixtures of the client suite: one cluster for the session, topics of their own for each test.

`KAFKAESQUE_TEST_BOOTSTRAP` points the suite at any other Kafka cluster of three brokers. The suite
was written against Apache Kafka that way and has to pass there as well: see `bench.apache_kafka`.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest

from tests.clients.cluster import KafkaesqueCluster
from tests.clients.kafka_helpers import TopicMaker
from tests.forked import processes


def pytest_configure(config: pytest.Config) -> None:
    KafkaesqueCluster.popen = processes.Popen
    # kafka-python reads its schemas, at import and later, with functions that Python deprecates.
    config.addinivalue_line(
        "filterwarnings", "ignore:(read|open)_text is deprecated:DeprecationWarning"
    )
    # Its `connect` (3.0.12) leaves the socket to the garbage collector when its client is closed
    # meanwhile. Whichever test is running when that is found is not to blame.
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket.socket:ResourceWarning")


@pytest.fixture(scope="module", autouse=True)
def _no_client_outlives_its_module() -> Iterator[None]:
    """Ends those that only the garbage collector finds: they look for brokers that are gone."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def bootstrap_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The addresses of a cluster of three brokers, "host:port,host:port,host:port"."""
    given = os.environ.get("KAFKAESQUE_TEST_BOOTSTRAP")
    if given:
        yield given
        return
    with KafkaesqueCluster(brokers=3, directory=tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture(scope="session")
def topic_maker(bootstrap_servers: str) -> TopicMaker:
    return TopicMaker(bootstrap_servers)


@pytest.fixture
def make_topic(topic_maker: TopicMaker) -> TopicMaker:
    """Creates topics of unique names: `make_topic(partitions=3, replication=3, **options)`."""
    return topic_maker
