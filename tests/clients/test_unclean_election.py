"""A partition that has lost its majority goes on at an administrator's word."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import ElectionType, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.processes import BrokerProcess, ask_alive
from kafkaesque.cli.broker_ports import unused_ports
from tests.clients.cluster import KafkaesqueCluster
from tests.clients.kafka_helpers import admin_client, consume, produce
from tests.forked import processes
from tests.waiting import DEADLINE_S, eventually

#: scripts/test-clients runs them.
pytestmark = pytest.mark.extended

TOPICS = ("by-client", "by-command")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[KafkaesqueCluster]:
    """Four brokers; the first keeps the metadata, the topics' replicas are on the others."""
    cluster = KafkaesqueCluster(
        4, directory=tmp_path, options={"broker.session.timeout.ms": "4000"}
    )
    cluster.prepare()
    try:
        for broker, port in zip(cluster.brokers, unused_ports(4), strict=True):
            path = Path(broker.command[-1])
            text = path.read_text().replace("admin.port = 0", f"admin.port = {port}")
            lines = text.splitlines(keepends=True)
            others = tuple(f'{number} = "127.0.0.1' for number in (2, 3, 4))
            path.write_text("".join(line for line in lines if not line.startswith(others)))
        cluster.start()
        yield cluster
    finally:
        cluster.close()


def await_in_sync(admin: AdminClient, topic: str) -> None:
    def is_in_sync() -> bool:
        found = admin.list_topics(topic, timeout=DEADLINE_S).topics[topic]
        return len(found.partitions[0].isrs) == 3

    eventually(is_in_sync, f"all replicas of {topic} are in sync")


def run(*words: str, servers: str, code: int = 0) -> str:
    done = processes.run(
        [sys.executable, "-m", "kafkaesque.cli.app", *words, "-b", servers],
        capture_output=True,
        text=True,
        timeout=2 * DEADLINE_S,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def values_of(servers: str, topic: str) -> list[bytes]:
    return [message.value() or b"" for message in consume(servers, topic, 101, at_rest_s=0.5)]


def lose_the_majority(cluster: KafkaesqueCluster, admin: AdminClient) -> list[BrokerProcess]:
    """Write; then, with broker 2 away, what broker 2 does not get; then lose 3 and 4."""
    servers = cluster.bootstrap_servers
    _, second, third, fourth = cluster.brokers
    for new in admin.create_topics(
        [NewTopic(topic, 1, replica_assignment=[[2, 3, 4]]) for topic in TOPICS]
    ).values():
        new.result(DEADLINE_S)
    for topic in TOPICS:
        produce(servers, topic, [b"kept %d" % i for i in range(100)], acks="all")
        await_in_sync(admin, topic)
    second.kill()
    for topic in TOPICS:
        produce(servers, topic, [b"lost %d" % i for i in range(50)], acks="all")
    third.kill()
    fourth.kill()
    second.start()
    return [third, fourth]


@pytest.mark.timeout(600)
def test_an_administrator_gives_up_what_only_the_missing_replicas_have(
    cluster: KafkaesqueCluster,
) -> None:
    servers = cluster.bootstrap_servers
    wanted = [TopicPartition(TOPICS[0], 0)]
    gone = lose_the_majority(cluster, admin_client(servers))
    eventually(lambda: len(ask_alive(cluster.brokers[0].port)) == 2, "two are up")
    # A client of its own: librdkafka asks nobody for another controller while the broker that it
    # takes for it is down and the question that it asked that broker last is open.
    admin = admin_client(servers)

    answer = admin.elect_leaders(ElectionType.UNCLEAN, wanted).result()
    assert answer == {wanted[0]: None}
    ((_, error),) = admin.elect_leaders(ElectionType.UNCLEAN, wanted).result().items()
    assert error is not None
    assert error.code() == KafkaError.ELECTION_NOT_NEEDED

    words = ("topic", "elect", TOPICS[1], "--unclean", "--yes")
    printed = run(*words, "--json", servers=servers)
    assert json.loads(printed) == {"topic": TOPICS[1], "elected": [0], "unclean": True}
    assert "0 partitions recovered; 1 needed no election" in run(*words, servers=servers)

    kept = [b"kept %d" % i for i in range(100)]
    for topic in TOPICS:
        produce(servers, topic, [b"new"], acks="1")
        assert values_of(servers, topic) == [*kept, b"new"]
    for broker in gone:
        broker.start()
    for topic in TOPICS:
        await_in_sync(admin, topic)
        assert values_of(servers, topic) == [*kept, b"new"]
    check_what_is_told(servers)


def check_what_is_told(servers: str) -> None:
    """When each partition was recovered, how, and what is known to be lost."""
    for topic in TOPICS:
        (found,) = json.loads(run("topic", "describe", topic, "--json", servers=servers))
        (row,) = found["partitions"]
        assert row["formation"] == 1
        assert row["recovery"].startswith("recovered at 20")
        assert row["recovery"].endswith("(unclean)")
        assert "records from offset 100 on given up; 50 known" in row["given_up"]
        assert row["recovery"] in run("topic", "describe", topic, servers=servers)
    status = json.loads(run("cluster", "status", "--json", servers=servers))["recoveries"]
    assert (status["count"], status["open"]) == (2, 0)
    assert [each["given_up"] for each in status["recoveries"]] == [50, 50]
    assert "# recoveries\n" in run("cluster", "status", servers=servers)
