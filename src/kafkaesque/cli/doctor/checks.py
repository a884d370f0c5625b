"""From what was seen to what is wrong: each check is a function of the facts alone."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median_low

from kafkaesque.cli.doctor.facts import BrokerFacts, Facts, PartitionName
from kafkaesque.cli.doctor.findings import NAMED_MAX, Finding, Limits, Severity, named
from kafkaesque.cli.doctor.settings_checks import check_settings
from kafkaesque.cli.moving_replicas import Where, missing_in_sync
from kafkaesque.cli.screen import counted

CRITICAL, WARNING = Severity.CRITICAL, Severity.WARNING

#: Below this part of the limit a disk is about to be full.
NEARLY_FULL = 1 / 3
#: Of the files that may be open.
FILES_USED_MAX = 0.8

Check = Callable[[Facts, Limits], Iterator[Finding]]


def diagnose(facts: Facts, limits: Limits) -> list[Finding]:
    """Return all findings, the critical ones first."""
    found = [finding for check in CHECKS for finding in check(facts, limits)]
    return sorted(found, key=lambda each: each.severity is not CRITICAL)


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
        if broker.admin is not None and broker.admin.reasons and not broker.has_failed:
            yield Finding(
                check="broker-not-ready",
                severity=WARNING,
                what=f"broker {broker.id} is up and not ready"
                + ("" if broker.problem is None else ", and lets no clients in"),
                cause="; ".join(broker.admin.reasons),
                command=f"curl http://{broker.options.get('admin.listener', '')}/health/ready    "
                "(until it says ready)",
                names=[str(broker.id)],
            )


def _is_down(facts: Facts, node: int, broker: BrokerFacts | None) -> Finding:
    place = "is down" if broker is None else f"at {broker.address} does not answer"
    problem = "" if broker is None else broker.problem
    command = f"kafkaesque broker --config broker-{node}.toml    (on its machine; its log says how "
    command += "it ended)"
    votes = facts.quorum is not None and node in facts.quorum.voters
    if not votes and not any(node in e.replicas for e in facts.view.partitions.values()):
        command += f"; it holds nothing: if it is gone for good, kafkaesque cluster remove {node}"
    return Finding(
        check="broker-down",
        severity=CRITICAL,
        what=f"broker {node} {place}",
        cause=f"it says: {problem}" if problem else "the other brokers do not hear of it",
        command=command,
        names=[str(node)],
    )


def _hangs(broker: BrokerFacts) -> Finding:
    return Finding(
        check="broker-hangs",
        severity=CRITICAL,
        what=f"broker {broker.id} at {broker.address} accepts connections and answers nothing",
        cause="its process is there and does not get on: it is stopped (SIGSTOP), or waits for its "
        "disk, or its machine has no processor or memory for it",
        command="ps axo pid,stat,args | grep kafkaesque    (on its machine: T is stopped, kill "
        "-CONT PID; D waits for its disk. It holds its directory: before another one is started, "
        "kill -9 PID)",
        names=[str(broker.id)],
    )


def check_controllers(facts: Facts, _: Limits) -> Iterator[Finding]:
    """Controllers that are down or have not all of their log, so that fewer more may fail."""
    quorum = facts.quorum
    if quorum is None:
        return
    voters = [each for each in quorum.members if each.votes]
    missing = [each.broker for each in voters if not each.has_all]
    if not missing:
        return
    spare = len(voters) - len(missing) - (len(voters) // 2 + 1)
    names = ", ".join(map(str, missing))
    yield Finding(
        check="controllers-missing",
        severity=WARNING if spare > 0 else CRITICAL,
        what=f"of {len(voters)} controllers {names} {_are(missing)} or behind; "
        f"{max(0, spare)} more may fail",
        cause="without a majority of its controllers nothing can be created, moved or changed",
        command=f"start broker {names}; or, if it is gone for good: kafkaesque cluster controllers "
        f"add BROKER && kafkaesque cluster controllers remove {missing[0]}",
        names=[str(node) for node in missing],
    )


def check_disagreement(facts: Facts, _: Limits) -> Iterator[Finding]:
    """Brokers that see different controllers, leaders or clusters, and go on doing so."""
    views = [(each.id, each.view) for each in facts.brokers if each.view is not None]
    for what, seen in (
        ("cluster id", {node: view.cluster_id for node, view in views}),
        ("controller", {node: str(view.controller) for node, view in views}),
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
        cause=f"{said}: news does not reach all of them, so the network between is cut or slow",
        command="kafkaesque cluster status --bootstrap-server HOST:PORT    (of each in turn), and "
        "check the peer ports between their machines",
        names=names,
    )


# -- partitions


def check_partitions(facts: Facts, _: Limits) -> Iterator[Finding]:
    """Partitions without a leader, or with replicas missing."""
    partitions = sorted(facts.view.partitions.items())
    dead = set(facts.dead_brokers)
    led = {
        name
        for broker in facts.brokers
        if broker.view is not None
        for name, each in broker.view.partitions.items()
        if each.leader == broker.id
    }
    leaderless = [(name, each) for name, each in partitions if each.leader < 0 and name not in led]
    if leaderless:
        missing = sorted({n for _, each in leaderless for n in each.replicas if n in dead})
        yield Finding(
            check="leaderless",
            severity=CRITICAL,
            what=f"{counted(len(leaderless), 'partition')} without a leader, neither written nor "
            f"read: {named([name for name, _ in leaderless])}",
            cause=f"without {_brokers(missing)} no majority of their replicas is there"
            if missing
            else "their replicas are up, and have elected nobody: this passes within a second, or "
            "their disks or their network are hurt",
            command=_bring_back(facts, missing) if missing else "kafkaesque doctor    (again)",
            names=[str(name) for name, _ in leaderless],
        )
    behind: dict[int, list[PartitionName]] = {}
    for name, each in partitions:
        if each.leader >= 0:
            for node in missing_in_sync(each.replicas, each.in_sync, facts.moves.get(Where(*name))):
                behind.setdefault(node, []).append(name)
    for node, names in sorted(behind.items()):
        yield _under_replicated(facts, node, names)


def check_copies(facts: Facts, _: Limits) -> Iterator[Finding]:
    """Copies that cannot be read, as their brokers say; others may only not reach them."""
    damaged: dict[int, dict[str, str]] = {}
    for broker in facts.brokers:
        found = damaged[broker.id] = dict(broker.admin.damaged) if broker.admin is not None else {}
        if broker.view is not None:
            for name, each in sorted(broker.view.partitions.items()):
                if broker.id in each.offline:
                    found.setdefault(str(name), "")
    for node, copies in sorted(damaged.items()):
        if not copies:
            continue
        reasons = [f"{name}: {why}" for name, why in copies.items() if why]
        directory = next(iter(copies)) if len(copies) == 1 else "PARTITION"
        yield Finding(
            check="damaged-replica",
            severity=CRITICAL,
            what=f"broker {node} cannot read, or not all of, its "
            f"{'copy' if len(copies) == 1 else 'copies'} of {named(list(copies))}",
            cause="; ".join(reasons[:NAMED_MAX])
            or "their logs on its disk are damaged, or the disk cannot be read; its log says which "
            "file",
            command=f"stop broker {node}, move {directory} out of {_place(facts, node)}, start it: "
            "the copy is made anew from the others. Never on two brokers at a time",
            names=list(copies),
        )


def _place(facts: Facts, node: int) -> str:
    disks = [each.disk for each in facts.brokers if each.id == node and each.disk is not None]
    return disks[0].directory if disks else "its data directory"


def check_moves(facts: Facts, _: Limits) -> Iterator[Finding]:
    """Replicas that are to move to brokers that are down."""
    dead = set(facts.dead_brokers)
    waiting: dict[int, list[PartitionName]] = {}
    for (topic, number), move in sorted(facts.moves.items()):
        for node in move.adding:
            if node in dead:
                waiting.setdefault(node, []).append(PartitionName(topic, number))
    for node, names in sorted(waiting.items()):
        yield Finding(
            check="move-waits",
            severity=WARNING,
            what=f"{counted(len(names), 'partition')} cannot be moved to broker {node}: "
            f"{named(names)}",
            cause="it is down; what it is to get stays where it is until it has a copy",
            command=f"start broker {node}, or kafkaesque topic reassign {names[0].topic} --cancel",
            names=[str(name) for name in names],
        )


def check_recoveries(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """Partitions that are to be formed anew, and wait for replicas that do not come."""
    stuck = [e for e in facts.recoveries if e.is_open and e.open_ms >= 1000 * limits.recovery_s]
    if not stuck:
        return
    dead = set(facts.dead_brokers)
    silent = sorted({node for each in stuck for node in each.replicas if node not in each.told})
    missing = [node for node in silent if node in dead]
    up = [node for node in silent if node not in dead]
    causes = []
    if missing:
        causes.append(f"{_brokers(missing)} may have what the others do not, and {_are(missing)}")
    if up:
        causes.append(f"what {_brokers(up)} had is gone with a disk, or cannot be opened")
    first = stuck[0]
    elect = f"kafkaesque topic elect {first.topic} --partition {first.partition} --unclean"
    yield Finding(
        check="recovery-waits",
        severity=CRITICAL,
        what=f"{counted(len(stuck), 'partition')} could not be formed anew for "
        f"{max(each.open_ms for each in stuck) // 1000} s: {named([e.name for e in stuck])}",
        cause="; ".join(causes) or "all replicas have told what they have, and that is not enough",
        command=f"{_bring_back(facts, missing)}; if that cannot be: {elect}" if missing else elect,
        names=[each.name for each in stuck],
    )


def _under_replicated(facts: Facts, node: int, names: Sequence[PartitionName]) -> Finding:
    if node in facts.dead_brokers:
        cause = "it serves nobody" if _runs(facts, node) else "it is down"
        command = _bring_back(facts, [node])
    else:
        cause = (
            "it is slower than the others, or catching up since its last start: "
            "replica.lag.time.max.ms says how long it may be behind"
        )
        command = (
            "kafkaesque doctor    (again, in a minute: fewer partitions means that it catches up)"
        )
    return Finding(
        check="under-replicated",
        severity=WARNING,
        what=f"broker {node} is out of sync in {counted(len(names), 'partition')}: {named(names)}",
        cause=cause,
        command=command,
        names=[str(name) for name in names],
    )


def _runs(facts: Facts, node: int) -> bool:
    """Tell whether a broker that does not serve has a process, so that to start it cannot help."""
    return any(each.hangs or each.admin for each in facts.brokers if each.id == node)


def _bring_back(facts: Facts, nodes: Sequence[int]) -> str:
    """Return what to do that brokers serve again."""
    running = [node for node in nodes if _runs(facts, node)]
    down = [node for node in nodes if node not in running]
    words = [f"start {_brokers(down)}"] if down else []
    if running:
        words.append(f"do what is said of {_brokers(running)}, which {_are(running, 'running')}")
    return "; ".join(words)


def _are(nodes: Sequence[int], what: str = "down") -> str:
    return f"is {what}" if len(nodes) == 1 else f"are {what}"


def _brokers(nodes: Sequence[int]) -> str:
    return ("broker " if len(nodes) == 1 else "brokers ") + ", ".join(map(str, nodes))


# -- machines


def check_disks(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """Disks that fill, have failed, or take nothing any more."""
    for broker in facts.brokers:
        disk = broker.disk
        if broker.has_failed:
            yield _has_failed(broker)
            continue
        if disk is None:
            continue
        if not disk.total_bytes or disk.free_bytes is None:
            continue
        percent = 100 * disk.free_bytes / disk.total_bytes
        if percent < limits.disk_free_percent:
            is_nearly_full = percent < limits.disk_free_percent * NEARLY_FULL
            yield Finding(
                check="disk-fills",
                severity=CRITICAL if is_nearly_full else WARNING,
                what=f"the disk of broker {broker.id} has {disk.free_bytes / 1e9:.1f} GB left, "
                f"{percent:.1f} % ({disk.directory})",
                cause="topics keep more than the disk holds, or something else fills it; when it "
                "is full that broker refuses to append",
                command="kafkaesque topic alter TOPIC --config retention.bytes=BYTES    (or "
                "retention.ms)",
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
        cause=f"{why}: what came last may be lost there, so it acknowledges nothing any more",
        command="free some space or replace the disk; then stop its process, which still runs and "
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
        what = f"clocks are not where most brokers' are: {', '.join(said)}"
    yield Finding(
        check="clocks-apart",
        severity=WARNING,
        what=what,
        cause="no time service sets them: timestamps, retention by time and the timeouts of "
        "transactions go by them (replication and elections do not)",
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
            cause=f"an upgrade is under way, or was left half done: {said}",
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
        age = "" if group.seconds is None else f", the oldest for {group.seconds:.0f} s"
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
            cause="their producers hang or are gone; readers of what is committed wait behind "
            "them, and nothing there is compacted",
            command=f"kafkaesque txn describe {hanging[0]}    (then: kafkaesque txn abort "
            f"{hanging[0]})",
            names=hanging,
        )


CHECKS: Sequence[Check] = (
    check_brokers,
    check_controllers,
    check_disagreement,
    check_partitions,
    check_copies,
    check_moves,
    check_recoveries,
    check_disks,
    check_clocks,
    check_processes,
    check_groups,
    check_transactions,
    check_settings,
)
