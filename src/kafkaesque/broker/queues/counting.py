"""What a queue has, and what holds its log, as the leader knows."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from kafkaesque.broker.queues.host import QueueHost
from kafkaesque.broker.requests.queue_requests import QueueCounts
from kafkaesque.queues.decisions import Reason
from kafkaesque.queues.state import Place


def place_name(place: Place) -> str:
    """Return what clients are told of a place."""
    return place.name.lower().replace("_", "-")


def count(host: QueueHost) -> QueueCounts:
    """Return how many messages there are, and where.

    Raises:
        NotLeader, LeaderNotAvailable, StorageFailed: see `QueueHost.partition`.
    """
    partition, state = host.partition(), host.queue.state
    first, read_to = state.live.first(), host.read_to()
    is_known = state.arrived_count > 0
    return QueueCounts(
        ready=state.ready_count,
        delayed=state.delayed.count,
        in_flight=state.flight_count,
        parked=state.parked.count,
        moving=len(state.moving),
        consumers=host.queue.consumer_count,
        floor=state.floor,
        end=state.end,
        has_begun=state.seek_count > 0,
        oldest_ms=0 if first is None else state.ages.arrived_ms(first),
        arrived=state.arrived_count,
        removed={reason.name.lower(): state.removed[reason] for reason in Reason},
        log_start=partition.log_start_offset,
        log_end=partition.log.end_offset,
        log_bytes=partition.log.size_bytes,
        redriving_to=state.redrive_target,
        newest_ms=state.ages.arrived_ms(state.end - 1) if is_known else 0,
        head_place="" if first is None else place_name(state.place_of(first)),
        head_failures=0 if first is None else _failures_of(host, first),
        held_by=_holder(host, first),
        in_flight_max=state.policy.in_flight_max,
        unwanted_ms=host.unwanted_ms,
        read_to=UNSET if read_to is None else read_to,
    )


#: Of several partitions what they have together.
_SUMS: Final = (
    "ready",
    "delayed",
    "in_flight",
    "in_flight_max",
    "parked",
    "moving",
    "arrived",
    "floor",
    "end",
    "log_start",
    "log_end",
    "log_bytes",
)
#: What one of them has most of. A consumer is attached to each.
_GREATEST: Final = ("consumers", "newest_ms", "head_failures", "redriving_to")


def whole_counts(parts: Sequence[QueueCounts]) -> QueueCounts:
    """Return what a queue of several partitions has, and where the oldest message of all is.

    Where logs begin and end are sums, too: they tell how much there is, and not where.
    """
    if len(parts) == 1:
        return parts[0]
    oldest = min(parts, key=lambda each: each.oldest_ms or 2**63)
    removed: Counter[str] = Counter()
    for each in parts:
        removed.update(each.removed)
    is_held = any(each.held_by == "message" for each in parts)
    return replace(
        oldest,
        **{name: sum(getattr(each, name) for each in parts) for name in _SUMS},
        **{name: max(getattr(each, name) for each in parts) for name in _GREATEST},
        removed=dict(removed),
        unwanted_ms=min(each.unwanted_ms for each in parts),
        has_begun=all(each.has_begun for each in parts),
        held_by="message" if is_held else oldest.held_by,
        read_to=UNSET,
        is_disused=all(each.is_disused is True for each in parts) or UNSET,
        disused_in_ms=UNSET,
    )


def _failures_of(host: QueueHost, offset: int) -> int:
    """Return the attempts that have failed; one that is under way has not."""
    state = host.queue.state
    is_tried = state.place_of(offset) is Place.IN_FLIGHT
    return max(0, state.failures_of(offset) - is_tried)


def _holder(host: QueueHost, first: int | None) -> str:
    """Return what the log is kept from: the oldest message, or the newest snapshot of the state."""
    held_at = host.start_held_at()
    if held_at is None:
        return "nothing"
    # A cursor's messages are in another log.
    is_message = host.queue.has_own_log and first is not None and first <= held_at
    return "message" if is_message else "snapshot"
