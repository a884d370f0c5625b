"""What each delivery semantics of streams promises, with a kill at the worst moment."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kafkaesque import Client, Event
from kafkaesque.client.streams.producer import Producer
from kafkaesque.client.streams.records import StreamRecord
from kafkaesque.testing import LiveCluster
from tests.waiting import eventually

SOON_S = 60.0
COUNT = 20

#: Dies with the fourth record: the function has done it, and nothing after it has happened.
DIES_IN_FUNCTION = """
import os, signal, sys
from pathlib import Path
from kafkaesque import Client

bootstrap, topic, delivery, journal = sys.argv[1:]

def work(record):
    with Path(journal).open("a") as file:
        file.write(f"{record.value}\\n")
    if record.value == 3:
        os.kill(os.getpid(), signal.SIGKILL)

with Client(bootstrap) as client:
    client.processor(topic, group="g", function=work, delivery=delivery).run()
"""

#: Dies when all is sent, the positions are added, and nothing but the commit is missing.
DIES_BEFORE_COMMIT = """
import os, signal, sys
from kafkaesque import Client, Event
from kafkaesque.client.streams.producer import Producer

bootstrap, topic = sys.argv[1:]

def die(producer):
    producer.flush()
    os.kill(os.getpid(), signal.SIGKILL)

Producer.commit = die

def double(record):
    return [Event(f"{topic}.out", record.value * 2)]

with Client(bootstrap) as client:
    client.transformer(topic, group="g", function=double, transactional_id=topic).run()
"""


@pytest.fixture
def topic(request: pytest.FixtureRequest, cluster: LiveCluster, client: Client) -> str:
    name = str(request.node.name).translate(str.maketrans("[]", "--"))
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    wanted = [NewTopic(each, num_partitions=1) for each in (name, f"{name}.out")]
    for future in admin.create_topics(wanted).values():
        future.result(SOON_S)
    with client.producer() as producer:
        for n in range(COUNT):
            producer.send(name, n)
    return name


def run_until_killed(program: str, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=SOON_S,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize(
    ("delivery", "first_again"),
    [("at-least-once", 0), pytest.param("at-most-once", 4, marks=pytest.mark.extended)],
)
def test_a_processor_that_is_killed(
    cluster: LiveCluster,
    client: Client,
    topic: str,
    tmp_path: Path,
    delivery: Any,
    first_again: int,
) -> None:
    journal = tmp_path / "journal"
    run_until_killed(DIES_IN_FUNCTION, cluster.bootstrap_servers, topic, delivery, str(journal))
    seen_first = [int(line) for line in journal.read_text().split()]
    assert seen_first == [0, 1, 2, 3]
    seen: list[int] = []

    def work(record: StreamRecord) -> None:
        seen.append(record.value)
        if record.value == COUNT - 1:
            again.stop()

    again = client.processor(topic, group="g", function=work, delivery=delivery)
    again.run()
    # At least once: from the last commit on, all of them again. At most once: none of them.
    assert seen == list(range(first_again, COUNT))


def double_all(cluster: LiveCluster, client: Client, topic: str) -> list[int]:
    """Run a transformer until everything is doubled; return what a reader sees."""
    out = f"{topic}.out"

    def double(record: StreamRecord) -> list[Event]:
        return [Event(out, record.value * 2)]

    work = client.transformer(topic, group="g", function=double, transactional_id=topic)
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work.run()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        with client.consumer(out, group="reader") as consumer:
            found = [consumer.get(SOON_S).value for _ in range(COUNT)]
            # Whatever came twice would follow.
            last = consumer.next(1.0)
    finally:
        work.stop()
        thread.join(SOON_S)
    assert (raised, last) == ([], None)
    return found


@pytest.mark.extended
def test_a_transformer_that_is_killed_before_its_commit_has_done_nothing(
    cluster: LiveCluster, client: Client, topic: str
) -> None:
    run_until_killed(DIES_BEFORE_COMMIT, cluster.bootstrap_servers, topic)
    assert double_all(cluster, client, topic) == [2 * n for n in range(COUNT)]


def test_a_transaction_survives_the_leaders_death_before_its_commit(
    cluster: LiveCluster, client: Client, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Producer.commit
    killed: list[int] = []

    def kill_and_commit(producer: Producer) -> None:
        leader = cluster.leader(f"{topic}.out")
        if not killed and leader is not None:
            killed.append(leader)
            cluster.kill(leader)
        commit(producer)

    monkeypatch.setattr(Producer, "commit", kill_and_commit)
    assert double_all(cluster, client, topic) == [2 * n for n in range(COUNT)]
    assert len(killed) == 1
    cluster.heal()
    eventually(cluster.is_whole, "the cluster is whole again")
