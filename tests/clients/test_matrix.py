"""The matrix: what a client of each protocol produces, a client of each protocol is given.

Name, body, headers and the properties that all protocols share are compared. All clients are the
usual ones of their protocols, unchanged, and connected with different brokers of one cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest
from confluent_kafka.admin import NewTopic

from kafkaesque import Client
from tests.clients.kafka_helpers import admin_client, await_leaders
from tests.clients.matrix_cluster import MatrixCluster
from tests.clients.matrix_consumers import CONSUMERS, Ledger, Reading
from tests.clients.matrix_places import INLETS, PLACE, QUEUES, make_places
from tests.clients.matrix_producers import PRODUCERS, Said
from tests.waiting import DEADLINE_S, eventually


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MatrixCluster]:
    with MatrixCluster(3, tmp_path_factory.mktemp("matrix")) as found:
        yield found


@pytest.fixture(scope="module")
def given(cluster: MatrixCluster) -> Iterator[dict[str, list[Said]]]:
    """What each consumer was given when each producer had said its message."""
    make_places(cluster)
    with ExitStack() as leaving:
        readings: dict[str, Reading] = {}
        for number, (name, make) in enumerate(CONSUMERS.items()):
            reading = make(cluster, 1 + number % 3, QUEUES.get(name, PLACE))
            reading.open()
            leaving.callback(reading.close)
            readings[name] = reading
        for number, (name, produce) in enumerate(PRODUCERS.items()):
            produce(cluster, 1 + number % 3, INLETS.get(name, ""), message_of(name))
        found = {name: Ledger() for name in CONSUMERS}

        def is_all() -> bool:
            for name, reading in readings.items():
                if len(found[name].given) < len(PRODUCERS):
                    reading.take(found[name])
            return all(len(each.given) >= len(PRODUCERS) for each in found.values())

        def missing() -> str:
            return str({name: sorted(each.bodies) for name, each in found.items()})

        eventually(is_all, missing)
        yield {name: each.given for name, each in found.items()}


def message_of(producer: str) -> Said:
    return Said(name=(PLACE, producer), body=f"21.5 °C, says {producer}")


@pytest.mark.parametrize("consumer", CONSUMERS)
@pytest.mark.parametrize("producer", PRODUCERS)
def test_what_one_produces_another_is_given(
    given: dict[str, list[Said]], producer: str, consumer: str
) -> None:
    sent = message_of(producer)
    (found,) = [each for each in given[consumer] if each.body == sent.body]
    assert found == replace(sent, name=sent.name if found.name is not None else None)


def test_a_payload_is_on_disk_once_where_queues_are_cursors_over_a_topic(
    cluster: MatrixCluster,
) -> None:
    """Queues that are bound have copies; so have MQTT's and STOMP's subscriptions that are kept."""
    topic, payload = "matrix-once", "on every disk once, and nowhere else beside the topic's log"
    admin = admin_client(cluster.bootstrap_servers)
    admin.create_topics([NewTopic(topic, 1, 3)])[topic].result(DEADLINE_S)
    await_leaders(cluster.bootstrap_servers, topic, 1)
    with Client(cluster.bootstrap_servers) as client:
        client.create_queue(f"{topic}-queue", source_topic=topic, source_start="earliest")
    said = Said(name=(topic,), body=payload)
    PRODUCERS["kafka"](cluster, 1, topic, said)
    for name, place in (
        ("kafka", topic),
        ("text", topic),
        ("amqp", f"{topic}-queue"),
        ("jetstream", topic),
    ):
        reading, ledger = CONSUMERS[name](cluster, 2, place), Ledger()

        def has_come(reading: Reading = reading, ledger: Ledger = ledger) -> bool:
            reading.take(ledger)
            return bool(ledger.given)

        reading.open()
        try:
            eventually(has_come, name)
        finally:
            reading.close()
        assert [each.body for each in ledger.given] == [payload]
    for number in range(1, 4):
        logs = cluster.logs_with(number, payload.encode())
        assert logs == Counter({f"{topic}-0": 1}), number
