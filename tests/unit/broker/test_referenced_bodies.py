"""Messages of a queue whose bodies stand in a topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafkaesque.broker.queues.bodies import Found, OnRead, OnRecords
from kafkaesque.broker.queues.referenced_bodies import ReferencedBodies
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.ids import TopicId
from kafkaesque.model.log_reference import LogReference, checksum_of
from kafkaesque.model.message_headers import LOG_REFERENCE, NOT_AFTER, ORIGIN
from kafkaesque.model.records import Record

TOPIC = TopicId(b"t" * 16)


class Topic:
    """What is read of a topic."""

    def __init__(self, *records: Record) -> None:
        self.records = {each.offset: each for each in records}

    def read(
        self, _source: tuple[TopicId, int], offsets: Sequence[int], _: int, on_done: OnRecords
    ) -> None:
        on_done(Found({each: self.records[each] for each in offsets if each in self.records}, ()))


def reference_to(record: Record) -> bytes:
    size, checksum = len(record.value or b""), checksum_of(record.value)
    return LogReference(TOPIC, 0, record.offset, size, checksum, has_headers=True).packed()


def read_one(topic: Topic, record: Record) -> Found:
    found: list[Any] = []

    def locate(_: int, on_read: OnRead) -> None:
        on_read(bytes(encode_batch([record])))

    bodies = ReferencedBodies(locate, lambda offset: True, topic)  # type: ignore[arg-type]
    bodies.read([0], 1_000, found.append)
    (only,) = found
    assert isinstance(only, Found)
    return only


def test_what_publishers_say_in_the_words_of_brokers_does_not_count() -> None:
    source = Record(7, 1, b"k", b"body", (("own", b"1"), (ORIGIN, b"another"), (NOT_AFTER, b"1")))
    said = (NOT_AFTER, b"99")
    record = Record(0, 1, None, None, (said, (LOG_REFERENCE, reference_to(source))))
    filled = read_one(Topic(source), record).records[0]
    assert (filled.value, filled.headers) == (b"body", (("own", b"1"), said))
