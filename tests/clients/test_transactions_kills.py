"""Brokers that are killed while transactions begin and end: none is torn, none is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import pytest
from confluent_kafka import KafkaException, Producer

from bench.processes import BrokerProcess, ask_metadata
from tests.clients.cluster import KafkaesqueCluster
from tests.clients.kafka_helpers import TopicMaker, unique
from tests.clients.raw_transactions import Raw
from tests.clients.transactional_clients import Librdkafka, await_committed, read_all
from tests.waiting import DEADLINE_S, eventually

#: scripts/test-clients runs them.
pytestmark = pytest.mark.extended

PARTITIONS = 3
WRITERS = 4
KILLS = 4
#: Before each kill, and before the broker is started again.
PAUSE_S = 0.5
#: Commits that are waited for before each kill, while the broker is down, and after the last one.
COMMITS_BETWEEN = 20
#: For who produces with one incarnation of a producer.
STUCK_S = 120.0
SETTLE_S = 120.0


@pytest.fixture
def cluster() -> Iterator[KafkaesqueCluster]:
    with KafkaesqueCluster(brokers=3) as made:
        yield made


@dataclass
class Writer:
    """Writes one transaction after the other, each with one record in every partition.

    As an application should, it repeats what may be repeated, aborts where it is told to, and
    begins anew where it is shut out. Of a commit whose answer it never got it does not know the
    outcome, and says so.
    """

    bootstrap_servers: str
    topic: str
    name: str
    committed: list[bytes] = field(default_factory=list)
    aborted: list[bytes] = field(default_factory=list)
    unknown: list[bytes] = field(default_factory=list)
    begun: int = 0
    failure: BaseException | None = None

    def run(self, is_over: threading.Event) -> None:
        try:
            while not is_over.is_set():
                self._run_one_incarnation(is_over)
        except BaseException as error:
            self.failure = error
            raise

    def _run_one_incarnation(self, is_over: threading.Event) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "transactional.id": self.name,
                "linger.ms": 0,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        if not repeated(lambda: producer.init_transactions(5)):
            return
        while not is_over.is_set():
            value = b"%s.%d" % (self.name.encode(), self.begun)
            is_commit = self.begun % 5 != 4
            self.begun += 1
            if not self._run_transaction(producer, value, is_commit=is_commit):
                return

    def _run_transaction(self, producer: Producer, value: bytes, *, is_commit: bool) -> bool:
        """Return whether this incarnation of the producer may go on."""
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(self.topic, value, partition=partition)
        if not is_commit:
            producer.flush(5)
        elif self._commit(producer, value):
            return True
        else:
            is_known = value not in self.unknown
            if not is_known:
                return False
        self.aborted.append(value)
        return repeated(lambda: producer.abort_transaction(5))

    def _commit(self, producer: Producer, value: bytes) -> bool:
        """Return whether it is committed; if not, it is to be aborted or nobody knows."""
        deadline = time.monotonic() + STUCK_S
        while True:
            assert time.monotonic() < deadline, f"{value!r} is not committed"
            try:
                producer.commit_transaction(5)
            except KafkaException as raised:
                error = raised.args[0]
                if error.retriable():
                    continue
                if not error.txn_requires_abort():
                    self.unknown.append(value)
                return False
            self.committed.append(value)
            return True


def repeated(call: Callable[[], None]) -> bool:
    """Repeat a call as long as it may be; return whether it came to a good end."""
    deadline = time.monotonic() + STUCK_S
    while True:
        assert time.monotonic() < deadline, "it hangs"
        try:
            call()
        except KafkaException as raised:
            if not raised.args[0].retriable():
                return False
        else:
            return True


def check(writers: list[Writer], bootstrap_servers: str, topic: str) -> None:
    """Compare what every writer was told with what a reader sees."""
    contents = read_all(bootstrap_servers, topic)
    first = contents[0]
    for partition, values in contents.items():
        assert len(values) == len(set(values)), f"partition {partition} has records twice"
        assert set(values) == set(first), "a transaction is torn"
    for writer in writers:
        assert writer.failure is None
        prefix = writer.name.encode() + b"."
        seen = [value for value in first if value.startswith(prefix)]
        assert set(writer.committed) <= set(seen), "a committed transaction is lost"
        assert not set(writer.aborted) & set(seen), "an aborted transaction is seen"
        for values in contents.values():
            own = [value for value in values if value.startswith(prefix)]
            assert own == sorted(own, key=lambda value: int(value.rpartition(b".")[2]))


def broker_at(cluster: KafkaesqueCluster, port: int) -> BrokerProcess:
    return next(broker for broker in cluster.brokers if broker.port == port)


def run_with_kills(cluster: KafkaesqueCluster, find: Callable[[str, str], int]) -> None:
    """Kill, again and again, the broker that `find` names for (topic, transactional id)."""
    topic = TopicMaker(cluster.bootstrap_servers)("killed", partitions=PARTITIONS)
    writers = [
        Writer(cluster.bootstrap_servers, topic, unique(f"writer-{number}"))
        for number in range(WRITERS)
    ]
    is_over = threading.Event()
    threads = [threading.Thread(target=each.run, args=(is_over,)) for each in writers]
    for thread in threads:
        thread.start()

    def committed() -> int:
        return sum(len(each.committed) for each in writers)

    def go_on() -> None:
        """Wait for commits, so that there is something to be torn."""
        wanted = committed() + COMMITS_BETWEEN
        eventually(lambda: committed() >= wanted, "commits")

    try:
        for kill in range(KILLS):
            go_on()
            time.sleep(PAUSE_S)
            broker = broker_at(cluster, find(topic, writers[kill % WRITERS].name))
            broker.kill()
            time.sleep(PAUSE_S)
            go_on()
            broker.start()
            cluster.wait_until_ready()
        go_on()
    finally:
        is_over.set()
        for thread in threads:
            thread.join(STUCK_S + DEADLINE_S)
    assert not any(thread.is_alive() for thread in threads), "a writer hangs"

    def is_settled() -> bool:
        with Raw(cluster.bootstrap_servers) as raw:
            states = [raw.describe(each.name) for each in writers]
        return all(state.transaction_state.startswith("Complete") for state in states)

    eventually(is_settled, "all transactions have ended", seconds=SETTLE_S)
    check(writers, cluster.bootstrap_servers, topic)


def test_coordinators_are_killed_in_the_middle_of_commits(cluster: KafkaesqueCluster) -> None:
    def coordinator(_: str, transactional_id: str) -> int:
        with Raw(cluster.bootstrap_servers) as raw:
            return raw.coordinator(transactional_id)

    run_with_kills(cluster, coordinator)


def test_leaders_are_killed_between_markers(cluster: KafkaesqueCluster) -> None:
    kills = iter(range(KILLS))

    def leader(topic: str, _: str) -> int:
        with Raw(cluster.bootstrap_servers) as raw:
            return raw.leader(topic, next(kills) % PARTITIONS)

    run_with_kills(cluster, leader)


@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
def test_all_brokers_are_killed_with_a_transaction_open(
    cluster: KafkaesqueCluster, is_commit: bool
) -> None:
    topic = TopicMaker(cluster.bootstrap_servers)("restarted", partitions=PARTITIONS)
    producer = Librdkafka(cluster.bootstrap_servers, unique("restarted"))
    producer.begin()
    for partition in range(PARTITIONS):
        producer.send(topic, partition, b"open")
    producer.flush()
    kill_all(cluster, topic)
    assert read_all(cluster.bootstrap_servers, topic) == {each: [] for each in range(PARTITIONS)}
    if is_commit:
        producer.commit()
    else:
        producer.abort()
    producer.begin()
    for partition in range(PARTITIONS):
        producer.send(topic, partition, b"next")
    producer.commit()
    wanted = [b"open", b"next"] if is_commit else [b"next"]
    await_committed(cluster.bootstrap_servers, topic, dict.fromkeys(range(PARTITIONS), wanted))


def test_a_transaction_that_nobody_ends_is_aborted_after_a_restart(
    cluster: KafkaesqueCluster,
) -> None:
    topic = TopicMaker(cluster.bootstrap_servers)("deserted", partitions=PARTITIONS)
    producer = Librdkafka(
        cluster.bootstrap_servers,
        unique("deserted"),
        transaction_timeout_ms=8000,
        message_timeout_ms=8000,
    )
    producer.begin()
    for partition in range(PARTITIONS):
        producer.send(topic, partition, b"open")
    producer.flush()
    kill_all(cluster, topic)
    other = Librdkafka(cluster.bootstrap_servers, unique("other"))
    other.begin()
    for partition in range(PARTITIONS):
        other.send(topic, partition, b"after")
    other.commit()

    def is_over() -> bool:
        contents = read_all(cluster.bootstrap_servers, topic)
        return contents == {each: [b"after"] for each in range(PARTITIONS)}

    eventually(is_over, "the abort")
    with pytest.raises(KafkaException):
        producer.commit()


def kill_all(cluster: KafkaesqueCluster, topic: str) -> None:
    """End every broker at once, and start them again."""
    for broker in cluster.brokers:
        broker.kill()
    for broker in cluster.brokers:
        broker.start()
    cluster.wait_until_ready()
    for broker in cluster.brokers:
        eventually(partial(is_led, broker.port, topic), f"{topic} is led")


def is_led(port: int, topic: str) -> bool:
    leaders = ask_metadata(port, [topic], DEADLINE_S).leaders
    return len(leaders) == PARTITIONS and min(leaders.values()) >= 0
