"""What is wrong with partitions: leaders, replicas, copies, moves and recoveries."""

from collections.abc import Iterator, Sequence, Set
from enum import Enum, auto
from typing import NamedTuple

from kafkaesque.cli.doctor.advice import (
    are,
    begin_anew,
    bring_back,
    elect_unclean,
    have_lost,
    lets_nobody_in,
    name_partitions,
    runs,
    users_first,
)
from kafkaesque.cli.doctor.facts import Facts, PartitionFacts, PartitionName
from kafkaesque.cli.doctor.findings import NAMED_MAX, Finding, Limits, Severity, in_words, named
from kafkaesque.cli.moving_replicas import Where, missing_in_sync
from kafkaesque.cli.recoveries import Recovery
from kafkaesque.cli.screen import counted
from kafkaesque.raft.recovery import survivors_needed

CRITICAL, WARNING = Severity.CRITICAL, Severity.WARNING

_SESSION = "broker.session.timeout.ms"
_SESSION_MS = 9_000
#: So many times as long the controller waits where a majority of the brokers is up.
_PATIENCE = 4
#: After so long a formation is decided, or waits for more replicas to tell what they have.
_DECIDED_MS = 5_000


class _Outlook(Enum):
    """What becomes of a partition without a leader."""

    #: A majority of the votes is there.
    ELECTS = auto()
    #: It would be with brokers that run, and let no clients in.
    STARTS = auto()
    #: Those that are left must have all that was acknowledged, and are to go on alone.
    GOES_ON = auto()
    #: They are, if they must have it: that cannot be seen.
    MAY_GO_ON = auto()
    #: Others may have what was acknowledged since the partition was last recovered.
    MAY_MISS = auto()
    #: They have: those that are left have told what they have, and it is not enough.
    MISSES = auto()
    WAITS = auto()
    #: What those had that are up is gone with their disks: only the others can have anything.
    HAS_NOTHING = auto()
    #: The same, and there are no others.
    IS_LOST = auto()


class _Leaderless(NamedTuple):
    """A partition without a leader."""

    name: PartitionName
    #: Replicas whose brokers are down; that run and let no clients in; and whose copies are
    #: being replaced.
    dead: Set[int]
    closed: Set[int]
    copied: Set[int]
    #: Replicas that are not there, and that may have acknowledged records the others do not.
    holders: Set[int]
    outlook: _Outlook
    #: How many times the session timeout it may take until the others go on alone.
    patience: int


def check_partitions(facts: Facts, _: Limits) -> Iterator[Finding]:
    """Partitions without a leader, or with replicas missing."""
    partitions = sorted(facts.view.partitions.items(), key=lambda each: users_first(each[0]))
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
    full = {each.id for each in facts.brokers if each.admin is not None and each.admin.is_full}
    behind: dict[int, list[PartitionName]] = {}
    for name, each in partitions:
        if each.leader >= 0:
            for node in missing_in_sync(each.replicas, each.in_sync, facts.moves.get(Where(*name))):
                # Of those that are damaged, or have no room, another finding says so.
                if node not in full and str(name) not in damaged.get(node, ()):
                    behind.setdefault(node, []).append(name)
    for node, names in sorted(behind.items()):
        yield _under_replicated(facts, node, names)


def _look_ahead(facts: Facts, name: PartitionName, partition: PartitionFacts) -> _Leaderless:
    replicas = partition.replicas
    lost = set(facts.lost_controllers).intersection(replicas)
    closed = {node for node in replicas if lets_nobody_in(facts, node)} - lost
    dead = {node for node in replicas if node in facts.dead_brokers} - closed - lost
    copied = lost | _copied(facts, name) & set(replicas) - dead
    up = set(replicas) - dead - copied
    left, majority = len(up - closed), len(replicas) // 2 + 1
    holders = _holders(facts, name, set(replicas), up)
    outlook = _Outlook.WAITS
    if copied and not up:
        outlook = _Outlook.HAS_NOTHING if dead else _Outlook.IS_LOST
    elif holders:
        outlook = _Outlook.MISSES if _has_waited(facts, name) else _Outlook.MAY_MISS
    elif left >= majority:
        outlook = _Outlook.ELECTS
    elif len(up) >= majority:
        outlook = _Outlook.STARTS
    elif left >= survivors_needed(len(replicas)) and Where(*name) not in facts.moves:
        # Only the controller lets it go on, and only with those that are left of it all.
        outlook = _Outlook.GOES_ON
        if facts.has_no_controller:
            outlook = _Outlook.WAITS
        elif facts.has_unseen_recoveries and facts.recovery_of(name) is None:
            outlook = _Outlook.MAY_GO_ON
    patience = _PATIENCE if len(replicas) - len(dead | closed) >= majority else 1
    return _Leaderless(name, dead, closed, copied, holders - copied, outlook, patience)


def _copied(facts: Facts, name: PartitionName) -> set[int]:
    """Return the brokers that say that what they had of a partition is gone."""
    return {e.id for e in facts.brokers if e.admin is not None and str(name) in e.admin.copied}


def lost_partitions(facts: Facts) -> set[str]:
    """Return the partitions of which no replica has anything any more."""
    return {
        str(name)
        for name, each in facts.view.partitions.items()
        if each.leader < 0 and _copied(facts, name).issuperset(each.replicas)
    }


def _holders(facts: Facts, name: PartitionName, replicas: Set[int], up: Set[int]) -> Set[int]:
    """Return replicas that are not up and may have what the others do not, as far as is known.

    After a recovery, records are acknowledged by the voters that it named. Replicas that became
    voters later have these records, too; the others may miss them, and only they can tell.
    Where one of those voters is no replica any more, replicas have been moved since: a majority of
    the new voters has all that was acknowledged before.
    """
    recovery = facts.recovery_of(name)
    if recovery is None:
        return set()
    voters = set(recovery.voters)
    if voters <= replicas and len(voters & up) < survivors_needed(len(voters)):
        return voters - up
    silent = replicas & set(recovery.replicas) - set(recovery.told)
    return silent if _has_waited(facts, name) else set()


def _has_waited(facts: Facts, name: PartitionName) -> bool:
    """Tell whether replicas have told what they have, and that is not enough to go on."""
    recovery = facts.recovery_of(name)
    return recovery is not None and recovery.is_open and recovery.open_ms >= _DECIDED_MS


def _are_leaderless(facts: Facts, found: Sequence[_Leaderless]) -> Finding:
    """Return the finding for partitions with the same outlook."""
    outlook, names = found[0].outlook, [each.name for each in found]
    dead = sorted({node for each in found for node in each.dead})
    copied = sorted({node for each in found for node in each.copied})
    holders = sorted({node for each in found for node in each.holders})
    patience = max(each.patience for each in found)
    alone_s = patience * _session_ms(facts) / 1000
    causes = _votes_missing(found)
    command = bring_back(facts, dead)
    lost = [node for node in facts.lost_controllers if node in copied]
    if lost and outlook is not _Outlook.ELECTS:
        # Whatever else helps, a controller has to do it.
        command = f"first see the finding for {in_words(lost)}, which {have_lost(lost)}"
    elif outlook in (_Outlook.GOES_ON, _Outlook.MAY_GO_ON):
        times = "four times " if patience > 1 else ""
        alone = f"take over alone {alone_s:g} s after the leader was lost ({times}{_SESSION})"
        if outlook is _Outlook.GOES_ON:
            causes.append(
                f"the replicas that are left have every acknowledged message, and {alone}"
            )
        else:
            causes.append(
                f"the replicas that are left {alone} if they have every acknowledged message, "
                "which only the admin ports tell"
            )
        command = command or f"kafkaesque doctor    (again, in {alone_s:g} s)"
    elif outlook is _Outlook.STARTS:
        command = bring_back(facts, sorted({node for each in found for node in each.closed}))
    elif outlook is _Outlook.IS_LOST:
        command = begin_anew(facts, names)
    elif outlook is _Outlook.HAS_NOTHING:
        command += f"; if their disks are lost, too: {begin_anew(facts, names)}"
    elif holders or (outlook is not _Outlook.ELECTS and copied):
        elect = elect_unclean(names, holders)
        command = f"{command}; if that cannot be: {elect}" if command else elect
    return Finding(
        check="leaderless",
        severity=CRITICAL,
        what=f"{counted(len(found), 'partition')} without a leader, neither written nor "
        f"read: {name_partitions(names)}",
        cause="; ".join(causes),
        command=command or "kafkaesque doctor    (again)",
        names=[str(name) for name in names],
    )


def _votes_missing(found: Sequence[_Leaderless]) -> list[str]:
    """Return why nobody is elected, one clause each."""
    outlook = found[0].outlook
    dead = sorted({node for each in found for node in each.dead})
    copied = sorted({node for each in found for node in each.copied})
    holders = sorted({node for each in found for node in each.holders})
    if outlook is _Outlook.ELECTS:
        gone = [f"{in_words(dead)} {are(dead)}"] if dead else []
        rest = "the other replicas" if dead else "their replicas"
        return [
            *gone,
            f"{rest} are up but have elected no leader: this passes within a second, unless their "
            "disks or their network have a problem",
        ]
    if outlook is _Outlook.STARTS:
        closed = sorted({node for each in found for node in each.closed})
        return [f"there is a majority only with {in_words(closed)}, {_closed_words(closed)}"]
    if outlook is _Outlook.IS_LOST:
        return [f"{_lost_words(found)}: {in_words(copied)} lost the data with a disk"]
    gone = []
    if dead and outlook is not _Outlook.MISSES and outlook is not _Outlook.MAY_MISS:
        gone.append(f"without {in_words(dead)} there is no majority of their replicas")
    if copied:
        gone.append(f"{in_words(copied)} lost the data with a disk, and cannot vote without a copy")
    if holders and outlook is not _Outlook.HAS_NOTHING:
        gone.append(_held_by(holders, is_certain=outlook is _Outlook.MISSES))
    return gone


def _lost_words(found: Sequence[_Leaderless]) -> str:
    """Return that nothing is left, as nobody else was to have it."""
    is_single = all(len(each.copied) == 1 for each in found)
    return "the only copy is lost" if is_single else "all copies are lost"


def _closed_words(closed: Sequence[int]) -> str:
    return f"which {'runs but accepts' if len(closed) == 1 else 'run but accept'} no clients"


def _held_by(holders: Sequence[int], *, is_certain: bool) -> str:
    said = f"{in_words(holders)} may have acknowledged records that the other replicas do not have"
    if is_certain:
        return f"{said}: the others have reported what they have, and it is not enough"
    them = "it" if len(holders) == 1 else "them"
    return (
        f"{said}: the partitions were last recovered with {them}, and the others take over "
        "only if they have caught up since"
    )


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
        # One without room for records is offline by that, too, and its copies are good.
        is_full = broker.admin is not None and broker.admin.is_full
        if broker.view is not None and not is_full:
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
            what=f"broker {node} cannot fully read its "
            f"{'copy' if len(copies) == 1 else 'copies'} of {named(list(copies))}",
            cause="; ".join(reasons[:NAMED_MAX])
            or "their logs on its disk are damaged, or the disk cannot be read or is full; its log "
            "says which file",
            command=f"stop broker {node}, move {directory} out of {_place(facts, node)}, start it: "
            "it copies the partition from the others. Never do this on two brokers at a time",
            names=list(copies),
        )


def _place(facts: Facts, node: int) -> str:
    disks = [each.disk for each in facts.brokers if each.id == node and each.disk is not None]
    return disks[0].directory if disks else "its data directory"


def check_moves(facts: Facts, _: Limits) -> Iterator[Finding]:
    """Replicas that are to move to brokers that are down."""
    dead = set(facts.dead_brokers)
    waiting: dict[int, list[Where]] = {}
    for where in sorted(facts.moves):
        for node in facts.moves[where].adding:
            if node in dead:
                waiting.setdefault(node, []).append(where)
    for node, names in sorted(waiting.items()):
        yield Finding(
            check="move-waits",
            severity=WARNING,
            what=f"{counted(len(names), 'partition')} cannot be moved to broker {node}: "
            f"{named(names)}",
            cause="it is down; the old replicas stay until it has a copy",
            command=f"start broker {node}, or kafkaesque topic reassign {names[0].topic} --cancel",
            names=[str(name) for name in names],
        )


def check_recoveries(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """Partitions that are being recovered, and wait for replicas that do not come."""
    stuck = [e for e in facts.recoveries if e.is_open and e.open_ms >= 1000 * limits.recovery_s]
    # Where nobody has anything to tell, no election can help.
    for alike in ([e for e in stuck if e.told], [e for e in stuck if not e.told]):
        if alike:
            yield _waits_for_replicas(facts, alike)


def _waits_for_replicas(facts: Facts, stuck: Sequence[Recovery]) -> Finding:
    dead = set(facts.dead_brokers)
    silent = sorted({node for each in stuck for node in each.replicas if node not in each.told})
    missing = [node for node in silent if node in dead]
    up = [node for node in silent if node not in dead]
    names = sorted(map(_name_of, stuck), key=users_first)
    causes = []
    if missing:
        causes.append(
            f"{in_words(missing)} may have records that the others do not, and {are(missing)}"
        )
    if up:
        causes.append(f"{in_words(up)} lost the data with a disk, or cannot open it")
    return Finding(
        check="recovery-waits",
        severity=CRITICAL,
        what=f"{counted(len(stuck), 'partition')} could not be recovered for "
        f"{max(each.open_ms for each in stuck) // 1000} s: {name_partitions(names)}",
        cause="; ".join(causes)
        or "all replicas have reported what they have, and it is not enough",
        command=_go_on_without(facts, stuck, missing),
        names=[str(name) for name in names],
    )


def _name_of(recovery: Recovery) -> PartitionName:
    return PartitionName(recovery.topic, recovery.partition)


def _go_on_without(facts: Facts, waiting: Sequence[Recovery], missing: Sequence[int]) -> str:
    """Return what brings partitions back, and what to do if missing replicas do not come."""
    words = [bring_back(facts, missing)] if missing else []
    if able := [each for each in waiting if each.told or not _is_empty(facts, each, missing)]:
        elect = elect_unclean([_name_of(each) for each in able], missing)
        words.append(f"if that cannot be: {elect}" if missing else elect)
    untold = [each for each in waiting if not each.told]
    if untold:
        anew = begin_anew(facts, [_name_of(each) for each in untold])
        is_lost = all(_is_empty(facts, each, ()) for each in untold)
        whose = "its" if len(untold) == 1 else "their"
        lost = f"if the disks of all {whose} replicas are lost: "
        words.append(anew if is_lost else lost + anew)
    return "; ".join(words)


def _is_empty(facts: Facts, waiting: Recovery, missing: Sequence[int]) -> bool:
    """Tell whether all replicas have nothing, but for those that are missing."""
    return _copied(facts, _name_of(waiting)).union(missing).issuperset(waiting.replicas)


def _under_replicated(facts: Facts, node: int, names: Sequence[PartitionName]) -> Finding:
    if node in facts.dead_brokers:
        cause = "it runs but does not serve" if runs(facts, node) else "it is down"
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
