"""Who gets in, who does not, and for how long."""

import time
from collections.abc import Iterator
from typing import Final

from kafkaesque.access.administration import ShownListener
from kafkaesque.access.principals import ROLE_PREFIX, USER_PREFIX
from kafkaesque.cli.doctor.facts import AccessFacts, Facts
from kafkaesque.cli.doctor.findings import Finding, Limits, Severity, named
from kafkaesque.cli.screen import counted

#: Below this many days there is no time to lose.
DAYS_CRITICAL: Final = 3.0
_DAY_S: Final = 86_400.0
#: Rules for these are for whoever comes.
_EVERYBODY: Final = (f"{USER_PREFIX}*", f"{USER_PREFIX}ANONYMOUS")


def check_access(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """All of it."""
    yield from _certificates(facts, limits)
    yield from _listeners(facts)
    yield from _stale_rules(facts)
    yield from _keys(facts)
    yield from _audit(facts)
    if facts.access is not None:
        yield from _users(facts.access)
        yield from _rules(facts.access, takes_others=_takes_others(facts))


def _certificates(facts: Facts, limits: Limits) -> Iterator[Finding]:
    now_s = time.time()
    for broker in facts.brokers:
        ends = {
            each.listener: (each.ends_s - now_s) / _DAY_S
            for each in broker.certificates
            if each.ends_s is not None
        }
        soon = {name: days for name, days in ends.items() if days < limits.certificate_days}
        if not soon:
            continue
        least = min(soon.values())
        when = "has ended" if least <= 0 else f"ends in {counted(round(least), 'day')}"
        yield Finding(
            check="certificate-ends",
            severity=Severity.CRITICAL if least < DAYS_CRITICAL else Severity.WARNING,
            what=f"the certificate of broker {broker.id} {when} (listeners: {named(sorted(soon))})",
            cause="clients and other brokers refuse one that has ended",
            command=f"kafkaesque certs renew broker-{broker.id} --directory CERTS    (or ask who "
            "has issued it; a running broker reads new files by itself)",
            names=[str(broker.id)],
        )


def _listeners(facts: Facts) -> Iterator[Finding]:
    seen: dict[str, list[str]] = {}
    clear: dict[str, list[str]] = {}
    for broker in facts.brokers:
        for each in () if broker.exposure is None else broker.exposure.listeners:
            if each.is_local:
                continue
            if each.access != "required":
                seen.setdefault(each.name, []).append(_place(broker.id, each))
            elif not each.has_tls:
                clear.setdefault(each.name, []).append(_place(broker.id, each))
    for name, places in seen.items():
        yield Finding(
            check="listener-open",
            severity=Severity.WARNING,
            what=f"other machines reach the listener {name} without a log-in: {named(places)}",
            cause="everybody who reaches it may read, write and delete everything",
            command='access = "required" and tls = true for it, in the brokers\' files    '
            '(docs/security.md, "Securing a cluster that runs")',
            names=[name],
        )
    for name, places in clear.items():
        yield Finding(
            check="listener-plaintext",
            severity=Severity.WARNING,
            what=f"other machines reach the listener {name} in the clear: {named(places)}",
            cause="anyone who can listen in on the network can read all messages",
            command="tls = true for it, in the brokers' files"
            if name != "peers"
            else 'peers = "accept", then "dial", then "on" in [tls] of the brokers\' files',
            names=[name],
        )


def _place(broker: int, listener: ShownListener) -> str:
    return f"broker {broker} at {listener.address}"


def _stale_rules(facts: Facts) -> Iterator[Finding]:
    """Brokers that decide by rules of a while ago: they were asked twice."""
    epochs = {e.id: e.exposure.epoch for e in facts.brokers if e.exposure is not None}
    newest = max(epochs.values(), default=0)
    behind = sorted(node for node, epoch in epochs.items() if epoch < newest)
    if behind:
        yield Finding(
            check="rules-stale",
            severity=Severity.CRITICAL,
            what=f"brokers use outdated rules: {named(behind)}",
            cause="changes do not reach them: a user who was disabled may still get in there",
            command="kafkaesque cluster controllers    (whether they follow), and check the peer "
            "ports between their machines",
            names=[str(node) for node in behind],
        )


def _keys(facts: Facts) -> Iterator[Finding]:
    """Brokers that lead partitions that they can neither seal nor open."""
    encrypted = {
        name
        for name, options in facts.topics.items()
        if options.get("encryption", "none") != "none"
    }
    led: dict[int, set[str]] = {}
    for partition, each in facts.view.partitions.items():
        if partition.topic in encrypted:
            led.setdefault(each.leader, set()).add(partition.topic)
    for broker in facts.brokers:
        topics = sorted(led.get(broker.id, ()))
        metrics = {} if broker.admin is None else broker.admin.metrics
        has_keeper = metrics.get("kafkaesque_key_keeper", 1.0) > 0
        if not topics or (has_keeper and not metrics.get("kafkaesque_topic_keys_missing")):
            continue
        yield Finding(
            check="topic-keys-missing",
            severity=Severity.CRITICAL,
            what=f"broker {broker.id} leads encrypted topics without their keys: {named(topics)}",
            cause="its key.keeper.file has another key than that of the others: what they have "
            "sealed it cannot open"
            if has_keeper
            else "it has no key.keeper.file: it refuses producers and consumers of these topics",
            command=f"key.keeper.file in the file of broker {broker.id}, the same as everywhere, "
            'and a restart    (docs/security.md, "Encrypted topics")',
            names=[str(broker.id), *topics],
        )


def _audit(facts: Facts) -> Iterator[Finding]:
    """Brokers that had no room for what belongs in the audit log."""
    for broker in facts.brokers:
        metrics = {} if broker.admin is None else broker.admin.metrics
        dropped = int(metrics.get("kafkaesque_audit_dropped_total", 0))
        if not dropped:
            continue
        waiting = int(metrics.get("kafkaesque_audit_waiting", 0))
        yield Finding(
            check="audit-dropped",
            severity=Severity.WARNING,
            what=f"broker {broker.id} has dropped {dropped:,} audit event"
            f"{'' if dropped == 1 else 's'} since its start",
            cause=f"{waiting:,} {'waits' if waiting == 1 else 'wait'} now: __audit cannot be "
            "written to"
            if waiting
            else "more than 10,000 waited: __audit had no leader, or too few replicas in sync",
            command="kafkaesque topic describe __audit    (its leader, and replicas in sync; "
            "`kafkaesque audit show` has an entry `dropped`)",
            names=[str(broker.id)],
        )


def _users(access: AccessFacts) -> Iterator[Finding]:
    ruled = {each.principal for each in access.rules}
    if ruled.intersection(_EVERYBODY):
        return
    idle = [
        user.name
        for user in access.users
        if not user.is_disabled
        and f"{USER_PREFIX}{user.name}" not in {*ruled, *access.super_users}
        and not any(f"{ROLE_PREFIX}{role}" in ruled for role in user.roles)
    ]
    if idle:
        yield Finding(
            check="user-without-rules",
            severity=Severity.WARNING,
            what=f"users may log in and do nothing: {named(idle)}",
            cause="no rule is for them, for a role of theirs or for all users",
            command=f"kafkaesque rule create User:{idle[0]} -o read --topic TOPIC    (or "
            f"kafkaesque user delete {idle[0]})",
            names=idle,
        )


def _takes_others(facts: Facts) -> bool:
    """Whether names of users come from elsewhere: certificates, or an OpenID provider."""
    shown = [each.exposure for each in facts.brokers if each.exposure is not None]
    return any(
        each.has_provider or any(one.log_in_by != "sasl" for one in each.listeners)
        for each in shown
    )


def _rules(access: AccessFacts, *, takes_others: bool) -> Iterator[Finding]:
    known = {f"{USER_PREFIX}{each.name}" for each in access.users} | {*access.super_users}
    held = {f"{ROLE_PREFIX}{role}" for user in access.users for role in user.roles}
    ruled = {each.principal for each in access.rules}
    nobody = sorted(
        each
        for each in ruled - known - held - {*_EVERYBODY}
        # Who comes by a certificate, or by a provider's token, is nowhere kept.
        if not (takes_others and each.startswith(USER_PREFIX))
    )
    if nobody:
        yield Finding(
            check="rule-names-nobody",
            severity=Severity.WARNING,
            what=f"rules are for users that do not exist, or for roles that no user has: "
            f"{named(nobody)}",
            cause="the user was deleted, or its name is mistyped: a user created with that name "
            "gets these rights",
            command=f"kafkaesque rule delete --principal {nobody[0]}",
            names=nobody,
        )
