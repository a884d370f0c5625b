"""`python -m tests.clients.why_causes`: causes at three real brokers, and what `why` says of them.

The same judge as in the simulator, for what is cheap to bring about with real clients.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kafkaesque.cli.broker_ports import unused_ports
from tests.clients.cluster import KafkaesqueCluster
from tests.clients.test_quotas import Quotas
from tests.waiting import eventually

BROKERS = 3


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What `why` said of a cause."""

    kind: str
    wanted: str
    cause: str | None
    is_certain: bool
    seconds: float

    @property
    def is_right(self) -> bool:
        """Whether the cause was named first."""
        return str(self.cause) in self.wanted.split("|")


class Ground:
    """Three brokers with admin ports, and clients."""

    def __init__(self, cluster: KafkaesqueCluster, ports: Sequence[int]) -> None:
        self.cluster, self.ports = cluster, ports
        self.answers: list[Answer] = []
        self.servers: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap_servers}
        self.admin = AdminClient(self.servers)
        self.producer = Producer(self.servers)

    def call(self, path: str, body: object = None, **query: object) -> Any:
        """Ask the API of the first broker."""
        url = f"http://127.0.0.1:{self.ports[0]}/api/v1{path}"
        url += f"?{urlencode(query)}" if query else ""
        headers = {"Content-Type": "application/json", "X-Kafkaesque-Request": "1"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())

    def why(self, path: str, **query: object) -> tuple[Any, float]:
        """Ask why, and for how long that took."""
        begun = time.monotonic()
        told = self.call(f"/why/{path}", None, **query)
        return told, time.monotonic() - begun

    def expect(self, kind: str, wanted: str, path: str, **query: object) -> None:
        """Wait until the cause is there to be seen; the last answer counts."""
        answers: list[Answer] = []

        def look() -> bool:
            told, seconds = self.why(path, **query)
            answer = Answer(
                kind=kind,
                wanted=wanted,
                cause=told["cause"],
                is_certain=told["is_certain"],
                seconds=seconds,
            )
            answers.append(answer)
            return answer.is_right

        try:
            eventually(look, f"{kind} is named", seconds=20)
        except AssertionError:
            pass
        self.answers.append(answers[-1])

    def topic(self, name: str, partitions: int = 1, factor: int = 3, **config: str) -> None:
        """Create a topic."""
        configs = {key.replace("_", "."): value for key, value in config.items()}
        new = NewTopic(name, partitions, factor, config=configs)
        self.admin.create_topics([new])[name].result(30)

    def publish(self, topic: str, count: int = 3, size: int = 10) -> None:
        """Publish messages, each acknowledged."""
        for _ in range(count):
            self.producer.produce(topic, b"x" * size, partition=0)
        assert self.producer.flush(30) == 0

    def leader(self, topic: str) -> int:
        """Return who leads a topic's first partition."""
        found = self.admin.list_topics(topic, timeout=30).topics[topic].partitions[0].leader
        return int(found)


def records(ground: Ground) -> None:
    """Records that are not there, and one that is."""
    ground.topic("orders")
    ground.publish("orders")
    ground.expect("nothing", "None", "topics/orders/partitions/0", offset=0)
    ground.expect("not written", "written", "topics/orders/partitions/0", offset=3)
    ground.expect("denied", "denied", "topics/orders/partitions/0", offset=0, principal="User:app")
    ground.topic("old")
    ground.publish("old", 5)
    ground.admin.delete_records([TopicPartition("old", 0, 4)])[TopicPartition("old", 0, 4)].result(
        30
    )
    ground.expect("retention", "retained", "topics/old/partitions/0", offset=2)


def transactions(ground: Ground) -> None:
    """A transaction that nobody ends."""
    producer = Producer({**ground.servers, "transactional.id": "shop"})
    producer.init_transactions(30)
    producer.begin_transaction()
    ground.topic("paid")
    producer.produce("paid", b"open")
    assert producer.flush(30) == 0
    ground.expect("stuck transaction", "transaction", "topics/paid/partitions/0", offset=0)
    ground.expect("stuck transaction", "transaction", "producers/shop")
    producer.abort_transaction(30)


@contextmanager
def consuming(ground: Ground, group: str, topic: str, **more: object) -> Iterator[Consumer]:
    """Consume until there is an assignment, and nothing after that."""
    consumer = Consumer(
        {
            **ground.servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "max.poll.interval.ms": 600_000,
            "session.timeout.ms": 45_000,
            **more,
        }
    )
    consumer.subscribe([topic])

    def is_assigned() -> bool:
        consumer.poll(0.1)
        return bool(consumer.assignment())

    eventually(is_assigned, "it has partitions")
    try:
        yield consumer
    finally:
        consumer.close()


def groups(ground: Ground) -> None:
    """Consumers that lag, are gone, or keep others waiting."""
    ground.expect("lagging consumer", "group", "groups/nobody")
    with consuming(ground, "billing", "orders") as first:
        ground.expect("lagging consumer", "lag", "groups/billing")
        ground.expect(
            "lagging consumer", "lag", "topics/orders/partitions/0", offset=1, group="billing"
        )
        first.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
        second = Consumer({**ground.servers, "group.id": "billing"})
        second.subscribe(["orders"])
        second.poll(1.0)
        ground.expect("rebalance that waits", "rebalance", "groups/billing")
        second.close()
    ground.expect("lagging consumer", "members", "groups/billing")


def quotas(ground: Ground) -> None:
    """A producer that sends more than it may."""
    ground.topic("much")
    Quotas(ground.cluster.bootstrap_servers).set("greedy", "producer_byte_rate", 10_000)
    greedy = Producer({**ground.servers, "client.id": "greedy", "linger.ms": 0})
    for _ in range(20):
        greedy.produce("much", b"x" * 50_000)
        greedy.poll(0)
    greedy.flush(2)
    ground.expect("quota", "quota", "topics/much/partitions/0", offset=1_000)
    greedy.purge()


def queues(ground: Ground) -> None:
    """Messages that wait in queues."""
    call = ground.call
    call("/queues", {"name": "mails", "options": {"delay.ms": "600000"}})
    call("/queues", {"name": "work"})
    call("/exchanges", {"name": "logs", "type": "topic"})
    arguments = json.dumps({"x-filter": "size > 5"})
    call(
        "/exchanges/logs/bind",
        {"to": "queue", "destination": "work", "key": "*.note", "arguments": arguments},
    )
    ground.expect("unroutable", "unroutable", "exchanges/logs", key="db.error")
    ground.expect("filter", "filter", "exchanges/logs", key="db.note", headers='{"size": 3}')
    ground.expect("not written", "written", "queues/work", message=100)


def lost_brokers(ground: Ground) -> None:
    """Brokers that hang, and that are killed."""
    solos = [f"solo{number}" for number in range(9)]
    for name in solos:
        ground.topic(name, factor=1)
        ground.publish(name, 1)
    ground.topic("strict", min_insync_replicas="3")
    ground.publish("strict", 1)
    on_third = next(name for name in solos if ground.leader(name) == 3)
    third = ground.cluster.brokers[2]
    os.kill(third.pid, signal.SIGSTOP)
    path = f"topics/{on_third}/partitions/0"
    told, seconds = ground.why(path, offset=0)
    ground.answers.append(
        Answer(
            kind="no leader (hangs)",
            wanted="leader",
            cause=told["cause"],
            is_certain=told["is_certain"],
            seconds=seconds,
        )
    )
    os.kill(third.pid, signal.SIGCONT)
    third.kill()
    ground.expect("no leader", "leader", path, offset=0)
    ground.expect("min ISR", "min-insync", "topics/strict/partitions/0", offset=1)


def run(directory: Path | None = None) -> list[Answer]:
    """Bring all of it about."""
    ports = unused_ports(BROKERS)

    def section(number: int) -> str:
        return f'\n[[listener]]\nprotocol = "admin"\nport = {ports[number - 1]}\n'

    with KafkaesqueCluster(BROKERS, directory=directory, sections=section) as cluster:
        ground = Ground(cluster, ports)
        for step in (records, groups, quotas, queues, transactions, lost_brokers):
            step(ground)
        return ground.answers


def main() -> int:
    """Print the table; return 0 if all were right."""
    answers = run()
    print(f"{'cause':<24}{'wanted':<14}{'said':<14}{'':<10}{'time':>8}")
    for each in answers:
        word = "certain" if each.is_certain else "probable"
        said = each.cause or "None"
        print(f"{each.kind:<24}{each.wanted:<14}{said:<14}{word:<10}{1e3 * each.seconds:>5.0f} ms")
    return 0 if all(each.is_right for each in answers) else 1


if __name__ == "__main__":
    sys.exit(main())
