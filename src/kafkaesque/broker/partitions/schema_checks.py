"""Records of topics with `schema.validation` are written with a schema that is registered for them.

Theory of operation. A record begins with a zero byte and the id of its schema, as Confluent's
serializers write it. The id has to be one of the topic's subject (`orders-value`, `orders-key`).
Ids that are known here are looked up in a set. Of ids that are not, the registry's log is read to
its end, once for a batch: another broker may have registered them a moment ago. A batch is never
decoded any further, so the cost is that of finding its records; that of a long one is paid off the
loop, as a `LongCheck` is.
"""

from collections.abc import Callable, Collection
from typing import Final, Protocol, TypeVar

from kafkaesque.broker.options.schemas import validated_subjects
from kafkaesque.broker.partitions.batch_checks import (
    DECOMPRESSED_BYTES_MAX,
    RECORDS_NAMED_MAX,
    BatchChecks,
    Checked,
    LongCheck,
    Records,
)
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.env.clock import Clock
from kafkaesque.env.disk import Disk
from kafkaesque.model.batch import read_batch_header
from kafkaesque.model.errors import LeaderNotAvailable, RequestRefused
from kafkaesque.model.record_errors import InvalidRecord, RecordError
from kafkaesque.model.records import decode_columns

#: A batch without compression is looked through on the loop up to this: a fraction of a ms.
QUICK_BYTES_MAX: Final = 16 * 1024
MAGIC: Final = 0
#: The magic byte and the id.
PREFIX_BYTES: Final = 5

#: Tries to append a batch whose schemas are known; returns what has to be checked before.
Append = Callable[[LongCheck | None], LongCheck | None]
#: Of one subject, by id: the places of the records that name it; -1: those that name none.
Named = dict[int, list[int]]


class UnknownSchema(InvalidRecord):
    """Records name no schema that is registered for their topic."""

    fault = "the record names no schema that is registered for the topic (schema.validation)"


class KnownSchemas(Protocol):
    """See `SchemaLog`."""

    def ids_of(self, subject: str) -> Collection[int]:
        """Return the ids of a subject's schemas, as far as they are known here."""

    def catch_up(self, on_read: Callable[[bool], None]) -> None:
        """Read the log to its end, and call."""


KnownT = TypeVar("KnownT", bound=KnownSchemas)


class SchemaCheck(LongCheck):
    """What is left to do before a batch may be appended: find its schemas, then what comes next."""

    __slots__ = ("inner", "named", "refusal", "subjects")

    def __init__(self, owner: Partition, records: Records, subjects: dict[str, bool]) -> None:
        super().__init__(owner, records, read_batch_header(records), owner.config)
        #: By subject, whether it is that of the keys.
        self.subjects: Final = subjects
        #: What the records name; None: that is not known.
        self.named: dict[str, Named] | None = None
        self.refusal: RequestRefused | None = None
        #: The next check, once all schemas are found.
        self.inner: LongCheck | None = None

    def work(self) -> Checked:
        """Find what the records name; touches nothing but them."""
        self.named = read_names(self._records, self.subjects)
        return Checked(self._batch)


class ProduceChecks(BatchChecks):
    """Checks of batches, with those of their schemas; `bind` says who knows these."""

    def __init__(self, disk: Disk, clock: Clock) -> None:
        super().__init__(disk, clock)
        self._known: KnownSchemas | None = None

    def bind(self, known: KnownT) -> KnownT:
        """Ask for schemas there from now on; return it."""
        self._known = known
        return known

    def append(
        self, partition: Partition, records: Records, checked: LongCheck | None, append: Append
    ) -> LongCheck | None:
        """Append if the schemas are known; otherwise return what is to be run before.

        Raises:
            UnknownSchema: some are not registered for the topic.
            RequestRefused: `append` refuses.
        """
        subjects = validated_subjects(
            partition.state.topic_partition.topic, partition.config.schema_validation
        )
        if not subjects or self._known is None:
            return append(checked)
        if isinstance(checked, SchemaCheck):
            # It is not kept: it would hold the batch, and itself.
            refusal, checked.refusal = checked.refusal, None
            if refusal is not None:
                raise refusal
            checked.inner = append(checked.inner)
            return None if checked.inner is None else checked
        partition.check_leader()
        check = SchemaCheck(partition, records, subjects)
        header = read_batch_header(records)
        if not header.is_compressed and len(records) <= QUICK_BYTES_MAX:
            check.work()
            if self._unknown(check) is None:
                return append(checked)
        return check

    def run(self, check: LongCheck, on_done: Callable[[], None]) -> None:
        """See `BatchChecks.run`."""
        if not isinstance(check, SchemaCheck):
            super().run(check, on_done)
        elif check.inner is not None:
            super().run(check.inner, on_done)
        elif check.named is None:
            super().run(check, lambda: self._look(check, on_done))
        else:
            self._look(check, on_done)

    def _look(self, check: SchemaCheck, on_done: Callable[[], None]) -> None:
        """Look for what a batch names, here and then at the log's end."""
        if self._unknown(check) is None or self._known is None:
            on_done()
            return

        def on_read(is_read: bool) -> None:
            unknown = self._unknown(check)
            if unknown is not None and not is_read:
                # They may be registered: whoever sends them is to try again.
                check.refusal = LeaderNotAvailable("the log of schemas cannot be read")
            else:
                check.refusal = unknown
            on_done()

        self._known.catch_up(on_read)

    def _unknown(self, check: SchemaCheck) -> UnknownSchema | None:
        """Return why records are refused; None if all that they name is registered."""
        if self._known is None or check.named is None:
            return None
        for subject, named in check.named.items():
            known = self._known.ids_of(subject)
            wrong = sorted(each for each in named if each not in known)
            if wrong:
                places = sorted(place for each in wrong for place in named[each])
                said = ", ".join(
                    "no id" if each < 0 else f"the id {each}" for each in wrong[:NAMED_MAX]
                )
                return UnknownSchema(
                    f"{len(places)} records name no schema of the subject {subject}, but {said}",
                    places=tuple(places[:RECORDS_NAMED_MAX]),
                )
        return None


#: Ids that one refusal names.
NAMED_MAX: Final = 5


def read_names(records: Records, subjects: dict[str, bool]) -> dict[str, Named]:
    """Return which schemas the records of a batch name, by subject; nulls name none and need none.

    A batch that cannot be read names nothing.
    """
    try:
        columns = decode_columns(records, DECOMPRESSED_BYTES_MAX)
    except RecordError:
        return {}
    payload = memoryview(columns.payload)
    found: dict[str, Named] = {}
    for subject, of_keys in subjects.items():
        starts = columns.key_starts if of_keys else columns.value_starts
        lengths = columns.key_lengths if of_keys else columns.value_lengths
        named = found.setdefault(subject, {})
        for place, (start, length) in enumerate(zip(starts, lengths, strict=True)):
            if length >= PREFIX_BYTES and payload[start] == MAGIC:
                schema_id = int.from_bytes(payload[start + 1 : start + PREFIX_BYTES], "big")
            elif length < 0:
                continue
            else:
                schema_id = -1
            named.setdefault(schema_id, []).append(place)
    return found
