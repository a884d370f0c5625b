"""`/recoveries`: partitions that are or ever were recovered without a majority, as JSON."""

from typing import Final

import msgspec

from kafkaesque.admin.http import Answer, Request
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.metadata.cluster_state import PartitionState
from kafkaesque.broker.metadata.recovery_state import RecoveryState

JSON: Final = "application/json"
#: Those that wait come first, then what has been decided last; the rest is only counted.
RECOVERIES_MAX: Final = 1_000


def answer_recoveries(doors: Doors, request: Request) -> Answer:
    """Return what the metadata say of formations, of all topics or of those that are named."""
    wanted = set(request.query.get("topic", ()))
    state, now_ms = doors.cluster.state, doors.clock.wall_ms()
    found = [
        (state.partitions_by_group[group], recovery)
        for group, recovery in state.recoveries.items()
        if not wanted or state.partitions_by_group[group].topic in wanted
    ]
    found.sort(key=lambda each: (not each[1].is_open, -_decided_ms(each[1])))
    body = {
        "seen_by": doors.cluster.node,
        "count": len(found),
        "open": sum(recovery.is_open for _, recovery in found),
        "recoveries": [_describe(*each, now_ms) for each in found[:RECOVERIES_MAX]],
    }
    return Answer(status=200, body=msgspec.json.encode(body), content_type=JSON)


def _decided_ms(recovery: RecoveryState) -> int:
    return 0 if recovery.plan is None else recovery.plan.at_ms


def _describe(partition: PartitionState, recovery: RecoveryState, now_ms: int) -> dict[str, object]:
    plan, unclean = recovery.plan, recovery.unclean
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "formation": recovery.formation,
        "is_open": recovery.is_open,
        "open_ms": max(0, now_ms - recovery.begun_ms) if recovery.is_open else 0,
        "replicas": partition.replicas,
        "told": sorted(report.node for report in recovery.reports),
        # Of the newest decision, if there is one.
        "at_ms": _decided_ms(recovery),
        "is_clean": plan is None or plan.is_clean,
        "voters": () if plan is None else plan.voters,
        # Of the newest unclean one.
        "unclean_at_ms": None if unclean is None else unclean.at_ms,
        "unclean_offset": None if unclean is None else unclean.end_offset,
        "given_up": recovery.given_up,
    }
