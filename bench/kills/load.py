"""The steady load: idempotent producers that never give up, and a consumer group."""

from __future__ import annotations

import random
import threading
import time
from array import array
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from bench.kills.ledger import VALUE_BYTES_MAX, Ledger, Where, make_value, read_value

STEP_S = 0.01
OUTSTANDING_MAX = 20_000
#: Most records are small; one in fifty is up to `VALUE_BYTES_MAX`.
SMALL_BYTES_MAX = 400
COMMIT_INTERVAL_S = 1.0
READ_COUNT_MAX = 500
PROBE_KEY = b"probe"

_PRODUCERS: tuple[dict[str, Any], ...] = (
    {"compression.type": "none", "linger.ms": 0},
    {"compression.type": "lz4", "linger.ms": 20},
    {"compression.type": "zstd", "linger.ms": 50},
)


class Producers(threading.Thread):
    """Sends records to all partitions at a steady rate until told to stop."""

    def __init__(
        self,
        bootstrap_servers: str,
        places: Sequence[Where],
        ledger: Ledger,
        *,
        per_second: int,
        seed: int,
    ) -> None:
        super().__init__(name="producers", daemon=True)
        self._places = list(places)
        self._ledger = ledger
        self._per_step = max(1, round(per_second * STEP_S))
        self._dice = random.Random(seed)
        self._ending = threading.Event()
        self._producers = [
            Producer(
                {
                    "bootstrap.servers": bootstrap_servers,
                    "enable.idempotence": True,
                    "enable.gapless.guarantee": True,
                    "message.timeout.ms": 0,
                    "queue.buffering.max.kbytes": 1 << 20,
                    "log_level": 0,
                    "error_cb": self._on_error,
                    **options,
                }
            )
            for options in _PRODUCERS
        ]

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._ledger.fail(f"a producer's fatal error: {error}")

    def run(self) -> None:
        due = time.monotonic()
        while not self._ending.is_set():
            if self._ledger.outstanding < OUTSTANDING_MAX:
                for _ in range(self._per_step):
                    self._send()
            for producer in self._producers:
                producer.poll(0)
            due = max(due + STEP_S, time.monotonic() - 1.0)
            time.sleep(max(0.0, due - time.monotonic()))

    def _send(self) -> None:
        dice, ledger = self._dice, self._ledger
        who = dice.randrange(len(self._producers))
        where = dice.choice(self._places)
        size = dice.randrange(VALUE_BYTES_MAX if dice.random() < 0.02 else SMALL_BYTES_MAX)
        number = ledger.add(who, where)

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                ledger.fail(f"record {number} was not delivered: {error}")
            else:
                offset = message.offset()
                ledger.acknowledge(number, where, -1 if offset is None else offset)

        self._producers[who].produce(
            where[0], value=make_value(number, size), partition=where[1], on_delivery=on_delivery
        )

    def finish(self, timeout_s: float) -> int:
        """Send no more and wait for what is outstanding; return how much of it is left."""
        self._ending.set()
        self.join()
        deadline = time.monotonic() + timeout_s
        for producer in self._producers:
            producer.flush(max(0.0, deadline - time.monotonic()))
        return self._ledger.outstanding


class Readings:
    """What the members of the group were given, and what is wrong with it."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        #: By partition, by offset: the record's number; -1 is a probe.
        self.numbers: dict[Where, array[int]] = {}
        #: The last commit that was acknowledged.
        self.committed: dict[Where, int] = {}
        self.given = 0
        self.given_again = 0
        self.errors: dict[str, int] = {}
        self.last_at = time.monotonic()
        self.longest_silence_s = 0.0
        self.lock = threading.Lock()

    def take(self, message: Message) -> None:
        """Take note of a record; it must be the next, or one that was given before."""
        where = (str(message.topic()), int(message.partition() or 0))
        offset = int(message.offset() or 0)
        number = -1 if message.key() == PROBE_KEY else read_value(message.value())
        if number is None:
            self.ledger.fail(f"a member was given what nobody sent, at {where}, {offset}")
            return
        self.given += 1
        seen = self.numbers.setdefault(where, array("q"))
        if offset == len(seen):
            seen.append(number)
            return
        self.given_again += 1
        if offset > len(seen):
            self.ledger.fail(f"a member was given {offset} of {where} after {len(seen) - 1}")
        elif seen[offset] != number:
            self.ledger.fail(f"{where} had {seen[offset]} at {offset}, now it has {number}")


class Member(threading.Thread):
    """One member of the group."""

    def __init__(
        self, bootstrap_servers: str, group: str, topics: Sequence[str], readings: Readings
    ) -> None:
        super().__init__(name="member", daemon=True)
        self._readings = readings
        self._ending = threading.Event()
        self._next: dict[Where, int] = {}
        #: Where the group had acknowledged commits when this member got the partition.
        self._floors: dict[Where, int] = {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 10_000,
                "check.crcs": True,
                "log_level": 0,
                "error_cb": lambda error: None,
                "on_commit": self._on_commit,
            }
        )
        self._consumer.subscribe(list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke)

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        with self._readings.lock:
            for each in partitions:
                where = (each.topic, each.partition)
                self._floors[where] = self._readings.committed.get(where, 0)

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._commit()
        for each in partitions:
            self._next.pop((each.topic, each.partition), None)

    def run(self) -> None:
        commit_due = time.monotonic() + COMMIT_INTERVAL_S
        while not self._ending.is_set():
            messages = self._consumer.consume(READ_COUNT_MAX, 0.1)
            with self._readings.lock:
                for message in messages:
                    self._take(message)
            if time.monotonic() >= commit_due:
                self._commit()
                commit_due = time.monotonic() + COMMIT_INTERVAL_S
        self._commit()
        self._consumer.close()

    def _take(self, message: Message) -> None:
        readings = self._readings
        error = message.error()
        if error is not None:
            name = str(error.name())
            readings.errors[name] = readings.errors.get(name, 0) + 1
            return
        now = time.monotonic()
        readings.longest_silence_s = max(readings.longest_silence_s, now - readings.last_at)
        readings.last_at = now
        where = (str(message.topic()), int(message.partition() or 0))
        offset = int(message.offset() or 0)
        floor = self._floors.pop(where, 0)
        if offset < floor:
            readings.ledger.fail(
                f"a member was given {offset} of {where} though {floor} was committed"
            )
        self._next[where] = offset + 1
        readings.take(message)

    def _commit(self) -> None:
        offsets = [
            TopicPartition(topic, partition, offset)
            for (topic, partition), offset in self._next.items()
        ]
        if not offsets:
            return
        # Answered in `_on_commit`: waiting here for a coordinator that stands still would keep
        # this member from everybody else's records.
        self._consumer.commit(offsets=offsets, asynchronous=True)

    def _on_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        readings = self._readings
        with readings.lock:
            if error is not None:
                return
            for each in partitions:
                if each.error is None:
                    where = (each.topic, each.partition)
                    readings.committed[where] = each.offset

    def finish(self, timeout_s: float) -> bool:
        """Leave the group; tell whether that came to an end."""
        self._ending.set()
        self.join(timeout_s)
        return not self.is_alive()
