"""Fixtures of the client suite: one cluster for the session, topics of their own for each test.

`KAFKAESQUE_TEST_BOOTSTRAP` points the suite at any other Kafka cluster of three brokers. The suite
was written against Apache Kafka that way and has to pass there as well: see `bench.apache_kafka`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]

from cluster import KafkaesqueCluster  # noqa: E402
from kafka_helpers import TopicMaker, admin_client  # noqa: E402


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
    return TopicMaker(admin_client(bootstrap_servers))


@pytest.fixture
def make_topic(topic_maker: TopicMaker) -> TopicMaker:
    """Creates topics of unique names: `make_topic(partitions=3, replication=3, **options)`."""
    return topic_maker
