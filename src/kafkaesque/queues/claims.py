"""Which claims are good: messages that are in flight, for the attempt that is named."""

from kafkaesque.queues.requests import Claim
from kafkaesque.queues.runs import Run, runs_of
from kafkaesque.queues.state import Place, State

#: Messages that one request may claim.
CLAIMED_MAX = 65_536


def is_over_bound(claims: tuple[Claim, ...]) -> bool:
    """Whether claims are too large, or make no sense, to be looked at one by one."""
    return (
        any(not 0 <= each.first < each.end for each in claims)
        or sum(each.end - each.first for each in claims) > CLAIMED_MAX
    )


def good_runs(
    state: State, claims: tuple[Claim, ...], *, may_be_late: bool = False
) -> tuple[tuple[Run, ...], tuple[Claim, ...]]:
    """Return the messages of claims that are good, and the claims of which some are not.

    Late is a claim of a message that waits again, and that nobody has had since.
    """
    if len(claims) == 1 and _fits_whole(state, claims[0]):
        return (Run(claims[0].first, claims[0].end),), ()
    good: set[int] = set()
    stale: list[Claim] = []
    for claim in claims:
        fitting = _fitting(state, claim, may_be_late=may_be_late)
        fresh = [offset for offset in fitting if offset not in good]
        good.update(fresh)
        if len(fresh) < claim.end - claim.first:
            stale.append(claim)
    return runs_of(sorted(good)), tuple(stale)


def _fits_whole(state: State, claim: Claim) -> bool:
    """Whether all messages of a claim are in flight, for its attempt, and free to be settled."""
    first, end, attempt = claim
    if state.staged or 0 in state.owners.values(first, end):
        return False
    return state.attempts.values(first, end).count(attempt) == end - first


def _fitting(state: State, claim: Claim, *, may_be_late: bool) -> list[int]:
    first, end, attempt = claim
    if _fits_whole(state, claim):
        return list(range(first, end))
    owners = state.owners.values(first, end)
    attempts = state.attempts.values(first, end)
    late = (Place.READY, Place.DELAYED)
    return [
        offset
        for offset, owner, each in zip(range(first, end), owners, attempts, strict=True)
        if each == attempt
        and offset not in state.staged
        and (owner or (may_be_late and state.place_of(offset) in late))
    ]
