"""Leader election: exactly one of several processes acts; when it dies, another takes over.

    kafkaesque up --brokers 3
    python examples/leader_election.py --bootstrap-server 127.0.0.1:9092

In the example the first leader is killed (SIGKILL). The second is frozen (SIGSTOP) in the middle of
a decision. When the third one leads, the second wakes up and continues, and is refused by the
brokers and by the database:

    bert leads with token 0, and goes on with decision 1
    bert was killed
    anna leads with token 8, and goes on with decision 4
    anna is frozen in the middle of decision 5
    cleo leads with token 12, and goes on with decision 5
    anna wakes up, and goes on with decision 5
    anna is refused by the brokers: _FENCED
    anna is refused by the register: token 8 was overtaken
    in the log: bert leads, decision 1, decision 2, decision 3
    in the log: anna leads, decision 4
    in the log: cleo leads, decision 5, decision 6

The candidates are the members of one consumer group on a topic with one partition. A group gives a
partition to one member at a time: that member leads, and the others wait, which costs nothing. When
the leader stops sending heartbeats, the group gives the partition to another candidate.

A leader that is killed is the easy case. The hard case is a leader that only pauses: a suspended
machine, a long pause of the process. The group replaces it, but it does not know that. It wakes up
in the middle of a decision and finishes it: now there are two leaders. Checking once more does not
help, because it can be paused after any check. So the group only suggests who leads. Whatever the
leader acts upon must refuse a leader that was replaced:

- Inside Kafka, the brokers do it. All leaders write with the same `transactional.id`. A call of
  `init_transactions` raises the epoch, and from then on the brokers refuse everything with a lower
  one, including the end of the old leader's open transaction.
- Outside Kafka, use a fencing token: a number that grows from leader to leader. The offset of the
  leader's own announcement is one. Here a table in a database stands for the outside: it obeys a
  command only if it has never seen a larger token.

What a new leader does first, and why in this order:

    1. init_transactions               from here on, no other leader can write
    2. write "leads" to the topic      the offset of this record is its token
    3. read the topic up to there      nobody can add to it: these are all decisions so far
    4. decide, again and again: write the decision in a transaction, then act upon it outside

If step 3 came before step 1, the old leader could make one more decision after the read, and the
same thing would be decided twice. In step 4, each act follows a decision in the log. A leader that
dies between the two has decided something that is not done, so acts must be repeatable.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sqlite3
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from multiprocessing.process import BaseProcess
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

CANDIDATES = ("anna", "bert", "cleo")
ANNOUNCEMENT = "leads"
#: How long a leader thinks about a decision.
DECISION_S = 0.1
#: Nothing takes this long unless the cluster is down.
TIMEOUT_S = 60.0


# -- what everybody uses


@dataclass(frozen=True)
class Entry:
    """A record of the topic: where it stands, who wrote it, and an announcement or a decision."""

    offset: int
    leader: str
    text: str

    @property
    def is_decision(self) -> bool:
        return self.text != ANNOUNCEMENT


class Log:
    """Reads the topic from its beginning, and only what was committed."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.entries: list[Entry] = []
        settings = {
            "bootstrap.servers": bootstrap,
            # The client requires a name; this consumer joins no group and commits nothing.
            "group.id": f"{topic}-readers",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
        self._consumer = Consumer(settings)
        self._consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])

    def close(self) -> None:
        self._consumer.close()

    def read_until(self, is_wanted: Callable[[Entry], bool]) -> Entry:
        """Read on to the next entry that is wanted, and return it."""
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            message = self._consumer.poll(0.1)
            if message is None or message.error():
                continue
            entry = Entry(message.offset() or 0, text_of(message.key()), text_of(message.value()))
            self.entries.append(entry)
            if is_wanted(entry):
                return entry
        raise TimeoutError(f"not within {TIMEOUT_S:.0f} s")


def text_of(data: bytes | None) -> str:
    return (data or b"").decode()


class Register:
    """Something outside of Kafka that obeys the leader: a table of the commands that it obeyed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with closing(sqlite3.connect(path, timeout=TIMEOUT_S)) as database, database:
            database.execute("CREATE TABLE IF NOT EXISTS obeyed (token INTEGER, leader TEXT)")

    def obey(self, token: int, leader: str) -> bool:
        """Do what the leader says, unless it was overtaken; look and act are one step."""
        with closing(sqlite3.connect(self._path, timeout=TIMEOUT_S)) as database, database:
            done = database.execute(
                "INSERT INTO obeyed SELECT ?, ?"
                " WHERE NOT EXISTS (SELECT * FROM obeyed WHERE token > ?)",
                (token, leader, token),
            )
            return done.rowcount == 1


# -- a candidate: a process of its own


class Candidate:
    """Waits until the partition is its own, and leads from then on."""

    def __init__(
        self, bootstrap: str, topic: str, name: str, register: Path, session_timeout_ms: int
    ) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._name = name
        self._register = Register(register)
        self._session_timeout_ms = session_timeout_ms
        self._token = -1
        self._is_over = threading.Event()
        self._is_to_freeze = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: self._is_over.set())
        signal.signal(signal.SIGUSR1, lambda *_: self._is_to_freeze.set())

    def run(self) -> None:
        """Stand, lead, and stand again, until SIGTERM or until a later leader has been here."""
        while not self._is_over.is_set():
            # Leaving this block leaves the group.
            with self._join() as member:
                while not member.assignment() and not self._is_over.is_set():
                    member.poll(0.1)
                try:
                    if not self._is_over.is_set():
                        self._lead(member)
                except KafkaException as refused:
                    self._stand_down(refused)

    def _join(self) -> Consumer:
        settings = {
            "bootstrap.servers": self._bootstrap,
            "group.id": self._topic,
            "enable.auto.commit": False,
            # A candidate that joins takes nothing from the one that leads.
            "partition.assignment.strategy": "cooperative-sticky",
            # How long nobody leads after a leader is killed. Short here, so that you need not wait;
            # but the shorter it is, the more often a leader that is only slow is replaced.
            "session.timeout.ms": self._session_timeout_ms,
            "heartbeat.interval.ms": self._session_timeout_ms // 5,
        }
        member = Consumer(settings)
        member.subscribe([self._topic])
        return member

    def _lead(self, member: Consumer) -> None:
        """Lead until the partition is taken away.

        Raises:
            KafkaException: the brokers refuse, as another one has begun to lead.
        """
        settings = {
            "bootstrap.servers": self._bootstrap,
            # The same for all candidates: so the next leader fences this one.
            "transactional.id": self._topic,
            # Otherwise the client also logs the errors that it raises.
            "log_level": 0,
        }
        producer = Producer(settings)
        producer.init_transactions(TIMEOUT_S)
        self._token = self._announce(producer)
        number = self._decisions_before(self._token) + 1
        self._say(f"leads with token {self._token}, and goes on with decision {number}")
        # Polling tells a member that it has lost the partition.
        while member.assignment() and not self._is_over.is_set():
            member.poll(0)
            self._decide(producer, number)
            number += 1

    def _announce(self, producer: Producer) -> int:
        """Return the offset at which the announcement stands."""
        offsets: list[int] = []
        producer.begin_transaction()
        producer.produce(
            self._topic,
            key=self._name,
            value=ANNOUNCEMENT,
            on_delivery=lambda _, message: offsets.append(message.offset() or 0),
        )
        producer.flush(TIMEOUT_S)
        producer.commit_transaction(TIMEOUT_S)
        return offsets[0]

    def _decisions_before(self, token: int) -> int:
        with closing(Log(self._bootstrap, self._topic)) as log:
            log.read_until(lambda entry: entry.offset == token)
            return sum(entry.is_decision for entry in log.entries)

    def _decide(self, producer: Producer, number: int) -> None:
        time.sleep(DECISION_S)
        producer.begin_transaction()
        producer.produce(self._topic, key=self._name, value=f"decision {number}")
        if self._is_to_freeze.is_set():
            # The worst moment: after all checks, before the act. The whole process stops here.
            self._is_to_freeze.clear()
            self._say(f"is frozen in the middle of decision {number}")
            os.kill(os.getpid(), signal.SIGSTOP)
            self._say(f"wakes up, and goes on with decision {number}")
        producer.commit_transaction(TIMEOUT_S)
        if not self._register.obey(self._token, self._name):
            self._say(f"is refused by the register: token {self._token} was overtaken")

    def _stand_down(self, refused: KafkaException) -> None:
        """Act no more. Whoever runs the processes may start it again, as a new candidate."""
        self._say(f"is refused by the brokers: {refused.args[0].name()}")
        # The register refuses it as well, as it would if this process had slept between the commit
        # and the act. This is only done to show it.
        if not self._register.obey(self._token, self._name):
            self._say(f"is refused by the register: token {self._token} was overtaken")
        self._is_over.set()

    def _say(self, words: str) -> None:
        print(f"{self._name} {words}", flush=True)


def stand(
    bootstrap_server: str, topic: str, name: str, register: str, session_timeout_ms: int
) -> None:
    """Be a candidate until SIGTERM; SIGUSR1 freezes it in the middle of its next decision."""
    Candidate(bootstrap_server, topic, name, Path(register), session_timeout_ms).run()


# -- the scenario


def main() -> None:
    arguments = parse_arguments()
    server, topic = arguments.bootstrap_server, f"{arguments.prefix}.election"
    admin = AdminClient({"bootstrap.servers": server})
    admin.create_topics([NewTopic(topic, 1, 3)])[topic].result()
    with tempfile.TemporaryDirectory() as directory, closing(Log(server, topic)) as log:
        register = arguments.register or str(Path(directory) / "register.sqlite")
        Register(Path(register))
        spawning = multiprocessing.get_context("spawn")
        candidates = {}
        for name in CANDIDATES:
            about = (server, topic, name, register, arguments.session_timeout_ms)
            candidates[name] = spawning.Process(target=stand, args=about, daemon=True)
            candidates[name].start()
        try:
            kill_and_freeze(candidates, log)
        finally:
            for candidate in candidates.values():
                end(candidate)
    report(log.entries)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Leader election, with a crash and a zombie.")
    server = os.environ.get("KAFKAESQUE_BOOTSTRAP_SERVER") or "127.0.0.1:9092"
    parser.add_argument("--bootstrap-server", default=server)
    unique = f"leader-election-{uuid.uuid4().hex[:8]}"
    parser.add_argument("--prefix", default=unique, help="what topic and group begin with")
    parser.add_argument("--register", help="file of the database that obeys the leader")
    # Brokers allow no less, unless their group.min.session.timeout.ms says so.
    parser.add_argument("--session-timeout-ms", type=int, default=6000)
    return parser.parse_args()


def kill_and_freeze(candidates: Mapping[str, BaseProcess], log: Log) -> None:
    """Kill a leader, freeze the second one, and wake it when the third one leads."""
    first = log.read_until(lambda entry: entry.text == "decision 3").leader
    candidates[first].kill()
    print(f"{first} was killed", flush=True)
    second = log.read_until(lambda entry: entry.is_decision and entry.leader != first).leader
    send(candidates[second], signal.SIGUSR1)
    third = log.read_until(lambda entry: entry.is_decision and entry.leader != second).leader
    send(candidates[second], signal.SIGCONT)
    candidates[second].join(TIMEOUT_S)
    log.read_until(lambda entry: entry.is_decision and entry.leader == third)


def end(candidate: BaseProcess) -> None:
    candidate.terminate()
    send(candidate, signal.SIGCONT)
    candidate.join(TIMEOUT_S)
    candidate.kill()


def send(candidate: BaseProcess, number: signal.Signals) -> None:
    if candidate.is_alive() and candidate.pid is not None:
        os.kill(candidate.pid, number)


def report(entries: list[Entry]) -> None:
    """Say who wrote what: leaders one after the other, never among each other."""
    for name, group in groupby(entries, lambda entry: entry.leader):
        announced, *decisions = [entry.text for entry in group]
        print(f"in the log: {name} {announced}, {', '.join(decisions)}")


if __name__ == "__main__":
    main()
