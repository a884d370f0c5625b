"""The load: real clients (librdkafka) of every kind, each noting what it does and is given."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from bench.chaos.history import History, Where, make_value
from bench.chaos.insight import Insight

STEP_S: Final = 0.02
OUTSTANDING_MAX: Final = 5_000
VALUE_BYTES_MAX: Final = 3_000
READ_COUNT_MAX: Final = 500
COMMIT_INTERVAL_S: Final = 1.0
KEYS: Final = 200

#: What the library would print goes nowhere: errors are noted by callbacks and exceptions.
_LOGGER: Final = logging.Logger("librdkafka", logging.CRITICAL + 1)

_COMMON: Final[dict[str, Any]] = {
    "logger": _LOGGER,
    # A broker that is back is asked again within a second.
    "reconnect.backoff.max.ms": 1_000,
    "socket.connection.setup.timeout.ms": 5_000,
}


class Client(threading.Thread):
    """A thread that works until it is told to stop; what it raises is an anomaly."""

    def __init__(self, name: str, bootstrap_servers: str, history: History) -> None:
        super().__init__(name=name, daemon=True)
        self.history = history
        self._settings: dict[str, Any] = {
            **_COMMON,
            "bootstrap.servers": bootstrap_servers,
            "client.id": name,
            "error_cb": self._on_error,
        }
        self._insight = Insight()
        self._stopping = threading.Event()

    def _on_error(self, error: KafkaError) -> None:
        self.history.error(self.name, str(error.name()))

    def _is_trouble(self, message: Message) -> bool:
        """Note what a reader is told; False for a record, and for the end of the log as it is.

        The end lies after what is given to nobody, as the ends of transactions.
        """
        error = message.error()
        if error is None or error.code() == KafkaError._PARTITION_EOF:
            return False
        self.history.error(self.name, str(error.name()))
        return True

    def stop(self) -> None:
        """Begin nothing new; `join` waits for what was begun."""
        self._stopping.set()

    def work(self) -> None:
        """What the client does until it is stopped."""
        raise NotImplementedError

    def run(self) -> None:
        try:
            self.work()
        except Exception as error:
            self.history.anomaly(f"client error: {self.name}: {error!r}")

    def describe(self) -> str:
        """Say what is waited for when the client does not come to an end."""
        return "it has not ended"


def place_of(message: Message) -> tuple[Where, int]:
    """Return partition and offset of what a consumer was given."""
    where = (str(message.topic()), int(message.partition() or 0))
    return where, int(message.offset() or 0)


class IdempotentProducer(Client):
    """Sends records at a steady rate; each is repeated until it is acknowledged."""

    def __init__(
        self,
        name: str,
        bootstrap_servers: str,
        history: History,
        *,
        places: Sequence[Where],
        per_second: float,
        seed: int,
        has_keys: bool = False,
        options: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(name, bootstrap_servers, history)
        self._places = list(places)
        self._interval_s = 1 / per_second
        self._dice = random.Random(f"{seed}/{name}")
        self._has_keys = has_keys
        self._waiting = 0
        self._options = options or {}

    def _on_error(self, error: KafkaError) -> None:
        super()._on_error(error)
        if error.fatal():
            self.history.anomaly(f"client error: {self.name}: {error}")

    def work(self) -> None:
        settings = {
            "enable.idempotence": True,
            "enable.gapless.guarantee": True,
            "message.timeout.ms": 0,
            "retry.backoff.max.ms": 1_000,
        }
        producer = Producer({**self._settings, **settings, **self._options})
        due = time.monotonic()
        while not self._stopping.is_set():
            while due <= time.monotonic() and self._waiting < OUTSTANDING_MAX:
                self._send(producer)
                due = max(due + self._interval_s, time.monotonic() - 1.0)
            producer.poll(STEP_S)
        while self._waiting:
            producer.flush(1.0)

    def describe(self) -> str:
        return f"{self._waiting} records wait for their acknowledgement"

    def _send(self, producer: Producer) -> None:
        where = self._dice.choice(self._places)
        key = b"key-%d" % self._dice.randrange(KEYS) if self._has_keys else None
        number = self.history.send(self.name, where, key=key)

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            self._waiting -= 1
            if error is None:
                self.history.acknowledge(number, message.offset())
            else:
                self.history.give_up(number, str(error.name()))
                self.history.anomaly(f"client error: {self.name}: record {number}: {error}")

        value = make_value(number, self._dice.randrange(VALUE_BYTES_MAX))
        self._waiting += 1
        producer.produce(where[0], value, key, where[1], on_delivery=on_delivery)


class Reader(Client):
    """Follows partitions that it assigned to itself, from their beginning."""

    def __init__(
        self,
        name: str,
        bootstrap_servers: str,
        history: History,
        *,
        places: Sequence[Where],
        is_committed: bool,
    ) -> None:
        super().__init__(name, bootstrap_servers, history)
        self._is_committed = is_committed
        self._readings = {
            where: history.reading(name, where, is_committed=is_committed) for where in places
        }
        #: Where to read to before the end, once it is known.
        self._ends: dict[Where, int] | None = None
        self._position: dict[Where, int] = dict.fromkeys(places, 0)

    def read_to(self, ends: dict[Where, int]) -> None:
        """Stop once everything before these offsets has been read."""
        self._ends = {where: ends[where] for where in self._position}

    def describe(self) -> str:
        ends = self._ends or {}
        behind = {
            where: (position, ends.get(where))
            for where, position in self._position.items()
            if position < ends.get(where, 0)
        }
        return f"read up to, of: {behind}; {self._insight.describe(behind)}"

    def _is_done(self) -> bool:
        ends = self._ends
        return ends is not None and all(self._position[each] >= ends[each] for each in ends)

    def work(self) -> None:
        consumer = Consumer(
            {
                **self._settings,
                **self._insight.settings,
                "group.id": f"{self.name}-nobody",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "check.crcs": True,
                "enable.partition.eof": True,
                "isolation.level": "read_committed" if self._is_committed else "read_uncommitted",
            }
        )
        consumer.assign([TopicPartition(*where, OFFSET_BEGINNING) for where in self._readings])
        poll = 0
        while not self._is_done():
            poll += 1
            for message in consumer.consume(READ_COUNT_MAX, 0.2):
                self._take(message, poll)
        consumer.close()

    def _take(self, message: Message, poll: int) -> None:
        if self._is_trouble(message):
            return
        where, offset = place_of(message)
        if message.error() is None:
            self.history.read(self._readings[where], offset, message.value(), poll=poll)
            offset += 1
        self._position[where] = max(self._position[where], offset)


class Member(Client):
    """A member of a consumer group, of either protocol; commits what it was given.

    A reading's name is the group's and the member's, so that a group is judged as one.
    """

    def __init__(
        self,
        name: str,
        bootstrap_servers: str,
        history: History,
        *,
        group: str,
        topics: Sequence[str],
        is_committed: bool,
        options: dict[str, Any],
    ) -> None:
        super().__init__(name, bootstrap_servers, history)
        self._group = group
        self._topics = list(topics)
        self._is_committed = is_committed
        self._options = options
        self._assignment = 0
        self._next: dict[Where, int] = {}
        #: Where the group had acknowledged commits when this member got the partition.
        self._floors: dict[Where, int] = {}
        self._ends: dict[Where, int] | None = None

    def read_to(self, ends: dict[Where, int]) -> None:
        """Stop once the group has committed everything before these offsets."""
        self._ends = {where: end for where, end in ends.items() if where[0] in self._topics}

    def describe(self) -> str:
        commits = self.history.commits[self._group]
        behind = {
            where: (commits.get(where, 0), end)
            for where, end in (self._ends or {}).items()
            if commits.get(where, 0) < end
        }
        return f"the group has committed, of: {behind}; {self._insight.describe(behind)}"

    def _is_done(self) -> bool:
        ends, commits = self._ends, self.history.commits[self._group]
        return ends is not None and all(commits.get(each, 0) >= ends[each] for each in ends)

    def work(self) -> None:
        consumer = Consumer(
            {
                **self._settings,
                **self._insight.settings,
                "group.id": self._group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "check.crcs": True,
                "enable.partition.eof": True,
                "isolation.level": "read_committed" if self._is_committed else "read_uncommitted",
                "on_commit": self._on_commit,
                **self._options,
            }
        )
        consumer.subscribe(
            self._topics,
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_lost,
        )
        poll, commit_due = 0, time.monotonic() + COMMIT_INTERVAL_S
        while not self._is_done():
            poll += 1
            for message in consumer.consume(READ_COUNT_MAX, 0.2):
                self._take(message, poll)
            if time.monotonic() >= commit_due:
                self._commit(consumer)
                commit_due = time.monotonic() + COMMIT_INTERVAL_S
        consumer.close()

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._assignment += 1
        commits = self.history.commits[self._group]
        for each in partitions:
            where = (each.topic, each.partition)
            self._floors[where] = commits.get(where, 0)
        self.history.note("assigned", who=self.name, partitions=[p.partition for p in partitions])

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._commit(consumer)
        self._on_lost(consumer, partitions)

    def _on_lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            self._next.pop((each.topic, each.partition), None)

    def _take(self, message: Message, poll: int) -> None:
        if self._is_trouble(message):
            return
        where, offset = place_of(message)
        if message.error() is not None:
            self._next[where] = offset
            return
        floor = self._floors.pop(where, 0)
        if offset < floor:
            self.history.anomaly(
                f"lost commit: {self.name} was given {where}@{offset}, though {floor} was committed"
            )
        reading = self.history.reading(
            f"{self._group}/{self.name}", where, is_committed=self._is_committed, is_member=True
        )
        self.history.read(reading, offset, message.value(), poll=poll, assignment=self._assignment)
        self._next[where] = offset + 1

    def _commit(self, consumer: Consumer) -> None:
        offsets = [TopicPartition(*where, offset) for where, offset in self._next.items()]
        if offsets:
            consumer.commit(offsets=offsets, asynchronous=True)

    def _on_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        if error is not None:
            self.history.error(self.name, str(error.name()))
            return
        commits = self.history.commits[self._group]
        for each in partitions:
            if each.error is None:
                commits[each.topic, each.partition] = each.offset
        told = [(each.topic, each.partition, each.offset) for each in partitions]
        self.history.note("committed", who=self.name, offsets=told)


def retried(act: Callable[[], object], is_over: Callable[[], bool]) -> None:
    """Do it again while the client library says that it may be; raises KafkaException else."""
    while True:
        try:
            act()
            return
        except KafkaException as error:
            cause = error.args[0]
            if not cause.retriable() or is_over():
                raise
            time.sleep(0.1)
