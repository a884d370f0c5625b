"""`/offline-replicas`: copies that this broker cannot read, or only in part, and why, as JSON.

Also copies that it is replacing from other brokers; they have no vote until that is done.
"""

from typing import Final

import msgspec

from kafkaesque.admin.http import Answer
from kafkaesque.broker.doors import Doors

JSON: Final = "application/json"
#: The rest is only counted.
LISTED_MAX: Final = 1_000


def answer_offline_replicas(doors: Doors) -> Answer:
    """Return each partition with what is wrong, in which file, and what helps."""
    state = doors.condition.partitions.recovery_state()
    damaged = sorted({**doors.condition.scrubber.damaged, **state.damaged}.items())
    body = {
        "broker": doors.cluster.node,
        "count": len(damaged),
        "replicas": [{"partition": n, "reason": why} for n, why in damaged[:LISTED_MAX]],
        "copied": sorted(state.copied)[:LISTED_MAX],
    }
    return Answer(status=200, body=msgspec.json.encode(body), content_type=JSON)
