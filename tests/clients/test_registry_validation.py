"""Topics with `schema.validation` refuse records that name no schema of theirs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.clients.registry_cluster import RegistryCluster, ask

INVALID_RECORD = 87


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryCluster]:
    directory: Path = tmp_path_factory.mktemp("validation")
    with RegistryCluster(3, directory) as started:
        yield started


def make_topic(cluster: RegistryCluster, name: str, validation: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    config = {"schema.validation": validation}
    topic = NewTopic(name, num_partitions=1, replication_factor=3, config=config)
    admin.create_topics([topic])[name].result(30)


def registered(cluster: RegistryCluster, subject: str, number: int = 1) -> int:
    schema = json.dumps({"type": "record", "name": subject.replace("-", "_"), "fields": []})
    url = f"{cluster.url(number)}/subjects/{subject}/versions"
    status, made = ask(url, "POST", {"schema": schema})
    assert status == 200, made
    return int(made["id"])


def written(schema_id: int, data: bytes = b"data") -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + data


class Sender:
    """A producer that says of each record whether it was taken."""

    def __init__(self, cluster: RegistryCluster, topic: str, **settings: Any) -> None:
        self._producer = Producer(
            {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 200, **settings}
        )
        self._topic = topic

    def send(self, *records: tuple[bytes | None, bytes | None]) -> list[int]:
        """Return the error codes of records that are sent together; 0 for none."""
        codes: dict[int, int] = {}
        for number, (key, value) in enumerate(records):

            def on_done(error: Any, _: Any, number: int = number) -> None:
                codes[number] = 0 if error is None else error.code()

            self._producer.produce(self._topic, value, key, on_delivery=on_done)
        assert self._producer.flush(60) == 0
        return [codes[number] for number in range(len(records))]


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_values_have_to_name_a_schema_of_the_topic(cluster: RegistryCluster, codec: str) -> None:
    topic = f"orders-{codec}"
    make_topic(cluster, topic, "value")
    sender = Sender(cluster, topic, **{"compression.type": codec})
    assert sender.send((None, b"plain")) == [INVALID_RECORD]
    assert sender.send((None, written(9_999))) == [INVALID_RECORD]
    other = registered(cluster, "other-value")
    assert sender.send((None, written(other))) == [INVALID_RECORD]
    for broker in (1, 2, 3):
        # At whatever broker: it counts at once.
        ask(f"{cluster.url(1)}/config/{topic}-value", "PUT", {"compatibility": "NONE"})
        schema = json.dumps({"type": "enum", "name": f"E{broker}", "symbols": ["A"]})
        url = f"{cluster.url(broker)}/subjects/{topic}-value/versions"
        mine = int(ask(url, "POST", {"schema": schema})[1]["id"])
        assert sender.send((None, written(mine)), (b"key", None), (b"k", written(mine))) == [
            0,
            0,
            0,
        ]
    # Long batches are looked through off the loop.
    many = [(None, written(mine, b"x" * 500))] * 1_000
    assert sender.send(*many) == [0] * 1_000


def test_keys_and_both(cluster: RegistryCluster) -> None:
    for topic, validation in (("keys", "key"), ("pairs", "both")):
        make_topic(cluster, topic, validation)
    sender = Sender(cluster, "keys")
    mine = registered(cluster, "keys-key", 2)
    assert sender.send((written(mine), b"anything")) == [0]
    assert sender.send((b"plain", b"anything")) == [INVALID_RECORD]
    sender = Sender(cluster, "pairs")
    key, value = registered(cluster, "pairs-key"), registered(cluster, "pairs-value")
    assert sender.send((written(key), written(value))) == [0]
    assert sender.send((written(value), written(value))) == [INVALID_RECORD]
    assert sender.send((written(key), written(key))) == [INVALID_RECORD]


def test_an_unknown_value_of_the_option_is_refused(cluster: RegistryCluster) -> None:
    with pytest.raises(KafkaException, match=r"schema\.validation"):
        make_topic(cluster, "strange", "sometimes")
