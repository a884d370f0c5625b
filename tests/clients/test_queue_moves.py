"""A broker that has queues and share groups is drained and stopped, and nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ShareConsumer
from confluent_kafka.admin import AdminClient

from tests.clients.cluster import KafkaesqueCluster
from tests.clients.test_moves import make_topic, run, write
from tests.clients.test_share_groups import ACCEPT, poll_until, set_group
from tests.waiting import eventually

LEAVING = 4


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaesqueCluster]:
    directory: Path = tmp_path_factory.mktemp("queue-moves")
    with KafkaesqueCluster(brokers=4, directory=directory) as cluster:
        yield cluster


def described(cluster: KafkaesqueCluster, queue: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(run(cluster, "queue", "describe", queue, "--json"))
    return document


def replicas_of(cluster: KafkaesqueCluster, queue: str) -> list[int]:
    (partition,) = described(cluster, queue)["partitions"]
    return sorted(partition["replicas"])


def settle(consumer: Any, messages: list[Any]) -> list[int]:
    for each in messages:
        consumer.acknowledge(each, ACCEPT)
    assert set(consumer.commit_sync(20.0).values()) == {None}
    return [each.offset() for each in messages]


def test_a_queue_is_moved_listed_and_refused_by_name(cluster: KafkaesqueCluster) -> None:
    run(cluster, "queue", "create", "tasks", "--replication-factor", "2")
    run(cluster, "queue", "put", "tasks", *(f"t{number}" for number in range(20)))
    told = run(cluster, "queue", "reassign", "tasks", "--replicas", "4,1,2")
    assert told == "the replicas of tasks are on brokers 4, 1, 2: 1 partition\n"
    assert replicas_of(cluster, "tasks") == [1, 2, 4]
    assert "4,1,2" in run(cluster, "queue", "describe", "tasks")
    assert "no replica moves" in run(cluster, "queue", "reassign", "tasks", "--list")
    told = run(cluster, "queue", "reassign", "tasks", "--replicas", "9", code=1)
    assert "queue tasks-0: there is no broker 9" in told
    told = run(cluster, "queue", "reassign", "tasks", "-p", "3", "--replicas", "1", code=1)
    assert "queue tasks has no partition 3" in told
    told = run(cluster, "queue", "reassign", "task", "--replicas", "1", code=1)
    assert "did you mean tasks?" in told


@pytest.mark.extended
def test_a_broker_with_queues_and_share_groups_is_drained(cluster: KafkaesqueCluster) -> None:
    servers = cluster.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})
    make_topic(admin, "shared", [[4, 1, 2]])
    write(cluster, "shared", 100)
    set_group(servers, "sharing", share_auto_offset_reset="earliest")
    config = {
        "bootstrap.servers": servers,
        "group.id": "sharing",
        "share.acknowledgement.mode": "explicit",
    }
    consumer = ShareConsumer({**config, "max.poll.records": 40})
    consumer.subscribe(["shared"])
    accepted = settle(consumer, poll_until(consumer, 40))
    consumer.close()
    run(cluster, "queue", "create", "jobs", "--replication-factor", "2")
    run(cluster, "queue", "reassign", "jobs", "--replicas", "4,3")
    run(cluster, "queue", "put", "jobs", *(f"j{number}" for number in range(50)))
    taken = run(cluster, "queue", "get", "jobs", "--count", "10").split()
    planned = json.loads(run(cluster, "cluster", "drain", "4", "--dry-run", "--json"))
    moved = {each["partition"] for each in planned}
    assert {"queue jobs-0", "share group sharing, topic shared-0", "shared-0"} <= moved
    assert "holds no replicas any more" in run(cluster, "cluster", "drain", str(LEAVING))
    assert LEAVING not in replicas_of(cluster, "jobs")
    cluster.brokers[LEAVING - 1].stop()
    alive = ",".join(each.address for each in cluster.brokers[: LEAVING - 1])
    rest = run(cluster, "queue", "get", "jobs", "--count", "40", servers=alive).split()
    assert sorted([*taken, *rest]) == sorted(f"j{number}" for number in range(50))
    eventually(lambda: described(cluster, "jobs")["counts"]["ready"] == 0, "all are settled")
    consumer = ShareConsumer({**config, "bootstrap.servers": alive})
    consumer.subscribe(["shared"])
    while len(accepted) < 100 and (more := poll_until(consumer, 1)):
        accepted += settle(consumer, more)
    consumer.close()
    assert sorted(accepted) == list(range(100)), "each once"
    # Whatever test comes next finds four brokers.
    cluster.brokers[LEAVING - 1].start()
    cluster.wait_until_ready()
