"""Appends that are for a log's end as somebody knows it: of two with the same end, one is taken."""

from __future__ import annotations

import pytest

from kafkaesque.broker.requests.commands import FetchResult, ProduceResult
from kafkaesque.model.batch import scan_batches
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.errors import LogEndMoved, RequestRefused
from kafkaesque.model.ids import TopicPartition
from kafkaesque.model.records import Record
from kafkaesque.storage.log_state import LogState
from tests.sim.scenario import TOPIC, Scenario

WHERE = TopicPartition(TOPIC, 0)


def batch_of(body: bytes) -> bytes:
    return bytes(encode_batch([Record(offset=0, timestamp_ms=0, key=None, value=body)]))


class Appenders:
    """Those who append to the topic of a scenario."""

    def __init__(self, seed: int) -> None:
        self.scenario = Scenario(seed)
        self.scenario.write(5)
        self.scenario.settle()
        self.end = self.scenario.end(self.scenario.leader)
        self.outcomes: list[ProduceResult | RequestRefused] = []

    def append_at(self, broker: str, end: int) -> None:
        self.scenario.broker(broker).doors.publishing.publish_at(
            WHERE, end, batch_of(broker.encode()), timeout_ms=5_000, on_done=self.outcomes.append
        )

    def wait_for(self, count: int) -> tuple[int, int]:
        """Return how many were taken, and how many refused because the log had grown."""
        self.scenario.loop.run_until(lambda: len(self.outcomes) == count, 20_000)
        taken = sum(isinstance(each, ProduceResult) for each in self.outcomes)
        return taken, sum(isinstance(each, LogEndMoved) for each in self.outcomes)


def test_of_two_in_one_turn_of_the_leader_one_is_taken() -> None:
    """The first one is proposed, and not in the leader's log, when the second one comes."""
    run = Appenders(1)
    run.append_at(run.scenario.leader, run.end)
    run.append_at(run.scenario.leader, run.end)
    assert run.wait_for(2) == (1, 1)


def test_what_this_turn_has_appended_counts() -> None:
    run = Appenders(1)
    run.append_at(run.scenario.leader, run.end)
    run.append_at(run.scenario.leader, run.end + 1)
    assert run.wait_for(2) == (2, 0)
    assert [each.base_offset for each in run.outcomes if isinstance(each, ProduceResult)] == [
        run.end,
        run.end + 1,
    ]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_of_those_of_all_brokers_one_is_taken(seed: int) -> None:
    run = Appenders(seed)
    names = run.scenario.running()
    for _ in range(5):
        for name in names:
            run.append_at(name, run.end)
    assert run.wait_for(5 * len(names)) == (1, 5 * len(names) - 1)


def test_what_is_committed_and_cannot_be_read_yet_is_not_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a cut a leader's files follow behind its log; what two others have is committed."""
    run = Appenders(1)
    log = run.scenario.partition(run.scenario.leader).log
    ends = {log: run.end - 1}
    monkeypatch.setattr(
        LogState, "written_end", property(lambda each: ends.get(each, each.positions.end_offset))
    )
    answers: list[FetchResult | RequestRefused] = []
    reading = run.scenario.broker(run.scenario.leader).doors.reading
    reading.fetch(WHERE, run.end - 1, 1_000_000, 5_000, answers.append)
    run.scenario.loop.run_for(500)
    assert not answers, "the leader has said that there is nothing"
    ends.clear()
    run.scenario.loop.run_until(lambda: bool(answers), 5_000)
    (answer,) = answers
    assert isinstance(answer, FetchResult)
    assert scan_batches(memoryview(answer.records)).batches[-1].next_offset == run.end
