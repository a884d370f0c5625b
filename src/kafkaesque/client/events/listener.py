"""Reads the events that match a filter, from the moment on at which it begins.

Theory of operation. The consumer is the only member of a group that nobody else has, and commits
nothing. What there is when it begins is passed over: its first partitions are read from their ends.
Partitions that are found later belong to topics that are younger, and are read from their
beginnings. The filter's expression is evaluated here, so all events of the topics come this far.
"""

import threading
import time
from datetime import datetime
from typing import Any, Final
from uuid import uuid4

from confluent_kafka import OFFSET_BEGINNING, KafkaException, TopicPartition
from confluent_kafka import Consumer as Library

from kafkaesque.client.config import ClientConfig
from kafkaesque.client.errors import BrokerUnavailable, InvalidArgument, TopicNotFound
from kafkaesque.client.events.filters import CompiledFilter
from kafkaesque.client.message import When, milliseconds
from kafkaesque.client.serializers import TEXT, Serializer
from kafkaesque.client.streams.consumer import decoded_record, raw_record
from kafkaesque.client.streams.library import error_of, settings_of
from kafkaesque.client.streams.records import StreamRecord
from kafkaesque.client.working import TAKE_WAIT_S

#: New topics are found within this time.
REFRESH_MS: Final = 1_000
PREFETCH_KIB_MAX: Final = 4 * 1024
_POLL_S: Final = 0.1


class Listener:
    """One subscription's events; one thread reads."""

    def __init__(
        self,
        config: ClientConfig,
        wanted: CompiledFilter,
        value: Serializer[Any],
        expires_s: float | None,
    ) -> None:
        """`expires_s` is on the monotonic clock."""
        own = {
            "group.id": f"kafkaesque-subscription-{uuid4()}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "topic.metadata.refresh.interval.ms": REFRESH_MS,
            "queued.max.messages.kbytes": PREFETCH_KIB_MAX,
        }
        self._wanted: Final = wanted
        self._value: Final = value
        self._expires_s: Final = expires_s
        self._timeout_s: Final = config.timeout_s
        self._stopping: Final = threading.Event()
        #: Where to go on: by topic and partition.
        self._positions: dict[tuple[str, int], int] = {}
        self._has_begun = False
        try:
            self._library: Final = Library(settings_of(config, own, {}))
        except KafkaException as error:
            raise error_of(error, "subscribing") from None

    @property
    def is_over(self) -> bool:
        """Whether it was stopped, or has expired."""
        is_expired = self._expires_s is not None and time.monotonic() >= self._expires_s
        return self._stopping.is_set() or is_expired

    def begin(self) -> None:
        """Return when every event that is published from now on will be read.

        Raises:
            BrokerUnavailable: it was not possible in time.
            TopicNotFound: there is no such topic.
        """
        deadline_s = time.monotonic() + self._timeout_s
        self._look_at_ends(deadline_s)
        self._library.subscribe([self._wanted.topics], on_assign=self._on_assign)
        while not self._has_begun and self._positions:
            if time.monotonic() >= deadline_s:
                raise BrokerUnavailable("the subscription could not begin in time")
            self._poll(_POLL_S)

    def next(self) -> StreamRecord | None:
        """Return the next event that matches; None: there was none for a moment, or it is over.

        Raises:
            Undecodable: the serializer cannot read it; the next one is behind it.
            KafkaesqueError: events cannot be read any more.
        """
        record = self._poll(TAKE_WAIT_S)
        if record is None or self.is_over or not self._wanted.matches(record):
            return None
        return decoded_record(record, TEXT, self._value)

    def stop(self) -> None:
        """Let whoever reads come to an end; for any thread."""
        self._stopping.set()

    def close(self) -> None:
        """Leave the brokers; by the thread that reads."""
        self.stop()
        self._library.close()

    def _look_at_ends(self, deadline_s: float) -> None:
        try:
            metadata = self._library.list_topics(timeout=max(0.1, deadline_s - time.monotonic()))
            for name, topic in metadata.topics.items():
                if not self._wanted.matches_topic(name):
                    continue
                for number in topic.partitions:
                    place = TopicPartition(name, number)
                    left_s = max(0.1, deadline_s - time.monotonic())
                    ends = self._library.get_watermark_offsets(place, timeout=left_s)
                    if ends is None:
                        raise BrokerUnavailable(f"topic {name!r} has no leader at the moment")
                    self._positions[name, number] = ends[1]
        except KafkaException as error:
            raise error_of(error, "subscribing") from None
        if not self._positions and not self._wanted.is_pattern:
            raise TopicNotFound(f"there is no topic {self._wanted.topics!r}")

    def _on_assign(self, library: Library, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            each.offset = self._positions.get((each.topic, each.partition), OFFSET_BEGINNING)
        library.assign(partitions)
        self._has_begun = self._has_begun or bool(partitions)

    def _poll(self, timeout_s: float) -> StreamRecord | None:
        try:
            message = self._library.poll(timeout_s)
        except KafkaException as raised:
            raise error_of(raised, "reading events") from None
        if message is None:
            return None
        error = message.error()
        if error is not None:
            if error.fatal():
                raise error_of(error, "reading events")
            return None
        record = raw_record(message)
        self._positions[record.topic, record.partition] = record.offset + 1
        return record


def expiry_s(expires: When | None) -> float | None:
    """Return when a subscription expires, on the monotonic clock.

    Raises:
        InvalidArgument: it is no moment.
    """
    if expires is None:
        return None
    if isinstance(expires, datetime):
        if expires.tzinfo is None:
            raise InvalidArgument("a datetime must have a time zone")
        return time.monotonic() + expires.timestamp() - time.time()
    return time.monotonic() + milliseconds(expires) / 1000
