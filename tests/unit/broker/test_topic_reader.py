"""A reader of a topic, at a leader that answers as leaders may."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from kafkaesque.broker.partitions.topic_reader import TopicReader
from kafkaesque.broker.requests.commands import FetchResult
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.records import Record

RECORDS = bytes(
    encode_batch([Record(offset=each, timestamp_ms=1, key=b"k", value=b"v") for each in range(3)])
)


class Leader:
    """Gives the answers that it was given, one after the other."""

    def __init__(self, *answers: tuple[bytes, int]) -> None:
        self.answers = list(answers)
        self.asked: list[int] = []
        self.applied: list[int] = []
        topics = {"t": SimpleNamespace(topic_id=b"id")}
        clock: Any = SimpleNamespace(call_soon=lambda act: act())
        metadata: Any = SimpleNamespace(state=SimpleNamespace(topics=topics))
        log: Any = SimpleNamespace(fetch=self.fetch)
        self.reader = TopicReader(
            "t",
            clock=clock,
            metadata=metadata,
            log=log,
            message_bytes_max=1_000_000,
            clear=self.applied.clear,
            apply=lambda record: self.applied.append(record.offset),
        )

    def fetch(self, _: object, offset: int, *rest: Any) -> None:
        self.asked.append(offset)
        records, stable = self.answers.pop(0)
        on_done: Callable[[FetchResult], None] = rest[-1]
        on_done(
            FetchResult(records=records, aborted=[], last_stable_offset=stable, log_start_offset=0)
        )

    def catch_up(self) -> bool:
        outcome: list[bool] = []
        self.reader.catch_up(outcome.append)
        return outcome == [True]


def test_a_leader_that_knows_less_takes_nothing_away() -> None:
    """One that is new does not know yet what the one before it has committed."""
    leader = Leader((RECORDS, 3), (b"", 1), (RECORDS, 3))
    assert leader.catch_up()
    assert leader.catch_up()
    assert leader.reader.end_offset == 3
    assert leader.catch_up()
    assert (leader.asked, leader.applied) == ([-2, 3, 3], [0, 1, 2])


def test_what_is_damaged_is_not_passed_over() -> None:
    damaged = RECORDS[:-1] + b"?"
    leader = Leader((damaged, 3), (RECORDS, 3))
    assert not leader.catch_up()
    assert "damaged" in leader.reader.trouble
    assert leader.catch_up()
    assert (leader.asked, leader.applied) == ([-2, -2], [0, 1, 2])


def test_what_compaction_has_removed_at_the_end_is_passed_over() -> None:
    leader = Leader((RECORDS, 5), (b"", 5))
    assert leader.catch_up()
    assert (leader.reader.end_offset, leader.asked) == (5, [-2, 3])
