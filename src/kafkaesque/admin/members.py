"""`/members`: what a broker knows of the others by gossip, as JSON."""

import msgspec

from kafkaesque.admin.http import Answer, text_answer
from kafkaesque.broker.doors import Doors

JSON = "application/json"


def answer_members(doors: Doors) -> Answer:
    """Return each member's state, address and facts; 404 where there is no gossip."""
    gossip = doors.condition.gossip
    if gossip is None:
        return text_answer(404, "the cluster has no secret, so its brokers do not gossip")
    members = [
        {
            "id": member.node,
            "state": member.state.name.lower(),
            "for_ms": member.for_ms,
            "address": str(member.address),
            "facts": dict(sorted(member.facts.items())),
        }
        for member in gossip.members()
    ]
    body = msgspec.json.encode({"seen_by": doors.cluster.node, "members": members})
    return Answer(status=200, body=body, content_type=JSON)
