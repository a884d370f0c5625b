"""Controllers are added, replaced and removed in a running cluster, by the command line."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkaesque.cli.exit_codes import FAILED, OK
from tests.clients.cluster import KafkaesqueCluster
from tests.clients.kafka_helpers import TopicMaker, consume, produce
from tests.forked import processes
from tests.waiting import eventually

#: scripts/test-clients runs them.
pytestmark = [pytest.mark.timeout(600), pytest.mark.extended]
WAIT_S = 120.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[KafkaesqueCluster]:
    """Four brokers, of which the first three are founded as controllers."""
    cluster = KafkaesqueCluster(4, directory=tmp_path)
    cluster.prepare()
    try:
        for broker in cluster.brokers:
            path = Path(broker.command[-1])
            lines = path.read_text().splitlines(keepends=True)
            path.write_text("".join(line for line in lines if not line.startswith("4 = ")))
        cluster.start()
        yield cluster
    finally:
        cluster.close()


def run(cluster: KafkaesqueCluster, *arguments: str, code: int = OK) -> str:
    running = ",".join(each.address for each in cluster.brokers if each.is_running())
    done = processes.run(
        [sys.executable, "-m", "kafkaesque.cli.app", "cluster", *arguments, "-b", running],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def members(cluster: KafkaesqueCluster) -> dict[int, dict[str, Any]]:
    found = json.loads(run(cluster, "controllers", "--json"))
    return {each["broker"]: each for each in found["members"]}


def voters(cluster: KafkaesqueCluster) -> list[int]:
    return sorted(number for number, each in members(cluster).items() if each["votes"])


def await_caught_up(cluster: KafkaesqueCluster, broker: int) -> None:
    eventually(
        lambda: bool(members(cluster)[broker]["has_all"]),
        lambda: f"broker {broker} has all: {members(cluster)}",
        seconds=WAIT_S,
        pause_s=0.3,
    )


def test_a_dead_controller_is_replaced_by_another_broker(cluster: KafkaesqueCluster) -> None:
    topic = TopicMaker(cluster.bootstrap_servers)("kept", partitions=2, replication=3)
    produce(cluster.bootstrap_servers, topic, [b"%d" % i for i in range(100)], acks="all")
    assert voters(cluster) == [1, 2, 3]
    (leader,) = [number for number, each in members(cluster).items() if each["leads"]]
    assert "there is no broker 9" in run(cluster, "controllers", "add", "9", code=FAILED)
    assert "is not a controller" in run(cluster, "controllers", "remove", "4", code=FAILED)
    dead = cluster.brokers[leader - 1]
    dead.kill()
    assert "4 may fail" in run(cluster, "controllers", "add", "4")
    assert "already" in run(cluster, "controllers", "add", "4", code=FAILED)
    told = run(cluster, "remove", str(leader), code=FAILED)
    assert f"cluster controllers remove {leader}" in told
    run(cluster, "controllers", "remove", str(leader))
    others = [number for number in (1, 2, 3) if number != leader]
    assert voters(cluster) == [*others, 4]
    # It comes back with an empty disk and its old file: founders are no controllers for that.
    shutil.rmtree(Path(dead.command[-1]).parent / "data")
    dead.start()
    cluster.wait_until_ready()
    await_caught_up(cluster, leader)
    assert voters(cluster) == [*others, 4]
    cluster.brokers[others[0] - 1].kill()
    run(cluster, "wait", "--brokers", "3")
    values = consume(dead.address, topic, 100, at_rest_s=0.3)
    assert len(values) == 100
    told = run(cluster, "controllers", "remove", "4", code=FAILED)
    assert "a majority" in told
