"""Transactions under faults: never torn, never seen early, never lost; and the checker can tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkaesque.broker.coordinators.marker_writer import MarkerWriter
from kafkaesque.broker.coordinators.transactions import TransactionCoordinators
from kafkaesque.broker.partitions.log_reader import LogReader
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.partitions.producers import PartitionProducers
from kafkaesque.broker.requests.commands import AddToTransaction
from kafkaesque.model.batch_encoder import EndMarker, MarkerType
from kafkaesque.model.ids import Offset
from kafkaesque.sim.clients.findings import Findings
from kafkaesque.sim.clients.transaction_history import (
    Identity,
    SimTransaction,
    TransactionHistory,
    Who,
)
from kafkaesque.sim.runner import SimOptions, run_seed
from kafkaesque.transactions.errors import TransactionError
from kafkaesque.transactions.events import MarkerOutcome
from kafkaesque.transactions.producer_state import ProducerStateTable
from kafkaesque.transactions.producer_verdicts import Verdict
from kafkaesque.transactions.transaction import Transaction
from tests.sim.seeds import first_of, some_of

TRANSACTIONS = ("transactions",)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", first_of(range(0, 20, 5), 1))
def test_transactions_are_whole_under_any_survivable_fault(first: int) -> None:
    committed = 0
    for seed in some_of(range(first, first + 5)):
        options = SimOptions(activities=TRANSACTIONS, between_ms=(500, 1_500, 3_000)[seed % 3])
        report = run_seed(seed, options)
        lines = "\n".join(report.lines[-40:])
        assert report.ok, f"seed {report.seed}: {report.anomalies}\n{lines}"
        assert report.counts["transactions"] > 0, "the clients did something"
        committed += report.counts["transactions"]
    assert committed > 50, "and not only between the faults"


@pytest.mark.extended
def test_leaders_seldom_have_to_ask_whether_they_take_part(monkeypatch: pytest.MonkeyPatch) -> None:
    confirm = TransactionCoordinators.confirm
    questions = []

    def count(self: TransactionCoordinators, request: AddToTransaction, on_error: Any) -> None:
        if request.verify_only:
            questions.append(request)
        confirm(self, request, on_error)

    monkeypatch.setattr(TransactionCoordinators, "confirm", count)
    report = run_seed(1, SimOptions(kinds=("pause",), between_ms=60_000, activities=TRANSACTIONS))
    assert report.ok, report.anomalies
    assert len(questions) < report.counts["transactions"] / 2


def anomalies(options: SimOptions, seeds: range) -> list[str]:
    for seed in seeds:
        found = run_seed(seed, options).anomalies
        if found:
            return found
    return []


# -- planted bugs


def test_a_broker_that_gives_out_what_is_not_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartitionProducers, "first_unstable_offset", property(lambda _: 2**62))
    found = anomalies(SimOptions(kinds=("pause",), activities=TRANSACTIONS), range(3))
    assert any("precommitted read" in what for what in found), found


def test_a_broker_that_names_no_aborted_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(
        self: PartitionProducers, from_offset: Offset, to_offset: Offset
    ) -> tuple[Offset, list[tuple[int, int]]]:
        return to_offset, []

    monkeypatch.setattr(PartitionProducers, "aborted_between", nothing)
    found = anomalies(SimOptions(kinds=("pause",), activities=TRANSACTIONS), range(3))
    assert any("aborted read" in what for what in found), found


@pytest.mark.extended
def test_a_broker_that_asks_no_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    def accept(self: ProducerStateTable, producer_id: int, epoch: int) -> Verdict:
        return Verdict.ACCEPT

    monkeypatch.setattr(ProducerStateTable, "_check_first", accept)
    options = SimOptions(kinds=("reset", "delay"), between_ms=500, activities=TRANSACTIONS)
    found = anomalies(options, range(3))
    assert any("stuck" in what or "zombie" in what for what in found), found


@pytest.mark.extended
def test_a_coordinator_that_forgets_a_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    send = MarkerWriter._send

    def forgetful(self: MarkerWriter, where: Any, retry_ms: int) -> None:
        if where.partition == 0:
            self._clock.call_soon(lambda: self._tell(where, MarkerOutcome.WRITTEN))
        else:
            send(self, where, retry_ms)

    monkeypatch.setattr(MarkerWriter, "_send", forgetful)
    found = anomalies(SimOptions(kinds=("pause",), activities=TRANSACTIONS), range(3))
    assert found, "a partition never got a marker, and nobody noticed"


@pytest.mark.extended
def test_a_transaction_that_ends_one_way_here_and_another_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    append = Partition.append_marker

    def torn(self: Partition, marker: EndMarker, **arguments: Any) -> None:
        if self.state.partition == 0:
            abort = EndMarker(type=MarkerType.ABORT, coordinator_epoch=marker.coordinator_epoch)
            append(self, abort, **arguments)
        else:
            append(self, marker, **arguments)

    monkeypatch.setattr(Partition, "append_marker", torn)
    found = anomalies(SimOptions(kinds=("pause",), activities=TRANSACTIONS), range(3))
    assert any("torn" in what for what in found), found


@pytest.mark.extended
def test_a_coordinator_that_knows_no_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    def anybody(
        self: Transaction, producer_id: int, producer_epoch: int, *_: object
    ) -> TransactionError:
        return TransactionError.NONE

    monkeypatch.setattr(Transaction, "check_producer", anybody)
    options = SimOptions(kinds=("pause", "block"), activities=TRANSACTIONS)
    found = anomalies(options, range(10))
    assert any("zombie" in what for what in found), found


@pytest.mark.extended
def test_a_coordinator_that_reads_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    load = LogReader.__init__

    def short(self: LogReader, **arguments: Any) -> None:
        arguments["end"] = max(0, arguments["end"] - 3)
        load(self, **arguments)

    monkeypatch.setattr(LogReader, "__init__", short)
    options = SimOptions(kinds=("kill",), between_ms=700, activities=TRANSACTIONS)
    assert anomalies(options, range(5)), "decisions were forgotten, and nobody noticed"


# -- the checker by itself

A, B = Who("a", "id"), Who("b", "id")


def _begun(history: TransactionHistory) -> SimTransaction:
    history.note_identity(A, Identity(1, 0))
    transaction = history.begin(A, 0, 0)
    history.note_sent(transaction, 0, [b"a/0/0/0", b"a/0/0/1"])
    history.note_sent(transaction, 1, [b"a/0/1/0"])
    return transaction


def _read(history: TransactionHistory) -> None:
    history.note_read(0, 0, b"a/0/0/0")
    history.note_read(0, 1, b"a/0/0/1")
    history.note_read(1, 0, b"a/0/1/0")


def _end(history: TransactionHistory, transaction: SimTransaction, *, is_commit: bool) -> None:
    if is_commit:
        history.note_commit_asked(transaction)
    history.note_ended(transaction, is_commit=is_commit, was_shut_out=False)


def _tear(history: TransactionHistory) -> None:
    transaction = _begun(history)
    history.note_commit_asked(transaction)
    history.note_refused(transaction, is_unsure=True)
    history.note_read(1, 0, b"a/0/1/0")


def _lose(history: TransactionHistory) -> None:
    _end(history, _begun(history), is_commit=True)


def _read_aborted(history: TransactionHistory) -> None:
    transaction = _begun(history)
    history.note_commit_asked(transaction)
    history.note_refused(transaction, is_unsure=False)
    _read(history)


def _read_early(history: TransactionHistory) -> None:
    transaction = _begun(history)
    _read(history)
    _end(history, transaction, is_commit=True)


def _read_twice(history: TransactionHistory) -> None:
    _end(history, _begun(history), is_commit=True)
    _read(history)
    history.note_read(1, 1, b"a/0/1/0")


def _reorder(history: TransactionHistory) -> None:
    _end(history, _begun(history), is_commit=True)
    history.note_read(0, 0, b"a/0/0/1")
    history.note_read(0, 1, b"a/0/0/0")
    history.note_read(1, 0, b"a/0/1/0")


def _come_back(history: TransactionHistory) -> None:
    transaction = _begun(history)
    history.note_identity(B, Identity(1, 1))
    was_shut_out = history.is_shut_out(A, Identity(1, 0))
    history.note_written(transaction, was_shut_out=was_shut_out)


@pytest.mark.parametrize(
    ("name", "act"),
    [
        ("torn", _tear),
        ("lost commit", _lose),
        ("aborted read", _read_aborted),
        ("precommitted read", _read_early),
        ("twice", _read_twice),
        ("reordered", _reorder),
        ("zombie", _come_back),
        ("changed id", lambda each: (_begun(each), each.note_identity(B, Identity(2, 0)))),
        ("nobody sent", lambda each: each.note_read(0, 0, b"c/0/0/0")),
    ],
)
def test_every_anomaly_is_seen(name: str, act: Callable[[TransactionHistory], object]) -> None:
    findings = Findings()
    history = TransactionHistory(findings)
    act(history)
    history.check()
    assert any(name in what for what in findings.anomalies), findings.anomalies


@pytest.mark.parametrize("is_commit", [True, False])
def test_what_went_well_is_no_anomaly(is_commit: bool) -> None:
    findings = Findings()
    history = TransactionHistory(findings)
    transaction = _begun(history)
    assert not history.is_shut_out(A, Identity(1, 0))
    _end(history, transaction, is_commit=is_commit)
    if is_commit:
        _read(history)
    history.check()
    assert not findings.anomalies
    assert history.committed_count == is_commit


@pytest.mark.parametrize("is_seen", [True, False])
def test_a_commit_that_nobody_answered_may_have_been_done(is_seen: bool) -> None:
    findings = Findings()
    history = TransactionHistory(findings)
    transaction = _begun(history)
    history.note_commit_asked(transaction)
    history.note_refused(transaction, is_unsure=True)
    if is_seen:
        _read(history)
    history.check()
    assert not findings.anomalies
