"""`kafkaesque why` at real brokers."""

import json
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kafkaesque.cli.broker_ports import unused_ports
from tests.clients.cluster import KafkaesqueCluster
from tests.clients.test_cli_up import KAFKAESQUE
from tests.forked import processes
from tests.waiting import eventually


def test_a_transaction_that_hangs_is_named_with_the_command_that_helps(tmp_path: Path) -> None:
    (port,) = unused_ports(1)
    section = f'\n[[listener]]\nprotocol = "admin"\nport = {port}\n'
    with KafkaesqueCluster(1, directory=tmp_path, sections=lambda _: section) as cluster:
        servers: dict[str, str | int | float | bool] = {
            "bootstrap.servers": cluster.bootstrap_servers
        }

        def why(*words: str) -> subprocess.CompletedProcess[str]:
            return processes.run(
                [*KAFKAESQUE, "why", *words, "-b", cluster.bootstrap_servers],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )

        new = NewTopic("orders", num_partitions=1, replication_factor=1)
        admin = AdminClient(servers)
        admin.create_topics([new])["orders"].result(30)
        producer = Producer({**servers, "transactional.id": "billing-1"})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("orders", b"open")
        assert producer.flush(30) == 0
        done = why("record", "orders", "0", "0")
        assert done.returncode == 1, done.stderr
        assert "cause: transaction" in done.stdout
        assert "try: kafkaesque txn producers orders:0 --open" in done.stdout
        told = json.loads(why("producer", "billing-1", "--json").stdout)
        assert (told["cause"], told["is_certain"]) == ("transaction", True)
        assert told["links"][-1]["command"] == "kafkaesque txn abort billing-1"
        producer.commit_transaction(30)
        eventually(lambda: why("record", "orders", "0", "0").returncode == 0, "it is there")
        unknown = why("group", "nobody")
        assert unknown.returncode == 1
        assert "cause: group" in unknown.stdout
        missing = why("record", "nothing", "0", "0")
        assert missing.returncode != 0
        assert "nothing-0 does not exist" in missing.stderr


@pytest.mark.extended
def test_causes_of_queues_and_exchanges_are_named_at_a_real_broker(tmp_path: Path) -> None:
    (port,) = unused_ports(1)
    section = f'\n[[listener]]\nprotocol = "admin"\nport = {port}\n'
    with KafkaesqueCluster(1, directory=tmp_path, sections=lambda _: section) as cluster:

        def run(*words: str) -> str:
            done = processes.run(
                [*KAFKAESQUE, *words, "-b", cluster.bootstrap_servers],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert done.returncode in (0, 1), done.stderr
            return done.stdout

        def cause(*words: str) -> str | None:
            told = json.loads(run("why", *words, "--json"))
            assert told["is_certain"]
            found: str | None = told["cause"]
            return found

        def offsets(queue: str) -> list[str]:
            return [
                str(each["offset"]) for each in json.loads(run("queue", "peek", queue, "--json"))
            ]

        run("queue", "create", "letters")
        run("queue", "create", "mails", "--config", "ordered.groups=true")
        run("queue", "alter", "mails", "--config", "dead.letter.queue=letters")
        run("queue", "alter", "mails", "--config", "delivery.limit=1")
        run("queue", "put", "mails", "--group", "eva", "one", "two")
        run("queue", "put", "mails", "--delay", "600", "later")
        first, second, later = offsets("mails")
        assert cause("queue", "mails", later) == "delay"
        run("queue", "get", "mails", "--keep", "locked")
        assert cause("queue", "mails", first) == "lock"
        assert cause("queue", "mails", second) == "order"
        run("queue", "alter", "mails", "--config", "visibility.timeout.ms=1")
        run("queue", "put", "mails", "--group", "tom", "three")
        *_, third = offsets("mails")
        run("queue", "get", "mails", "--keep", "locked")
        eventually(lambda: cause("queue", "mails", third) == "dead-letter", "it is a dead letter")
        run("queue", "put", "letters", "read me")
        *_, unread = offsets("letters")
        eventually(lambda: cause("queue", "letters", unread) == "consumers", "nobody asks for it")
        run("exchange", "create", "logs", "--type", "topic")
        run("binding", "create", "logs", "--key", "*.error", "--queue", "letters")
        run(
            "binding",
            "create",
            "logs",
            "-k",
            "*.note",
            "-a",
            "x-filter=size > 5",
            "--queue",
            "mails",
        )
        assert cause("exchange", "logs", "--key", "db.error") is None
        assert cause("exchange", "logs", "--key", "db.warning") == "unroutable"
        assert cause("exchange", "logs", "--key", "db.note", "-H", "size=3") == "filter"
        assert cause("exchange", "logs", "--key", "db.note", "-H", "size=7") is None
        run("topic", "create", "orders")
        run("publish", "orders", "hello")
        assert cause("record", "orders", "0", "0", "--principal", "User:app") == "denied"
