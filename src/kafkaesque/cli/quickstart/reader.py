"""One member of the consuming group, as a process: `python -m kafkaesque.cli.quickstart.reader`.

Tells on standard output, a line of JSON now and then, how far it is; writes partition, offset and
row of every message that it got to a file, as 64-bit numbers. SIGTERM has it leave the group.
"""

import json
import signal
import sys
import time
from array import array
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from kafkaesque.cli.kafka import Connection
from kafkaesque.cli.quickstart.flights import row_of

BATCH_MAX = 2000
POLL_S = 0.1
REPORT_S = 0.2
NUMBERS_PER_MESSAGE = 3


class Member:
    """Consumes until it is told to stop."""

    def __init__(self, bootstrap: str, topic: str, group: str, found: Path) -> None:
        self._is_stopping = False
        self._count = 0
        self._assigned: list[int] = []
        self._positions: dict[int, int] = {}
        self._unstored: dict[int, int] = {}
        self._found = found
        self._topic = topic
        settings: dict[str, Any] = {
            "group.id": group,
            "client.id": found.stem,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 500,
            # Committed is what is on record here, so that nothing falls between two members.
            "enable.auto.offset.store": False,
        }
        self._consumer = Connection(bootstrap).consumer(settings)

    def stop(self, *_: object) -> None:
        self._is_stopping = True

    def run(self) -> None:
        """Consume, and report."""
        self._consumer.subscribe([self._topic], on_assign=self._on_assign)
        reported_at = 0.0
        with self._found.open("wb") as file:
            while not self._is_stopping:
                messages = [m for m in self._consumer.consume(BATCH_MAX, POLL_S) if not m.error()]
                if messages:
                    self._take(messages).tofile(file)
                    self._store()
                if time.monotonic() - reported_at > REPORT_S:
                    reported_at = time.monotonic()
                    self._report()
            self._consumer.close()
        self._report()

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._assigned = sorted(each.partition for each in partitions)
        self._report()

    def _take(self, messages: list[Message]) -> "array[int]":
        numbers = array("q")
        last: dict[int, int] = {}
        for message in messages:
            partition, offset = message.partition() or 0, message.offset() or 0
            numbers.extend((partition, offset, row_of(message.value() or b"")))
            last[partition] = offset + 1
        self._count += len(messages)
        self._positions.update(last)
        self._unstored = last
        return numbers

    def _store(self) -> None:
        for partition, offset in self._unstored.items():
            try:
                self._consumer.store_offsets(
                    offsets=[TopicPartition(self._topic, partition, offset)]
                )
            except KafkaException:
                # Another member has the partition now, and gets these once more.
                pass

    def _report(self) -> None:
        document = {
            "count": self._count,
            "assigned": self._assigned,
            "positions": self._positions,
        }
        sys.stdout.write(json.dumps(document) + "\n")
        sys.stdout.flush()


def main() -> None:
    """Run one member: bootstrap servers, topic, group, file."""
    bootstrap, topic, group, found = sys.argv[1:]
    member = Member(bootstrap, topic, group, Path(found))
    signal.signal(signal.SIGTERM, member.stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    member.run()


if __name__ == "__main__":
    main()
