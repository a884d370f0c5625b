"""What producers notice while every broker of a cluster is restarted, one after another.

    .venv/bin/python -m bench.rolling_restart [--rate 2000] [--rounds 1] [--json]

Three brokers as processes; a librdkafka producer with acks=all sends at a steady rate. Each broker
is stopped in order (SIGTERM), started again, and the next one follows when all partitions have all
their replicas in sync. Then everything is read back and compared with what was acknowledged. A
latency is that of one message, from when it was to be sent until it was acknowledged.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from threading import Event, Thread

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.ours import Kafkaesque
from bench.processes import BrokerProcess

BROKERS = 3
PARTITIONS = 6
TOPIC = "rolling"
IN_SYNC_S_MAX = 120.0
LOOK_INTERVAL_S = 0.1
BEFORE_AND_AFTER_S = 3.0
FLUSH_S = 60.0
READ_S_MAX = 60.0
TICK_S = 0.005


@dataclass(slots=True)
class Report:
    """What came of it; latencies in milliseconds."""

    sent: int = 0
    acknowledged: int = 0
    errors: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    p999_ms: float = 0.0
    max_ms: float = 0.0
    seconds: float = 0.0
    restarts_s: list[float] = field(default_factory=list)
    lost: int = 0
    duplicates: int = 0

    @property
    def ok(self) -> bool:
        return not self.errors and not self.lost and self.p99_ms < 1_000


class SteadyProducer:
    """Sends so many messages a second from a thread of its own, whatever happens."""

    def __init__(
        self,
        bootstrap: str,
        rate: int,
        *,
        settings: Mapping[str, str] | None = None,
        first: int = 0,
    ) -> None:
        """`settings` are added to the library's; messages are numbered from `first` on."""
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "linger.ms": 5,
                "queue.buffering.max.messages": 1_000_000,
                **(settings or {}),
            }
        )
        self._rate = rate
        self._first = first
        self._stop = Event()
        self._thread = Thread(target=self._run, daemon=True)
        self.sent = 0
        self.latencies_ms: list[float] = []
        self.acknowledged: set[int] = set()
        self.errors = Counter[str]()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Send no more, and wait until all that was sent is answered."""
        self._stop.set()
        self._thread.join()
        left = self._producer.flush(FLUSH_S)
        if left:
            self.errors["not answered"] += left
        # Its threads end with it: otherwise they connect again to brokers that restart.
        del self._producer

    def _run(self) -> None:
        begun = time.monotonic()
        while not self._stop.is_set():
            due = int((time.monotonic() - begun) * self._rate)
            while self.sent < due:
                self._send(self._first + self.sent, begun + self.sent / self._rate)
                self.sent += 1
            self._producer.poll(TICK_S)

    def _send(self, number: int, due: float) -> None:
        def on_delivery(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                self.errors[error.name()] += 1
                return
            self.latencies_ms.append(1000 * (time.monotonic() - due))
            self.acknowledged.add(number)

        self._producer.produce(
            TOPIC,
            str(number).encode().ljust(100, b"."),
            partition=number % PARTITIONS,
            on_delivery=on_delivery,
        )


def await_in_sync(bootstrap: str) -> None:
    """Wait until every partition has a leader and all its replicas in sync, as a broker sees it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    deadline = time.monotonic() + IN_SYNC_S_MAX
    while time.monotonic() < deadline:
        found = admin.list_topics(timeout=60)
        partitions = [each for topic in found.topics.values() for each in topic.partitions.values()]
        if len(found.brokers) == BROKERS and all(
            each.leader >= 0 and len(each.isrs) == len(each.replicas) for each in partitions
        ):
            return
        time.sleep(LOOK_INTERVAL_S)
    raise RuntimeError(f"not everything was in sync again within {IN_SYNC_S_MAX:g} s")


def restart(brokers: list[BrokerProcess], bootstrap: str) -> list[float]:
    """Restart every broker, one after another; return how long each took."""
    took = []
    for broker in brokers:
        begun = time.monotonic()
        broker.stop()
        broker.start()
        await_in_sync(bootstrap)
        took.append(round(time.monotonic() - begun, 2))
    return took


def count_read(bootstrap: str) -> Counter[int]:
    """Return how often each message is in the topic."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "count", "enable.auto.commit": False}
    )
    ends = {}
    for number in range(PARTITIONS):
        where = TopicPartition(TOPIC, number)
        ends[number] = consumer.get_watermark_offsets(where, timeout=60)[1]
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    seen = Counter[int]()
    left = sum(ends.values())
    deadline = time.monotonic() + READ_S_MAX
    while left > 0:
        messages = consumer.consume(10_000, timeout=1)
        if not messages and time.monotonic() > deadline:
            raise RuntimeError(f"{left} messages are still to be read, and none comes")
        for message in messages:
            seen[int((message.value() or b"").rstrip(b"."))] += 1
        left -= len(messages)
    consumer.close()
    return seen


def measure(rate: int, rounds: int) -> Report:
    """Run a cluster, restart it under load, and report."""
    report = Report()
    with Kafkaesque(brokers=BROKERS) as cluster:
        bootstrap = cluster.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": bootstrap})
        config = {"min.insync.replicas": "2"}
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, BROKERS, config=config)])[TOPIC].result()
        await_in_sync(bootstrap)
        producer = SteadyProducer(bootstrap, rate)
        begun = time.monotonic()
        producer.start()
        time.sleep(BEFORE_AND_AFTER_S)
        for _ in range(rounds):
            report.restarts_s += restart(cluster.brokers, bootstrap)
        time.sleep(BEFORE_AND_AFTER_S)
        producer.stop()
        report.seconds = round(time.monotonic() - begun, 1)
        seen = count_read(bootstrap)
    report.sent, report.acknowledged = producer.sent, len(producer.acknowledged)
    report.errors, report.reasons = producer.errors.total(), dict(producer.errors)
    ordered = sorted(producer.latencies_ms)
    if ordered:
        report.p50_ms, report.p99_ms = _at(ordered, 0.5), _at(ordered, 0.99)
        report.p999_ms = _at(ordered, 0.999)
        report.max_ms = round(ordered[-1], 1)
    report.lost = sum(number not in seen for number in producer.acknowledged)
    report.duplicates = sum(count - 1 for count in seen.values())
    return report


def _at(ordered: list[float], share: float) -> float:
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rate", type=int, default=2_000, help="messages a second")
    parser.add_argument("--rounds", type=int, default=1, help="restarts of each broker")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    report = measure(given.rate, given.rounds)
    if given.json:
        print(json.dumps(asdict(report)))
    else:
        for name, value in asdict(report).items():
            print(f"{name.replace('_', ' ')}: {value}")
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
