"""Clusters behind real sockets, with a real client; and the example of docs/testing.md."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kafkaesque.testing import LiveCluster
from tests.documentation.table import blocks_run_by, this_file
from tests.waiting import eventually

DEADLINE_S = 150.0
COUNT = 2_000
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def live() -> Iterator[LiveCluster]:
    with LiveCluster(3) as cluster:
        yield cluster


def make_topic(live: LiveCluster, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": live.bootstrap_servers})
    wanted = NewTopic(name, num_partitions=1, replication_factor=3)
    admin.create_topics([wanted])[name].result(DEADLINE_S)


def produce(live: LiveCluster, topic: str, count: int, kill_at: int | None = None) -> list[object]:
    """Produce numbers; kill the leader on the way if asked. Return what went wrong."""
    producer = Producer({"bootstrap.servers": live.bootstrap_servers, "enable.idempotence": True})
    errors: list[object] = []

    def on_delivery(error: object, _: object) -> None:
        if error is not None:
            errors.append(error)

    for number in range(count):
        if number == kill_at:
            producer.flush(DEADLINE_S)
            live.kill(live.leader(topic) or 1)
        producer.produce(topic, b"%d" % number, on_delivery=on_delivery)
        producer.poll(0)
    assert producer.flush(DEADLINE_S) == 0
    return errors


def consume(live: LiveCluster, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": live.bootstrap_servers,
            "group.id": f"of {topic}",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    found: list[bytes] = []
    try:
        while len(found) < count:
            messages = consumer.consume(count, DEADLINE_S)
            assert messages
            found += [each.value() or b"" for each in messages if not each.error()]
    finally:
        consumer.close()
    return found


def test_a_real_client_loses_nothing_when_the_leader_is_killed(live: LiveCluster) -> None:
    make_topic(live, "killed")
    assert produce(live, "killed", COUNT, kill_at=COUNT // 2) == []
    assert consume(live, "killed", COUNT) == [b"%d" % number for number in range(COUNT)]
    assert any("killed" in line for line in live.history())
    live.heal()


def test_large_messages_pass_the_bridge_in_both_directions(live: LiveCluster) -> None:
    make_topic(live, "large")
    producer = Producer({"bootstrap.servers": live.bootstrap_servers})
    values = [bytes([number]) * 900_000 for number in range(12)]
    for value in values:
        producer.produce("large", value)
    assert producer.flush(DEADLINE_S) == 0
    assert consume(live, "large", len(values)) == values


def test_a_broker_that_is_down_hangs_up(live: LiveCluster) -> None:
    import socket

    live.kill(2)
    port = int(live.bootstrap_servers.split(",")[1].rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as client:
        assert client.recv(1) == b""
    live.heal()


def test_a_broker_that_has_given_up_its_disk_comes_back_when_all_is_healed(
    live: LiveCluster,
) -> None:
    make_topic(live, "given-up")
    live.fail_syncs(2)
    assert produce(live, "given-up", 1) == []
    eventually(lambda: any("the disk failed" in line for line in live.history()), "the end")
    live.heal()
    eventually(live.is_whole, "all are there again", seconds=DEADLINE_S)


def test_clients_leave_a_broker_that_is_cut_off(live: LiveCluster) -> None:
    """They are connected with the leader only, and nothing heals the cut."""
    make_topic(live, "left")
    producer = Producer({"bootstrap.servers": live.bootstrap_servers, "enable.idempotence": True})
    producer.produce("left", b"before")
    assert producer.flush(DEADLINE_S) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": live.bootstrap_servers,
            "group.id": "who leave",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["left"])
    try:
        assert [each.value() for each in consumer.consume(1, DEADLINE_S)] == [b"before"]
        live.isolate(live.leader("left") or 1)
        producer.produce("left", b"meanwhile")
        assert producer.flush(DEADLINE_S) == 0
        assert [each.value() for each in consumer.consume(1, DEADLINE_S)] == [b"meanwhile"]
    finally:
        consumer.close()
        live.heal()


def test_a_closed_cluster_says_so_and_holds_no_port() -> None:
    import socket

    with LiveCluster(brokers=1) as cluster:
        address = cluster.bootstrap_servers.rpartition(":")
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((address[0], int(address[2])))


def test_the_example_in_the_documentation_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "testing.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    # The command of the page, and the end of what it prints.
    _, command, output = blocks_run_by(this_file(__file__), "docs/testing.md")
    assert command.content.startswith("pytest -q test_orders.py ")
    (tmp_path / "test_orders.py").write_text(example)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
         "--kafkaesque-seed", "7", "test_orders.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    assert "2 passed" in output.content
