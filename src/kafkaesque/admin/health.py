"""Whether a broker lives, and whether it is ready for clients: for whoever starts and routes.

*Live* is a broker that a restart would not help. *Ready* is one that serves all that it has: the
next broker of a rolling restart may be stopped. What a move brings is not its own before that is
over. One sentence says each reason against it.
"""

from collections.abc import Mapping

from kafkaesque.admin.http import Answer, text_answer
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.peers.greeting import explain
from kafkaesque.broker.peers.messages import Denial
from kafkaesque.model.ids import NodeId

#: Partitions that a reason names, or damaged ones with a reason each.
NAMED_MAX = 5


def answer_live(doors: Doors) -> Answer:
    """Return 200, or 503 when only a restart helps."""
    if doors.condition.life.failure is None:
        return text_answer(200, "live")
    return text_answer(
        503, f"the disk failed, and only a restart helps: {doors.condition.life.failure}"
    )


def answer_ready(doors: Doors) -> Answer:
    """Return 200, or 503 with the reasons."""
    reasons = reasons_against(doors)
    return text_answer(503, *reasons) if reasons else text_answer(200, "ready")


def reasons_against(doors: Doors) -> list[str]:
    """Return why a broker is not ready, one sentence each; none if it is."""
    if doors.condition.life.failure is not None:
        return [f"the disk of broker {doors.cluster.node} failed: {doors.condition.life.failure}"]
    if doors.condition.life.is_stopping:
        return [f"broker {doors.cluster.node} is being stopped"]
    reasons = _controller_reasons(doors)
    if not doors.condition.metadata.is_caught_up:
        reasons.append(
            f"broker {doors.cluster.node} has not caught up with the metadata that it knew before "
            "it stopped"
        )
    if doors.condition.space.reason is not None:
        reasons.append(doors.condition.space.reason)
    reasons += _partition_reasons(doors)
    return reasons


def _controller_reasons(doors: Doors) -> list[str]:
    """Return why this broker has no part in the cluster: the reasons that are known best."""
    knows_none = doors.cluster.controller() is None
    if doors.condition.life.is_ready and not knows_none:
        return []
    who = f"broker {doors.cluster.node}"
    reasons = _denied(doors.condition.peers.denials())
    if knows_none and doors.condition.voters.has_lost_log:
        reasons.append(
            f"{who} has lost its disk: its directory is empty, and the cluster is not new; it has "
            "no vote among the controllers until a majority that kept their disks re-admits it"
        )
    if reasons:
        return reasons
    if not doors.condition.life.is_ready:
        reasons.append(
            f"{who} is not registered with the controller yet: it needs a majority of the "
            "controllers, up and connected to it"
        )
    if knows_none:
        reasons.append(f"{who} knows no controller: perhaps none is elected")
    return reasons


def _denied(denials: Mapping[NodeId, Denial]) -> list[str]:
    """Return who turns this broker away, a sentence for each reason."""
    found: dict[Denial, list[str]] = {}
    for node, denial in sorted(denials.items()):
        found.setdefault(denial, []).append(str(node))
    return [
        f"broker {first} turns this broker away: {explain(denial)}"
        + (f" (and so does broker {_named(others)})" if others else "")
        for denial, (first, *others) in found.items()
    ]


def _partition_reasons(doors: Doors) -> list[str]:
    state = doors.condition.partitions.recovery_state()
    found = (
        (state.unopened, "not opened yet"),
        (state.copied, "being copied from other replicas, and have no vote until then"),
    )
    reasons = [f"{_named(names)}: {what}" for names, what in found if names]
    reasons += _told(state.damaged, "is offline on this broker")
    reasons += _told(doors.condition.scrubber.damaged, "cannot be read completely on this broker")
    return reasons


def _told(damaged: Mapping[str, str], what: str) -> list[str]:
    found = [f"{name} {what}: {why}" for name, why in sorted(damaged.items())]
    more = len(found) - NAMED_MAX
    return found[:NAMED_MAX] + ([f"{more} more: GET /offline-replicas"] if more > 0 else [])


def _named(names: list[str]) -> str:
    more = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
