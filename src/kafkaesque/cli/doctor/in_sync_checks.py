"""Partitions with fewer replicas in sync than min.insync.replicas: what writes and moves wait for.

Nothing is committed there that was not before, so a change of replicas is not, either.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kafkaesque.cli.doctor.advice import (
    alter_min_insync,
    bring_back,
    name_partitions,
    state_of,
    users_first,
)
from kafkaesque.cli.doctor.facts import Facts, PartitionFacts, PartitionName
from kafkaesque.cli.doctor.findings import Finding, Limits, Severity, in_words
from kafkaesque.cli.moving_replicas import Move, Where
from kafkaesque.cli.screen import counted


class _Shortfall(NamedTuple):
    """A partition with too few replicas in sync."""

    name: PartitionName
    #: Those that commit, and which of them are not in sync.
    replicas: Sequence[int]
    missing: Sequence[int]

    @property
    def in_sync(self) -> int:
        """How many there are."""
        return len(self.replicas) - len(self.missing)


def check_in_sync(facts: Facts, _: Limits) -> Iterator[Finding]:
    """Partitions that take nothing with `acks=all`, and moves that wait for the same."""
    refusing: list[_Shortfall] = []
    waiting: list[_Shortfall] = []
    for name in sorted(facts.view.partitions, key=users_first):
        each = facts.view.partitions[name]
        if each.leader < 0:
            continue  # another finding says so
        move = facts.moves.get(Where(*name))
        lacking = _shortfall(facts, name, _voters(each, move), each.in_sync)
        if lacking is not None:
            refusing.append(lacking)
        if move is not None and (stops := _what_stops(facts, name, each, move)) is not None:
            waiting.append(stops)
    if refusing:
        yield _refuse(facts, refusing)
    if waiting:
        yield _wait(facts, waiting)


def _voters(partition: PartitionFacts, move: Move | None) -> Sequence[int]:
    """Return who commits: while replicas move the old ones, until one that is added counts."""
    if move is None:
        return partition.replicas
    return move.origin if set(partition.in_sync).isdisjoint(move.adding) else move.target


def _shortfall(
    facts: Facts, name: PartitionName, replicas: Sequence[int], there: Sequence[int]
) -> _Shortfall | None:
    """Return what is missing for a commit by these replicas, if it cannot be."""
    missing = [node for node in replicas if node not in there]
    found = _Shortfall(name, replicas, missing)
    needed = min(facts.min_insync(name.topic), len(replicas))
    return found if found.in_sync < needed else None


def _what_stops(
    facts: Facts, name: PartitionName, partition: PartitionFacts, move: Move
) -> _Shortfall | None:
    """Return what a move waits for: the old replicas commit it, and the new ones go on from there.

    A recovered partition may have fewer voters than replicas, and commits with those.
    """
    recovery = facts.recovery_of(name)
    founders = set() if recovery is None else set(recovery.voters)
    if not founders or not founders.issubset(partition.in_sync):
        lacking = _shortfall(facts, name, _voters(partition, move), partition.in_sync)
        if lacking is not None:
            return lacking
    # Those that are added come, or else another finding says so.
    lacking = _shortfall(facts, name, move.target, [*partition.in_sync, *move.adding])
    has_majority = lacking is not None and 2 * lacking.in_sync > len(move.target)
    return lacking if has_majority else None


def _refuse(facts: Facts, found: Sequence[_Shortfall]) -> Finding:
    alter, first = _alter(found)
    dead = _dead(facts, found)
    commands = [bring_back(facts, dead)] if dead else []
    late = sorted({node for each in found for node in each.missing} - set(dead))
    if late and not dead:
        commands.append(f"see the finding for {in_words(late)}")
    note = f"what is acknowledged then may be on {counted(first.in_sync, 'broker')} only"
    return Finding(
        check="under-min-insync",
        severity=Severity.CRITICAL,
        what=f"acks=all is refused by {counted(len(found), 'partition')}: {_names(found)}",
        cause=_cause(facts, first),
        command=f"{'; '.join(commands)}; or {alter}    ({note}{_others(found)})",
        names=[str(each.name) for each in found],
    )


def _wait(facts: Facts, found: Sequence[_Shortfall]) -> Finding:
    alter, first = _alter(found)
    dead = _dead(facts, found)
    notes = [f"or {bring_back(facts, dead)}"] if dead else []
    if others := _others(found):
        notes.append(others.removeprefix("; "))
    return Finding(
        check="move-waits",
        severity=Severity.WARNING,
        what=f"{counted(len(found), 'partition')} cannot be moved with fewer replicas in sync than "
        f"min.insync.replicas: {_names(found)}",
        cause=f"{_cause(facts, first)}; a move has to be committed like a record",
        command=alter + (f"    ({'; '.join(notes)})" if notes else ""),
        names=[str(each.name) for each in found],
    )


def _alter(found: Sequence[_Shortfall]) -> tuple[str, _Shortfall]:
    """Return what lets the first topic go on, and which of its partitions says how far."""
    topic = found[0].name.topic
    first = min((each for each in found if each.name.topic == topic), key=lambda each: each.in_sync)
    return alter_min_insync(topic, first.in_sync), first


def _cause(facts: Facts, first: _Shortfall) -> str:
    who = ", ".join(f"broker {node} {_state(facts, node)}" for node in first.missing)
    return (
        f"{first.name} has {first.in_sync} of {counted(len(first.replicas), 'replica')} in "
        "sync, and "
        f"min.insync.replicas is {facts.min_insync(first.name.topic)}: {who}"
    )


def _state(facts: Facts, node: int) -> str:
    return state_of(facts, node) if node in facts.dead_brokers else "is out of sync"


def _dead(facts: Facts, found: Sequence[_Shortfall]) -> list[int]:
    missing = {node for each in found for node in each.missing}
    return [node for node in facts.dead_brokers if node in missing]


def _names(found: Sequence[_Shortfall]) -> str:
    return name_partitions([each.name for each in found])


def _others(found: Sequence[_Shortfall]) -> str:
    others = len({each.name.topic for each in found}) - 1
    return f"; the same for {counted(others, 'other topic')}" if others else ""
