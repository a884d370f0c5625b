"""Commands that meet a broker that is cut off from the others."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kafkaesque.cli.kafka import Connection, result_of
from kafkaesque.testing import LiveCluster

TOPIC = "orders"
#: So long the others take to know, and it itself.
CUT_OFF_S = 3.0
#: A fraction of what librdkafka is ready to wait, and enough for a busy machine.
FOUND_S = 30.0


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


def test_a_client_that_knows_only_the_broker_that_is_cut_off_finds_a_controller(
    live: LiveCluster,
) -> None:
    """A client of librdkafka asks nobody else until a broker goes or comes; it waited a minute."""
    for number in range(5):
        admin = AdminClient({"bootstrap.servers": live.bootstrap_servers.split(",")[0]})
        name = f"made-{number}"
        begun = time.monotonic()
        result_of(admin.create_topics([NewTopic(name, 1, 2)])[name], name)
        assert time.monotonic() - begun < FOUND_S
