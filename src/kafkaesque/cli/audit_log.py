"""Reads the audit log: from a cluster, or from a broker's directory."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.missing_rules import on_topic
from kafkaesque.cli.read_only_disk import read_only_disk

if TYPE_CHECKING:
    from confluent_kafka import Consumer

    from kafkaesque.cli.kafka import Connection
    from kafkaesque.model.buffers import Buffer
    from kafkaesque.storage.offline import DumpedBatch

TOPIC: Final = "__audit"
_READ: Final = on_topic("read", TOPIC)
PARTITION: Final = "__audit-0"
#: librdkafka asks for a group even where none is joined.
_NO_GROUP: Final = "kafkaesque-audit"
_BATCH_MAX: Final = 1_000
_POLL_S: Final = 0.2
_ANSWER_S: Final = 15.0
#: An audit log that is read to its end and says nothing for so long cannot be read.
_SILENCE_S: Final = 30.0
_DECOMPRESSED_BYTES_MAX: Final = 64 * 1024 * 1024


class Written(NamedTuple):
    """A record of the audit log."""

    offset: int
    key: bytes | None
    value: bytes | None


class ClusterLog:
    """The audit log as a cluster shows it to somebody who may read its topic."""

    def __init__(self, connection: "Connection") -> None:
        """Look for it.

        Raises:
            CommandFailed: there is none, or no rule allows to read it.
        """
        from confluent_kafka import KafkaError, KafkaException, TopicPartition

        from kafkaesque.cli.kafka import explain, explain_raised

        self._consumer: Consumer = connection.consumer(
            {
                "group.id": _NO_GROUP,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 100,
            }
        )
        error = connection.metadata(self._consumer, TOPIC).topics[TOPIC].error
        if error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise CommandFailed(
                "there is no audit log: nothing was audited yet",
                hint="a listener with a log-in, or audit.events in the brokers' files",
            )
        if error is not None and not error.retriable():
            raise explain(error, f"topic {TOPIC}", _READ)
        try:
            asked = TopicPartition(TOPIC, 0)
            bounds = self._consumer.get_watermark_offsets(asked, timeout=_ANSWER_S)
        except KafkaException as raised:
            raise explain_raised(raised, f"topic {TOPIC}", _READ) from None
        if bounds is None:
            raise CommandFailed(f"topic {TOPIC}: no answer in time", hint="kafkaesque doctor")
        self.start, self.end = bounds

    def offset_at(self, time_ms: int) -> int:
        """Return the first offset that was written at a time or later."""
        from confluent_kafka import KafkaException, TopicPartition

        from kafkaesque.cli.kafka import explain_raised

        try:
            asked = [TopicPartition(TOPIC, 0, time_ms)]
            (found,) = self._consumer.offsets_for_times(asked, timeout=_ANSWER_S)
        except KafkaException as raised:
            raise explain_raised(raised, f"topic {TOPIC}", _READ) from None
        return found.offset if found.offset >= 0 else self.end

    def read(self, begin: int, *, follow: bool = False) -> Iterator[Written]:
        """Return the records from an offset on: up to the end as it was, or for ever.

        Raises:
            CommandFailed: it cannot be read.
        """
        from confluent_kafka import KafkaError, TopicPartition

        from kafkaesque.cli.kafka import explain

        if begin >= self.end and not follow:
            return
        self._consumer.assign([TopicPartition(TOPIC, 0, begin)])
        deadline = time.monotonic() + _SILENCE_S
        position = begin
        while follow or position < self.end:
            for message in self._consumer.consume(_BATCH_MAX, _POLL_S):
                error = message.error()
                if error is not None:
                    # Of the group that librdkafka asks for, and nobody joins.
                    is_of_group = error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
                    if not error.retriable() and not is_of_group:
                        raise explain(error, f"topic {TOPIC}", _READ)
                    continue
                position = (message.offset() or 0) + 1
                deadline = time.monotonic() + _SILENCE_S
                if follow or position <= self.end:
                    yield Written(position - 1, message.key(), message.value())
            if not follow and time.monotonic() > deadline:
                raise CommandFailed(
                    f"topic {TOPIC} ends at offset {self.end}, and nothing came after {position}",
                    hint="kafkaesque doctor",
                )

    def close(self) -> None:
        """Read nothing more."""
        self._consumer.close()


class DirectoryLog:
    """The audit log as it lies in the directory of a broker that has a replica of it."""

    def __init__(self, directory: Path, keeper_file: Path | None = None) -> None:
        """Look for it; the keeper's file opens what is sealed.

        Raises:
            CommandFailed: there is none, or the file is none of a key keeper.
        """
        self._keeper_file = keeper_file
        self._disk = read_only_disk(directory)
        names = self._disk.list_dir(PARTITION) if self._disk.exists(PARTITION) else []
        self._segments = sorted(each for each in names if each.endswith(".log"))
        if not self._segments:
            raise CommandFailed(f"{directory} holds no replica of the audit log ({PARTITION})")
        #: An entry before it was deleted by its age. What follows in the segment may be, too.
        self.start = int(self._segments[0].removesuffix(".log"))

    def read(self) -> Iterator[Written]:
        """Return all records that are in the segments.

        Raises:
            CommandFailed: a segment is damaged, or sealed and cannot be opened.
        """
        from kafkaesque.model.records import decode_batch
        from kafkaesque.storage.offline import Finding, dump_segment

        opened = self._opener()
        for segment in self._segments:
            for item in dump_segment(self._disk, f"{PARTITION}/{segment}"):
                if isinstance(item, Finding):
                    raise CommandFailed(str(item), hint="kafkaesque log verify DIR")
                for record in decode_batch(opened(item), _DECOMPRESSED_BYTES_MAX):
                    yield Written(record.offset, record.key, record.value)

    def _opener(self) -> "Callable[[DumpedBatch], Buffer]":
        """Return what gives a batch in the clear."""
        from kafkaesque.cli.sealed_records import SealedRecords
        from kafkaesque.model.sealed_batch import key_version
        from kafkaesque.storage.directory import read_partition_metadata

        sealed = None
        if self._keeper_file is not None:
            sealed = SealedRecords(self._disk, self._keeper_file)
        identity = read_partition_metadata(self._disk, PARTITION)

        def opened(batch: "DumpedBatch") -> "Buffer":
            if not batch.header.is_sealed:
                return batch.data
            if sealed is None:
                raise CommandFailed(
                    "the audit log is sealed",
                    hint="--keeper-file FILE, key.keeper.file of the broker",
                )
            version = key_version(batch.data, batch.header._replace(at=0))
            found = sealed.open(identity, batch, version)
            if isinstance(found, str):
                raise CommandFailed(found)
            return found

        return opened
