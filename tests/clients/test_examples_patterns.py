"""The recipes about who acts, in which order, and what is left: run with their crashes, and read.

The cluster is this file's own: its brokers are frozen and killed, too, and it is told not to wait
as long as others do.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)

from examples.fan_out import send_all
from tests.clients.cluster import KafkaesqueCluster
from tests.clients.kafka_helpers import TopicMaker, admin_client, partitions_of, unique
from tests.clients.recipes import run_recipe
from tests.waiting import DEADLINE_S, eventually

#: scripts/test-clients runs them.
pytestmark = pytest.mark.extended

OPTIONS = {
    "group.min.session.timeout.ms": "1000",
    "log.cleaner.backoff.ms": "100",
}
LETTERS = 20_000
#: The letters are in doubt after the first; the brokers are frozen for the second.
DELIVERY_TIMEOUT_S = 2.5
FROZEN_S = 5.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaesqueCluster]:
    directory = tmp_path_factory.mktemp("patterns")
    with KafkaesqueCluster(brokers=3, directory=directory, options=OPTIONS) as cluster:
        yield cluster


class Reader:
    """Reads all partitions of some topics from the beginning."""

    def __init__(self, bootstrap_servers: str, *topics: str, is_committed: bool = True) -> None:
        self.messages: list[Message] = []
        self._at_end: set[tuple[str | None, int | None]] = set()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": unique("reader"),
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 50,
                "isolation.level": "read_committed" if is_committed else "read_uncommitted",
            }
        )
        self._partitions = [
            TopicPartition(topic, each, OFFSET_BEGINNING)
            for topic in topics
            for each in partitions_of(self._consumer, topic)
        ]
        self._consumer.assign(self._partitions)

    def close(self) -> None:
        self._consumer.close()

    def read_on(self) -> bool:
        """Read what comes, and return whether the end of each partition was seen."""
        for message in self._consumer.consume(1000, 0.05):
            error = message.error()
            if error is None:
                self.messages.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._at_end.add((message.topic(), message.partition()))
        return len(self._at_end) == len(self._partitions)


def read_to_end(
    cluster: KafkaesqueCluster, *topics: str, is_committed: bool = True
) -> list[Message]:
    with closing(Reader(cluster.bootstrap_servers, *topics, is_committed=is_committed)) as reader:
        eventually(reader.read_on, f"the ends of {topics}")
        return reader.messages


def text(data: bytes | str | None) -> str:
    return data.decode() if isinstance(data, bytes) else data or ""


def keys(messages: list[Message]) -> list[str]:
    return [text(message.key()) for message in messages]


def values(messages: list[Message]) -> list[str]:
    return [text(message.value()) for message in messages]


# -- leader election


def test_leaders_follow_one_another_and_a_zombie_is_refused(
    cluster: KafkaesqueCluster, tmp_path: Path
) -> None:
    prefix, register = unique("election"), tmp_path / "register.sqlite"
    arguments = ("--prefix", prefix, "--register", str(register), "--session-timeout-ms", "6000")
    output = run_recipe("leader_election", cluster.bootstrap_servers, *arguments)

    log = read_to_end(cluster, f"{prefix}.election")
    terms = {name: list(term) for name, term in groupby(log, lambda each: text(each.key()))}
    first, second, third = terms
    assert sum(map(len, terms.values())) == len(log), "none comes back"
    decisions = []
    for term in terms.values():
        announcement, *decided = values(term)
        assert announcement == "leads"
        assert decided
        decisions += decided
    expected = [f"decision {number}" for number in range(1, len(decisions) + 1)]
    assert decisions == expected, "each is made once, and none is left out"

    tokens = {name: term[0].offset() for name, term in terms.items()}
    with closing(sqlite3.connect(register)) as database:
        obeyed = list(database.execute("SELECT token, leader FROM obeyed ORDER BY rowid"))
    assert {(tokens[name], name) for name in terms} == set(obeyed)
    assert obeyed == sorted(obeyed), "no older leader after a newer one"

    # What the second one was about to decide, the third one decided first.
    frozen_at = values(terms[third])[1]
    for line in (
        f"{first} was killed",
        f"{second} is frozen in the middle of {frozen_at}",
        f"{second} wakes up, and goes on with {frozen_at}",
        f"{second} is refused by the register: token {tokens[second]} was overtaken",
    ):
        assert f"{line}\n" in output
    assert f"{second} is refused by the brokers: " in output


# -- sequential work


def test_each_key_is_worked_on_in_order_through_a_crash(cluster: KafkaesqueCluster) -> None:
    prefix = unique("sequential")
    output = run_recipe("sequential_per_key", cluster.bootstrap_servers, "--prefix", prefix)

    results = read_to_end(cluster, f"{prefix}.results")
    done: dict[str, int] = defaultdict(int)
    pids: dict[str, set[str]] = defaultdict(set)
    workers: dict[str, list[str]] = defaultdict(list)
    for message in results:
        account, number = text(message.key()), int(text(message.value()))
        headers: dict[str, bytes | str | None] = dict(message.headers() or ())
        worker, pid = text(headers["worker"]), text(headers["pid"])
        assert number <= done[account] + 1, f"{account}: {number} is done after {done[account]}"
        # Only a crash repeats work: it was handed over to the second worker in good order.
        assert worker == "one" or number > done[account], f"{account}: {number} is done again"
        done[account] = max(done[account], number)
        pids[worker].add(pid)
        workers[account].append(pid)
    assert set(done.values()) == {60}
    assert len(done) == 10
    for account, each in workers.items():
        assert len(list(groupby(each))) == len(set(each)), f"{account} has two at a time: {each}"
    assert {name: len(each) for name, each in pids.items()} == {"one": 2, "two": 1}
    assert f"done again     {len(results) - 600}\n" in output
    assert committed(cluster, f"{prefix}.workers", f"{prefix}.bookings") == 600


def committed(cluster: KafkaesqueCluster, group: str, topic: str) -> int:
    """Return how many records of a topic the group has done with."""
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": group}
    with Consumer(settings) as consumer:
        places = [TopicPartition(topic, each) for each in partitions_of(consumer, topic)]
        return sum(max(0, place.offset) for place in consumer.committed(places, DEADLINE_S))


# -- fan-out


def test_every_letter_is_accounted_for_and_a_crash_leaves_none(cluster: KafkaesqueCluster) -> None:
    prefix = unique("fan-out")
    arguments = ("--prefix", prefix, "--letters", "2000")
    output = run_recipe("fan_out", cluster.bootstrap_servers, *arguments)

    everybody = [f"reader-{number:05}" for number in range(2000)]
    delivered = keys(read_to_end(cluster, f"{prefix}.letters"))
    assert sorted(delivered) == [each for each in everybody if each != "reader-00017"]
    assert "delivered     1999 of 2000 in " in output
    assert "failed        reader-00017: " in output
    topic = f"{prefix}.all-or-none"
    assert sorted(keys(read_to_end(cluster, topic))) == everybody
    written = Counter(keys(read_to_end(cluster, topic, is_committed=False)))
    assert written == {**dict.fromkeys(everybody[:1000], 2), **dict.fromkeys(everybody[1000:], 1)}
    assert "killed        when 1000 were written, of which readers see 0\n" in output


class Halting(Producer):
    """Halts when it has been given so many messages, until it is told to go on."""

    def __init__(self, settings: dict[str, Any], count: int) -> None:
        super().__init__(settings)
        self.is_halfway, self.goes_on = threading.Event(), threading.Event()
        self._left = count

    def produce(self, *arguments: Any, **named: Any) -> None:
        self._left -= 1
        if self._left == 0:
            self.is_halfway.set()
            self.goes_on.wait(DEADLINE_S)
        super().produce(*arguments, **named)


def test_letters_in_doubt_are_sent_again_and_none_is_missing(
    cluster: KafkaesqueCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """All brokers fall silent in the middle; one is killed then, and comes back."""
    topic = TopicMaker(cluster.bootstrap_servers)("doubt")
    letters = {f"reader-{number}": b"dear reader" for number in range(LETTERS)}
    settings = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "enable.idempotence": True,
        "delivery.timeout.ms": int(DELIVERY_TIMEOUT_S * 1000),
    }
    victim = cluster.brokers[0]
    with Halting(settings, LETTERS // 2) as producer, ThreadPoolExecutor(1) as pool:
        run = pool.submit(send_all, producer, topic, letters)
        try:
            assert producer.is_halfway.wait(DEADLINE_S)
            for broker in cluster.brokers:
                os.kill(broker.pid, signal.SIGSTOP)
            producer.goes_on.set()
            time.sleep(FROZEN_S)
            victim.kill()
        finally:
            producer.goes_on.set()
            for broker in cluster.brokers:
                if broker.is_running():
                    os.kill(broker.pid, signal.SIGCONT)
        victim.start()
        outcome = run.result()
    cluster.wait_until_ready()

    assert (outcome.refused, outcome.in_doubt) == ({}, {})
    assert set(outcome.delivered) == set(letters)
    written = Counter(keys(read_to_end(cluster, topic)))
    assert set(written) == set(letters)
    rounds = capsys.readouterr().out.splitlines()
    in_doubt = sum(int(line.split()[2].rstrip(",")) for line in rounds)
    assert in_doubt > 0
    assert written.total() - LETTERS <= in_doubt, "nothing else is there twice"


# -- quotes


def test_the_log_of_quotes_shrinks_and_the_table_stays(cluster: KafkaesqueCluster) -> None:
    prefix = unique("quotes")
    topics = (f"{prefix}.quotes", f"{prefix}.rates")
    admin = admin_client(cluster.bootstrap_servers)
    with ThreadPoolExecutor(1) as pool:
        arguments = ("--prefix", prefix)
        run = pool.submit(run_recipe, "quotes", cluster.bootstrap_servers, *arguments)
        eventually(
            lambda: set(topics) <= set(admin.list_topics(timeout=DEADLINE_S).topics), "the topics"
        )
        # Somebody who has followed from the start, and knows what each row was last.
        with closing(Reader(cluster.bootstrap_servers, *topics)) as follower:
            while not run.done():
                follower.read_on()
            output = run.result()
            left = read_to_end(cluster, *topics)
            eventually(
                lambda: follower.read_on() and ends(follower.messages) == ends(left), "the rest"
            )
            followed = follower.messages

    table = table_of(left)
    assert table == table_of(followed)
    assert len(table) == 19 + 4
    assert (f"{prefix}.quotes", "share-07") not in table
    assert len(left) < 1100
    assert "first desk   20 shares" in output
    assert "third desk   19 shares" in output
    # 12,000 records are more than half a megabyte; the last ones are in segments that are open.
    for broker in cluster.brokers:
        home = broker.log_path.parent / "data"
        eventually(lambda: log_bytes(home, topics) < 100_000, f"the log shrinks in {home}")  # noqa: B023


def ends(messages: list[Message]) -> dict[tuple[str | None, int | None], int | None]:
    """Return the last offset of each partition."""
    return {(each.topic(), each.partition()): each.offset() for each in messages}


def table_of(messages: list[Message]) -> dict[tuple[str, str], bytes]:
    """Return the last value of each key of each topic."""
    table: dict[tuple[str, str], bytes] = {}
    for message in messages:
        row, value = (message.topic() or "", text(message.key())), message.value()
        if value is None:
            table.pop(row, None)
        else:
            table[row] = value
    return table


def log_bytes(home: Path, topics: tuple[str, ...]) -> int:
    paths = [path for topic in topics for path in home.glob(f"{topic}-*/*.log")]
    assert paths
    total = 0
    for path in paths:
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            pass  # It has just been replaced.
    return total
