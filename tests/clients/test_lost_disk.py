"""Real brokers, one of which comes back with an empty disk: nothing acknowledged is lost."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.processes import BrokerProcess, ask_metadata
from tests.clients.cluster import KafkaesqueCluster
from tests.clients.kafka_helpers import TopicMaker, admin_client, consume, produce
from tests.waiting import DEADLINE_S, eventually

#: scripts/test-clients runs them.
pytestmark = pytest.mark.extended

#: Long enough for many elections, and for an empty controller to be told that it was not counted.
WITHOUT_LEADER_S = 6.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[KafkaesqueCluster]:
    with KafkaesqueCluster(brokers=3, directory=tmp_path) as started:
        yield started


def in_sync(broker: BrokerProcess, topic: str) -> int:
    metadata = admin_client(broker.address).list_topics(topic, timeout=DEADLINE_S)
    return len(metadata.topics[topic].partitions[0].isrs)


def data_of(broker: BrokerProcess) -> Path:
    return broker.log_path.parent / "data"


def has_leader(broker: BrokerProcess, topic: str) -> bool:
    try:
        return any(leader >= 0 for leader in ask_metadata(broker.port, [topic]).leaders.values())
    except OSError:
        return False


@pytest.mark.timeout(600)
def test_an_empty_broker_and_a_stale_one_wait_for_the_one_that_remembers(
    cluster: KafkaesqueCluster,
) -> None:
    make_topic = TopicMaker(cluster.bootstrap_servers)
    topic = make_topic("lost", partitions=1, replication=3, min_insync_replicas="2")
    first, second, third = cluster.brokers
    values = [b"%d" % i for i in range(1_100)]
    produce(cluster.bootstrap_servers, topic, values[:100], acks="all")
    third.kill()
    produce(cluster.bootstrap_servers, topic, values[100:], acks="all")
    first.kill()
    second.kill()
    shutil.rmtree(data_of(second))
    second.start()
    third.start()
    deadline = time.monotonic() + WITHOUT_LEADER_S
    while time.monotonic() < deadline:
        assert not has_leader(second, topic)
        assert not has_leader(third, topic)
        time.sleep(0.2)
    eventually(lambda: "no vote until it has them" in second.log_tail(), "the log says why")
    first.start()
    cluster.wait_until_ready()
    received = consume(cluster.bootstrap_servers, topic, 1_100, at_rest_s=0.3)
    assert [message.value() for message in received] == values
    eventually(lambda: in_sync(first, topic) == 3, "all replicas in sync")
    # The empty one has all of it, and a vote again.
    third.kill()
    produce(cluster.bootstrap_servers, topic, [b"more"], acks="all")
    third.start()
    cluster.wait_until_ready()
    eventually(lambda: in_sync(second, topic) == 3, "all replicas in sync")
    first.kill()
    received = consume(second.address, topic, 1_101)
    assert [message.value() for message in received] == [*values, b"more"]


@pytest.mark.timeout(600)
def test_a_partitions_directory_that_was_removed_comes_back(cluster: KafkaesqueCluster) -> None:
    make_topic = TopicMaker(cluster.bootstrap_servers)
    topic = make_topic("removed", partitions=1, replication=3, min_insync_replicas="2")
    values = [b"%d" % i for i in range(500)]
    produce(cluster.bootstrap_servers, topic, values, acks="all")
    broker = cluster.brokers[2]
    broker.stop()
    shutil.rmtree(data_of(broker) / f"{topic}-0")
    broker.start()
    cluster.wait_until_ready()
    eventually(lambda: in_sync(broker, topic) == 3, "the copy in sync")
    eventually(
        lambda: f"the directory {topic}-0 of broker 3 is missing" in broker.log_tail(),
        "the log says so",
    )
    (segment,) = (data_of(broker) / f"{topic}-0").glob("*.log")
    assert segment.stat().st_size > 0
    cluster.brokers[0].kill()
    received = consume(f"{cluster.brokers[1].address},{broker.address}", topic, 500)
    assert [message.value() for message in received] == values
