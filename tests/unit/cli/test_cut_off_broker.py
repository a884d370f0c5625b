"""Commands that meet a broker that is cut off from the others."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import NewTopic

from kafkaesque.cli.kafka import Connection, result_of
from kafkaesque.testing import LiveCluster

TOPIC = "orders"
#: So long the others take to know, and it itself.
CUT_OFF_S = 3.0


@pytest.fixture(scope="module")
def live() -> Iterator[LiveCluster]:
    with LiveCluster(3) as cluster:
        admin = Connection(cluster.bootstrap_servers).admin()
        result_of(admin.create_topics([NewTopic(TOPIC, 1, 3)])[TOPIC], TOPIC)
        cluster.isolate(1)
        time.sleep(CUT_OFF_S)
        yield cluster


def test_metadata_are_asked_for_again_when_it_closes_the_connection(live: LiveCluster) -> None:
    connection = Connection(live.bootstrap_servers.split(",")[0])
    for _ in range(5):
        # It asks for an id at the same time, in vain.
        producer = connection.producer({"enable.idempotence": True})
        assert TOPIC in connection.metadata(producer, TOPIC).topics
