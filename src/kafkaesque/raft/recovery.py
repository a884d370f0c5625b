"""Which members are enough to recover a group that has lost its quorum (ADR 16).

Theory of operation. Every survivor has durably entered the new formation (see `formation`) before
it told what it has: it acknowledges nothing of an earlier one any more, so what it told stays true.
A message is committed on a majority, at least, of the R voters of a configuration. Of R - majority
+ 1 survivors one has each committed message, then, and those left outside are too few to commit
anything more: the survivors *cover* the configuration. Whoever has the best log among them, as in
an election, has everything that any of them knows to be committed.

Which configurations must be covered? The last in the best log; where it is joint, both halves of
it. A later one cannot have been committed without being known to the survivors, because its own
entry, joint with the one before, needed a majority of this one. And the founding configurations of
all formations that were decided after the best log's own: they may have been founded by somebody
who is not among the survivors, and may have committed something since.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from kafkaesque.model.ids import NodeId, Term
from kafkaesque.raft.configuration import Configuration
from kafkaesque.raft.formation import formation_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Survivor:
    """What a member told that has entered the new formation; its log is durable and at rest."""

    node: NodeId
    last_index: int
    last_term: Term
    #: The configuration in force in its log.
    configuration: Configuration
    #: Up to here it knows its log to be committed.
    committed_index: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Founding:
    """How a formation begins."""

    voters: tuple[NodeId, ...]
    #: Who has the best log, and founds it.
    leader: NodeId
    #: Whether no committed message can be missing.
    is_clean: bool


def survivors_needed(voters: int) -> int:
    """Return how many of so many voters cover them."""
    return voters - (voters // 2 + 1) + 1


def is_covered(configuration: Configuration, nodes: Collection[NodeId]) -> bool:
    """Tell whether of each half of a configuration enough members are among these nodes."""
    return all(
        sum(node in nodes for node in half) >= survivors_needed(len(half))
        for half in configuration.halves
    )


def find_founding(
    survivors: Sequence[Survivor], decided: Iterable[tuple[int, Configuration]]
) -> Founding | None:
    """Return how these survivors can go on; None if there are none.

    `decided` are the formations so far, each with the configuration that it was to begin with.
    """
    if not survivors:
        return None
    # Of equal logs the one that is preferred for leading, as it comes first.
    order = {survivor.node: -place for place, survivor in enumerate(survivors)}
    best = max(survivors, key=lambda each: (each.last_term, each.last_index, order[each.node]))
    reached = formation_of(best.last_term)
    concerned = [best.configuration]
    concerned += [each for number, each in decided if number > reached]
    nodes = {survivor.node for survivor in survivors}
    voters = tuple(node for node in order if any(each.is_voter(node) for each in concerned))
    is_clean = all(is_covered(each, nodes) for each in concerned)
    if not is_clean:
        # Who was still copying earlier terms may know more to be committed than the best log has.
        astray = {each.node for each in survivors if _may_contradict(each, best)}
        voters = tuple(node for node in voters if node not in astray)
    if best.node not in voters:
        # A learner with the best log: it leads, and keeps a vote. Alone if nobody else has one.
        voters = (*voters, best.node)
    return Founding(voters=voters, leader=best.node, is_clean=is_clean)


def _may_contradict(survivor: Survivor, best: Survivor) -> bool:
    """Tell whether something that a survivor knows to be committed may not be in the best log."""
    return survivor.last_term < best.last_term and survivor.committed_index > best.committed_index
