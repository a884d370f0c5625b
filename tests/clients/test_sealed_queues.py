"""Encrypted queues on real disks: no file holds a message, whoever has put it, and whoever dies."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkaesque import Client, Message
from kafkaesque.client.errors import QueueNotFound
from tests.clients.kafka_helpers import consume, unique
from tests.clients.sealing_cluster import SealingCluster, files_with
from tests.clients.test_sealed_topics import rotate_brokers, run_key
from tests.waiting import eventually

HIDDEN, SHOWN = "these words are not to be found", "these words may be found"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SealingCluster]:
    with SealingCluster(3, directory=tmp_path_factory.mktemp("sealed")) as made:
        yield made


@pytest.mark.extended
def test_no_file_holds_what_was_put(cluster: SealingCluster) -> None:
    name, plain, dead = unique("hidden"), unique("shown"), unique("dead")
    with Client(cluster.bootstrap_servers) as client:
        client.create_queue(plain)
        client.create_queue(dead, encryption="aes256-gcm")
        client.create_queue(
            name,
            encryption="aes256-gcm",
            max_priority=9,
            deduplication_ms=600_000,
            delivery_limit=1,
            dead_letter_queue=dead,
        )
        client.put(plain, SHOWN)
        client.put_many(name, [f"{number} {HIDDEN}" for number in range(100)])
        first = Message(f"first {HIDDEN}", priority=9, id="one", headers={"why": HIDDEN})
        place = client.put(name, first)
        rotate_brokers(cluster)
        assert client.put(name, first) == place
        taken = client.get(name, timeout=20)
        assert taken.text() == f"first {HIDDEN}"
        taken.release(failed=True)
        letter = client.get(dead, timeout=20)
        assert letter.text() == f"first {HIDDEN}"
        letter.ack()
        found = client.get_many(name, 100, timeout=20)
        assert sorted(each.text() for each in found) == sorted(
            f"{number} {HIDDEN}" for number in range(100)
        )
    assert files_with(cluster, SHOWN.encode()), "what is in the clear would have been found"
    assert files_with(cluster, HIDDEN.encode()) == []


def is_put(client: Client, name: str, text: str) -> bool:
    """A broker that has just started may not have heard of a queue that was made meanwhile."""
    try:
        client.put(name, text)
    except QueueNotFound:
        return False
    return True


def test_keys_of_queues_are_rotated_and_shredded(cluster: SealingCluster) -> None:
    name = unique("keys")
    with Client(cluster.bootstrap_servers) as client:
        client.create_queue(name, encryption="aes256-gcm")
        eventually(lambda: is_put(client, name, "old"), "all brokers know the queue")
        assert "newest one" in run_key(cluster, "shred", name, "1", "--queue", "--yes")
        assert run_key(cluster, "rotate", name, "--queue").startswith("0 ")
        eventually(lambda: f"queue {name}" in run_key(cluster, "list"), "both versions are listed")
        client.put(name, "new")
        assert run_key(cluster, "shred", name, "1", "--queue", "--yes").startswith("0 ")
        # Brokers that were started anew remember nothing of what they have read before.
        rotate_brokers(cluster)
        assert [each.text() for each in client.get_many(name, 5, timeout=20)] == ["new"]
    assert "does not exist" in run_key(cluster, "rotate", unique("none"), "--queue")


def test_kafkas_clients_read_an_encrypted_queue_in_the_clear(cluster: SealingCluster) -> None:
    name = unique("shown")
    with Client(cluster.bootstrap_servers) as client:
        client.create_queue(name, encryption="aes256-gcm", kafka_topic=name)
        client.put(name, Message(HIDDEN, key=b"k", headers={"why": "x"}))
        client.get(name, timeout=20).ack()
        client.put(name, Message(f"{HIDDEN}, too", key=b"k"))
    found = [(each.value(), each.headers()) for each in consume(cluster.bootstrap_servers, name, 2)]
    assert found == [(HIDDEN.encode(), [("why", b"x")]), (f"{HIDDEN}, too".encode(), None)]
    assert files_with(cluster, HIDDEN.encode()) == []
