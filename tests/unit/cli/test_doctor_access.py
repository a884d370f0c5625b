"""Findings about users, rules, listeners and certificates, each from facts of its own."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from kafkaesque.access.administration import Exposure, ShownListener, ShownUser
from kafkaesque.cli.access_requests import ShownRule
from kafkaesque.cli.commands import doctor
from kafkaesque.cli.doctor.facts import AccessFacts, AdminFacts, CertificateFacts, Facts
from kafkaesque.cli.doctor.findings import Limits, Severity
from tests.unit.cli.made_up_facts import checks_of, facts, with_broker

DAY_S = 86_400
ABOUT_ACCESS = {
    "certificate-ends",
    "listener-open",
    "listener-plaintext",
    "rules-stale",
    "topic-keys-missing",
    "audit-dropped",
    "user-without-rules",
    "rule-names-nobody",
}


def listener(**more: Any) -> ShownListener:
    given = {
        "protocol": "kafka",
        "name": "kafka",
        "address": "10.0.0.7:9092",
        "advertised": "10.0.0.7:9092",
        "access": "required",
        "has_tls": True,
        "is_local": False,
    }
    return ShownListener(**{**given, **more})


def listening(*listeners: ShownListener, epoch: int = 5, number: int = 1) -> Facts:
    return with_broker(facts(), number, exposure=Exposure(listeners=listeners, epoch=epoch))


def user(name: str, *roles: str, is_disabled: bool = False) -> ShownUser:
    return ShownUser(
        name=name, kind="service", roles=roles, is_disabled=is_disabled, credentials=()
    )


def rule(principal: str) -> ShownRule:
    return ShownRule(
        effect="allow",
        principal=principal,
        operation="read",
        resource="topic",
        pattern="literal",
        name="orders",
        host="*",
    )


def with_access(users: list[ShownUser], *principals: str) -> Facts:
    access = AccessFacts(
        users=users, super_users=("User:admin",), rules=[rule(each) for each in principals]
    )
    return replace(facts(), access=access)


def found_in(given: Facts) -> dict[str, list[str]]:
    return {
        name: list(each.names) for name, each in checks_of(given).items() if name in ABOUT_ACCESS
    }


def test_what_is_secured_is_no_finding() -> None:
    assert (
        found_in(listening(listener(), listener(is_local=True, access="open", has_tls=False))) == {}
    )
    users = [user("admin"), user("app"), user("mia", "readers"), user("gone", is_disabled=True)]
    assert found_in(with_access(users, "User:app", "Role:readers")) == {}


@pytest.mark.parametrize("access", ["open", "optional"])
def test_listeners_left_open(access: str) -> None:
    given = listening(
        listener(access=access), listener(protocol="admin", name="admin", access="open")
    )
    assert found_in(given)["listener-open"] in (["kafka"], ["admin"])


def test_listeners_in_the_clear() -> None:
    assert found_in(listening(listener(has_tls=False))) == {"listener-plaintext": ["kafka"]}


@pytest.mark.parametrize(
    ("days", "severity"), [(29, Severity.WARNING), (2, Severity.CRITICAL), (-1, Severity.CRITICAL)]
)
def test_certificates_that_end_soon(days: int, severity: Severity) -> None:
    ends = CertificateFacts(listener="kafka", ends_s=time.time() + days * DAY_S)
    given = with_broker(facts(), 2, certificates=[ends])
    found = checks_of(given)["certificate-ends"]
    assert (found.severity, list(found.names)) == (severity, ["2"])
    assert "certificate-ends" not in checks_of(given, Limits(certificate_days=-2))


def test_certificates_that_last_or_cannot_be_seen() -> None:
    for ends_s in (time.time() + 31 * DAY_S, None):
        seen = CertificateFacts(listener="kafka", ends_s=ends_s)
        assert found_in(with_broker(facts(), 2, certificates=[seen])) == {}


def test_brokers_with_rules_of_a_while_ago() -> None:
    given = listening(listener(), epoch=5)
    behind = with_broker(given, 2, exposure=Exposure(listeners=(), epoch=4))
    assert found_in(behind) == {"rules-stale": ["2"]}


def leading_encrypted(number: int, **metrics: float) -> Facts:
    admin = AdminFacts(
        metrics=metrics, version="", reasons=(), clock_ahead_s=0.0, clock_error_s=0.0
    )
    found = with_broker(facts(), number, admin=admin)
    return replace(found, topics={"orders": {"encryption": "aes256-gcm"}})


def test_brokers_that_lead_encrypted_topics_without_their_keys() -> None:
    leader = next(each.leader for each in facts().view.partitions.values())
    other = next(each.id for each in facts().brokers if each.id != leader)
    well = {"kafkaesque_key_keeper": 1.0, "kafkaesque_topic_keys_missing": 0.0}
    none = {"kafkaesque_key_keeper": 0.0, "kafkaesque_topic_keys_missing": 2.0}
    wrong = {"kafkaesque_key_keeper": 1.0, "kafkaesque_topic_keys_missing": 1.0}
    assert found_in(leading_encrypted(leader, **well)) == {}
    assert found_in(leading_encrypted(other, **none)) == {}
    assert found_in(replace(leading_encrypted(leader, **none), topics={})) == {}
    for metrics, cause in ((none, "no key.keeper.file"), (wrong, "another key")):
        found = checks_of(leading_encrypted(leader, **metrics))["topic-keys-missing"]
        assert list(found.names) == [str(leader), "orders"]
        assert cause in found.cause


def test_audit_events_that_were_dropped() -> None:
    def dropped(count: float, waiting: float = 0.0) -> Facts:
        metrics = {"kafkaesque_audit_dropped_total": count, "kafkaesque_audit_waiting": waiting}
        admin = AdminFacts(
            metrics=metrics, version="", reasons=(), clock_ahead_s=0.0, clock_error_s=0.0
        )
        return with_broker(facts(), 1, admin=admin)

    assert "audit-dropped" not in found_in(dropped(0.0, 5.0))
    assert found_in(dropped(3.0))["audit-dropped"] == ["1"]
    assert "had no leader" in checks_of(dropped(3.0))["audit-dropped"].cause
    assert "5 wait now" in checks_of(dropped(3.0, 5.0))["audit-dropped"].cause


def test_users_without_rules() -> None:
    users = [user("admin"), user("idle"), user("mia", "empty")]
    assert found_in(with_access(users, "User:admin"))["user-without-rules"] == ["idle", "mia"]
    assert "user-without-rules" not in found_in(with_access(users, "User:*"))


@pytest.mark.parametrize(
    "exposure",
    [
        Exposure(listeners=(listener(log_in_by="certificate"),), epoch=5),
        Exposure(listeners=(listener(), listener(log_in_by="either")), epoch=5),
        Exposure(listeners=(listener(),), epoch=5, has_provider=True),
    ],
)
def test_names_that_come_from_elsewhere_are_not_kept_here(exposure: Exposure) -> None:
    given = with_access([user("app")], "User:app", "User:billing", "Role:none")
    found = found_in(with_broker(given, 1, exposure=exposure))
    assert found == {"rule-names-nobody": ["Role:none"]}


def test_rules_that_name_nobody() -> None:
    found = found_in(with_access([user("app")], "User:app", "User:gone", "Role:none", "User:*"))
    assert found == {"rule-names-nobody": ["Role:none", "User:gone"]}


def test_what_was_not_looked_at_is_no_good_news(capsys: pytest.CaptureFixture[str]) -> None:
    doctor._show(facts(), [])
    assert capsys.readouterr().out.endswith(": nothing is wrong\n")
    unseen = ["the controllers: no rule allows describe on the cluster"]
    doctor._show(replace(facts(), unseen=unseen), [])
    said = capsys.readouterr().out
    assert said.endswith(": nothing is wrong in what was looked at\n")
    assert "try:   as an administrator: kafkaesque rule create User:NAME -o describe" in said
