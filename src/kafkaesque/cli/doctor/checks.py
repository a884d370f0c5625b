"""From what was seen to what is wrong: each check is a function of the facts alone."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median_low

from kafkaesque.cli.doctor.access_checks import check_access
from kafkaesque.cli.doctor.controller_checks import check_controllers
from kafkaesque.cli.doctor.facts import AdminFacts, BrokerFacts, Facts, PartitionName
from kafkaesque.cli.doctor.findings import Finding, Limits, Severity, named
from kafkaesque.cli.doctor.in_sync_checks import check_in_sync
from kafkaesque.cli.doctor.partition_checks import (
    check_copies,
    check_moves,
    check_partitions,
    check_recoveries,
    lost_partitions,
)
from kafkaesque.cli.doctor.queue_checks import check_queues
from kafkaesque.cli.doctor.settings_checks import check_settings
from kafkaesque.cli.moving_replicas import Moves
from kafkaesque.cli.screen import counted, size_text
from kafkaesque.storage.config import StorageConfig

CRITICAL, WARNING = Severity.CRITICAL, Severity.WARNING

#: Below this part of the limit a disk is about to be full.
NEARLY_FULL = 1 / 3
#: What a broker says of copies that it makes anew.
COPIED = "being copied from other replicas"
#: What a broker says of others that do not let it in, ...
TURNED_AWAY = "turns this broker away"
#: ... and what helps, by a word of the reason that they give.
_TURNED_AWAY = {
    "this broker has none": "set cluster.secret.file in {file} to a copy of the other brokers' "
    "file; then {start}",
    "this broker has one": "take cluster.secret.file out of {file}, or give the others the same "
    "file, as all of them need it; then {start}",
    "cluster.secret.file": "compare the file that cluster.secret.file in {file} names with the "
    "other brokers' (sha256sum: they have to be the same); then {start}",
    "cluster.id": "compare cluster.id in {file} with the other brokers'; then {start}",
    "process of this broker's id": "ps axo pid,args | grep kafkaesque    (there and on the other "
    "machines: another process has its id, and one of them has to stop)",
    "in use twice": "timedatectl status, and look for another process of its id; then {start}",
}
#: Of the files that may be open.
FILES_USED_MAX = 0.8
#: What a broker says whose disk is full.
FULL = "takes no records"
#: What a broker keeps free for its own needs; with twice as much it is nearly there.
_KEPT_BYTES = StorageConfig().free_bytes_min
#: What helps then.
_REFUSES = 'docs/operations.md, "A broker that refuses to start"'

#: Findings about partitions that do not move, either.
_STANDSTILLS = ("leaderless", "recovery-waits", "under-min-insync", "move-waits")

Check = Callable[[Facts, Limits], Iterator[Finding]]


def diagnose(facts: Facts, limits: Limits) -> list[Finding]:
    """Return all findings, the critical ones first."""
    found = [finding for check in CHECKS for finding in check(facts, limits)]
    return sorted(found, key=lambda each: each.severity is not CRITICAL)


def moves_that_go_on(facts: Facts, found: Sequence[Finding]) -> Moves:
    """Return the moves of partitions that no finding says are at a standstill."""
    still = {name for each in found if each.check in _STANDSTILLS for name in each.names}
    return {where: move for where, move in facts.moves.items() if str(where) not in still}


# -- brokers


def check_brokers(facts: Facts, _: Limits) -> Iterator[Finding]:
    """Brokers that are down, or up and not answering, or not ready."""
    seen = {each.id: each for each in facts.brokers}
    for node in facts.dead_brokers:
        broker = seen.get(node)
        if broker is None or (broker.admin is None and not broker.hangs):
            yield _is_down(facts, node, broker)
        elif broker.hangs:
            yield _hangs(broker)
    for broker in facts.brokers:
        reasons = _own_reasons(facts, broker)
        if reasons and not broker.has_failed:
            yield Finding(
                check="broker-not-ready",
                severity=WARNING,
                what=f"broker {broker.id} is up and not ready"
                + ("" if broker.problem is None else ", and accepts no clients"),
                cause="; ".join(reasons),
                command=_makes_ready(facts, broker, reasons),
                names=[str(broker.id)],
            )


def _own_reasons(facts: Facts, broker: BrokerFacts) -> list[str]:
    """Return why a broker is not ready, without what other findings say and to wait cannot help."""
    if broker.admin is None:
        return []
    damaged = tuple(f"{name} " for name in broker.admin.damaged)
    copied = broker.admin.copied
    is_lost = bool(copied) and lost_partitions(facts).issuperset(copied)
    return [
        reason
        for reason in broker.admin.reasons
        if not (damaged and (reason.startswith(damaged) or "GET /offline-replicas" in reason))
        and not (facts.has_no_controller and "knows no controller" in reason)
        and not (broker.admin.is_full and FULL in reason)
        and not (is_lost and COPIED in reason)
    ]


def _makes_ready(facts: Facts, broker: BrokerFacts, reasons: Sequence[str]) -> str:
    """Return what to do that a broker becomes ready, if more than to wait."""
    ready = f"curl http://{broker.options.get('admin.listener', '')}/health/ready"
    if broker.id in facts.lost_controllers:
        return f"see the finding for the controllers    ({ready} says when it is over)"
    start = f"stop it, and start it: kafkaesque broker --config broker-{broker.id}.toml"
    for sign, advice in _TURNED_AWAY.items():
        if any(TURNED_AWAY in each and sign in each for each in reasons):
            return f"on its machine: {advice.format(file=f'broker-{broker.id}.toml', start=start)}"
    return f"{ready}    (until it says ready)"


def _is_down(facts: Facts, node: int, broker: BrokerFacts | None) -> Finding:
    place = "is down" if broker is None else f"at {broker.address} does not answer"
    problem = "" if broker is None else broker.problem
    command = f"kafkaesque broker --config broker-{node}.toml    (on its machine; if it ends at "
    command += f"once, the last lines of its log say why: {_REFUSES})"
    may_vote = node in facts.controllers or facts.has_no_controller
    if not may_vote and not any(node in e.replicas for e in facts.view.partitions.values()):
        command += f"; it holds nothing: if it is gone for good, kafkaesque cluster remove {node}"
    return Finding(
        check="broker-down",
        severity=CRITICAL,
        what=f"broker {node} {place}",
        cause=f"a connection to it fails: {problem}"
        if problem
        else "the other brokers do not hear of it",
        command=command,
        names=[str(node)],
    )


def _hangs(broker: BrokerFacts) -> Finding:
    return Finding(
        check="broker-hangs",
        severity=CRITICAL,
        what=f"broker {broker.id} at {broker.address} accepts connections and answers nothing",
        cause="its process exists but makes no progress: it is stopped (SIGSTOP), or waits for its "
        "disk, or its machine has no processor or memory for it",
        command="ps axo pid,stat,args | grep kafkaesque    (on its machine: T is stopped, kill "
        "-CONT PID; D waits for its disk. It holds its directory: before another one is started, "
        "kill -9 PID)",
        names=[str(broker.id)],
    )


def check_disagreement(facts: Facts, _: Limits) -> Iterator[Finding]:
    """Brokers that see different controllers, leaders or clusters, and go on doing so."""
    views = [(each.id, each.view) for each in facts.brokers if each.view is not None]
    for what, seen in (
        ("cluster id", {node: view.cluster_id for node, view in views}),
        (
            "controller",
            {
                each.id: "none" if each.controller is None else str(each.controller)
                for each in facts.brokers
                if each.view is not None and not facts.has_no_controller
            },
        ),
    ):
        if len(set(seen.values())) > 1:
            nodes = [str(node) for node in seen]
            yield _disagreement(f"brokers disagree on the {what}", seen, nodes)
    told: dict[PartitionName, dict[int, str]] = {}
    for node, view in views:
        for name, partition in view.partitions.items():
            told.setdefault(name, {})[node] = str(partition.leader)
    disputed = {name: seen for name, seen in told.items() if len(set(seen.values())) > 1}
    if disputed:
        first = min(disputed)
        sentence = f"brokers disagree on who leads {named(sorted(disputed))}"
        yield _disagreement(sentence, disputed[first], [str(each) for each in sorted(disputed)])


def _disagreement(what: str, seen: dict[int, str], names: Sequence[str]) -> Finding:
    said = ", ".join(f"broker {node} says {value}" for node, value in sorted(seen.items()))
    return Finding(
        check="brokers-disagree",
        severity=CRITICAL,
        what=what,
        cause=f"{said}: updates do not reach all of them, so the network between is cut or slow",
        command="kafkaesque cluster status --bootstrap-server HOST:PORT    (of each in turn), and "
        "check the peer ports between their machines",
        names=names,
    )


# -- machines


def check_disks(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """Disks that fill, have failed, or take nothing any more."""
    for broker in facts.brokers:
        disk = broker.disk
        if broker.has_failed:
            yield _has_failed(broker)
            continue
        if broker.admin is not None and broker.admin.is_full:
            yield _is_full(broker, broker.admin)
            continue
        if disk is None:
            continue
        if not disk.total_bytes or disk.free_bytes is None:
            continue
        percent = 100 * disk.free_bytes / disk.total_bytes
        has_little = disk.free_bytes < 2 * _KEPT_BYTES
        if percent < limits.disk_free_percent or has_little:
            is_nearly_full = percent < limits.disk_free_percent * NEARLY_FULL or has_little
            yield Finding(
                check="disk-fills",
                severity=CRITICAL if is_nearly_full else WARNING,
                what=f"the disk of broker {broker.id} has {size_text(disk.free_bytes)} left, "
                f"{percent:.1f} % ({disk.directory})",
                cause="topics keep more than the disk holds, or something else fills it; with less "
                f"than {_KEPT_BYTES >> 20} MiB free that broker takes no records",
                command="kafkaesque topic alter TOPIC --config retention.bytes=BYTES    (or "
                "retention.ms)",
                names=[str(broker.id)],
            )


def _is_full(broker: BrokerFacts, admin: AdminFacts) -> Finding:
    said = [reason for reason in admin.reasons if FULL in reason]
    return Finding(
        check="disk-full",
        severity=CRITICAL,
        what=f"broker {broker.id} takes no records: its disk is full",
        cause=said[0] if said else "its log says how many bytes are missing",
        command="kafkaesque topic alter TOPIC --config retention.bytes=BYTES    (or retention.ms, "
        "or remove other files there; it goes on by itself within log.retention.check.interval.ms)",
        names=[str(broker.id)],
    )


def _has_failed(broker: BrokerFacts) -> Finding:
    place = f" ({broker.disk.directory})" if broker.disk is not None else ""
    reasons = [] if broker.admin is None else broker.admin.reasons
    why = "; ".join(reasons) or "a write or a sync failed, its log has the error"
    return Finding(
        check="disk-failed",
        severity=CRITICAL,
        what=f"broker {broker.id} has given up its disk{place}",
        cause=f"{why}: its last writes may be lost, so it acknowledges nothing any more",
        command="free some space (if it is full, topics that keep less are enough: see "
        "retention.bytes), or replace the disk; then stop its process, which still runs and "
        f"holds the directory, and start it: kafkaesque broker --config broker-{broker.id}.toml",
        names=[str(broker.id)],
    )


def check_clocks(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """Brokers whose clocks are apart by more than the error of measuring it."""
    ahead = {e.id: e.admin.clock_ahead_s for e in facts.brokers if e.admin is not None}
    if len(ahead) < 2:
        return
    error_s = sum(sorted(e.admin.clock_error_s for e in facts.brokers if e.admin)[-2:])
    # Most clocks are right, and one of two is as likely as the other: then both are named.
    usual_s = median_low(ahead.values()) if len(ahead) > 2 else min(ahead.values())
    off = {node: value - usual_s for node, value in ahead.items()}
    wrong = [node for node in ahead if abs(off[node]) - error_s > limits.clock_s]
    if not wrong:
        return
    if len(ahead) == 2:
        first, last = sorted(ahead, key=ahead.__getitem__)
        what = f"the clock of broker {last} is {off[last]:.1f} s ahead of that of broker {first}"
        wrong = [first, last]
    else:
        said = [
            f"broker {node}'s by {abs(off[node]):.1f} s {'ahead' if off[node] > 0 else 'behind'}"
            for node in wrong
        ]
        what = f"clocks differ from those of most brokers: {', '.join(said)}"
    yield Finding(
        check="clocks-apart",
        severity=WARNING,
        what=what,
        cause="no time service sets them; timestamps, retention by time and the timeouts of "
        "transactions depend on clocks (replication and elections do not)",
        command="timedatectl status; timedatectl set-ntp true    "
        f"(on {'its machine' if len(wrong) == 1 else 'their machines'})",
        names=[str(node) for node in wrong],
    )


def check_processes(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """Limits of processes, and releases that differ."""
    for broker in facts.brokers:
        if broker.admin is not None:
            yield from _check_files(broker.id, broker.admin.metrics, limits)
    versions = {each.id: each.admin.version for each in facts.brokers if each.admin is not None}
    if len(set(versions.values())) > 1:
        said = ", ".join(f"{node} has {version}" for node, version in sorted(versions.items()))
        yield Finding(
            check="versions-differ",
            severity=WARNING,
            what="brokers run different releases",
            cause=f"an upgrade is in progress, or was left unfinished: {said}",
            command="install one release everywhere, and restart one broker after the other",
            names=[str(node) for node in versions],
        )


def _check_files(node: int, metrics: Mapping[str, float], limits: Limits) -> Iterator[Finding]:
    most, used = metrics.get("process_max_fds"), metrics.get("process_open_fds", 0.0)
    if most is not None and (most < limits.open_files_min or used > most * FILES_USED_MAX):
        yield Finding(
            check="open-files",
            severity=WARNING,
            what=f"broker {node} may open {most:.0f} files, and has {used:.0f} open",
            cause="each client and each partition needs some: beyond the limit clients are refused",
            command="ulimit -n 100000    (before it is started), or LimitNOFILE= in its service",
            names=[str(node)],
        )


# -- clients


def check_groups(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """Groups that are behind."""
    for group in facts.groups:
        is_late = group.seconds is None or group.seconds >= limits.lag_s
        if group.messages < limits.lag_messages or not is_late:
            continue
        age = "" if group.seconds is None else f", the oldest is {group.seconds:.0f} s old"
        yield Finding(
            check="group-lags",
            severity=WARNING,
            what=f"group {group.name} has {counted(group.messages, 'message')} to read{age}",
            cause=f"its {counted(group.members, 'member')} read more slowly than is written, or "
            "are stuck on a message"
            if group.members
            else "it has no members: its consumers are down, or it is not used any more",
            command=f"kafkaesque group describe {group.name}"
            + ("" if group.members else f"    (kafkaesque group delete {group.name}, if unused)"),
            names=[group.name],
        )


def check_transactions(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """Transactions that hang: readers of what is committed cannot go beyond them."""
    hanging = sorted({name for each in facts.brokers for name in each.hanging})
    if hanging:
        yield Finding(
            check="transaction-hangs",
            severity=WARNING,
            what=f"transactions are open for more than {limits.transaction_s:.0f} s: "
            f"{named(hanging)}",
            cause="their producers hang or are gone; consumers with read_committed wait for them, "
            "and nothing there is compacted",
            command=f"kafkaesque txn describe {hanging[0]}    (then: kafkaesque txn abort "
            f"{hanging[0]})",
            names=hanging,
        )


CHECKS: Sequence[Check] = (
    check_brokers,
    check_controllers,
    check_disagreement,
    check_partitions,
    check_in_sync,
    check_copies,
    check_moves,
    check_recoveries,
    check_disks,
    check_clocks,
    check_processes,
    check_groups,
    check_queues,
    check_transactions,
    check_settings,
    check_access,
)
