"""Replicas are moved by Kafka's own requests and by the command line, under a real producer."""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient

from tests.clients.cluster import KafkaesqueCluster
from tests.forked import processes
from tests.waiting import eventually

WAIT_S = 90.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaesqueCluster]:
    cluster = KafkaesqueCluster(
        4,
        directory=tmp_path_factory.mktemp("moves"),
        options={"replica.selector.class": RACK_SELECTOR},
    )
    cluster.prepare()
    try:
        for number, broker in enumerate(cluster.brokers, start=1):
            path = Path(broker.command[-1])
            rack = "a" if number % 2 else "b"
            path.write_text(path.read_text().replace("[broker]\n", f'[broker]\nrack = "{rack}"\n'))
        cluster.start()
        yield cluster
    finally:
        cluster.close()


RACK_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@pytest.fixture
def admin(cluster: KafkaesqueCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers})


def make_topic(admin: AdminClient, name: str, assignment: list[list[int]]) -> None:
    new = NewTopic(name, len(assignment), replica_assignment=assignment)
    admin.create_topics([new])[name].result()


def replicas_of(admin: AdminClient, name: str) -> list[list[int]]:
    found = admin.list_topics(timeout=WAIT_S).topics[name].partitions
    return [list(found[number].replicas) for number in sorted(found)]


def holds_any(admin: AdminClient, node: int) -> bool:
    topics = admin.list_topics(timeout=WAIT_S).topics.values()
    return any(node in each.replicas for topic in topics for each in topic.partitions.values())


def in_sync_of(admin: AdminClient, name: str) -> list[list[int]]:
    found = admin.list_topics(timeout=WAIT_S).topics[name].partitions
    return [sorted(found[number].isrs) for number in sorted(found)]


COMMAND = (sys.executable, "-m", "kafkaesque.cli.app")


def run(
    cluster: KafkaesqueCluster, *arguments: str, code: int = 0, servers: str | None = None
) -> str:
    done = processes.run(
        [*COMMAND, *arguments, "-b", servers or cluster.bootstrap_servers],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def write(cluster: KafkaesqueCluster, topic: str, count: int, *, size: int = 0) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    failed: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    for number in range(count):
        producer.produce(topic, str(number).ljust(size), on_delivery=on_delivery)
    assert producer.flush(WAIT_S) == 0
    assert not failed


def read(cluster: KafkaesqueCluster, topic: str, count: int, **settings: object) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": f"{topic}-{time.monotonic()}",
            "auto.offset.reset": "earliest",
            **settings,
        }
    )
    consumer.subscribe([topic])
    found: list[bytes] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found.append(message.value() or b"")
    consumer.close()
    return found


def test_kafka_pythons_administrator_moves_and_stops(
    cluster: KafkaesqueCluster, admin: AdminClient
) -> None:
    make_topic(admin, "moved", [[1, 2, 3]])
    write(cluster, "moved", 500)
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers.split(","))
    where = TopicPartition("moved", 0)
    client.alter_partition_reassignments({where: [4, 2]})
    eventually(lambda: not client.list_partition_reassignments(), "nothing moves any more")
    eventually(lambda: replicas_of(admin, "moved") == [[4, 2]], "all brokers know it")
    eventually(lambda: in_sync_of(admin, "moved") == [[2, 4]], "both are in sync")
    client.close()
    write(cluster, "moved", 100)
    assert len(read(cluster, "moved", 600)) == 600


def test_a_topic_is_reassigned_by_the_command_line(
    cluster: KafkaesqueCluster, admin: AdminClient
) -> None:
    make_topic(admin, "reassigned", [[1], [2]])
    write(cluster, "reassigned", 200)
    told = run(cluster, "topic", "reassign", "reassigned", "--replicas", "3,4")
    assert "are on brokers 3, 4: 2 partitions" in told
    eventually(lambda: replicas_of(admin, "reassigned") == [[3, 4], [3, 4]], "all know it")
    assert len(read(cluster, "reassigned", 200)) == 200
    assert "there is no broker 9" in run(
        cluster, "topic", "reassign", "reassigned", "--replicas", "9", code=1
    )
    told = run(cluster, "topic", "reassign", "reassigned", "--cancel")
    assert told == "no replica of reassigned moves: there is nothing to cancel\n"
    run(cluster, "topic", "reassign", "nowhere", "--replicas", "1", code=1)


def test_a_broker_is_drained_stopped_and_removed(
    cluster: KafkaesqueCluster, admin: AdminClient
) -> None:
    make_topic(admin, "drained", [[1, 2, 3], [4, 1, 2], [2, 3, 4]])
    write(cluster, "drained", 300)
    planned = json.loads(run(cluster, "cluster", "drain", "4", "--dry-run", "--json"))
    assert {"drained-1", "drained-2"} <= {each["partition"] for each in planned}
    told = run(cluster, "cluster", "remove", "4", code=1)
    assert "is a controller" in told
    run(cluster, "queue", "create", "wide", "--replication-factor", "4")
    told = run(cluster, "cluster", "drain", "4", code=1)
    assert "broker 4 cannot be drained: queue wide-0 has 4 replica(s)" in told
    run(cluster, "queue", "delete", "wide", "--yes")
    assert "holds no replicas any more" in run(cluster, "cluster", "drain", "4")
    eventually(lambda: not holds_any(admin, 4), "all know that broker 4 holds nothing")
    assert len(read(cluster, "drained", 300)) == 300
    make_topic(admin, "everywhere", [[1, 2, 3, 4]])
    told = run(cluster, "cluster", "drain", "4", code=1)
    assert "cannot be drained" in told
    assert "everywhere-0" in told
    admin.delete_topics(["everywhere"])["everywhere"].result()
    assert "there is no broker 7" in run(cluster, "cluster", "drain", "7", code=1)
    run(cluster, "cluster", "rebalance")
    eventually(lambda: holds_any(admin, 4), "all know that broker 4 holds something")


def test_a_broker_is_removed_right_after_its_drain(
    cluster: KafkaesqueCluster, admin: AdminClient
) -> None:
    """Whoever was a controller hears late of what was decided; it is asked first here."""
    make_topic(admin, "leaving", [[4, 1 + number % 3] for number in range(20)])
    write(cluster, "leaving", 200)
    last = cluster.brokers[3]
    servers = ",".join([last.address, *(each.address for each in cluster.brokers[:3])])
    run(cluster, "cluster", "controllers", "remove", "4")
    try:
        told = run(cluster, "cluster", "drain", "4", servers=servers)
        assert "holds no replicas any more" in told
        refused = run(cluster, "cluster", "remove", "4", code=1)
        assert "broker 4 is running: stop it first" in refused
        last.stop()
        assert run(cluster, "cluster", "remove", "4") == "broker 4 is removed\n"
        assert len(read(cluster, "leaving", 200)) == 200
    finally:
        if not last.is_running():
            last.start()
        run(cluster, "cluster", "wait", "--brokers", "4")
        run(cluster, "cluster", "controllers", "add", "4")


@pytest.mark.extended
def test_a_move_under_way_is_shown_and_is_no_trouble(
    cluster: KafkaesqueCluster, admin: AdminClient
) -> None:
    make_topic(admin, "slow", [[1, 2]])
    write(cluster, "slow", 4_000, size=1_000)
    rate = "follower.replication.throttled.rate"
    run(cluster, "config", "set", f"{rate}=20000", "--all-brokers")
    try:
        moving = ("topic", "reassign", "slow", "--replicas", "2,3", "--timeout", "1")
        late = ",".join(each.address for each in reversed(cluster.brokers))
        told = run(cluster, *moving, code=5, servers=late)
        assert "1 partition still on the move after 1 s: slow-0" in told
        listed = run(cluster, "topic", "reassign", "--list")
        assert "slow-0\t1,2\t2,3\n" in listed.replace("\t2,1\t", "\t1,2\t")
        status = json.loads(run(cluster, "cluster", "status", "--json"))
        assert [each["to"] for each in status["moves"]] == [[2, 3]]
        assert "slow-0" not in status["under_replicated"]
        (described,) = json.loads(run(cluster, "topic", "describe", "slow", "--json"))
        (row,) = described["partitions"]
        assert (row["adding"], row["removing"]) == ([3], [1])
        doctor = processes.run(
            [*COMMAND, "doctor", "-b", late], capture_output=True, text=True, check=False
        ).stdout
        assert "replicas move from brokers 2, 1 to brokers 2, 3: slow-0" in doctor
        assert "under-replicated" not in doctor
        run(cluster, "cluster", "wait", "--brokers", "4", "--in-sync", "--timeout", "90")
        stopped = run(cluster, "topic", "reassign", "slow", "--cancel")
        assert stopped == "the replicas of slow are where they were: 1 partition\n"
    finally:
        run(cluster, "config", "unset", rate, "--all-brokers")
    eventually(lambda: replicas_of(admin, "slow") == [[1, 2]], "all know it")


def test_consumers_are_served_in_their_rack(cluster: KafkaesqueCluster, admin: AdminClient) -> None:
    make_topic(admin, "racks", [[1, 2]])
    write(cluster, "racks", 1_000)
    serving: dict[str, set[int]] = {}
    for rack in ("a", "b", ""):
        seen = serving.setdefault(rack, set())

        def on_statistics(text: str, seen: set[int] = seen) -> None:
            topics = json.loads(text)["topics"]
            if "racks" in topics:
                seen.add(topics["racks"]["partitions"]["0"]["broker"])

        consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": f"rack-{rack}",
                "auto.offset.reset": "earliest",
                "client.rack": rack,
                "statistics.interval.ms": 100,
                "stats_cb": on_statistics,
            }
        )
        consumer.subscribe(["racks"])
        count, deadline = 0, time.monotonic() + WAIT_S
        while count < 1_000 and time.monotonic() < deadline:
            message = consumer.poll(0.5)
            count += message is not None and message.error() is None
        assert count == 1_000
        expected = 2 if rack == "b" else 1
        while expected not in seen and time.monotonic() < deadline:
            consumer.poll(0.2)
        consumer.close()
    assert 2 in serving["b"]
    assert 2 not in serving["a"] | serving[""]


def test_kafkas_tool_can_set_back_all_throttles_that_it_knows(admin: AdminClient) -> None:
    """kafka-reassign-partitions --verify does, for every broker, when nothing moves any more."""
    names = (
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    )
    back = [
        ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE) for name in names
    ]
    for node in ("1", "2", "3", "4"):
        resource = ConfigResource(ResourceType.BROKER, node, incremental_configs=back)
        assert admin.incremental_alter_configs([resource])[resource].result() is None
