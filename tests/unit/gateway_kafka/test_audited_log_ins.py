"""What the audit log is told of log-ins by certificate, and of those that nobody looks at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkaesque.access.attempts import AttemptConfig, Attempts
from kafkaesque.access.audit import AuditEvent, AuditKind, Outcome
from kafkaesque.access.audit_trail import AuditTrail
from kafkaesque.access.authentication import FailureReason
from tests.certificates import TestAuthority
from tests.unit.admin.visits import AdminCluster
from tests.unit.gateway_kafka.live import LiveCluster
from tests.unit.gateway_kafka.secured import Client, Closed, add_user
from tests.unit.gateway_kafka.test_certificate_log_in import secured

TOO_MANY = "too many log-ins have failed"
#: One failure, and no other guess is looked at for a minute.
SLOW = AttemptConfig(free_failures=0, delay_ms_min=60_000, delay_ms_max=60_000, backlog_ms_max=1)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[AuditEvent]:
    """The log-ins that brokers tell of."""
    found: list[AuditEvent] = []
    note = AuditTrail.note

    def keep(trail: AuditTrail, event: AuditEvent, now_ms: int) -> None:
        if event.kind is AuditKind.LOG_IN:
            found.append(event)
        note(trail, event, now_ms)

    monkeypatch.setattr(AuditTrail, "note", keep)
    return found


def by_certificate(outcome: Outcome, principal: str, because: str = "") -> tuple[object, ...]:
    return (outcome, principal, "kafka", "certificate", because)


def seen(events: list[AuditEvent]) -> list[tuple[object, ...]]:
    return [
        (each.outcome, each.principal, each.listener, each.mechanism, each.because)
        for each in events
    ]


def test_log_ins_by_certificate(tmp_path: Path, told: list[AuditEvent]) -> None:
    authority = TestAuthority(tmp_path / "ca", "live")
    authority.authority.issue_user("root")
    authority.forge("two-names", uris=("kafkaesque://live/user/app",), common_name="root")
    cluster = secured(tmp_path, authority)
    try:
        told.clear()
        Client(cluster, tls=authority.client("root")).close()
        cluster.wait(lambda: len(told) == 1, "the log-in is told")
        refused = Client(cluster, tls=authority.client("two-names"))
        assert refused.is_closed(5)
        cluster.wait(lambda: len(told) == 2, "the refusal is told")
    finally:
        cluster.close()
    assert seen(told) == [
        by_certificate(Outcome.SUCCEEDED, "User:root"),
        by_certificate(Outcome.FAILED, "", FailureReason.UNKNOWN.value),
    ]


@pytest.fixture
def admin(tmp_path: Path) -> Iterator[AdminCluster]:
    cluster = AdminCluster(tmp_path)
    add_user(cluster.live, "alice")
    yield cluster
    cluster.close()


def slow_down(live: LiveCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    logins = live.nodes[1].chassis.logins
    assert logins is not None
    attempts = Attempts(SLOW)
    attempts.on_failure("127.0.0.1", "alice", live.broker.env.clock.now_ms())
    monkeypatch.setattr(logins, "attempts", attempts)


def test_guesses_that_are_not_looked_at(
    admin: AdminCluster, told: list[AuditEvent], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_down(admin.live, monkeypatch)
    assert admin.log_in("alice").status == 429
    assert [(e.outcome, e.principal, e.mechanism, e.because) for e in told] == [
        (Outcome.FAILED, "User:alice", "session", TOO_MANY)
    ]
    told.clear()
    with pytest.raises(Closed):
        Client(admin.live).log_in("alice")
    assert [(e.outcome, e.principal, e.mechanism, e.because) for e in told] == [
        (Outcome.FAILED, "User:alice", "SCRAM-SHA-256", TOO_MANY)
    ]
