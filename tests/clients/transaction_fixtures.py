"""What tests of wrong transactional requests share: producers, and somebody beside them.

A module that imports the fixtures has a bystander of its own, beside all of its tests.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from kafkaesque.protocols.kafka.error_codes import ErrorCode
from tests.clients.kafka_helpers import TopicMaker, unique
from tests.clients.raw_transactions import Raw, RawProducer, settled
from tests.clients.transactional_clients import Librdkafka, await_committed
from tests.waiting import eventually

E = ErrorCode
PARTITIONS = 3


class Bystander:
    """Somebody else, who commits one transaction after the other and must not notice anything."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self.topic = topic
        self.wanted: list[bytes] = []
        self.failure: BaseException | None = None
        self._is_over = threading.Event()
        self._producer = Librdkafka(bootstrap_servers, unique("bystander"))
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            number = 0
            while not self._is_over.wait(0.05):
                value = b"%d" % number
                number += 1
                self._producer.begin()
                for partition in range(PARTITIONS):
                    self._producer.send(self.topic, partition, value)
                self._producer.commit()
                self.wanted.append(value)
        except BaseException as error:
            self.failure = error

    def look(self) -> None:
        """Wait for two more commits."""
        count = len(self.wanted)
        eventually(lambda: bool(self.failure) or len(self.wanted) > count + 1, "a commit")
        assert self.failure is None

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()


@pytest.fixture(scope="module")
def raw(bootstrap_servers: str) -> Iterator[Raw]:
    with Raw(bootstrap_servers) as made:
        yield made


@pytest.fixture(scope="module")
def topic(make_module_topic: Callable[[], str]) -> str:
    return make_module_topic()


@pytest.fixture(scope="module")
def make_module_topic(topic_maker: TopicMaker) -> Callable[[], str]:
    return lambda: topic_maker("bad", partitions=PARTITIONS)


@pytest.fixture(scope="module")
def bystander(bootstrap_servers: str, make_module_topic: Callable[[], str]) -> Iterator[Bystander]:
    """In the end, all that was committed is there."""
    made = Bystander(bootstrap_servers, make_module_topic())
    try:
        yield made
    finally:
        made.close()
    await_committed(bootstrap_servers, made.topic, dict.fromkeys(range(PARTITIONS), made.wanted))


@pytest.fixture(autouse=True)
def others_notice_nothing(bystander: Bystander) -> Iterator[None]:
    yield
    bystander.look()


@pytest.fixture
def begun(raw: Raw) -> RawProducer:
    """A producer without a transaction."""
    producer = RawProducer(raw)
    assert settled(producer.init) is E.NONE
    return producer


@pytest.fixture
def added(begun: RawProducer, topic: str) -> RawProducer:
    """A producer whose transaction has partition 0, and no record yet."""
    assert settled(lambda: added_code(begun, topic)) is E.NONE
    return begun


def added_code(producer: RawProducer, topic: str) -> ErrorCode:
    return producer.add({topic: [0]})[0]


def still_commits(producer: RawProducer, topic: str) -> None:
    """What is wrong has not cost the producer its transaction."""
    assert settled(lambda: producer.send(topic, 0, b"right")) is E.NONE
    assert settled(lambda: producer.end(is_commit=True)) is E.NONE
