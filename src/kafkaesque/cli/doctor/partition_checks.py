"""What is wrong with partitions: leaders, replicas, copies, moves and recoveries."""

from collections.abc import Iterator, Sequence, Set
from enum import Enum, auto
from typing import NamedTuple

from kafkaesque.cli.doctor.advice import are, bring_back, in_words, runs
from kafkaesque.cli.doctor.facts import Facts, PartitionFacts, PartitionName
from kafkaesque.cli.doctor.findings import NAMED_MAX, Finding, Limits, Severity, named
from kafkaesque.cli.moving_replicas import Where, missing_in_sync
from kafkaesque.cli.screen import counted

CRITICAL, WARNING = Severity.CRITICAL, Severity.WARNING

_SESSION = "broker.session.timeout.ms"
_SESSION_MS = 9_000
#: So many times as long the controller waits where a majority of the brokers is up.
_PATIENCE = 4


class _Outlook(Enum):
    """What becomes of a partition without a leader."""

    #: A majority of the votes is there.
    ELECTS = auto()
    #: Those that are left must have all that was acknowledged, and are to go on alone.
    GOES_ON = auto()
    WAITS = auto()


class _Leaderless(NamedTuple):
    """A partition without a leader."""

    name: PartitionName
    #: Replicas whose brokers are down, and those that are up and whose copies are made anew.
    dead: Set[int]
    copied: Set[int]
    outlook: _Outlook
    #: How many times the session timeout it may take until the others go on alone.
    patience: int


def check_partitions(facts: Facts, _: Limits) -> Iterator[Finding]:
    """Partitions without a leader, or with replicas missing."""
    partitions = sorted(facts.view.partitions.items())
    led = {
        name
        for broker in facts.brokers
        if broker.view is not None
        for name, each in broker.view.partitions.items()
        if each.leader == broker.id
    }
    leaderless = [
        _look_ahead(facts, name, each)
        for name, each in partitions
        if each.leader < 0 and name not in led
    ]
    for outlook in _Outlook:
        if alike := [each for each in leaderless if each.outlook is outlook]:
            yield _are_leaderless(facts, alike)
    damaged = damaged_copies(facts)
    behind: dict[int, list[PartitionName]] = {}
    for name, each in partitions:
        if each.leader >= 0:
            for node in missing_in_sync(each.replicas, each.in_sync, facts.moves.get(Where(*name))):
                # Of those that are damaged another finding says so.
                if str(name) not in damaged.get(node, ()):
                    behind.setdefault(node, []).append(name)
    for node, names in sorted(behind.items()):
        yield _under_replicated(facts, node, names)


def _look_ahead(facts: Facts, name: PartitionName, partition: PartitionFacts) -> _Leaderless:
    replicas = partition.replicas
    dead = {node for node in replicas if node in facts.dead_brokers}
    copied = {
        each.id
        for each in facts.brokers
        if each.id in replicas and each.admin is not None and str(name) in each.admin.copied
    } - dead
    left, majority = len(replicas) - len(dead) - len(copied), len(replicas) // 2 + 1
    outlook = _Outlook.WAITS
    if left >= majority:
        outlook = _Outlook.ELECTS
    elif left > len(replicas) - majority and Where(*name) not in facts.moves:
        # Only the controller lets it go on, and only with those that are left of it all.
        outlook = _Outlook.WAITS if facts.has_no_controller else _Outlook.GOES_ON
    patience = _PATIENCE if len(replicas) - len(dead) >= majority else 1
    return _Leaderless(name, dead, copied, outlook, patience)


def _are_leaderless(facts: Facts, found: Sequence[_Leaderless]) -> Finding:
    """Return the finding for partitions with the same outlook."""
    outlook, first = found[0].outlook, found[0].name
    dead = sorted({node for each in found for node in each.dead})
    copied = sorted({node for each in found for node in each.copied})
    patience = max(each.patience for each in found)
    alone_s = patience * _session_ms(facts) / 1000
    causes = _votes_missing(dead, copied, outlook)
    command = bring_back(facts, dead)
    if outlook is _Outlook.GOES_ON:
        times = "four times " if patience > 1 else ""
        causes.append(
            "what is left has all that was acknowledged, and goes on alone "
            f"{alone_s:g} s after it lost its leader ({times}{_SESSION})"
        )
        command = command or f"kafkaesque doctor    (again, in {alone_s:g} s)"
    elif outlook is _Outlook.WAITS and copied:
        elect = f"kafkaesque topic elect {first.topic} --partition {first.number} --unclean"
        command = f"{command}; if that cannot be: {elect}" if command else elect
    names = [each.name for each in found]
    return Finding(
        check="leaderless",
        severity=CRITICAL,
        what=f"{counted(len(found), 'partition')} without a leader, neither written nor "
        f"read: {named(names)}",
        cause="; ".join(causes),
        command=command or "kafkaesque doctor    (again)",
        names=[str(name) for name in names],
    )


def _votes_missing(dead: Sequence[int], copied: Sequence[int], outlook: _Outlook) -> list[str]:
    """Return why nobody is elected, one clause each."""
    if outlook is _Outlook.ELECTS:
        gone = [f"{in_words(dead)} {are(dead)}"] if dead else []
        rest = "the other replicas" if dead else "their replicas"
        return [
            *gone,
            f"{rest} are up, and have elected nobody: this passes within a second, or their disks "
            "or their network are hurt",
        ]
    gone = [f"without {in_words(dead)} no majority of their replicas is there"] if dead else []
    if copied:
        gone.append(
            f"what {in_words(copied)} had is gone with a disk, and without a copy there is no vote"
        )
    return gone


def _session_ms(facts: Facts) -> int:
    found = [int(e.options[_SESSION]) for e in facts.brokers if e.options.get(_SESSION)]
    return max(found, default=_SESSION_MS)


def damaged_copies(facts: Facts) -> dict[int, dict[str, str]]:
    """Return, for each broker, the copies that it cannot read as a whole, and why if it says so.

    What one broker says of another counts for nothing: it may only not reach it.
    """
    damaged: dict[int, dict[str, str]] = {}
    for broker in facts.brokers:
        found = damaged[broker.id] = dict(broker.admin.damaged) if broker.admin is not None else {}
        if broker.view is not None:
            for name, each in sorted(broker.view.partitions.items()):
                if broker.id in each.offline:
                    found.setdefault(str(name), "")
    return damaged


def check_copies(facts: Facts, _: Limits) -> Iterator[Finding]:
    """Copies that cannot be read, as their brokers say; others may only not reach them."""
    for node, copies in sorted(damaged_copies(facts).items()):
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
        causes.append(f"{in_words(missing)} may have what the others do not, and {are(missing)}")
    if up:
        causes.append(f"what {in_words(up)} had is gone with a disk, or cannot be opened")
    first = stuck[0]
    elect = f"kafkaesque topic elect {first.topic} --partition {first.partition} --unclean"
    yield Finding(
        check="recovery-waits",
        severity=CRITICAL,
        what=f"{counted(len(stuck), 'partition')} could not be formed anew for "
        f"{max(each.open_ms for each in stuck) // 1000} s: {named([e.name for e in stuck])}",
        cause="; ".join(causes) or "all replicas have told what they have, and that is not enough",
        command=f"{bring_back(facts, missing)}; if that cannot be: {elect}" if missing else elect,
        names=[each.name for each in stuck],
    )


def _under_replicated(facts: Facts, node: int, names: Sequence[PartitionName]) -> Finding:
    if node in facts.dead_brokers:
        cause = "it serves nobody" if runs(facts, node) else "it is down"
        command = bring_back(facts, [node])
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
