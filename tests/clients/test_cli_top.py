"""`kafkaesque top` and `topic list` with sizes and rates, at real brokers."""

import json
import threading
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kafkaesque.cli.broker_ports import unused_ports
from tests.clients.cluster import KafkaesqueCluster
from tests.clients.test_cli_up import KAFKAESQUE
from tests.forked import processes


@pytest.mark.extended
def test_sizes_and_rates_of_topics(tmp_path: Path) -> None:
    ports = unused_ports(2)

    def section(number: int) -> str:
        return f'\n[[listener]]\nprotocol = "admin"\nport = {ports[number - 1]}\n'

    with KafkaesqueCluster(2, directory=tmp_path, sections=section) as cluster:
        servers: dict[str, str | int | float | bool] = {
            "bootstrap.servers": cluster.bootstrap_servers
        }

        def run(*words: str) -> str:
            done = processes.run(
                [*KAFKAESQUE, *words, "-b", cluster.bootstrap_servers],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            return done.stdout

        admin = AdminClient(servers)
        names = ("busy", "idle")
        made = admin.create_topics([NewTopic(name, 2, 2) for name in names])
        for name in names:
            made[name].result(30)
        producer = Producer(servers)
        for _ in range(50):
            producer.produce("idle", b"x" * 100)
        assert producer.flush(30) == 0
        is_over = threading.Event()

        def keep_busy() -> None:
            while not is_over.wait(0.02):
                producer.produce("busy", b"x")
                producer.poll(0)

        thread = threading.Thread(target=keep_busy)
        thread.start()
        try:
            rows = [line.split("\t") for line in run("topic", "list", "--sizes").splitlines()]
            assert rows[0] == ["TOPIC", "PARTITIONS", "REPLICAS", "RECORDS", "SIZE"]
            found = {row[0]: row for row in rows[1:]}
            assert found["idle"][1:4] == ["2", "2", "50"]
            assert found["idle"][4].endswith("kB")
            told = {
                each["topic"]: each
                for each in json.loads(run("topic", "list", "--rates", "--json"))
            }
            assert told["busy"]["messages_per_s"] > 1
            assert told["idle"]["messages_per_s"] == 0
            seen = json.loads(run("top", "--once", "--json"))
            assert [each["id"] for each in seen["brokers"]] == [1, 2]
            rates = {each["topic"]: each["messages_per_s"] for each in seen["topics"]}
            assert rates["busy"] > 1
            shown = run("top", "--once")
            assert shown.index("busy") < shown.index("idle")
            assert "(controller)" in shown
        finally:
            is_over.set()
            thread.join()
            producer.flush(30)
