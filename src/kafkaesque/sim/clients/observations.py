"""What clients of one topic sent, what was acknowledged, what was read; and what is wrong with it.

The checker knows, in the words of Jepsen's checker of Kafka where it has one: *lost write*
(acknowledged, and nobody read it, though what is at its offset or at later ones was), *unseen*
(acknowledged, and nobody read it or what should follow), *duplicate* (twice in the log),
*inconsistent offsets* (two records were seen at one offset, or an acknowledged one is at another),
*poll skip* (from one answer to the next a consumer got by a record that exists; *internal* within
one answer), *non-monotonic poll* (it got a record again, or after a later one), *non-monotonic
send* (a producer's later record was acknowledged at an earlier offset), *internal send skip* (the
records of one batch are not next to each other), *spurious zero offset* (offset 0 was acknowledged
for what is not the first record). And of its own: *unsent* (nobody ever sent it), *reordered* (a
producer's records not in its order), *gap* (an offset that nobody read and nobody deleted; where
records of a key replace each other, a record is lost if there is no later one of its key),
*undeleted* (a deletion that was acknowledged and undone), *overdeleted* (more is gone than anybody
asked for).
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kafkaesque.sim.clients.findings import Findings

#: Where records have keys, a producer writes so many to one, and leaves it as it is then.
RECORDS_PER_KEY: Final = 16
#: So much may have counted for the retention of a leader that the next one has never got.
UNCOMMITTED_BYTES: Final = 10_000


def key_of(value: bytes) -> bytes:
    """Return the key that goes with a value, where records have keys; producers share them."""
    return b"key-%d" % (_number_of(value) // RECORDS_PER_KEY)


def _producer_of(value: bytes) -> str:
    return value.decode().rsplit("/", 2)[0]


def _number_of(value: bytes) -> int:
    return int(value.rpartition(b"/")[2])


class _Skip(NamedTuple):
    """A consumer got no record between two offsets."""

    what: str
    who: str
    partition: int
    first: int
    end: int


class Observations:
    """The clients' side of one topic's history."""

    def __init__(
        self,
        findings: Findings,
        topic: str = "events",
        *,
        expires: bool = False,
        compacts: bool = False,
    ) -> None:
        """With `expires` the topic's options delete records, too, and nobody knows which.

        With `compacts` records have keys, and only the last of each key need be there.
        """
        self.compacts = compacts
        self.findings = findings
        self.topic = topic
        self._expires = expires
        self.sent_count = 0
        self.read_count = 0
        #: (partition, value) -> offset
        self.acknowledged: dict[tuple[int, bytes], int] = {}
        self._sent: set[tuple[int, bytes]] = set()
        #: partition -> offset -> value
        self.seen: dict[int, dict[int, bytes]] = defaultdict(dict)
        #: partition -> the ranges that consumers had to leave out
        self._skipped: dict[int, list[tuple[int, int]]] = defaultdict(list)
        #: partition -> the greatest offset that was asked to be the log's start
        self._asked_start: dict[int, int] = defaultdict(int)
        #: partition -> the greatest log start that was promised
        self._promised_start: dict[int, int] = defaultdict(int)
        #: Offsets of what brokers write for themselves.
        self._control: dict[int, set[int]] = defaultdict(set)
        #: partition -> the values of each batch
        self._batches: dict[int, list[list[bytes]]] = defaultdict(list)
        #: partition and producer -> what was acknowledged, in the order of sending: the number of
        #: each batch's first record, its first offset and the offset after its last one.
        self._placed: dict[tuple[int, str], list[tuple[int, int, int]]] = {}
        #: partition -> what was acknowledged at offset 0
        self._first: dict[int, bytes] = {}
        self._skips: list[_Skip] = []

    def note_anomaly(self, what: str) -> None:
        """Something that must never be was seen."""
        self.findings.note(f"{self.topic}: {what}")

    @property
    def acknowledged_count(self) -> int:
        """Records that were acknowledged."""
        return len(self.acknowledged)

    # -- what producers do

    def note_producer_id(self, name: str, producer_id: int) -> None:
        """See `Findings`."""
        self.findings.note_producer_id(name, producer_id)

    def note_sent(self, partition: int, values: list[bytes]) -> None:
        """Values are on their way."""
        self.sent_count += len(values)
        self._sent.update((partition, value) for value in values)
        self._batches[partition].append(values)

    def note_sent_somewhere(self, partitions: Iterable[int], value: bytes) -> None:
        """A value is on its way to one of these partitions."""
        self.sent_count += 1
        self._sent.update((partition, value) for partition in partitions)

    def may_be_late(self, value: bytes) -> bool:
        """Tell whether a value may come after what its producer sent after it."""
        return False

    def note_acknowledged(self, partition: int, base_offset: int, values: list[bytes]) -> None:
        """A batch was acknowledged with acks=all."""
        self._check_sends(partition, base_offset, values)
        for offset, value in enumerate(values, base_offset):
            self.acknowledged[partition, value] = offset

    def _check_sends(self, partition: int, base_offset: int, values: list[bytes]) -> None:
        """Compare with what the producer sent just before and just after this batch.

        Acknowledgements may come in another order: of a batch that was not acknowledged in time,
        and is repeated after the next one was, a leader says where it is.
        """
        producer, number = _producer_of(values[0]), _number_of(values[0])
        placed = self._placed.setdefault((partition, producer), [])
        at = bisect_right(placed, (number, base_offset, base_offset))
        end = base_offset + len(values)
        before = placed[at - 1] if at else None
        after = placed[at] if at < len(placed) else None
        placed.insert(at, (number, base_offset, end))
        what = f"{values[0]!r} was acknowledged at {partition}@{base_offset}"
        if base_offset == 0 and (
            before is not None or self._first.setdefault(partition, values[0]) != values[0]
        ):
            self.note_anomaly(f"spurious zero offset: {what}")
        elif before is not None and base_offset < before[2]:
            self.note_anomaly(f"non-monotonic send: {what}, the batch before it at {before[1]}")
        elif after is not None and after[1] < end:
            self.note_anomaly(f"non-monotonic send: {what}, the batch after it at {after[1]}")

    def acknowledged_end(self, partition: int) -> int:
        """Return the offset after the last acknowledged record."""
        offsets = (offset for (at, _), offset in self.acknowledged.items() if at == partition)
        return max(offsets, default=-1) + 1

    # -- what consumers see

    def note_read(
        self, who: str, partition: int, offset: int, value: bytes, key: bytes | None = None
    ) -> None:
        """A consumer got a record; its key is looked at where it is known which one it has."""
        self.read_count += 1
        known = self.seen[partition].setdefault(offset, value)
        if known != value:
            self.note_anomaly(
                f"inconsistent offsets: {who} read {value!r} at {partition}@{offset}, where "
                f"{known!r} was read before"
            )

    def note_control(self, partition: int, first: int, last: int) -> None:
        """A consumer got a control batch, which has no records for it."""
        self._control[partition].update(range(first, last + 1))

    def note_polled(
        self, who: str, partition: int, position: int, spans: Sequence[tuple[int, int]]
    ) -> None:
        """A consumer at a position got an answer: first and last offset of each batch of it."""
        for number, (first, last) in enumerate(spans):
            within = "internal " if number else ""
            if last < position:
                self.note_anomaly(
                    f"{within}non-monotonic poll: {who} at {partition}@{position} got {first} to "
                    f"{last}"
                )
            elif first > position:
                self._skips.append(_Skip(f"{within}poll skip", who, partition, position, first))
            position = max(position, last + 1)

    def note_skipped(self, who: str, partition: int, position: int, start: int) -> None:
        """A consumer was told that the log begins after its position."""
        if start <= position:
            self.note_anomaly(
                f"{who}: position {position} of partition {partition} is out of range, and the "
                f"log begins at {start}"
            )
        elif self._check_asked(partition, start):
            self._skipped[partition].append((position, start))

    # -- what administrators do

    def note_deletion_asked(self, partition: int, offset: int) -> None:
        """Somebody asks that the log begin at an offset."""
        self._asked_start[partition] = max(self._asked_start[partition], offset)

    def note_deletion_answered(self, partition: int) -> None:
        """Whatever came of it: it was asked for."""

    def note_deleted(self, partition: int, start: int) -> None:
        """The answer says where the log begins now."""
        self._promised_start[partition] = max(self._promised_start[partition], start)

    def check_start(self, partition: int, start: int) -> None:
        """After everything has settled the log begins at `start`."""
        promised = self._promised_start[partition]
        if start < promised:
            self.note_anomaly(
                f"undeleted: partition {partition} begins at {start}, and {promised} was promised"
            )
        self._check_asked(partition, start)

    def check_kept(self, partition: int, start: int, size_bytes: int, kept_bytes: int) -> None:
        """A leader's log of this size begins at `start`, and retention is to leave so much."""
        if start > self._asked_start[partition] and size_bytes < kept_bytes - UNCOMMITTED_BYTES:
            self.note_anomaly(
                f"overdeleted: partition {partition} begins at {start} with {size_bytes} bytes, "
                f"and retention is to leave {kept_bytes}"
            )

    def _check_asked(self, partition: int, start: int) -> bool:
        asked = self._asked_start[partition]
        if start > asked and not self._expires:
            self.note_anomaly(
                f"overdeleted: partition {partition} begins at {start}; nobody asked for more than "
                f"{asked}"
            )
            return False
        return True

    # -- the end

    def check_table(
        self,
        who: str,
        partition: int,
        table: Mapping[bytes, tuple[int, bytes]],
        start: int = 0,
    ) -> None:
        """Compare with the last record of each key that a replica has, by key: offset and value.

        Its log begins at `start`, as `check_start` has found right.
        """
        for (at, value), offset in self.acknowledged.items():
            found = table.get(key_of(value), (-1, b""))
            is_wrong = found[0] < offset or (found[0] == offset) != (found[1] == value)
            if at == partition and offset >= start and is_wrong:
                self.note_anomaly(
                    f"lost write: {value!r}, acknowledged at {partition}@{offset}, is not in the "
                    f"table of {who}, which has {found[1]!r} at {found[0]}"
                )

    def check(self) -> None:
        """Compare, once everything has been read to the end."""
        self._check_acknowledged()
        for partition, records in self.seen.items():
            self._check_partition(partition, records)
        if not self.compacts:
            self._check_skips()

    def note_unseen(self) -> None:
        """Say what was acknowledged and not read, where readers do not come to an end."""
        self._check_acknowledged()

    def _check_acknowledged(self) -> None:
        newest: dict[tuple[int, bytes], int] = {}
        if self.compacts:
            seen = [
                ((partition, value), offset)
                for partition, records in self.seen.items()
                for offset, value in records.items()
            ]
            # What replaces a record may have expired before anybody read it.
            for (partition, value), offset in (*seen, *self.acknowledged.items()):
                key = partition, key_of(value)
                newest[key] = max(offset, newest.get(key, -1))
        for (partition, value), offset in self.acknowledged.items():
            records = self.seen[partition]
            found = records.get(offset)
            is_replaced = self.compacts and newest.get((partition, key_of(value)), -1) > offset
            if found is None and not is_replaced and not self._is_skipped(partition, offset):
                what = "lost write" if offset < max(records, default=-1) else "unseen"
                self.note_anomaly(f"{what}: {value!r}, acknowledged at {partition}@{offset}")
            elif found is not None and found != value:
                is_lost = not self.compacts and value not in records.values()
                what = "lost write" if is_lost else "inconsistent offsets"
                self.note_anomaly(
                    f"{what}: {value!r} was acknowledged at {partition}@{offset}, where {found!r} "
                    f"is"
                )

    def _check_skips(self) -> None:
        existing = {(partition, offset) for (partition, _), offset in self.acknowledged.items()}
        for skip in self._skips:
            for offset in range(skip.first, skip.end):
                is_there = (skip.partition, offset) in existing or offset in self.seen[
                    skip.partition
                ]
                if is_there and not self._is_skipped(skip.partition, offset):
                    self.note_anomaly(
                        f"{skip.what}: {skip.who} went from {skip.partition}@{skip.first} to "
                        f"{skip.end}, and there is a record at {offset}"
                    )
                    break

    def _is_skipped(self, partition: int, offset: int) -> bool:
        return any(first <= offset < end for first, end in self._skipped[partition])

    def _check_partition(self, partition: int, records: dict[int, bytes]) -> None:
        places: dict[bytes, int] = {}
        newest: dict[str, int] = {}
        expected = 0
        for offset in sorted(records):
            value = records[offset]
            if not self.compacts and any(
                not self._is_skipped(partition, each) and each not in self._control[partition]
                for each in range(expected, offset)
            ):
                self.note_anomaly(f"gap: {partition}@{expected} does not exist, {offset} does")
                return
            expected = offset + 1
            if value in places:
                self.note_anomaly(
                    f"duplicate: {value!r} is at {partition}@{places[value]} and @{offset}"
                )
            places[value] = offset
            if (partition, value) not in self._sent:
                self.note_anomaly(f"unsent: nobody sent {value!r}, at {partition}@{offset}")
                continue
            producer, number = _producer_of(value), _number_of(value)
            if number > newest.get(producer, -1):
                newest[producer] = number
            elif not self.may_be_late(value):
                self.note_anomaly(
                    f"reordered: {value!r} at {partition}@{offset} after {newest[producer]}"
                )
        if not self.compacts:
            self._check_batches(partition, places)

    def _check_batches(self, partition: int, places: Mapping[bytes, int]) -> None:
        for values in self._batches[partition]:
            found = [places[value] for value in values if value in places]
            if found and found[-1] - found[0] != len(found) - 1:
                self.note_anomaly(
                    f"internal send skip: the batch of {values[0]!r} is at {partition}@{found}"
                )
