"""Reads records of topics as a member of a group."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, Self

from confluent_kafka import Consumer as Library
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from kafkaesque.client.config import ClientConfig
from kafkaesque.client.delivery import BadBody
from kafkaesque.client.errors import Closed, Empty, InvalidArgument
from kafkaesque.client.message import encode_text
from kafkaesque.client.serializers import Serializer
from kafkaesque.client.streams.library import error_of, settings_of
from kafkaesque.client.streams.records import StreamRecord
from kafkaesque.client.working import TAKE_WAIT_S

Start = Literal["earliest", "latest"]

#: Records and bytes that are read ahead.
PREFETCH: Final = 10_000
PREFETCH_KIB_MAX: Final = 16 * 1024
COMMIT_MS: Final = 1_000
#: A member that has died has its partitions for so long.
SESSION_MS: Final = 10_000
#: The library says so once for a partition; it goes on by itself.
_NO_ERROR: Final = KafkaError._PARTITION_EOF


class Undecodable(BadBody):
    """A record's key or value is not what the serializer reads."""

    def __init__(self, record: StreamRecord, why: Exception) -> None:
        super().__init__(
            f"record {record.offset} of {record.topic}-{record.partition} cannot be read: {why!r}"
        )
        #: The record as it came.
        self.record = record


class Consumer:
    """Records of topics, shared among the members of a group.

    One thread reads; `stop` may be called by another one. Positions are committed once a second,
    and at the end, for what was acknowledged: after a crash, what came after is read again.
    """

    def __init__(
        self,
        config: ClientConfig,
        topics: Sequence[str],
        *,
        group: str,
        key: Serializer[Any],
        value: Serializer[Any],
        start: Start,
        settings: Mapping[str, Any],
    ) -> None:
        """See `Client.consumer`."""
        if not topics:
            raise InvalidArgument("a consumer reads at least one topic")
        if start not in ("earliest", "latest"):
            raise InvalidArgument(f"start is 'earliest' or 'latest', not {start!r}")
        own = {
            "group.id": group,
            "auto.offset.reset": start,
            "enable.auto.commit": True,
            "auto.commit.interval.ms": COMMIT_MS,
            "session.timeout.ms": SESSION_MS,
            # What is committed is what was acknowledged, not what was read.
            "enable.auto.offset.store": False,
            "isolation.level": "read_committed",
            "check.crcs": True,
            "queued.min.messages": PREFETCH,
            "queued.max.messages.kbytes": PREFETCH_KIB_MAX,
        }
        self._timeout_s: Final = config.timeout_s
        self._key: Final = key
        self._value: Final = value
        self._is_stopping = threading.Event()
        self._is_closed = False
        self.topics: Final = tuple(topics)
        try:
            self._library: Final = Library(settings_of(config, own, settings))
            self._library.subscribe(list(topics), on_assign=self._on_assign)
        except KafkaException as error:
            raise error_of(error, "making a consumer") from None
        #: Whether the group has given it partitions, if only none.
        self.is_assigned = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[StreamRecord]:
        """Yield records until `stop`; each is acknowledged when the next one is asked for."""
        while True:
            record = self.next(None)
            if record is None:
                return
            yield record
            self.ack(record)

    def get(self, timeout: float | None = None) -> StreamRecord:
        """Return the next record, and wait for one; None: until `stop`.

        Raises:
            Empty: none came in time, or `stop` was called.
            Undecodable: the serializer cannot read it; acknowledge `record` to pass over it.
            KafkaesqueError: it cannot be read.
        """
        record = self.next(timeout)
        if record is None:
            raise Empty(f"no record came from {', '.join(self.topics)} in time")
        return record

    def poll(self) -> StreamRecord | None:
        """Return the next record if there is one in memory; never wait.

        Raises:
            KafkaesqueError: as of `get`.
        """
        return self.next(0)

    def ack(self, record: StreamRecord) -> None:
        """The record and all before it in its partition are done with.

        Within a second that is committed; after a crash before, they are read again. A record of a
        partition that another member has by now changes nothing.
        """
        position = TopicPartition(record.topic, record.partition, record.offset + 1)
        try:
            self._library.store_offsets(offsets=[position])
        except KafkaException as error:
            if error.args[0].code() != KafkaError._STATE:
                raise error_of(error, "acknowledging a record") from None

    def commit(self) -> None:
        """Commit what was acknowledged, now.

        Raises:
            KafkaesqueError: it may not be committed.
        """
        try:
            self._library.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._NO_OFFSET:
                raise error_of(error, "committing positions") from None

    def stop(self) -> None:
        """Let whoever reads come to an end; may be called by any thread or signal handler."""
        self._is_stopping.set()

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._is_stopping.is_set()

    def wait_for_stop(self, seconds: float) -> bool:
        """Wait so long, or until `stop`; return whether it was called."""
        return self._is_stopping.wait(seconds)

    def close(self) -> None:
        """Commit what was acknowledged, and leave the group: others have its partitions at once."""
        self.stop()
        if not self._is_closed:
            self._is_closed = True
            self._library.close()

    # -- for transformers

    def rewind(self, positions: list[TopicPartition]) -> None:
        """Read again from these positions on."""
        for position in positions:
            try:
                self._library.seek(position)
            except KafkaException:
                continue  # another member has the partition now, and begins at what is committed

    @property
    def library(self) -> Library:
        """Librdkafka's own consumer, for what is not here."""
        return self._library

    # -- reading

    def _on_assign(self, _: Library, __: list[TopicPartition]) -> None:
        self.is_assigned = True

    def next(self, timeout: float | None) -> StreamRecord | None:
        """As `get`, but return None if none came in time, or `stop` was called."""
        ends_s = None if timeout is None else time.monotonic() + timeout
        while not self._is_stopping.is_set():
            left_s = TAKE_WAIT_S if ends_s is None else max(0.0, ends_s - time.monotonic())
            message = self._poll(min(left_s, TAKE_WAIT_S))
            if message is not None:
                return decoded_record(raw_record(message), self._key, self._value)
            if ends_s is not None and time.monotonic() >= ends_s:
                return None
        return None

    def _poll(self, timeout_s: float) -> Message | None:
        if self._is_closed:
            raise Closed("the consumer is closed")
        try:
            message = self._library.poll(timeout_s)
        except KafkaException as raised:
            raise error_of(raised, "reading") from None
        if message is None:
            return None
        error = message.error()
        if error is None:
            return message
        if error.code() == _NO_ERROR or error.retriable():
            return None
        raise error_of(error, f"reading topic {message.topic() or ', '.join(self.topics)!r}")


def decoded_record(raw: StreamRecord, key: Serializer[Any], value: Serializer[Any]) -> StreamRecord:
    """Return a record with its key and value decoded.

    Raises:
        Undecodable: a serializer cannot read it.
    """
    try:
        return replace(
            raw,
            key=None if raw.raw_key is None else key.decode(raw.raw_key),
            value=None if raw.raw_value is None else value.decode(raw.raw_value),
        )
    except Exception as error:
        raise Undecodable(raw, error) from error


def raw_record(message: Message) -> StreamRecord:
    """Return a record as it came."""
    key, value = message.key(), message.value()
    return StreamRecord(
        topic=message.topic() or "",
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        timestamp_ms=message.timestamp()[1],
        key=key,
        value=value,
        headers={name: encode_text(each) for name, each in dict(message.headers() or ()).items()},
        raw_key=key,
        raw_value=value,
    )
