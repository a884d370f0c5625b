"""Topics that transactions and groups use are deleted and made again; and the checker can tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from kafkaesque.broker.coordinators import marker_writer
from kafkaesque.broker.coordinators.groups import GroupCoordinators
from kafkaesque.broker.coordinators.marker_writer import MarkerWriter
from kafkaesque.broker.metadata.records import TopicDeleted
from kafkaesque.broker.partitions.producers import PartitionProducers
from kafkaesque.gateway.kafka import group_offsets
from kafkaesque.model.ids import Offset
from kafkaesque.sim.clients.findings import Findings
from kafkaesque.sim.clients.transaction_history import Outcome
from kafkaesque.sim.faults import Fault
from kafkaesque.sim.namesakes import load, topic
from kafkaesque.sim.namesakes.history import STAYING, NamesakeHistory, SentBatch
from kafkaesque.sim.namesakes.offset_history import NOT_COMMITTED, OffsetHistory
from kafkaesque.sim.namesakes.topic import Namesake
from kafkaesque.sim.namesakes.transactor import KINDS
from kafkaesque.sim.runner import SimOptions, run_seed
from kafkaesque.transactions.events import MarkerOutcome, MarkersWritten
from tests.sim.seeds import some_of

NAMESAKES = ("namesakes",)
CALM = SimOptions(kinds=("pause",), activities=NAMESAKES, duration_ms=6_000)


@pytest.mark.timeout(300)
def test_namesakes_are_told_apart_under_any_survivable_fault() -> None:
    deleted = 0
    for seed in some_of(range(8)):
        options = SimOptions(
            activities=NAMESAKES,
            between_ms=(500, 1_500, 3_000)[seed % 3],
            steady_clocks=seed % 2 == 0,
        )
        report = run_seed(seed, options)
        lines = "\n".join(report.lines[-40:])
        assert report.ok, f"seed {report.seed}: {report.anomalies}\n{lines}"
        assert report.counts["commits to namesakes"] > 0, "the clients did something"
        deleted += report.counts["namesakes"]
    assert deleted > 10, "and topics were deleted meanwhile"


# -- planted bugs


def anomalies(
    options: SimOptions, seeds: Iterable[int], plan: Sequence[Fault] | None = None
) -> list[str]:
    for seed in seeds:
        found = run_seed(seed, options, plan).anomalies
        if found:
            return found
    return []


def test_a_broker_that_gives_out_what_is_not_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartitionProducers, "first_unstable_offset", property(lambda _: 2**62))
    found = anomalies(CALM, range(3))
    assert any("namesakes: precommitted read" in what for what in found), found


def test_a_broker_that_names_no_aborted_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(
        self: PartitionProducers, from_offset: Offset, to_offset: Offset
    ) -> tuple[Offset, list[tuple[int, int]]]:
        return to_offset, []

    monkeypatch.setattr(PartitionProducers, "aborted_between", nothing)
    found = anomalies(CALM, range(3))
    assert any("namesakes: aborted read" in what for what in found), found


def test_a_broker_that_gives_a_topic_its_namesakes_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_offsets, "is_of_topic", lambda *_: True)
    monkeypatch.setattr(GroupCoordinators, "on_topic_deleted", lambda *_: None)
    found = anomalies(CALM, range(3))
    assert any("namesake's offset" in what for what in found), found


@pytest.mark.extended
def test_a_marker_of_a_deleted_topic_that_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It comes to the namesake, late, and ends the producer's next transaction there."""

    def forget(self: MarkerWriter, name: str) -> None:
        for where in self._work.partitions:
            if where.topic == name:
                gone = MarkersWritten(
                    token=self._work.token,
                    transactional_id=self._work.transactional_id,
                    partition=where,
                    outcome=MarkerOutcome.PARTITION_GONE,
                )
                self._host.notify(gone)

    monkeypatch.setattr(MarkerWriter, "on_topic_deleted", forget)
    # It is rare: more producers that keep their epoch, and markers that are asked for less often.
    old = [KINDS[0]._replace(name=f"old{number}") for number in range(6)]
    monkeypatch.setattr(load, "KINDS", old)
    monkeypatch.setattr(topic, "USE_MS", (1_500, 2_500))
    monkeypatch.setattr(marker_writer, "RETRY_MS_MIN", 1_000)
    options = SimOptions(kinds=("kill",), between_ms=700, duration_ms=20_000, activities=NAMESAKES)
    found = anomalies(options, (8, 35, 52))
    assert any("namesakes: precommitted read" in what for what in found), found


@pytest.mark.extended
def test_a_late_word_of_a_topics_end_that_takes_its_namesakes_offsets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    delete = GroupCoordinators.on_topic_deleted

    def without_time(self: GroupCoordinators, record: TopicDeleted) -> None:
        delete(self, TopicDeleted(topic_id=record.topic_id, name=record.name))

    monkeypatch.setattr(GroupCoordinators, "on_topic_deleted", without_time)
    monkeypatch.setattr(load, "KINDS", ())
    monkeypatch.setattr(topic, "USE_MS", (1_500, 2_500))
    pairs = [("b1", "b2"), ("b2", "b3"), ("b3", "b1")]
    plan = [
        Fault(kind="block", targets=(a, b, b, a), begin_ms=begin, end_ms=begin + 2_400)
        for begin, (a, b) in zip(range(1_000, 19_000, 3_000), 2 * pairs, strict=True)
    ]
    options = SimOptions(kinds=("block",), duration_ms=20_000, activities=NAMESAKES)
    found = anomalies(options, range(3), plan)
    assert any("group namesakes-by-name: lost commit" in what for what in found), found


# -- the checker by itself


def history_of(act: Callable[[NamesakeHistory], object]) -> list[str]:
    findings = Findings()
    history = NamesakeHistory(findings)
    history.last = 2
    act(history)
    history.check()
    return findings.anomalies


def sent(
    history: NamesakeHistory, place: int | None = 1, outcome: Outcome = Outcome.COMMITTED
) -> SentBatch:
    transaction = history.begin("t/1", keeps_epoch=False)
    batch = SentBatch(transaction, place, 0, [b"t/1/0", b"t/1/1"])
    history.note_sent(batch)
    batch.is_acknowledged, batch.known = True, 1
    transaction.is_commit_asked = outcome is not Outcome.OPEN
    transaction.outcome = outcome
    return batch


def read(history: NamesakeHistory, topic: int, count: int = 2, first_offset: int = 0) -> int:
    for number in range(count):
        history.note_read(topic, 0, first_offset + number, b"t/1/%d" % number)
    return count


ANOMALIES: dict[str, tuple[str, Callable[[NamesakeHistory], object]]] = {
    "by id": ("namesake's record", lambda each: (sent(each), read(each, 2))),
    "by name": ("namesake's record", lambda each: (sent(each, None), read(each, 2))),
    "aborted": ("aborted read", lambda each: (sent(each, 1, Outcome.ABORTED), read(each, 1))),
    "early": ("precommitted read", lambda each: (sent(each, 1, Outcome.OPEN), read(each, 1))),
    "gone": ("lost commit", lambda each: sent(each, 2)),
    "half gone": ("lost commit", lambda each: (sent(each, STAYING), read(each, STAYING, 1))),
    "half there": ("torn", lambda each: (sent(each, 2, Outcome.UNKNOWN), read(each, 2, 1))),
    "unsent": ("nobody sent", lambda each: each.note_read(1, 0, 0, b"x")),
    "twice": ("twice", lambda each: (sent(each), read(each, 1), read(each, 1, 1, 9))),
    "changed": ("was", lambda each: (sent(each), read(each, 1), read(each, 1, 1, 1))),
}


@pytest.mark.parametrize("how", ANOMALIES)
def test_every_anomaly_is_seen(how: str) -> None:
    name, act = ANOMALIES[how]
    found = history_of(act)
    assert any(name in what for what in found), found


def _repeat_by_name(history: NamesakeHistory) -> None:
    sent(history, None).is_stray = True
    read(history, 1)
    read(history, 2)


ALLOWED: dict[str, Callable[[NamesakeHistory], object]] = {
    "gone with its topic": sent,
    "there": lambda each: (sent(each, 2), read(each, 2)),
    "undecided": lambda each: sent(each, 2, Outcome.UNKNOWN),
    "aborted": lambda each: sent(each, 2, Outcome.ABORTED),
    "repeated by name": _repeat_by_name,
}


@pytest.mark.parametrize("how", ALLOWED)
def test_what_may_be_is_no_anomaly(how: str) -> None:
    assert history_of(ALLOWED[how]) == []


def offsets(*, is_by_id: bool = True) -> tuple[OffsetHistory, Findings]:
    findings = Findings()
    return OffsetHistory(findings, "g", is_by_id=is_by_id, do_clocks_tell=True), findings


def asked(history: OffsetHistory, topic: Namesake, found: int, **how: Any) -> None:
    how = {"is_by_id": True, "is_final": False} | how
    history.judge(history.ask(topic, **how), 0, found)


def test_an_offset_is_there_until_its_topic_is_deleted_and_not_after() -> None:
    first, second = Namesake(1, b"1" * 16), Namesake(2, b"2" * 16)
    history, findings = offsets()
    number = history.send(first)
    history.note_stored(number, first)
    history.note_counts(number, first)
    asked(history, first, number)
    assert findings.anomalies == []
    asked(history, first, NOT_COMMITTED)
    assert "lost commit" in findings.anomalies.pop()
    first.is_doomed = True
    asked(history, first, NOT_COMMITTED)
    asked(history, second, NOT_COMMITTED)
    asked(history, second, number, is_by_id=False)  # of a coordinator that lags
    assert findings.anomalies == []
    for how in ({"is_by_id": True}, {"is_by_id": False, "is_final": True}):
        asked(history, second, number, **how)
        assert "namesake's offset" in findings.anomalies.pop()
    asked(history, second, 7)
    assert "nobody" in findings.anomalies.pop()


def test_a_late_commit_by_name_may_be_of_the_next_topic() -> None:
    first, second = Namesake(1, b"1" * 16), Namesake(2, b"2" * 16)
    for is_by_id in (False, True):
        history, findings = offsets(is_by_id=is_by_id)
        number = history.send(first)
        history.note_stray(number)
        asked(history, second, number)
        assert bool(findings.anomalies) is is_by_id


def test_offsets_of_an_aborted_transaction_never_count() -> None:
    only = Namesake(1, b"1" * 16)
    history, findings = offsets(is_by_id=False)
    number = history.send(only, is_transactional=True)
    asked(history, only, number)
    assert "aborted offset" in findings.anomalies.pop()
    history.note_stored(number, only)
    history.note_commit_asked(number)
    asked(history, only, number)
    asked(history, only, NOT_COMMITTED)
    assert findings.anomalies == []
    history.note_counts(number, only)
    asked(history, only, NOT_COMMITTED)
    assert "lost commit" in findings.anomalies.pop()
    history.note_aborted(number)
    asked(history, only, number)
    assert "aborted offset" in findings.anomalies.pop()
