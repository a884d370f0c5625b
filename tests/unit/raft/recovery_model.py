"""Recovery by an arbiter, as a model that is small enough to be explored whole (ADR 16).

What is in it: replicas with term, vote, log and role, all durable at once but for the role; a
network that delays, repeats, reorders and loses at will, in each direction by itself; crashes; an
arbiter that may begin a formation at any moment, and again before the last was decided or founded.
What it decides is the product's own `find_founding`. Voters, proposals, elections, crashes and
formations are bounded, and within the bounds every reachable state is visited.

The network needs no messages in the state: whatever a leader of a term ever sent is a beginning of
the longest log that it had in that term, and every acknowledgement ever given may be counted at any
later time. A vote is asked for, given and counted in one step: to do it later is to do it later.

Checked in every state: one leader in a term, and one entry at each committed index, for good.

    python -m tests.unit.raft.recovery_model --replicas 4 --formations 2
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple, TypeVar

from kafkaesque.model.ids import NodeId, Term
from kafkaesque.raft.configuration import Configuration
from kafkaesque.raft.formation import first_term, formation_of
from kafkaesque.raft.recovery import Founding, Survivor, find_founding

Log = tuple[int, ...]
Voters = tuple[int, ...]
T = TypeVar("T")
Find = Callable[[Sequence[Survivor], Sequence[tuple[int, Configuration]]], Founding | None]


class Broken(AssertionError):
    """A state was reached that must not be."""


class Replica(NamedTuple):
    """One replica; a log is the terms of its entries."""

    term: int
    vote: int | None
    log: Log
    #: "F", "C" or "L".
    role: str
    votes: frozenset[int]
    #: The term before it entered a formation, where that is not durable (a planted bug).
    undone: int | None


class Decision(NamedTuple):
    """A formation as it was decided."""

    formation: int
    voters: Voters
    leader: int
    end: tuple[int, int]


class State(NamedTuple):
    """All there is."""

    replicas: tuple[Replica, ...]
    #: (term, who led, the longest log in it, up to where each replica has acknowledged)
    leaders: tuple[tuple[int, int, Log, tuple[int, ...]], ...]
    formation: int
    told: tuple[tuple[int, int, Voters] | None, ...]
    decisions: tuple[Decision, ...]
    committed: Log
    elections: int
    proposals: int
    crashes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much happens, and what is wrong on purpose."""

    replicas: int = 3
    elections: int = 1
    proposals: int = 1
    crashes: int = 1
    formations: int = 1
    #: A replica forgets with a crash that it has entered a formation.
    is_forgetful: bool = False
    #: A replica that has entered a formation still takes what an earlier one sends.
    is_disloyal: bool = False
    find: Find = find_founding


class Model:
    """Which states follow on a state."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._all = tuple(range(bounds.replicas))
        self._find = lru_cache(maxsize=None)(self._find_founding)

    def first(self) -> State:
        """Replica 0 leads in term 1; nothing was written."""
        idle = Replica(1, 0, (), "F", frozenset(), None)
        count = self.bounds.replicas
        return State(
            replicas=(idle._replace(role="L"), *[idle] * (count - 1)),
            leaders=((1, 0, (), (0,) * count),),
            formation=0,
            told=(None,) * count,
            decisions=(),
            committed=(),
            elections=0,
            proposals=0,
            crashes=0,
        )

    def next(self, state: State) -> Iterator[State]:
        """Yield whatever may happen next."""
        yield from self._arbiter(state)
        for node in self._all:
            yield from self._node(state, node)
        for at in range(len(state.leaders)):
            yield from self._deliver(state, at)

    # -- what the arbiter does

    def _arbiter(self, state: State) -> Iterator[State]:
        if state.formation < self.bounds.formations:
            nobody = (None,) * len(self._all)
            yield state._replace(formation=state.formation + 1, told=nobody)
        is_open = not any(each.formation == state.formation for each in state.decisions)
        if state.formation and is_open and any(state.told):
            founding = self._find(state.told, state.decisions)
            if founding is not None and founding.is_clean:
                last_term, length, _ = state.told[founding.leader] or (0, 0, ())
                voters = tuple(int(node) for node in founding.voters)
                decision = Decision(
                    state.formation, voters, int(founding.leader), (last_term, length)
                )
                yield state._replace(decisions=(*state.decisions, decision))

    def _find_founding(
        self,
        told: tuple[tuple[int, int, Voters] | None, ...],
        decisions: tuple[Decision, ...],
    ) -> Founding | None:
        survivors = [
            Survivor(
                node=NodeId(node),
                last_index=each[1],
                last_term=Term(each[0]),
                configuration=_configuration(each[2]),
            )
            for node, each in enumerate(told)
            if each is not None
        ]
        decided = [(each.formation, _configuration(each.voters)) for each in decisions]
        return self.bounds.find(survivors, decided)

    # -- what a replica does

    def _node(self, state: State, node: int) -> Iterator[State]:
        replica = state.replicas[node]
        yield from self._enter(state, node, replica)
        if state.elections < self.bounds.elections and self._may_stand(state, node, replica):
            stood = replica._replace(
                term=replica.term + 1, vote=node, role="C", votes=frozenset((node,))
            )
            yield from self._count(state._replace(elections=state.elections + 1), node, stood)
        if replica.role == "C":
            for voter in self._electorate(state, node, replica):
                if voter not in replica.votes:
                    yield from self._vote(state, node, replica, voter)
        if replica.role == "L":
            if state.proposals < self.bounds.proposals:
                grown = state._replace(proposals=state.proposals + 1)
                yield self._append(grown, node, replica)
            yield from self._commit(state, node, replica)
        is_changed = replica.role != "F" or replica.undone is not None
        if state.crashes < self.bounds.crashes and is_changed:
            down = replica._replace(role="F", votes=frozenset())
            if self.bounds.is_forgetful and replica.undone is not None:
                down = down._replace(term=replica.undone, undone=None)
            yield _with(state._replace(crashes=state.crashes + 1), node, down)

    def _enter(self, state: State, node: int, replica: Replica) -> Iterator[State]:
        first = first_term(state.formation)
        is_decided = any(each.formation == state.formation for each in state.decisions)
        if replica.term >= first:
            return
        last_term = replica.log[-1] if replica.log else 0
        word = (last_term, len(replica.log), self._voters(state, replica.log))
        told = state.told if is_decided else _put(state.told, node, word)
        undone = replica.term if self.bounds.is_forgetful else None
        entered = replica._replace(
            term=int(first), vote=None, role="F", votes=frozenset(), undone=undone
        )
        yield _with(state._replace(told=told), node, entered)

    def _may_stand(self, state: State, node: int, replica: Replica) -> bool:
        if replica.role == "L":
            return False
        return (
            self._is_founded(replica) or self._named(state, node, replica) is not None
        ) and node in self._electorate(state, node, replica)

    def _is_founded(self, replica: Replica) -> bool:
        last_term = replica.log[-1] if replica.log else 0
        return formation_of(last_term) == formation_of(replica.term)

    def _named(self, state: State, node: int, replica: Replica) -> Decision | None:
        """Return the decision that this replica is to found, if it is not founded yet."""
        formation = formation_of(replica.term)
        for each in state.decisions:
            if each.formation == formation and each.leader == node:
                end = (replica.log[-1] if replica.log else 0, len(replica.log))
                return each if end == each.end else None
        return None

    def _electorate(self, state: State, node: int, replica: Replica) -> Voters:
        named = None if self._is_founded(replica) else self._named(state, node, replica)
        return self._voters(state, replica.log) if named is None else named.voters

    def _voters(self, state: State, log: Log) -> Voters:
        """Return who votes, as the log says: its last founding entry, or everybody."""
        formation = formation_of(log[-1]) if log else 0
        for each in state.decisions:
            if each.formation == formation:
                return each.voters
        return self._all

    def _vote(self, state: State, node: int, replica: Replica, voter: int) -> Iterator[State]:
        other = state.replicas[voter]
        term = replica.term
        is_known = formation_of(term) <= formation_of(other.term)
        is_free = other.term < term or (other.term == term and other.vote in (None, node))
        if not (is_known and is_free) or _rank(replica.log) < _rank(other.log):
            return
        gave = other._replace(term=term, vote=node, role="F", votes=frozenset())
        after = _with(state, voter, gave)
        yield from self._count(after, node, replica._replace(votes=replica.votes | {voter}))

    def _count(self, state: State, node: int, replica: Replica) -> Iterator[State]:
        electorate = self._electorate(state, node, replica)
        if len(replica.votes & set(electorate)) <= len(electorate) // 2:
            yield _with(state, node, replica)
            return
        if any(each[0] == replica.term for each in state.leaders):
            raise Broken(f"two leaders in term {replica.term}: {state}")
        acknowledged = (0,) * len(self._all)
        won = state._replace(
            leaders=(*state.leaders, (replica.term, node, replica.log, acknowledged))
        )
        yield self._append(won, node, replica._replace(role="L", votes=frozenset()))

    def _append(self, state: State, node: int, replica: Replica) -> State:
        log = (*replica.log, replica.term)
        leaders = tuple(
            (term, who, log, acknowledged)
            if term == replica.term
            else (term, who, old, acknowledged)
            for term, who, old, acknowledged in state.leaders
        )
        return _with(state._replace(leaders=leaders), node, replica._replace(log=log))

    def _commit(self, state: State, node: int, replica: Replica) -> Iterator[State]:
        (acknowledged,) = (each[3] for each in state.leaders if each[0] == replica.term)
        voters = self._voters(state, replica.log)
        held = sorted(len(replica.log) if each == node else acknowledged[each] for each in voters)
        length = held[-(len(voters) // 2 + 1)]
        if not length or replica.log[length - 1] != replica.term:
            return
        done, known = replica.log[:length], state.committed
        if done == known[:length]:
            return
        if known != done[: len(known)]:
            raise Broken(f"{done} is committed, and {known} was: {state}")
        yield state._replace(committed=done)

    # -- what the network does

    def _deliver(self, state: State, at: int) -> Iterator[State]:
        """Let a replica get a beginning of what was sent in a term, and acknowledge it."""
        term, leader, log, acknowledged = state.leaders[at]
        for node in self._all:
            replica = state.replicas[node]
            is_known = formation_of(term) <= formation_of(replica.term)
            is_over = replica.term > term and not self.bounds.is_disloyal
            if node == leader or not is_known or is_over:
                continue
            for length in range(1, len(log) + 1):
                sent = log[:length]
                kept = replica.log if replica.log[:length] == sent else sent
                vote = replica.vote if replica.term == term else None
                newest = max(term, replica.term)
                got = Replica(newest, vote, kept, "F", frozenset(), None)
                more = _put(acknowledged, node, max(length, acknowledged[node]))
                leaders = _put(state.leaders, at, (term, leader, log, more))
                after = _with(state._replace(leaders=leaders), node, got)
                if after != state:
                    yield after


@cache
def _configuration(voters: Voters) -> Configuration:
    return Configuration(voters=tuple(NodeId(node) for node in voters))


def _rank(log: Log) -> tuple[int, int]:
    return (log[-1] if log else 0, len(log))


def _put(values: tuple[T, ...], at: int, value: T) -> tuple[T, ...]:
    return (*values[:at], value, *values[at + 1 :])


def _with(state: State, node: int, replica: Replica) -> State:
    return state._replace(replicas=_put(state.replicas, node, replica))


def explore(bounds: Bounds, states_max: int = 10_000_000) -> int:
    """Visit every state that can be reached; return how many there are.

    Raises:
        Broken: one of them must not be.
    """
    model = Model(bounds)
    seen = {model.first()}
    frontier = list(seen)
    while frontier:
        state = frontier.pop()
        for after in model.next(state):
            if after not in seen:
                seen.add(after)
                frontier.append(after)
        if len(seen) > states_max:
            raise Broken(f"more than {states_max} states: the bounds are too wide")
    return len(seen)


def main() -> None:
    """Explore what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("replicas", "elections", "proposals", "crashes", "formations"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Bounds(), name))
    given = vars(parser.parse_args())
    begun = time.monotonic()
    count = explore(Bounds(**given), states_max=1_000_000_000)
    print(f"{given}: {count} states, nothing broken, {time.monotonic() - begun:.1f} s")


if __name__ == "__main__":
    main()
