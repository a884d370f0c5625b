"""Formations: the lives of a group, one after another.

Theory of operation (ADR 16). When a group has lost its quorum, an arbiter recovers it with the
members that are left: it begins a new *formation* of the group. Each formation has a range of terms
of its own, above those of the one before, so everything that Raft does about terms holds for
formations, too: a member that has entered a formation, durably, by its term, refuses whatever comes
from an earlier one, and no two formations ever write different entries with the same index and
term.

A formation begins with a *founding* entry: the configuration that the arbiter has decided. Only the
member that the arbiter has named, because it has the best log, may be elected without that entry in
its log; everybody else may be elected only with it, and so with all that stands before it.
"""

from kafkaesque.model.ids import Term

#: Elections that one formation can have.
TERMS_PER_FORMATION = 1 << 20
#: Clients know terms as leader epochs, which are signed numbers of 32 bits.
FORMATION_MAX = (1 << 31) // TERMS_PER_FORMATION - 1


def formation_of(term: int) -> int:
    """Return the formation that a term belongs to."""
    return term // TERMS_PER_FORMATION


def first_term(formation: int) -> Term:
    """Return the term with which a member enters a formation; nobody leads in it."""
    return Term(formation * TERMS_PER_FORMATION)
