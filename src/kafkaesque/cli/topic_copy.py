"""A copy of a topic, with keys, values, headers, times and partitions as they were.

Each piece is written in one transaction with the offset up to which the old topic was read: who
begins again after whatever has happened goes on there, and no message comes twice.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import NewTopic

from kafkaesque.cli.config_requests import ValueRow, read_values
from kafkaesque.cli.config_target import Target
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.kafka import Connection, explain, explain_raised, result_of

#: Messages of one transaction, and how long it may take.
PIECE_MAX: Final = 2_000
TRANSACTION_MS: Final = 60_000
_MESSAGE_BYTES_MAX: Final = 1_000_000_000
_POLL_S: Final = 0.5
_ANSWER_S: Final = 30.0
#: A partition that is not at its end and says nothing for so long cannot be read.
_SILENT_POLLS_MAX: Final = 60
#: That of the copy's topic, with this behind it, is the name of the group that keeps its progress.
_SUFFIX: Final = ".copied"
_ENCRYPTION, _NONE = "encryption", "none"


class TopicCopy:
    """From one topic to another of the same cluster."""

    def __init__(self, connection: Connection, source: str, target: str) -> None:
        self._connection: Final = connection
        self.source: Final = source
        self.target: Final = target
        self._progress: Final = target + _SUFFIX

    def prepare(self) -> int:
        """Make the new topic as the old one is, if it is not there; return how many partitions.

        Raises:
            CommandFailed: there is no old topic, or what has the new name is no copy of it.
        """
        admin = self._connection.admin()
        there = self._connection.metadata(admin).topics
        if self.source not in there:
            raise CommandFailed(f"topic {self.source} does not exist", hint="kafkaesque topic list")
        partitions = there[self.source].partitions
        count = len(partitions)
        self._check_sealed(self.source)
        if self.target not in there:
            replicas = max(len(each.replicas) for each in partitions.values())
            new = NewTopic(self.target, count, replicas, config=self._options())
            result_of(admin.create_topics([new])[self.target], f"topic {self.target}")
        elif len(there[self.target].partitions) != count:
            raise CommandFailed(
                f"topic {self.target} exists, and has {len(there[self.target].partitions)} "
                f"partitions, not {count}: it is no copy of {self.source}"
            )
        else:
            self._check_sealed(self.target)
        return count

    def _check_sealed(self, topic: str) -> None:
        values = {each.option: each.value for each in self._rows(topic)}
        if values.get(_ENCRYPTION, _NONE) == _NONE:
            raise CommandFailed(
                f"topic {topic} is not encrypted",
                hint=f"kafkaesque topic alter {topic} --config {_ENCRYPTION}=aes256-gcm",
            )

    def _options(self) -> dict[str, str]:
        return {
            each.option: each.value
            for each in self._rows(self.source)
            if each.source == "topic" and each.value is not None
        }

    def _rows(self, topic: str) -> list[ValueRow]:
        return read_values(self._connection.bootstrap, Target(topic=topic))

    def run(self, count: int, on_copied: Callable[[int], None]) -> int:
        """Copy all that is committed and was not copied before; return how many messages.

        Raises:
            CommandFailed: something cannot be read or written; what was copied stays.
        """
        with self._reader() as reader, self._failing():
            writer = self._writer()
            writer.init_transactions(_ANSWER_S)
            self._begin(reader, count)
            copied = 0
            for piece in _Pieces(reader, self.source, count):
                self._write(reader, writer, piece)
                copied += len(piece)
                on_copied(len(piece))
            return copied

    @contextmanager
    def _reader(self) -> Iterator[Consumer]:
        reader = self._connection.consumer(
            {
                "group.id": self._progress,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
            }
        )
        try:
            yield reader
        finally:
            reader.close()

    def _writer(self) -> Producer:
        return self._connection.producer(
            {
                # Whoever copies at the same time is fenced by it.
                "transactional.id": self._progress,
                "transaction.timeout.ms": TRANSACTION_MS,
                "message.max.bytes": _MESSAGE_BYTES_MAX,
                "compression.type": "lz4",
                "linger.ms": 20,
            }
        )

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as raised:
            raise explain_raised(raised, f"topic {self.target}") from None

    def _begin(self, reader: Consumer, count: int) -> None:
        """Go on where the last run has ended.

        Raises:
            CommandFailed: nothing was copied yet, and the new topic holds messages.
        """
        wanted = [TopicPartition(self.source, number) for number in range(count)]
        kept = reader.committed(wanted, timeout=_ANSWER_S)
        if all(each.offset == OFFSET_INVALID for each in kept) and self._holds_any(reader, count):
            raise CommandFailed(
                f"topic {self.target} holds messages, and is no copy of {self.source}",
                hint="another name for the copy",
            )
        reader.assign(kept)

    def _holds_any(self, reader: Consumer, count: int) -> bool:
        for number in range(count):
            asked = TopicPartition(self.target, number)
            bounds = reader.get_watermark_offsets(asked, timeout=_ANSWER_S)
            if bounds is None:
                raise CommandFailed(f"topic {self.target}: no answer in time")
            if bounds[1] > 0:
                return True
        return False

    def _write(self, reader: Consumer, writer: Producer, piece: Sequence[Message]) -> None:
        writer.begin_transaction()
        for each in piece:
            self._produce(writer, each)
        ends = {each.partition() or 0: (each.offset() or 0) + 1 for each in piece}
        offsets = [TopicPartition(self.source, number, end) for number, end in ends.items()]
        group = reader.consumer_group_metadata()
        writer.send_offsets_to_transaction(offsets, group, _ANSWER_S)
        writer.commit_transaction(TRANSACTION_MS / 1_000)

    def _produce(self, writer: Producer, message: Message) -> None:
        _, time_ms = message.timestamp()
        more: Mapping[str, Any] = {"headers": message.headers() or []}
        while True:
            try:
                writer.produce(
                    self.target,
                    value=message.value(),
                    key=message.key(),
                    partition=message.partition() or 0,
                    timestamp=time_ms,
                    **more,
                )
            except BufferError:
                writer.poll(_POLL_S)
            else:
                return


class _Pieces:
    """Messages up to the ends of all partitions, a transaction's worth at a time."""

    def __init__(self, reader: Consumer, topic: str, count: int) -> None:
        self._reader = reader
        self._topic = topic
        self._left = set(range(count))

    def __iter__(self) -> Iterator[list[Message]]:
        silent = 0
        while self._left:
            found = self._reader.consume(PIECE_MAX, _POLL_S)
            silent = 0 if found else silent + 1
            if silent > _SILENT_POLLS_MAX:
                raise CommandFailed(
                    f"topic {self._topic}: nothing comes from partition {min(self._left)}",
                    hint="kafkaesque doctor",
                )
            piece = [each for each in found if self._is_message(each)]
            if piece:
                yield piece

    def _is_message(self, each: Message) -> bool:
        error = each.error()
        if error is None:
            return True
        if error.code() == KafkaError._PARTITION_EOF:
            self._left.discard(each.partition() or 0)
        elif not error.retriable():
            raise explain(error, f"topic {self._topic}")
        return False
