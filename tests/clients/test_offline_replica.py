"""A replica whose log is damaged, on a broker that lives: what clients and the CLI are told."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import Producer

from tests.clients.cluster import KafkaesqueCluster
from tests.clients.kafka_helpers import TopicMaker
from tests.forked import processes
from tests.waiting import DEADLINE_S, eventually

#: scripts/test-clients runs them.
pytestmark = pytest.mark.extended

MESSAGES = 4_000
MESSAGE_BYTES = 1_000
CUT_BYTES = 100


def ask_cli(cluster: KafkaesqueCluster, *words: str, is_json: bool = True) -> Any:
    """Return what a command of the CLI prints."""
    command = [sys.executable, "-m", "kafkaesque.cli.app", *words, *(["--json"] if is_json else [])]
    environment = {**os.environ, "KAFKAESQUE_BOOTSTRAP_SERVER": cluster.bootstrap_servers}
    done = processes.run(
        command, env=environment, capture_output=True, timeout=DEADLINE_S, check=True
    )
    if is_json:
        return msgspec.json.decode(done.stdout)
    return [line.split("\t") for line in done.stdout.decode().splitlines()]


def only_partition(cluster: KafkaesqueCluster, topic: str) -> dict[str, Any]:
    (description,) = ask_cli(cluster, "topic", "describe", topic)
    (partition,) = description["partitions"]
    return dict(partition)


def fill(cluster: KafkaesqueCluster, topic: str) -> None:
    """Write more than one segment."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for _ in range(MESSAGES):
        producer.produce(topic, os.urandom(MESSAGE_BYTES))
    assert producer.flush(DEADLINE_S) == 0


def cut_closed_segment(directory: Path) -> None:
    *closed, _ = sorted(directory.glob("*.log"))
    assert closed, "everything is in one segment"
    os.truncate(closed[0], closed[0].stat().st_size - CUT_BYTES)


def test_an_offline_replica_is_not_in_sync_and_is_shown(tmp_path: Path) -> None:
    with KafkaesqueCluster(brokers=3, directory=tmp_path) as cluster:
        maker = TopicMaker(cluster.bootstrap_servers)
        topic = maker("hurt", partitions=1, replication=3, segment_bytes="1048576")
        fill(cluster, topic)
        before = only_partition(cluster, topic)
        assert (before["in_sync"], before["offline"]) == ([1, 2, 3], [])
        victim = next(node for node in (1, 2, 3) if node != before["leader"])
        broker = cluster.brokers[victim - 1]
        broker.stop()
        (directory,) = tmp_path.glob(f"*/broker-{victim}/data/{topic}-0")
        cut_closed_segment(directory)
        broker.start()
        cluster.wait_until_ready()
        others = sorted({1, 2, 3} - {victim})

        def is_shown() -> bool:
            found = only_partition(cluster, topic)
            return (found["in_sync"], found["offline"]) == (others, [victim])

        eventually(is_shown, "the replica that is offline")
        # Another leader knows as much, and nothing is written that it could learn from.
        cluster.brokers[before["leader"] - 1].stop()
        (rest,) = {1, 2, 3} - {victim, before["leader"]}
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            assert victim not in only_partition(cluster, topic)["in_sync"]
        cluster.brokers[before["leader"] - 1].start()
        cluster.wait_until_ready()
        eventually(is_shown, "the replica that is offline, by another leader")
        status = ask_cli(cluster, "cluster", "status")
        assert status["offline_replicas"] == {f"{topic}-0": [victim]}
        assert status["under_replicated"] == [f"{topic}-0"]
        rows = ask_cli(cluster, "cluster", "status", is_json=False)
        assert [f"{topic}-0", f"replicas missing; offline on broker {victim}"] in rows
        assert ["offline replicas", "1"] in rows
        rows = ask_cli(cluster, "topic", "describe", topic, is_json=False)
        assert rows[2][-2:] == [",".join(map(str, others)), str(victim)]
        assert rest in others
