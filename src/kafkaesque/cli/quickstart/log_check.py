"""What is in the log itself, partition by partition, compared with the data."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkaesque.cli.exit_codes import TIMED_OUT
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.quickstart.flights import Flights, row_of

if TYPE_CHECKING:
    from array import array

    from kafkaesque.cli.kafka import Connection

BATCH_MAX = 5000
POLL_S = 0.2
REQUEST_TIMEOUT_S = 15.0
READ_TIMEOUT_S = 60.0


@dataclass(slots=True, kw_only=True)
class LogFindings:
    """Counts over all partitions; all but `messages` and `ends` are 0 where all is well."""

    messages: int = 0
    #: Acknowledged rows that are nowhere in the log.
    lost: int = 0
    #: Messages that hold a row that an earlier one holds.
    duplicates: int = 0
    #: Messages that are not, byte for byte, key and value of a row.
    damaged: int = 0
    #: Messages whose row is before that of the message before, in their partition.
    out_of_order: int = 0
    #: Offsets that no message has.
    holes: int = 0
    ends: dict[int, int] = field(default_factory=dict)

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.duplicates or self.damaged or self.out_of_order or self.holes)


@dataclass(slots=True, kw_only=True)
class DeliveryFindings:
    """What the group got; `missed` is 0 where all is well, redelivery is no damage."""

    deliveries: int = 0
    distinct: int = 0
    redelivered: int = 0
    missed: int = 0


def read_ends(connection: "Connection", topic: str, partitions: int) -> dict[int, int]:
    """Return the end offset of each partition."""
    from confluent_kafka.admin import OffsetSpec

    from kafkaesque.cli.group_offsets import list_offsets

    named = [(topic, number) for number in range(partitions)]
    ends = list_offsets(connection.admin(), named, lambda _: OffsetSpec.latest())
    return {number: end for (_, number), end in ends.items()}


def check_log(
    connection: "Connection",
    topic: str,
    ends: dict[int, int],
    flights: Flights,
    is_acknowledged: "array[int]",
    on_progress: Callable[[int], None],
) -> LogFindings:
    """Read every partition from its first offset to its end, in no group, and compare.

    Raises:
        CommandFailed: the log cannot be read to its end in time.
    """
    from confluent_kafka import TopicPartition

    consumer = connection.consumer({"group.id": "quickstart-check", "enable.auto.commit": False})
    found = LogFindings(ends=ends)
    seen = bytearray(len(flights))
    next_offset = dict.fromkeys(ends, 0)
    last_row = dict.fromkeys(ends, -1)
    deadline = time.monotonic() + READ_TIMEOUT_S
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in ends])
        while any(next_offset[number] < end for number, end in ends.items()):
            if time.monotonic() > deadline:
                raise CommandFailed("the log was not read in time", exit_code=TIMED_OUT)
            messages = [m for m in consumer.consume(BATCH_MAX, POLL_S) if not m.error()]
            for message in messages:
                partition, offset = message.partition() or 0, message.offset() or 0
                found.holes += offset - next_offset[partition]
                next_offset[partition] = offset + 1
                value = message.value() or b""
                row = row_of(value)
                if not 0 <= row < len(flights) or flights.values[row] != value:
                    found.damaged += 1
                    continue
                found.damaged += flights.keys[row] != message.key()
                found.duplicates += seen[row]
                found.out_of_order += row < last_row[partition]
                last_row[partition] = row
                seen[row] = 1
            found.messages += len(messages)
            on_progress(len(messages))
    finally:
        consumer.close()
    found.lost = sum(
        acked and not there for acked, there in zip(is_acknowledged, seen, strict=True)
    )
    return found


def check_deliveries(numbers: "array[int]", ends: dict[int, int]) -> DeliveryFindings:
    """Compare what the group got with what is in the log; a place got twice is a redelivery."""
    places = set(zip(numbers[0::3], numbers[1::3], strict=True))
    deliveries = len(numbers) // 3
    return DeliveryFindings(
        deliveries=deliveries,
        distinct=len(places),
        redelivered=deliveries - len(places),
        missed=sum(ends.values()) - len(places),
    )
