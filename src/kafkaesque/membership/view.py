"""What one member knows of all: who there is, and what each makes known.

Theory of operation. Entries are merged by the rule of `membership.entries`: the greater version is
true; of one suspicion told twice the accusers are united. So members that have heard the same hold
the same, in whatever order they heard it. What is dead, has left or was withdrawn stays for
`forget_ms`, so that older words about it outdate nothing; its age is told along, so that one who
has forgotten it is not taught it again by one who is about to.

Every table is bounded. When all places for members are taken, who left or died longest ago makes
room, and if nobody did, the newcomer is not taken in. A fact above its bound is not taken in.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from kafkaesque.membership.config import MembershipConfig
from kafkaesque.membership.digests import DigestTable
from kafkaesque.membership.entries import (
    AGE_S_MAX,
    Entry,
    Fact,
    Key,
    Member,
    MemberState,
    Value,
    accused,
)
from kafkaesque.model.ids import NodeId

#: A name of this beginning tells which Raft group a fact's node leads; the value is the term.
LEADER_PREFIX: Final = "leader/"


class Merged(NamedTuple):
    """An entry that has come in, and what it takes the place of."""

    old: Entry | None
    new: Entry


class LeaderHint(NamedTuple):
    """Who says that it leads a group, and in which term."""

    node: NodeId
    term: int


class ClusterView:
    """All entries, by key."""

    __slots__ = (
        "_alive",
        "_config",
        "_facts",
        "_facts_count",
        "_live",
        "_members",
        "_named",
        "_since_ms",
        "digests",
        "refused",
    )

    def __init__(self, config: MembershipConfig) -> None:
        self._config: Final = config
        self._members: Final[dict[NodeId, Member]] = {}
        self._facts: Final[dict[NodeId, dict[str, Fact]]] = {}
        #: Of each fact's name, who tells it.
        self._named: Final[dict[str, set[NodeId]]] = {}
        #: When what is dead or was withdrawn became so.
        self._since_ms: Final[dict[Key, int]] = {}
        self._facts_count = 0
        self._alive = 0
        self._live: tuple[NodeId, ...] | None = None
        self.digests: Final = DigestTable()
        #: Entries that were not taken in because a table was full.
        self.refused = 0

    # -- asking

    def member(self, node: NodeId) -> Member | None:
        """Return a node's standing."""
        return self._members.get(node)

    def members(self) -> Iterator[Member]:
        """Yield everybody's standing."""
        yield from self._members.values()

    def live(self) -> tuple[NodeId, ...]:
        """Return who takes part, this node as well, in the order of ids."""
        if self._live is None:
            self._live = tuple(sorted(m.node for m in self._members.values() if m.is_live))
        return self._live

    @property
    def alive(self) -> int:
        """How many take part and are not suspected, this node as well."""
        return self._alive

    def dead(self) -> list[NodeId]:
        """Return who is taken for dead."""
        dead = MemberState.DEAD
        return sorted(m.node for m in self._members.values() if m.state is dead)

    def facts(self, node: NodeId) -> Mapping[str, Fact]:
        """Return what a node makes known, to be read only; what was withdrawn is there as None."""
        return self._facts.get(node, {})

    def value(self, node: NodeId, name: str) -> Value:
        """Return a fact's value, None if there is none."""
        fact = self._facts.get(node, {}).get(name)
        return None if fact is None else fact.value

    def leader(self, group: int) -> LeaderHint | None:
        """Return who was heard last to lead a group: the greatest term of who takes part."""
        best: LeaderHint | None = None
        name = f"{LEADER_PREFIX}{group}"
        for node in self._named.get(name, ()):
            term = self.value(node, name)
            if isinstance(term, int) and self._members[node].is_live:
                hint = LeaderHint(node, term)
                if best is None or (hint.term, hint.node) > (best.term, best.node):
                    best = hint
        return best

    def entry(self, key: Key) -> Entry | None:
        """Return the entry of a key."""
        node, name = key
        return self._facts.get(node, {}).get(name) if name else self._members.get(node)

    def at_hand(self, entry: Entry, now_ms: int) -> Entry:
        """Return an entry as it is to be written now: with its age."""
        if not entry.is_tombstone:
            return entry
        since_ms = self._since_ms.get(entry.key, now_ms)
        return replace(entry, age_s=min(AGE_S_MAX, max(0, now_ms - since_ms) // 1000))

    # -- merging

    def merge(self, entry: Entry, now_ms: int) -> Merged | None:
        """Take an entry in; return what has changed, or None if nothing has."""
        if isinstance(entry, Member):
            return self._merge_member(entry, now_ms)
        return self._merge_fact(entry, now_ms)

    def _merge_member(self, entry: Member, now_ms: int) -> Merged | None:
        old = self._members.get(entry.node)
        if old is None:
            if self._is_forgettable(entry) or not self._has_room():
                return None
        elif entry.version < old.version:
            return None
        elif entry.version == old.version:
            if all(each in old.accusers for each in entry.accusers):
                return None
            entry = accused(old, entry.accusers)
            if entry.accusers == old.accusers:
                return None
        self._members[entry.node] = entry
        alive = MemberState.ALIVE
        self._alive += (entry.state is alive) - (old is not None and old.state is alive)
        if old is None or old.is_live != entry.is_live:
            self._live = None
        if old is not None and entry.life > old.life:
            self._drop_facts_before(entry.node, entry.life)
        self._note(entry, now_ms)
        return Merged(old, entry)

    def _merge_fact(self, entry: Fact, now_ms: int) -> Merged | None:
        member = self._members.get(entry.node)
        if member is None or entry.version < member.life:
            return None
        facts = self._facts.setdefault(entry.node, {})
        old = facts.get(entry.name)
        if old is None:
            if self._is_forgettable(entry):
                return None
            if (
                self._facts_count >= self._config.facts_max
                or len(facts) >= self._config.facts_per_member_max
            ):
                self.refused += 1
                return None
            self._facts_count += 1
            self._named.setdefault(entry.name, set()).add(entry.node)
        elif entry.version <= old.version:
            return None
        facts[entry.name] = entry
        self._note(entry, now_ms)
        return Merged(old, entry)

    def _note(self, entry: Entry, now_ms: int) -> None:
        key = entry.key
        self.digests.put(key, entry.version)
        if entry.is_tombstone:
            self._since_ms[key] = now_ms - entry.age_s * 1000
        else:
            self._since_ms.pop(key, None)

    def _is_forgettable(self, entry: Entry) -> bool:
        return entry.is_tombstone and entry.age_s * 1000 >= self._config.forget_ms

    def _has_room(self) -> bool:
        """See to a place for one more member; False if there is none."""
        if len(self._members) < self._config.members_max:
            return True
        gone = [member for member in self._members.values() if member.is_tombstone]
        if not gone:
            self.refused += 1
            return False
        left = MemberState.LEFT
        self._forget_member(
            min(gone, key=lambda m: (m.state is not left, self._since_ms[m.key], m.node)).node
        )
        return True

    # -- forgetting

    def forget(self, now_ms: int) -> list[Member]:
        """Forget what is over for long enough; return the members among it."""
        due = [
            key
            for key, since_ms in self._since_ms.items()
            if now_ms - since_ms >= self._config.forget_ms
        ]
        forgotten = []
        for node, name in due:
            if name:
                if name in self._facts.get(node, {}):
                    self._drop_fact(node, name)
            elif node in self._members:
                forgotten.append(self._forget_member(node))
        return forgotten

    def _forget_member(self, node: NodeId) -> Member:
        member = self._members.pop(node)
        self._live = None
        self._alive -= member.state is MemberState.ALIVE
        for name in list(self._facts.get(node, ())):
            self._drop_fact(node, name)
        self._facts.pop(node, None)
        self._since_ms.pop(member.key, None)
        self.digests.remove(member.key)
        return member

    def _drop_facts_before(self, node: NodeId, life: int) -> None:
        for name, fact in list(self._facts.get(node, {}).items()):
            if fact.version < life:
                self._drop_fact(node, name)

    def _drop_fact(self, node: NodeId, name: str) -> None:
        del self._facts[node][name]
        self._facts_count -= 1
        tellers = self._named[name]
        tellers.discard(node)
        if not tellers:
            del self._named[name]
        self._since_ms.pop((node, name), None)
        self.digests.remove((node, name))
