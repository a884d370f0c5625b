"""Consume, transform, produce: exactly once, whoever dies; and the checker can tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.partitions.producers import PartitionProducers
from kafkaesque.groups.commits import Commits
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.events import CommitOffsets, FetchOffsets, TransactionEnded
from kafkaesque.groups.transactional_commits import TransactionalCommits
from kafkaesque.model.batch_encoder import EndMarker, MarkerType
from kafkaesque.model.ids import Offset
from kafkaesque.sim.clients.findings import Findings
from kafkaesque.sim.clients.transaction_history import Identity, SimTransaction, Who
from kafkaesque.sim.pipeline.history import PipelineHistory, Source, transform
from kafkaesque.sim.runner import SimOptions, run_seed

EXACTLY_ONCE = SimOptions(activities=("exactly-once",), duration_ms=6_000)
#: Workers lose their places in the group again and again.
RESTLESS = replace(
    EXACTLY_ONCE, kinds=("pause", "absence", "reset"), between_ms=600, duration_ms=4_000
)


@pytest.mark.extended
@pytest.mark.timeout(300)
def test_every_input_has_one_output_whoever_dies() -> None:
    for seed in range(3):
        report = run_seed(seed, EXACTLY_ONCE)
        lines = "\n".join(report.lines[-40:])
        assert report.ok, f"seed {report.seed}: {report.anomalies}\n{lines}"
        counts = report.counts
        assert counts["outputs"] == counts["inputs"] > 100, "the clients did something"
        assert counts["committed"] > 20
        assert counts["aborted"] > 0
        assert counts["lives"] > 4, "workers were started again"


# -- planted bugs


def anomalies(word: str, first: int) -> list[str]:
    """Return what the first of some seeds finds that finds this anomaly, or all that was found."""
    others: list[str] = []
    for seed in range(first, first + 10):
        found = run_seed(seed, RESTLESS).anomalies
        if any(word in what for what in found):
            return found
        others += found
    return others


@pytest.mark.extended
def test_offsets_of_an_aborted_transaction_that_count_lose_inputs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def apply(self: TransactionalCommits, ended: TransactionEnded) -> None:
        for change in self._context.pending.end(ended.producer_id, is_commit=True):
            self._context.offsets.apply(change)

    monkeypatch.setattr(TransactionalCommits, "on_ended", apply)
    found = anomalies("lost: ", 2)
    assert any("lost: " in what for what in found), found
    assert any("torn: " in what for what in found), found


@pytest.mark.extended
def test_a_group_that_takes_offsets_of_anybody_doubles_inputs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def anybody(self: TransactionalCommits, commit: CommitOffsets) -> GroupError:
        return GroupError.NONE

    monkeypatch.setattr(TransactionalCommits, "_check", anybody)
    found = anomalies("doubled: ", 0)
    assert any("doubled: " in what for what in found), found


def test_offsets_that_are_given_out_before_they_are_stable_double_inputs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fetch = Commits.on_fetch

    def at_once(self: Commits, asked: FetchOffsets) -> None:
        pending, self._context.pending = self._context.pending, type(self._context.pending)()
        fetch(self, asked)
        self._context.pending = pending

    monkeypatch.setattr(Commits, "on_fetch", at_once)
    found = anomalies("doubled: ", 0)
    assert any("doubled: " in what for what in found), found


@pytest.mark.extended
def test_a_broker_that_names_no_aborted_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(
        self: PartitionProducers, from_offset: Offset, to_offset: Offset
    ) -> tuple[Offset, list[tuple[int, int]]]:
        return to_offset, []

    monkeypatch.setattr(PartitionProducers, "aborted_between", nothing)
    found = anomalies("aborted read: ", 1)
    assert any("aborted read: " in what for what in found), found


def test_a_transaction_that_ends_one_way_here_and_another_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    append = Partition.append_marker

    def torn(self: Partition, marker: EndMarker, **arguments: Any) -> None:
        if self.state.topic_partition == ("invoices", 0):
            marker = EndMarker(type=MarkerType.ABORT, coordinator_epoch=marker.coordinator_epoch)
        append(self, marker, **arguments)

    monkeypatch.setattr(Partition, "append_marker", torn)
    found = anomalies("torn: ", 0)
    assert any("torn: " in what for what in found), found
    assert any("lost: " in what for what in found), found


# -- the checker by itself

WHO = Who("w", "id")
INPUTS = {0: {0: b"a", 1: b"b"}, 1: {0: b"c"}}
SOURCES = [Source(0, 0, b"a"), Source(0, 1, b"b"), Source(1, 0, b"c")]


class Scene:
    """A worker and a reader, told what to do."""

    def __init__(self) -> None:
        self.findings = Findings()
        self.history = PipelineHistory(self.findings)
        self.history.transactions.note_identity(WHO, Identity(1, 0))
        self._ends = [0, 0]
        self._number = 0

    def begin(self) -> SimTransaction:
        self._number += 1
        return self.history.transactions.begin(WHO, self._number, 0)

    def commit(self, *sources: Source, is_commit: bool = True, reads: int = 3) -> SimTransaction:
        """Write outputs, end, and have so many of them read; offsets are committed with it."""
        transactions, transaction = self.history.transactions, self.begin()
        values = [transform(transaction, each, number) for number, each in enumerate(sources)]
        for number, value in enumerate(values):
            transactions.note_sent(transaction, number % 2, [value])
        transactions.note_commit_asked(transaction)
        transactions.note_ended(transaction, is_commit=is_commit, was_shut_out=False)
        for number, value in enumerate(values[:reads]):
            partition = number % 2
            transactions.note_read(partition, self._ends[partition], value)
            self._ends[partition] += 1
        return transaction

    def check(self) -> list[str]:
        self.history.check(INPUTS)
        return self.findings.anomalies


def _double(scene: Scene) -> None:
    scene.commit(*SOURCES)
    scene.commit(SOURCES[1])


def _tear_offsets(scene: Scene) -> None:
    name = str(scene.commit(*SOURCES, is_commit=False, reads=0))
    scene.history.note_committed(0, 2, name)


@pytest.mark.parametrize(
    ("anomaly", "act"),
    [
        ("lost: b'c' at 1@0", lambda scene: scene.commit(*SOURCES[:2])),
        ("doubled: b'b' at 0@1", _double),
        ("aborted read: ", lambda scene: scene.commit(*SOURCES, is_commit=False)),
        ("torn: 2 records", lambda scene: scene.commit(*SOURCES, reads=2)),
        ("torn: w/1 has committed 0@2", _tear_offsets),
        ("made up: b'd' at 1@1", lambda scene: scene.commit(*SOURCES, Source(1, 1, b"d"), reads=4)),
    ],
)
def test_every_anomaly_is_seen(anomaly: str, act: Callable[[Scene], object]) -> None:
    scene = Scene()
    act(scene)
    found = scene.check()
    assert any(anomaly in what for what in found), found


def test_what_went_well_is_no_anomaly() -> None:
    scene = Scene()
    scene.commit(*SOURCES, is_commit=False, reads=0)
    first = scene.commit(SOURCES[0], SOURCES[2])
    scene.history.note_committed(0, 1, str(first))
    scene.commit(SOURCES[1])
    assert scene.check() == []
