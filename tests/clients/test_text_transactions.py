"""The text port shows what is committed, whichever broker is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.clients.bad_input import Wire
from tests.clients.cluster import KafkaesqueCluster
from tests.clients.kafka_helpers import TopicMaker, unique
from tests.clients.transactional_clients import Librdkafka
from tests.waiting import eventually


class Person(Wire):
    """Somebody with telnet."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._lines = self.socket.makefile("rb")

    def say(self, command: str) -> list[str]:
        """Return the lines of the answer."""
        self.send(f"{command}\n".encode())
        lines = [""]
        while not lines[-1].startswith(("OK", "ERROR")):
            lines.append(self._lines.readline().decode().rstrip())
            assert lines[-1], "the broker closed the connection"
        return lines[1:]

    def bodies(self, topic: str, start: str, group: str = "readers") -> list[object]:
        """Consume, and return what the messages hold."""
        (subscribed,) = self.say(f"SUBS {topic} {group}")
        *messages, last = self.say(f"CONS {topic} {subscribed.removeprefix('OK ')} {start}")
        assert last.startswith(f"OK {len(messages)} message"), last
        return [json.loads(line.split(" ", 4)[4])["Body"] for line in messages]

    def close(self) -> None:
        self._lines.close()
        self.socket.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaesqueCluster]:
    with KafkaesqueCluster(brokers=2, has_text=True) as made:
        yield made


@pytest.fixture
def people(cluster: KafkaesqueCluster) -> Iterator[list[Person]]:
    """One at each broker: one of the two is not the leader's."""
    made = [Person(port) for port in cluster.text_ports]
    yield made
    for person in made:
        person.close()


@pytest.fixture
def topic(cluster: KafkaesqueCluster) -> str:
    return TopicMaker(cluster.bootstrap_servers)(partitions=1, replication=2)


@pytest.fixture
def producer(cluster: KafkaesqueCluster) -> Iterator[Librdkafka]:
    with closing(Librdkafka(cluster.bootstrap_servers, unique("text"))) as made:
        yield made


def test_what_is_open_or_aborted_is_not_shown(
    people: list[Person], topic: str, producer: Librdkafka
) -> None:
    first, second = people
    assert first.say(f"PUBS {topic} plain")[0].startswith("OK")
    for value, is_commit in ((b"aborted", False), (b"committed", True), (b"aborted too", False)):
        producer.begin()
        producer.send(topic, 0, value)
        producer.flush()
        if is_commit:
            producer.commit()
        else:
            producer.abort()
    producer.begin()
    producer.send(topic, 0, b"open")
    producer.flush()
    assert second.say(f"PUBS {topic} behind")[0].startswith("OK")
    wanted = ["plain", "committed"]
    eventually(
        lambda: all(each.bodies(topic, "earliest") == wanted for each in people), "the markers"
    )
    for person in people:
        assert person.bodies(topic, "next", group=unique("group")) == wanted
        assert person.bodies(topic, "latest") == []
    group = unique("group")
    assert first.bodies(topic, "next", group) == wanted
    assert second.bodies(topic, "next", group) == []
    producer.commit()
    seen: list[object] = []

    def is_there() -> bool:
        seen.extend(second.bodies(topic, "next", group))
        return len(seen) == 2

    eventually(is_there, "what was open")
    assert seen == ["open", "behind"]
    assert first.bodies(topic, "next", group) == []


def test_much_that_was_aborted_is_passed_over(
    people: list[Person], topic: str, producer: Librdkafka
) -> None:
    """More than one fetch brings."""
    producer.begin()
    for _ in range(30):
        producer.send(topic, 0, b"x" * 100_000)
    producer.flush()
    producer.abort()
    producer.begin()
    producer.send(topic, 0, b"committed")
    producer.commit()
    first, second = people
    eventually(lambda: first.bodies(topic, "earliest") == ["committed"], "the commit")
    assert second.bodies(topic, "earliest") == ["committed"]
