"""What a broker's log says, and how loudly, when somebody has to look after it."""

from __future__ import annotations

import sys
from pathlib import Path

from kafkaesque.cli.exit_codes import DAMAGED
from tests.clients.cluster import KafkaesqueCluster, broker_command
from tests.clients.kafka_helpers import TopicMaker, produce
from tests.forked import processes
from tests.waiting import DEADLINE_S, eventually


def test_a_damaged_replica_is_an_error_with_its_name_and_file(tmp_path: Path) -> None:
    with KafkaesqueCluster(1, directory=tmp_path) as cluster:
        topic = TopicMaker(cluster.bootstrap_servers)(partitions=1, replication=1)
        produce(cluster.bootstrap_servers, topic, [b"v" * 1000] * 20)
        (broker,) = cluster.brokers
        broker.stop()
        (segment,) = tmp_path.glob(f"*/broker-1/data/{topic}-0/*.log")
        segment.write_bytes(segment.read_bytes()[:500])
        broker.start()
        cluster.wait_until_ready()
        (log,) = tmp_path.glob("*/broker-1/broker.log")

        def errors() -> list[str]:
            lines = log.read_text().splitlines()
            return [line for line in lines if " level=error " in line]

        eventually(lambda: bool(errors()), "the log says so")
        told, *_ = errors()
    assert f"{topic}-0 stays offline on this broker: {topic}-0/" in told


def test_a_start_that_the_disk_refuses_names_the_data_directory(tmp_path: Path) -> None:
    with KafkaesqueCluster(1, directory=tmp_path) as cluster:
        (given,) = tmp_path.glob("*/broker-1/broker.toml")
        second = processes.run(
            broker_command(given), capture_output=True, text=True, timeout=DEADLINE_S, check=False
        )
        assert cluster.brokers[0].is_running()
    assert second.returncode == 1
    assert " level=error broker=1 " in second.stderr
    assert "broker 1 cannot start: " in second.stderr
    assert f'(the data directory is {given.parent / "data"})"\n' in second.stderr


def test_a_start_with_a_damaged_directory_says_what_helps(tmp_path: Path) -> None:
    with KafkaesqueCluster(1, directory=tmp_path) as cluster:
        (given,) = tmp_path.glob("*/broker-1/broker.toml")
        cluster.brokers[0].stop()
        data = given.parent / "data"
        (data / "meta.json").write_text("garbage\n")
        second = processes.run(
            broker_command(given), capture_output=True, text=True, timeout=DEADLINE_S, check=False
        )
        assert verify(data) == DAMAGED
        (data / "meta.json").unlink()
        assert verify(data) == DAMAGED
    assert second.returncode == 1
    assert "broker 1 cannot start: 'meta.json' in the data directory cannot be" in second.stderr
    wanted = f"(the data directory is {data}): start this broker with an empty directory"
    assert wanted in second.stderr
    assert second.stderr.count("empty directory") == 1


def verify(*directories: Path) -> int:
    command = [sys.executable, "-m", "kafkaesque.cli.app", "log", "verify"]
    done = processes.run(
        [*command, *map(str, directories)], capture_output=True, timeout=DEADLINE_S, check=False
    )
    return done.returncode
