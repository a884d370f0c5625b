"""The matrix while a broker is killed that leads the topic, and that clients are connected with.

Each producer goes on saying messages at the other brokers, from before the kill until behind the
election; consumers whose broker is gone come back to another one. Nothing is lost: what a producer
knows to be published comes to every consumer, with name, headers and body. What a broker has
confirmed that a consumer is done with does not come again, unless its producer had no answer, and
has said it again. Two things are allowed to come twice: what AMQP, MQTT and STOMP consumers had
acknowledged, because these protocols confirm no acknowledgement; and what comes by a queue that
passes messages on (Kafka's and the text port's topics, SQS' queues), which does so at least once.

Consumers that are live by nature, and keep nothing at the brokers, stay with a broker that lives.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace

import pytest

from bench.processes import BrokerProcess
from tests.clients.kafka_helpers import admin_client, describe_topic
from tests.clients.matrix_cluster import MatrixCluster
from tests.clients.matrix_consumers import CONSUMERS, Ledger, Reading
from tests.clients.matrix_places import INLETS, PLACE, QUEUES, make_places
from tests.clients.matrix_producers import PRODUCERS, Said
from tests.waiting import eventually

BROKERS = (1, 2, 3)
PATIENCE_S = 180.0
#: What these publish goes to all places by itself, and not by a queue that passes it on.
DIRECT = ("amqp", "mqtt", "stomp", "nats")
#: Of these a broker confirms that a message is done with.
CONFIRMED = ("kafka", "text", "sqs", "jetstream")


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MatrixCluster]:
    with MatrixCluster(3, tmp_path_factory.mktemp("matrix")) as found:
        make_places(found)
        yield found


class Speaker:
    """Says messages one after the other, each until it is known to be published."""

    def __init__(self, cluster: MatrixCluster, name: str, said: Sequence[Said]) -> None:
        self._cluster = cluster
        self._name = name
        self._left = said
        #: By body, how often it was said.
        self.attempts: Counter[str] = Counter()
        self.troubles: list[str] = []
        self.thread = threading.Thread(target=self._run, daemon=True)

    def say(self, said: Said, numbers: Sequence[int]) -> None:
        """Say a message at one of these brokers, or another one."""
        for number in itertools.cycle(numbers):
            self.attempts[said.body] += 1
            try:
                PRODUCERS[self._name](self._cluster, number, INLETS.get(self._name, ""), said)
            except Exception as error:
                self.troubles.append(f"{said.body}: {error!r}")
            else:
                return

    def begin(self, numbers: Sequence[int]) -> None:
        self._numbers = numbers
        self.thread.start()

    def _run(self) -> None:
        for said in self._left:
            self.say(said, self._numbers)


class Wanderer:
    """A consumer that comes back, to another broker if its own is gone."""

    def __init__(self, cluster: MatrixCluster, name: str, number: int) -> None:
        self._cluster = cluster
        self._name = name
        self._number = number
        self.ledger = Ledger()
        self.troubles: list[str] = []
        self._reading: Reading | None = None
        self._offset = 0
        self.open()

    def open(self) -> None:
        place = QUEUES.get(self._name, PLACE)
        reading = CONSUMERS[self._name](self._cluster, self._number, place)
        if hasattr(reading, "offset"):
            reading.offset = self._offset
        reading.open()
        self._reading = reading

    def take(self) -> None:
        """Take what has come; another time, if the broker is gone."""
        try:
            if self._reading is None:
                self.open()
            assert self._reading is not None
            self._reading.take(self.ledger)
        except Exception as error:
            self.troubles.append(repr(error))
            self.close()
            self._number = self._number % len(BROKERS) + 1

    def close(self) -> None:
        reading, self._reading = self._reading, None
        if reading is not None:
            self._offset = getattr(reading, "offset", 0)
            with contextlib.suppress(Exception):
                reading.close()


def leader_of(cluster: MatrixCluster, topic: str) -> int:
    found = describe_topic(admin_client(cluster.bootstrap_servers), topic)
    return int(found.partitions[0].leader)


def messages_of(producer: str, tag: str, count: int) -> list[Said]:
    return [
        Said(name=(PLACE, producer), body=f"{tag}: {number}, 21.5 °C, says {producer}")
        for number in range(count)
    ]


def kill_while_messages_flow(cluster: MatrixCluster, victim: int, tag: str, count: int) -> None:
    """Kill a broker in the middle of it, and check what every consumer was given in the end."""
    others = [each for each in BROKERS if each != victim]
    said = {name: messages_of(name, tag, count) for name in PRODUCERS}
    speakers = {name: Speaker(cluster, name, said[name][1:]) for name in PRODUCERS}
    with ExitStack() as leaving:
        wanderers = {}
        for name, kind in CONSUMERS.items():
            number = victim if kind.is_kept else others[0]
            wanderers[name] = Wanderer(cluster, name, number)
            leaving.callback(wanderers[name].close)
        # One by the broker that dies: it may have to be said before anybody dies.
        for name, speaker in speakers.items():
            speaker.say(said[name][0], [victim])
        for number, speaker in enumerate(speakers.values()):
            speaker.begin([others[number % 2], others[1 - number % 2]])
        for wanderer in wanderers.values():
            wanderer.take()
        cluster.brokers[victim - 1].kill()
        wanted = {each.body for name in PRODUCERS for each in said[name]}

        def is_all() -> bool:
            for wanderer in wanderers.values():
                wanderer.take()
            return all(wanted <= wanderer.ledger.bodies for wanderer in wanderers.values())

        def missing() -> str:
            lacks = {
                name: (sorted(wanted - each.ledger.bodies), each.troubles[-3:])
                for name, each in wanderers.items()
            }
            return f"{lacks} { ({name: each.troubles for name, each in speakers.items()}) }"

        eventually(is_all, missing, seconds=PATIENCE_S)
        for speaker in speakers.values():
            speaker.thread.join()
    check_said(said, {name: each.ledger for name, each in wanderers.items()})
    attempts = Counter[str]()
    for name in DIRECT:
        attempts.update(speakers[name].attempts)
    for name in CONFIRMED:
        again = Counter(each for each in wanderers[name].ledger.again if each in attempts)
        assert all(count < attempts[body] for body, count in again.items()), (name, again)


def check_said(said: dict[str, list[Said]], ledgers: dict[str, Ledger]) -> None:
    """Check that every message has come as it was said, each time that it has come."""
    by_body = {each.body: each for found in said.values() for each in found}
    for name, ledger in ledgers.items():
        for found in ledger.given:
            sent = by_body.get(found.body)
            if sent is not None:
                wanted = replace(sent, name=sent.name if found.name is not None else None)
                assert found == wanted, name


def start_again(cluster: MatrixCluster, broker: BrokerProcess) -> None:
    broker.start()
    cluster.wait_until_ready()
    cluster.run("cluster", "wait", "--in-sync")


def test_the_leader_is_killed_while_messages_flow(cluster: MatrixCluster) -> None:
    kill_while_messages_flow(cluster, leader_of(cluster, PLACE), "once", 4)


@pytest.mark.extended
def test_each_broker_is_killed_while_messages_flow(cluster: MatrixCluster) -> None:
    for turn, victim in enumerate((*BROKERS, *BROKERS)):
        kill_while_messages_flow(cluster, victim, f"turn {turn}", 12)
        start_again(cluster, cluster.brokers[victim - 1])
