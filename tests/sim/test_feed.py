"""Batches are pushed, against credit, from a partition that another broker leads."""

import pytest

from kafkaesque.broker.partitions.feed import QUESTION_MS, Feed
from kafkaesque.broker.partitions.forwarder import Forwarder, OnFetched
from kafkaesque.broker.requests.commands import EARLIEST, FetchResult, ForwardFetch
from kafkaesque.model.batch import scan_batches
from kafkaesque.model.errors import OffsetOutOfRange, RequestRefused
from kafkaesque.model.ids import TopicPartition
from tests.sim.scenario import TOPIC, Scenario
from tests.sim.seeds import first_of

WHERE = TopicPartition(TOPIC, 0)
PLENTY_BYTES = 1 << 30


class Reader:
    """Keeps the offsets of all that a feed brings."""

    def __init__(self, scenario: Scenario, name: str) -> None:
        broker = scenario.broker(name)
        self.feed = Feed(broker.env.clock, broker.forwarder.fetch, WHERE, self)
        self.offsets: list[int] = []
        self.answers = self.read_bytes = 0
        self.refusals: list[RequestRefused] = []

    def on_batches(self, result: FetchResult) -> None:
        self.answers += 1
        self.read_bytes += len(result.records)
        for batch in scan_batches(memoryview(result.records)).batches:
            self.offsets.extend(range(batch.base_offset, batch.next_offset))

    def on_refused(self, refusal: RequestRefused) -> None:
        self.refusals.append(refusal)


def elsewhere(scenario: Scenario) -> str:
    return next(name for name in scenario.running() if name != scenario.leader)


def wait_for_another_leader(scenario: Scenario, name: str) -> None:
    scenario.loop.run_until(lambda: scenario.leaders() not in ([], [name]), 30_000)


def stable_offset(scenario: Scenario) -> int:
    return scenario.partition(scenario.leader).last_stable_offset


def test_what_is_committed_elsewhere_arrives_without_polling(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[ForwardFetch] = []
    serve = Forwarder.serve_fetch

    def count(self: Forwarder, request: ForwardFetch, on_done: OnFetched) -> None:
        if request.wait_ms:
            asked.append(request)
        serve(self, request, on_done)

    monkeypatch.setattr(Forwarder, "serve_fetch", count)
    scenario = Scenario(1)
    reader = Reader(scenario, elsewhere(scenario))
    reader.feed.seek(EARLIEST)
    reader.feed.grant(PLENTY_BYTES)
    scenario.loop.run_for(4 * QUESTION_MS)
    assert len(asked) <= 6, "a quiet partition is asked once a question's time"
    scenario.write(100)
    scenario.loop.run_for(50)
    assert reader.offsets == list(range(stable_offset(scenario)))


def test_no_more_comes_than_there_is_credit_for() -> None:
    scenario = Scenario(2)
    scenario.write(300)
    reader = Reader(scenario, elsewhere(scenario))
    reader.feed.seek(EARLIEST)
    scenario.loop.run_for(2_000)
    assert reader.offsets == []
    reader.feed.grant(1_000)
    scenario.loop.run_for(2_000)
    read_bytes = reader.read_bytes
    assert 0 < read_bytes < 10_000
    scenario.loop.run_for(2 * QUESTION_MS)
    assert reader.read_bytes == read_bytes, "all credit is used up"
    while len(reader.offsets) < stable_offset(scenario):
        reader.feed.grant(1_000)
        scenario.loop.run_for(200)
    assert reader.offsets == list(range(stable_offset(scenario)))


@pytest.mark.parametrize("seed", first_of(range(3), 1))
def test_nothing_is_skipped_and_nothing_comes_twice_when_leaders_are_killed(seed: int) -> None:
    scenario = Scenario(100 + seed)
    place = elsewhere(scenario)
    reader = Reader(scenario, place)
    reader.feed.seek(EARLIEST)
    reader.feed.grant(PLENTY_BYTES)
    for _ in range(4):
        scenario.write(50)
        leader = scenario.leader
        if leader != place:
            scenario.kill(leader)
            wait_for_another_leader(scenario, leader)
            scenario.write(50)
            scenario.boot(leader)
            scenario.settle()
    scenario.loop.run_for(2 * QUESTION_MS)
    assert reader.offsets == list(range(stable_offset(scenario)))
    assert reader.refusals == []


def test_a_reader_behind_the_logs_start_is_told_once_and_may_go_on() -> None:
    scenario = Scenario(3)
    scenario.write(50)
    reader = Reader(scenario, elsewhere(scenario))
    reader.feed.seek(1_000_000)
    reader.feed.grant(PLENTY_BYTES)
    scenario.loop.run_for(3_000)
    (refusal,) = reader.refusals
    assert isinstance(refusal, OffsetOutOfRange)
    reader.feed.seek(EARLIEST)
    scenario.loop.run_for(2_000)
    assert reader.offsets == list(range(stable_offset(scenario)))


def test_a_closed_feed_brings_nothing_more() -> None:
    scenario = Scenario(4)
    reader = Reader(scenario, elsewhere(scenario))
    reader.feed.seek(EARLIEST)
    reader.feed.grant(PLENTY_BYTES)
    scenario.write(20)
    scenario.loop.run_for(500)
    seen = len(reader.offsets)
    reader.feed.close()
    scenario.write(20)
    scenario.loop.run_for(2 * QUESTION_MS)
    assert len(reader.offsets) == seen


def test_what_was_committed_and_is_not_there_is_out_of_range() -> None:
    """Nobody waits at a log's end for a message that it has lost (ADR 48)."""
    scenario = Scenario(1)
    scenario.write(3)
    end, answers = stable_offset(scenario), list[FetchResult | RequestRefused]()
    forwarder = scenario.broker(elsewhere(scenario)).forwarder
    for offset in (end - 1, end):
        forwarder.fetch(WHERE, offset, 1_000, 5_000, answers.append, reads_all=True)
    scenario.loop.run_until(lambda: len(answers) == 2, 10_000)
    last, beyond = sorted(answers, key=lambda each: isinstance(each, RequestRefused))
    assert isinstance(last, FetchResult)
    assert last.records
    assert isinstance(beyond, OffsetOutOfRange)
