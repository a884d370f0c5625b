"""What clients sent, what was acknowledged, what was read; and what is wrong with it.

The checker knows: *lost write* (acknowledged, not in the log), *duplicate* (twice in the log),
*inconsistent offsets* (two records were seen at one offset, or an acknowledged one is at another),
*unsent* (nobody ever sent it), *reordered* (a producer's records not in its order), *gap* (an
offset that nobody read), *lost commit* (a group's committed offset went back).
"""

from collections import defaultdict
from typing import Final

#: More anomalies of one run are counted, not described.
ANOMALIES_MAX: Final = 100


class Observations:
    """The clients' side of the history."""

    def __init__(self) -> None:
        self.anomalies: list[str] = []
        self.sent_count = 0
        self.read_count = 0
        #: (partition, value) -> offset
        self.acknowledged: dict[tuple[int, bytes], int] = {}
        self._sent: set[tuple[int, bytes]] = set()
        #: partition -> offset -> value
        self.seen: dict[int, dict[int, bytes]] = defaultdict(dict)
        self._producer_ids: dict[int, str] = {}

    def note_anomaly(self, what: str) -> None:
        """Something that must never be was seen."""
        if len(self.anomalies) < ANOMALIES_MAX:
            self.anomalies.append(what)

    def note_producer_id(self, name: str, producer_id: int) -> None:
        """A producer got its id; nobody else may get the same."""
        owner = self._producer_ids.setdefault(producer_id, name)
        if owner != name:
            self.note_anomaly(f"producer id {producer_id} was given to {owner} and to {name}")

    def note_sent(self, partition: int, values: list[bytes]) -> None:
        """Values are on their way."""
        self.sent_count += len(values)
        self._sent.update((partition, value) for value in values)

    def note_acknowledged(self, partition: int, base_offset: int, values: list[bytes]) -> None:
        """A batch was acknowledged with acks=all."""
        for offset, value in enumerate(values, base_offset):
            self.acknowledged[partition, value] = offset

    def note_read(self, who: str, partition: int, offset: int, value: bytes) -> None:
        """A consumer got a record."""
        self.read_count += 1
        known = self.seen[partition].setdefault(offset, value)
        if known != value:
            self.note_anomaly(
                f"inconsistent offsets: {who} read {value!r} at {partition}@{offset}, where "
                f"{known!r} was read before"
            )

    def note_out_of_range(self, who: str, partition: int, position: int) -> None:
        """A consumer was told that its position does not exist: what it has read is gone."""
        self.note_anomaly(f"{who}: position {position} of partition {partition} is out of range")

    def check(self) -> None:
        """Compare, once everything has been read to the end."""
        for (partition, value), offset in self.acknowledged.items():
            found = self.seen[partition].get(offset)
            if found is None:
                self.note_anomaly(f"lost write: {value!r}, acknowledged at {partition}@{offset}")
            elif found != value:
                self.note_anomaly(
                    f"inconsistent offsets: {value!r} was acknowledged at {partition}@{offset}, "
                    f"where {found!r} is"
                )
        for partition, records in self.seen.items():
            self._check_partition(partition, records)

    def _check_partition(self, partition: int, records: dict[int, bytes]) -> None:
        places: dict[bytes, int] = {}
        newest: dict[str, int] = {}
        for expected, offset in enumerate(sorted(records)):
            value = records[offset]
            if offset != expected:
                self.note_anomaly(f"gap: {partition}@{expected} does not exist, {offset} does")
                return
            if value in places:
                self.note_anomaly(
                    f"duplicate: {value!r} is at {partition}@{places[value]} and @{offset}"
                )
            places[value] = offset
            if (partition, value) not in self._sent:
                self.note_anomaly(f"unsent: nobody sent {value!r}, at {partition}@{offset}")
                continue
            producer, _, number = value.decode().rsplit("/", 2)
            if int(number) <= newest.get(producer, -1):
                self.note_anomaly(
                    f"reordered: {value!r} at {partition}@{offset} after {newest[producer]}"
                )
            newest[producer] = int(number)
