"""What people published by lines, which outcome they were told, and what is wrong with it.

Beside what `Observations` knows of a topic, with the same names, whoever read it by which protocol:
*refused write* (said not to be in the log, and it is), *wrong partition* (a key in another
partition than Kafka's clients choose for it), *altered key*, *duplicate* also in two partitions.

A message is acknowledged, refused or in doubt. One in doubt is never sent again. It may be in the
log once, at any later time, and so after what its publisher sent after it; whatever is acknowledged
comes after all that its publisher was told was acknowledged before.
"""

from typing import Final

from kafkaesque.model.murmur2 import partition_for_key
from kafkaesque.sim.clients.findings import Findings
from kafkaesque.sim.clients.observations import Observations


class TextObservations(Observations):
    """A topic that is written by lines, and by Kafka's producers."""

    def __init__(self, findings: Findings, topic: str, partitions: int) -> None:
        super().__init__(findings, topic)
        self.partitions: Final = partitions
        #: What was published, with its key.
        self._published: Final[dict[bytes, bytes | None]] = {}
        self._refused: Final[dict[bytes, str]] = {}
        self._in_doubt: Final[set[bytes]] = set()

    @property
    def refused_count(self) -> int:
        """Messages of which it was said that they are nowhere."""
        return len(self._refused)

    @property
    def doubtful_count(self) -> int:
        """Messages of which nobody said where they are."""
        return len(self._in_doubt)

    # -- what publishers do

    def note_published(self, value: bytes, key: bytes | None) -> None:
        """A message is on its way to whatever partition a broker chooses."""
        self._published[value] = key
        self.note_sent_somewhere(range(self.partitions), value)

    def note_placed(self, value: bytes, partition: int, offset: int) -> None:
        """It was acknowledged."""
        self.note_acknowledged(partition, offset, [value])

    def note_refused(self, value: bytes, why: str) -> None:
        """It was said that the message is in no log."""
        self._refused[value] = why

    def note_doubtful(self, value: bytes) -> None:
        """Nobody says what has become of it."""
        self._in_doubt.add(value)

    def may_be_late(self, value: bytes) -> bool:
        """See `Observations`."""
        return value in self._in_doubt

    # -- what readers see

    def note_read(
        self, who: str, partition: int, offset: int, value: bytes, key: bytes | None = None
    ) -> None:
        """See `Observations`."""
        super().note_read(who, partition, offset, value, key)
        sent = self._published.get(value)
        if key != sent:
            self.note_anomaly(
                f"altered key: {who} read {value!r} at {partition}@{offset} with the key {key!r}; "
                f"it was sent with {sent!r}"
            )

    # -- the end

    def check(self) -> None:
        """See `Observations`."""
        super().check()
        places: dict[bytes, str] = {}
        for partition, records in self.seen.items():
            for offset, value in records.items():
                if value in self._published:
                    self._check_place(partition, offset, value)
                    place = f"{partition}@{offset}"
                    before = places.setdefault(value, place)
                    # Twice in one partition is known already.
                    if before.partition("@")[0] != str(partition):
                        self.note_anomaly(f"duplicate: {value!r} is at {before} and at {place}")

    def _check_place(self, partition: int, offset: int, value: bytes) -> None:
        key = self._published[value]
        if key is not None and partition != partition_for_key(key, self.partitions):
            self.note_anomaly(
                f"wrong partition: {value!r} with the key {key!r} is at {partition}@{offset}, and "
                f"Kafka's clients choose {partition_for_key(key, self.partitions)}"
            )
        if value in self._refused:
            self.note_anomaly(
                f"refused write: {value!r} is at {partition}@{offset}, and its publisher was told: "
                f"{self._refused[value]}"
            )
