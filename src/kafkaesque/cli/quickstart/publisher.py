"""Publishes the flights at an even pace and knows which of them were acknowledged, and when."""

import time
from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.quickstart.flights import Flights

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

    from kafkaesque.cli.kafka import Connection

#: Messages between two looks at the clock.
BURST = 100
PAUSE_S = 0.002
#: Unacknowledged messages above which publishing waits.
BACKLOG_MAX = 50_000
FLUSH_STEP_S = 0.05


class Publisher:
    """An idempotent producer with librdkafka's ordinary settings, and its books."""

    def __init__(self, connection: "Connection", topic: str, flights: Flights) -> None:
        self.acknowledged = 0
        self.failures: dict[str, int] = {}
        #: 1 for each row that was acknowledged.
        self.is_acknowledged = array("b", bytes(len(flights)))
        #: Longest time between two acknowledgements of a partition, while it is watched.
        self.gaps_s: dict[int, float] = {}
        self._last_s: dict[int, float] = {}
        self._watched: set[int] = set()
        self._topic = topic
        self._flights = flights
        self._producer = connection.producer(
            {
                "enable.idempotence": True,
                "acks": "all",
                "partitioner": "murmur2_random",
                "linger.ms": 5,
            }
        )

    def watch(self, partitions: list[int]) -> None:
        """From now on, note the longest time without an acknowledgement in these partitions."""
        self._watched = set(partitions)
        self.gaps_s = dict.fromkeys(partitions, 0.0)

    def has_all_since(self, moment_s: float) -> bool:
        """Whether every watched partition has acknowledged something after that moment."""
        return all(self._last_s.get(partition, 0.0) > moment_s for partition in self._watched)

    def publish(self, rate: float, on_turn: Callable[[], None]) -> None:
        """Publish everything and wait for all acknowledgements; `on_turn` is called all the time.

        Raises:
            CommandFailed: a message was given up.
        """
        began = time.monotonic()
        produce, topic = self._producer.produce, self._topic
        keys, values = self._flights.keys, self._flights.values
        for first in range(0, len(values), BURST):
            for row in range(first, min(first + BURST, len(values))):
                produce(
                    topic,
                    values[row],
                    keys[row],
                    on_delivery=lambda error, message, row=row: self._on_delivery(  # type: ignore[misc]
                        error, message, row
                    ),
                )
            self._producer.poll(0)
            on_turn()
            while time.monotonic() - began < first / rate or len(self._producer) > BACKLOG_MAX:
                self._producer.poll(PAUSE_S)
                on_turn()
        while self._producer.flush(FLUSH_STEP_S):
            on_turn()
        if self.failures:
            reasons = ", ".join(f"{name} ({count})" for name, count in self.failures.items())
            raise CommandFailed(f"messages were not acknowledged: {reasons}")

    def _on_delivery(self, error: "KafkaError | None", message: "Message", row: int) -> None:
        if error is not None:
            self.failures[error.name()] = self.failures.get(error.name(), 0) + 1
            return
        self.acknowledged += 1
        self.is_acknowledged[row] = 1
        partition = message.partition() or 0
        now = time.monotonic()
        if partition in self._watched:
            gap = now - self._last_s.get(partition, now)
            if gap > self.gaps_s[partition]:
                self.gaps_s[partition] = gap
        self._last_s[partition] = now
