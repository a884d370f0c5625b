"""A lock held by leadership of a group: one holder at a time, and a bug that gives it two."""

import pytest

from kafkaesque.sim.clients.findings import Findings
from kafkaesque.sim.clients.transaction_history import Identity, TransactionHistory, Who
from kafkaesque.sim.options import SimOptions
from kafkaesque.sim.runner import run_seed
from kafkaesque.transactions.errors import TransactionError
from kafkaesque.transactions.transaction import Transaction

LOCK = SimOptions(kinds=("pause", "block"), between_ms=700, activities=("lock",))


def test_candidates_that_sleep_and_die_never_hold_the_lock_together() -> None:
    decisions = 0
    for seed in range(3):
        report = run_seed(seed, LOCK)
        assert report.ok, report.anomalies
        decisions += report.counts["decisions"]
    assert decisions > 10


def test_a_coordinator_that_knows_no_epochs_gives_a_lock_two_holders(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def anybody(
        self: Transaction, producer_id: int, producer_epoch: int, *_: object
    ) -> TransactionError:
        return TransactionError.NONE

    monkeypatch.setattr(Transaction, "check_producer", anybody)
    found: list[str] = []
    for seed in (14, 16, 22):
        found += run_seed(seed, LOCK).anomalies
        if any(what.startswith("lock: double lock holder") for what in found):
            return
    pytest.fail(f"two held the lock, and nobody noticed: {found}")


def test_a_decision_of_who_held_the_lock_before_is_seen() -> None:
    findings = Findings()
    history = TransactionHistory(findings, "lock", is_lock=True)
    old, new = Who("l1.1", "lock"), Who("l2.1", "lock")
    for number, (who, epoch) in enumerate(((new, 1), (old, 0))):
        history.note_identity(who, Identity(1, epoch))
        transaction = history.begin(who, 0, epoch)
        history.note_sent(transaction, 0, [f"{transaction}/0/0".encode()])
        history.note_commit_asked(transaction)
        history.note_ended(transaction, is_commit=True, was_shut_out=False)
        history.note_read(0, number, f"{transaction}/0/0".encode())
    history.check()
    assert findings.anomalies == ["lock: double lock holder: b'l1.1/0/0/0' at 0@1 is too late"]
