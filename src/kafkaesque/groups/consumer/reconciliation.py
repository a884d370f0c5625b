"""One step of one member towards its target: a pure function.

Theory of operation. A member first gives up what it is to lose: it is told what it may keep, stays
in its epoch, and is UNREVOKED_PARTITIONS until a heartbeat no longer names what it is to give up.
Then it moves to the epoch of the target and gets what is free of it; what others still hold comes
later, and until then it is UNRELEASED_PARTITIONS. Whoever has all of its target is STABLE. So a
partition has at most one holder at any time, and a member whose target does not change sees
nothing of what happens to the others but a new epoch. Source: KIP-848, "Assignment Process".
"""

from collections.abc import Callable

from kafkaesque.groups.consumer.states import CurrentAssignment, MemberState
from kafkaesque.groups.consumer.topics import NO_PARTITIONS, Partitions, TopicIdPartition


def reconciled(
    current: CurrentAssignment,
    *,
    target: Partitions,
    target_epoch: int,
    owned: Partitions | None,
    has_stopped: bool,
    is_free: Callable[[TopicIdPartition], bool],
) -> CurrentAssignment:
    """Return where the member is after a heartbeat.

    `owned` is what it says that it has: None if it says nothing new. `has_stopped` says that it
    takes up nothing else before it has its answer, as when it joins; otherwise it may just be about
    to take up what it was offered before. `is_free` is asked about partitions that the member does
    not hold itself.
    """
    match current.state:
        case MemberState.STABLE if current.epoch == target_epoch:
            return current
        case MemberState.UNREVOKED_PARTITIONS:
            if owned is None or owned & current.pending_revocation:
                return current
            # It did what its epoch asked for. The target may have moved on since.
            epoch = min(current.epoch + 1, target_epoch)
        case _:
            epoch = current.epoch
    kept = current.assigned & target
    to_revoke = current.assigned - target
    if to_revoke and not (has_stopped and owned is not None and owned.isdisjoint(to_revoke)):
        return _moved(
            current,
            epoch=epoch,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=kept,
            pending_revocation=to_revoke,
        )
    missing = target - kept
    granted = frozenset(filter(is_free, missing))
    return _moved(
        current,
        epoch=target_epoch,
        state=(
            MemberState.STABLE
            if len(granted) == len(missing)
            else MemberState.UNRELEASED_PARTITIONS
        ),
        assigned=kept | granted,
        pending_revocation=NO_PARTITIONS,
    )


def _moved(
    current: CurrentAssignment,
    *,
    epoch: int,
    state: MemberState,
    assigned: Partitions,
    pending_revocation: Partitions,
) -> CurrentAssignment:
    return CurrentAssignment(
        epoch=epoch,
        previous_epoch=current.epoch if epoch != current.epoch else current.previous_epoch,
        state=state,
        assigned=assigned,
        pending_revocation=pending_revocation,
    )
