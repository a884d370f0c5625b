"""What a stream holds, as one broker knows it from the stream's log.

Theory of operation. A stream's log is a topic of one partition; the message at offset n has
sequence n + 1. What is removed from the middle is removed by a record behind it (`Removal`), by a
newer message of the same subject where the stream keeps only some of each, or by a message that
rolls up what came before. So every broker that reads the log knows the same messages.

For each message about 28 bytes are kept in memory: its subject, its time, its size, and its place
among those of its subject.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from kafkaesque.routing.errors import BadName
from kafkaesque.routing.names import NATS

#: Messages that wait are counted by their subjects, if there are no more than these.
COUNTED_SUBJECTS_MAX: Final = 100
#: Consumers' filters for which it is known what they match.
_WANTED_MAX: Final = 1_000


class Arrived(NamedTuple):
    """A message of the log."""

    sequence: int
    subject: str
    size: int
    timestamp_ms: int
    message_id: str = ""
    #: `sub`: removes what its subject had; `all`: removes everything before; empty: nothing.
    rollup: str = ""


class Removal(NamedTuple):
    """Some messages are gone: those named, or those of a filter up to a sequence."""

    sequence: int
    timestamp_ms: int
    sequences: tuple[int, ...] = ()
    #: Up to this sequence, of the subjects that fit; 0: none but those named.
    before: int = 0
    subject: str = ""
    #: So many of each subject's last ones stay.
    keep: int = 0


class Bounds(NamedTuple):
    """What a stream keeps; 0: as much as there is."""

    per_subject_max: int = 0
    messages_max: int = 0
    bytes_max: int = 0
    age_max_ms: int = 0
    #: For how long message ids are remembered.
    ids_max_ms: int = 0


class View:
    """See the module."""

    __slots__ = (
        "_base",
        "_bounds",
        "_first_at",
        "_ids",
        "_sizes",
        "_subjects",
        "_texts",
        "_times",
        "_wanted",
        "byte_count",
        "first_kept",
        "last_ms",
        "last_sequence",
        "message_count",
    )

    def __init__(self, bounds: Bounds) -> None:
        self._bounds: Final = bounds
        #: Subject -> its messages' sequences, ascending.
        self._subjects: dict[str, array[int]] = {}
        #: Of the messages from sequence `_base` on: their subjects, None where they are removed,
        #: their sizes and their times.
        self._base = 1
        self._texts: list[str | None] = []
        self._sizes = array("I")
        self._times = array("q")
        #: No message is there before this place.
        self._first_at = 0
        #: Message id -> sequence and time, the oldest first.
        self._ids: OrderedDict[str, tuple[int, int]] = OrderedDict()
        #: Subjects that some filters want, until there is another subject.
        self._wanted: dict[tuple[str, ...], list[str]] = {}
        self.message_count = 0
        self.byte_count = 0
        self.last_sequence = 0
        self.last_ms = 0
        #: What the log still has begins here.
        self.first_kept = 1

    # -- what the log says

    def start_at(self, sequence: int) -> None:
        """The log begins here: what came before is gone by age or size."""
        if sequence <= self.first_kept:
            return
        self._drop_before(sequence)
        self.first_kept = sequence
        self.last_sequence = max(self.last_sequence, sequence - 1)

    def add(self, message: Arrived) -> None:
        """Take the next record, which is a message."""
        self._append(message.sequence, message.timestamp_ms, message.subject, message.size)
        self.message_count += 1
        self.byte_count += message.size
        own = self._subjects.get(message.subject)
        if own is None:
            own = self._subjects[message.subject] = array("Q")
            self._wanted.clear()
        own.append(message.sequence)
        most = self._bounds.per_subject_max
        if message.rollup == "sub":
            self._remove_of(message.subject, len(own) - 1)
        elif message.rollup == "all":
            self._drop_before(message.sequence)
        elif most and len(own) > most:
            self._remove_of(message.subject, len(own) - most)
        if message.message_id:
            self._note_id(message)
        self._keep_bounds()

    def take_removal(self, removal: Removal) -> int:
        """Take the next record, which removes others; return how many these were."""
        self._append(removal.sequence, removal.timestamp_ms, None, 0)
        before = self.message_count
        for sequence in removal.sequences:
            self._remove(sequence)
        if removal.before:
            for subject in self.subjects(removal.subject):
                own = self._subjects[subject]
                count = bisect_right(own, removal.before)
                self._remove_of(subject, max(0, min(count, len(own) - removal.keep)))
        return before - self.message_count

    def _append(self, sequence: int, timestamp_ms: int, text: str | None, size: int) -> None:
        if not self._texts:
            self._base, self._first_at = sequence, 0
        # What is not in the log any more was removed by compaction.
        for _ in range(self._base + len(self._texts), sequence):
            self._append_one(None, 0, timestamp_ms)
        self._append_one(text, size, timestamp_ms)
        self.last_sequence, self.last_ms = sequence, timestamp_ms

    def _append_one(self, text: str | None, size: int, timestamp_ms: int) -> None:
        self._texts.append(text)
        self._sizes.append(size)
        self._times.append(timestamp_ms)

    def _keep_bounds(self) -> None:
        bounds = self._bounds
        while (bounds.messages_max and self.message_count > bounds.messages_max) or (
            bounds.bytes_max and self.byte_count > bounds.bytes_max and self.message_count > 1
        ):
            self._remove(self.first_sequence)

    def expire(self, now_ms: int) -> None:
        """Forget messages that are older than the stream keeps them."""
        age_ms = self._bounds.age_max_ms
        while age_ms and self.message_count:
            first = self.first_sequence
            if self._times[first - self._base] + age_ms > now_ms:
                return
            self._remove(first)

    # -- removing

    def _remove(self, sequence: int) -> None:
        """Remove a message; nothing is done if it is not there."""
        if not self.has(sequence):
            return
        text = self._texts[sequence - self._base]
        if text is None:
            return
        own = self._subjects[text]
        del own[bisect_left(own, sequence)]
        if not own:
            del self._subjects[text]
        self._forget(sequence)

    def _remove_of(self, subject: str, count: int) -> None:
        """Remove a subject's first messages."""
        if count <= 0:
            return
        own = self._subjects[subject]
        for sequence in own[:count]:
            self._forget(sequence)
        del own[:count]
        if not own:
            del self._subjects[subject]

    def _forget(self, sequence: int) -> None:
        at = sequence - self._base
        self._texts[at] = None
        self.message_count -= 1
        self.byte_count -= self._sizes[at]

    def _drop_before(self, sequence: int) -> None:
        for subject in list(self._subjects):
            self._remove_of(subject, bisect_left(self._subjects[subject], sequence))
        gone = min(max(sequence - self._base, 0), len(self._texts))
        del self._texts[:gone]
        del self._sizes[:gone]
        del self._times[:gone]
        self._base += gone
        self._first_at = 0

    # -- ids

    def _note_id(self, message: Arrived) -> None:
        self._ids.setdefault(message.message_id, (message.sequence, message.timestamp_ms))
        self._forget_ids(message.timestamp_ms)

    def _forget_ids(self, now_ms: int) -> None:
        while self._ids:
            name, (_, at_ms) = next(iter(self._ids.items()))
            if at_ms + self._bounds.ids_max_ms > now_ms:
                return
            del self._ids[name]

    def sequence_of_id(self, message_id: str, now_ms: int) -> int | None:
        """Return the message that had this id within the window."""
        self._forget_ids(now_ms)
        found = self._ids.get(message_id)
        return None if found is None else found[0]

    @property
    def last_id(self) -> str:
        """The id of the last message that had one, within the window."""
        return next(reversed(self._ids), "")

    # -- questions

    @property
    def first_sequence(self) -> int:
        """The first message that is there; where there is none, the one that will be next."""
        texts = self._texts
        while self._first_at < len(texts) and texts[self._first_at] is None:
            self._first_at += 1
        if self._first_at < len(texts):
            return self._base + self._first_at
        return self.last_sequence + 1

    @property
    def first_ms(self) -> int:
        """The time of the first message; 0: there is none."""
        first = self.first_sequence
        return self._times[first - self._base] if first <= self.last_sequence else 0

    def sequence_since(self, timestamp_ms: int) -> int:
        """Return the first sequence whose message came at a time, or later."""
        return self._base + bisect_left(self._times, timestamp_ms)

    @property
    def subject_count(self) -> int:
        """How many subjects have a message."""
        return len(self._subjects)

    def has(self, sequence: int) -> bool:
        """Tell whether a message is there."""
        at = sequence - self._base
        return 0 <= at < len(self._texts) and self._texts[at] is not None

    def removed(self, count_max: int) -> list[int]:
        """Return the sequences between the first and the last that are not there."""
        first = self.first_sequence - self._base
        gaps = (at for at in range(first, len(self._texts)) if self._texts[at] is None)
        return [self._base + at for at, _ in zip(gaps, range(count_max), strict=False)]

    def subjects(self, wanted: str = "") -> list[str]:
        """Return the subjects that a filter matches, those that have a message."""
        if not wanted or wanted == ">":
            return list(self._subjects)
        if "*" not in wanted and ">" not in wanted:
            return [wanted] if wanted in self._subjects else []
        try:
            name_filter = NATS.read_filter(wanted)
        except BadName:
            return []
        return [each for each in self._subjects if name_filter.matches(NATS.read_name(each))]

    def count_of(self, subject: str) -> int:
        """Return how many messages a subject has."""
        return len(self._subjects.get(subject, ()))

    def last_of(self, subject: str, before: int | None = None) -> int:
        """Return the last message of the subjects that a filter matches; 0: there is none."""
        found = 0
        for each in self.subjects(subject):
            own = self._subjects[each]
            count = len(own) if before is None else bisect_right(own, before)
            if count:
                found = max(found, own[count - 1])
        return found

    def next_of(self, subject: str, sequence: int) -> int:
        """Return the first message from a sequence on of a filter's subjects; 0: there is none."""
        found = 0
        for each in self.subjects(subject):
            own = self._subjects[each]
            at = bisect_left(own, sequence)
            if at < len(own) and (not found or own[at] < found):
                found = own[at]
        return found

    def count_before(self, wanted: str, before: int, keep: int) -> int:
        """Return how many messages a removal would take."""
        owns = (self._subjects[each] for each in self.subjects(wanted))
        return sum(max(0, min(bisect_right(own, before), len(own) - keep)) for own in owns)

    def pending(self, filters: Iterable[str], sequence: int) -> int:
        """Return how many messages from a sequence on some filters want."""
        wanted = list(filters)
        if not wanted and sequence <= self.first_sequence:
            return self.message_count
        names = {each for one in wanted or [""] for each in self.subjects(one)}
        owns = (self._subjects[each] for each in names)
        return sum(len(own) - bisect_left(own, sequence) for own in owns)

    def pending_behind(self, filters: Sequence[str], sequence: int) -> int:
        """Return how many messages behind a sequence some filters want.

        With wildcards over very many subjects it is how many there are at most.
        """
        behind = max(0, self.last_sequence - sequence)
        first = self.first_sequence
        if not behind:
            return 0
        if not filters and self.message_count == self.last_sequence - first + 1:
            return self.last_sequence - max(sequence, first - 1)
        is_named = bool(filters) and not any("*" in each or ">" in each for each in filters)
        if not is_named and self.subject_count > COUNTED_SUBJECTS_MAX:
            return min(behind, self.message_count)
        owns = (self._subjects.get(each) for each in self._wanted_by(tuple(filters)))
        return sum(len(own) - bisect_right(own, sequence) for own in owns if own)

    def _wanted_by(self, filters: tuple[str, ...]) -> list[str]:
        found = self._wanted.get(filters)
        if found is None:
            if len(self._wanted) >= _WANTED_MAX:
                self._wanted.clear()
            names = {each for one in filters or ("",) for each in self.subjects(one)}
            found = self._wanted[filters] = list(names)
        return found

    def last_per_subject(self, filters: Iterable[str]) -> list[int]:
        """Return the last message of each subject that some filters want, ascending."""
        names = {each for one in list(filters) or [""] for each in self.subjects(one)}
        return sorted(self._subjects[each][-1] for each in names)
