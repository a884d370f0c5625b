"""Java's transactional clients and Kafka Streams, while brokers and the application are killed.

What they leave behind is compared with what it has to be, computed here.
"""

from __future__ import annotations

import random
import subprocess
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.apache_kafka import program_command
from bench.ours import Kafkaesque
from bench.processes import die_with_parent

SOURCES = Path(__file__).with_name("java")
PARTITIONS = 3
#: Of each run; killed brokers are away for a while of it.
TIMEOUT_S = 240.0
DOWN_S = 3.0
POLL_S = 0.2
ADMIN_TIMEOUT_S = 30.0
LOG_TAIL = 2000

LINES, PER_TRANSACTION = 20_000, 100
TEXT_LINES, WORDS_PER_LINE, VOCABULARY = 6_000, 6, 150
#: What is to be in the topic that is written when something is killed.
BEGUN = 500


class WrongResultError(AssertionError):
    """A program failed, or the topics hold something else than they should."""


class Program:
    """One of the Java programs, as a process."""

    def __init__(self, source: str, *arguments: str) -> None:
        self._name = f"{source} {arguments[0]}"
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [*program_command(SOURCES / f"{source}.java"), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            preexec_fn=die_with_parent,
        )

    def wait_for_line(self) -> None:
        """Wait until it says something."""
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            self.result()
            raise WrongResultError(f"{self._name} ended without a word")

    def result(self, text: str | None = None) -> str:
        """Give it its input, wait for its end, and return what it printed."""
        try:
            printed, _ = self._process.communicate(text, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise WrongResultError(f"{self._name} did not end: {self._tail()}") from None
        code = self._process.returncode
        if code != 0:
            raise WrongResultError(f"{self._name} ended with {code}: {self._tail()}")
        self._log.close()
        return printed

    def begin(self, text: str) -> None:
        """Give it its input and do not wait."""
        assert self._process.stdin is not None
        self._process.stdin.write(text)
        self._process.stdin.close()
        self._process.stdin = None

    def lines(self) -> Iterator[str]:
        """Return what it prints, line by line, until it ends; for a thread of its own."""
        assert self._process.stdout is not None
        return (line.rstrip("\n") for line in self._process.stdout)

    def finish(self) -> None:
        """End its input, and wait for its end, while somebody reads its lines.

        Raises:
            WrongResultError: it fails, or does not end.
        """
        self.begin("")
        try:
            code = self._process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise WrongResultError(f"{self._name} did not end: {self._tail()}") from None
        if code != 0:
            raise WrongResultError(f"{self._name} ended with {code}: {self._tail()}")

    def kill(self) -> None:
        """End it with SIGKILL; harmless if it has ended."""
        self._process.kill()
        self._process.wait()

    def _tail(self) -> str:
        self._log.seek(0)
        return self._log.read()[-LOG_TAIL:]


class JavaClients:
    """A cluster and what Java's clients need there."""

    def __init__(self, bootstrap_servers: str, cluster: Kafkaesque | None) -> None:
        """No broker is killed where there is no `cluster`."""
        self.bootstrap_servers = bootstrap_servers
        self._cluster = cluster

    @staticmethod
    def prepare() -> None:
        """Fetch what is needed; raises `PeerUnavailableError` where that cannot be had."""
        program_command(SOURCES)

    def make_topic(self, prefix: str) -> str:
        """Create a topic with three replicas."""
        name = f"{prefix}-{uuid.uuid4().hex[:8]}"
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        new = NewTopic(name, PARTITIONS, 3, config={"min.insync.replicas": "2"})
        admin.create_topics([new], request_timeout=ADMIN_TIMEOUT_S)[name].result()
        return name

    def wait_until_written(self, topic: str, count: int) -> None:
        """Wait until so many offsets of a topic are committed."""
        settings = {"bootstrap.servers": self.bootstrap_servers, "group.id": "looking"}
        consumer = Consumer({**settings, "log_level": 0})
        try:

            def is_written() -> bool:
                found = 0
                for each in range(PARTITIONS):
                    where = TopicPartition(topic, each)
                    _, end = consumer.get_watermark_offsets(where, timeout=ADMIN_TIMEOUT_S)
                    found += end
                return found >= count

            wait_until(is_written, f"{count} records in {topic}")
        finally:
            consumer.close()

    @contextmanager
    def outage(self) -> Iterator[str]:
        """Kill a broker, which is back in the end; say so."""
        if self._cluster is None:
            yield "no broker killed"
            return
        victim = random.choice(self._cluster.brokers)
        victim.kill()
        time.sleep(DOWN_S)
        try:
            yield f"broker {1 + self._cluster.brokers.index(victim)} killed"
        finally:
            victim.start()
            self._cluster.wait_until_ready()

    def read_committed(self, topic: str) -> list[tuple[str, str]]:
        """Return keys and values up to the last stable offset, as Java's consumer reads them."""
        printed = Program("Transactions", "consume", self.bootstrap_servers, topic).result()
        pairs = (line.partition("\t") for line in printed.splitlines())
        return [(key, value) for key, _, value in pairs]

    def produce(self, topic: str, lines: Sequence[str]) -> Program:
        """Begin to produce lines in transactions, with aborted ones between."""
        options = (unique("java"), str(PER_TRANSACTION))
        program = Program("Transactions", "produce", self.bootstrap_servers, topic, *options)
        program.begin("".join(f"{line}\n" for line in lines))
        return program


def unique(prefix: str) -> str:
    """Return a name that nobody else has."""
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait until the condition holds.

    Raises:
        WrongResultError: it does not in time.
    """
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise WrongResultError(f"not within {TIMEOUT_S:.0f} s: {what}")
        time.sleep(POLL_S)


def check_equal(found: Sequence[str], wanted: Sequence[str], what: str) -> None:
    """Compare what was read with what it should be, in any order.

    Raises:
        WrongResultError: something is missing or too much.
    """
    missing, excess = Counter(wanted), Counter(found)
    missing.subtract(found)
    excess.subtract(wanted)
    lost, too_many = sum((+missing).values()), sum((+excess).values())
    if lost or too_many:
        few = [*(+missing), *(+excess)][:5]
        raise WrongResultError(f"{what}: {lost} lost, {too_many} too many, such as {few}")


def use_transactions(clients: JavaClients) -> str:
    """Java's transactional producer, its loop of consuming and producing, its committed reads."""
    source, target = clients.make_topic("java-from"), clients.make_topic("java-to")
    lines = [f"line {n}" for n in range(LINES)]
    copy_options = (source, target, unique("java-copy"), str(LINES))
    copying = Program("Transactions", "copy", clients.bootstrap_servers, *copy_options)
    producing = None
    try:
        producing = clients.produce(source, lines)
        clients.wait_until_written(target, BEGUN)
        with clients.outage() as said:
            pass
        producing.result()
        copying.result()
    finally:
        copying.kill()
        if producing is not None:
            producing.kill()
    check_equal([value for _, value in clients.read_committed(source)], lines, "produced")
    wanted = [line.upper() for line in lines]
    check_equal([value for _, value in clients.read_committed(target)], wanted, "copied")
    return f"ok, {LINES:,} records there and copied, none lost, doubled or aborted; {said}"


def use_streams(clients: JavaClients) -> str:
    """Kafka Streams counts words with exactly_once_v2; a broker and the application are killed."""
    chance = random.Random(3)
    words = [f"word{n}" for n in range(VOCABULARY)]
    lines = [" ".join(chance.choices(words, k=WORDS_PER_LINE)) for _ in range(TEXT_LINES)]
    source, target = clients.make_topic("text"), clients.make_topic("counts")
    with tempfile.TemporaryDirectory() as directory:
        servers, name = clients.bootstrap_servers, unique("word-count")

        def start() -> Program:
            program = Program("WordCount", servers, source, target, name, directory)
            program.wait_for_line()
            return program

        counting = start()
        producing = None
        try:
            producing = clients.produce(source, lines)
            clients.wait_until_written(target, BEGUN)
            with clients.outage() as said:
                pass
            counting.kill()
            counting = start()
            producing.result()
            wanted = {word: str(n) for word, n in Counter(" ".join(lines).split()).items()}
            wait_until(lambda: dict(clients.read_committed(target)) == wanted, "the right counts")
            counting.result()
        finally:
            counting.kill()
            if producing is not None:
                producing.kill()
    _check_counts(clients.read_committed(target), wanted)
    count = sum(map(int, wanted.values()))
    return f"ok, {count:,} words counted right, in order; {said}, the application killed"


def _check_counts(found: Sequence[tuple[str, str]], wanted: dict[str, str]) -> None:
    """Make sure that each word was counted up to where it ends, and nothing twice."""
    last: Counter[str] = Counter()
    for word, count in found:
        if int(count) <= last[word]:
            raise WrongResultError(f"{word!r} is {count} after it was {last[word]}")
        last[word] = int(count)
    if {word: str(count) for word, count in last.items()} != wanted:
        raise WrongResultError("the counts are not what they were a moment ago")
