"""A stream's log, at a leader that answers as leaders may."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from kafkaesque.broker.requests.commands import FetchResult
from kafkaesque.gateway.nats.jetstream.records import message_record
from kafkaesque.gateway.nats.jetstream.stream_log import StreamLog
from kafkaesque.gateway.nats.jetstream.view import Bounds
from kafkaesque.model.batch_encoder import encode_batch

RECORDS = bytes(encode_batch([message_record(each, 5, "a", b"", b"x") for each in range(3)]))


class Leader:
    """Gives the answers that it was given, and then the last one again."""

    def __init__(self, *answers: tuple[bytes, int]) -> None:
        self.answers = list(answers)
        self.asked: list[int] = []
        self.due: list[Callable[[], None]] = []
        clock = SimpleNamespace(
            call_soon=self.due.append,
            call_later=lambda _, act: self.due.append(act),
            wall_ms=lambda: 10,
        )
        doors: Any = SimpleNamespace(clock=clock, reading=SimpleNamespace(fetch=self.fetch))
        self.log = StreamLog(doors, "s", Bounds())

    def fetch(self, _: object, offset: int, *rest: Any) -> None:
        self.asked.append(offset)
        records, stable = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        rest[-1](
            FetchResult(records=records, aborted=[], last_stable_offset=stable, log_start_offset=0)
        )

    def catch_up(self) -> bool:
        """Return whether all was read."""
        outcome: list[bool] = []
        self.log.catch_up(outcome.append)
        while self.due:
            self.due.pop(0)()
        return outcome == [True]


def test_what_is_committed_and_not_in_the_answer_is_asked_for_again() -> None:
    leader = Leader((b"", 3), (b"", 3), (RECORDS, 3))
    assert leader.catch_up()
    assert leader.log.view.message_count == 3
    assert leader.asked == [-2, 0, 0]


def test_what_never_comes_is_not_taken_for_read() -> None:
    leader = Leader((b"", 3))
    assert not leader.catch_up()


def test_a_leader_that_knows_less_takes_nothing_away() -> None:
    leader = Leader((RECORDS, 3), (b"", 0), (b"", 3))
    assert leader.catch_up()
    assert leader.catch_up()
    assert leader.catch_up()
    assert (leader.log.view.message_count, leader.asked) == (3, [-2, 3, 3])
