"""`/controllers`: which brokers vote for the one that leads the metadata, as JSON."""

from typing import Final

import msgspec

from kafkaesque.admin.http import Answer
from kafkaesque.broker.doors import Doors

JSON: Final = "application/json"


def answer_controllers(doors: Doors) -> Answer:
    """Return the controllers as this broker knows them, and which of them leads, if it knows one.

    The Kafka port says who they are only while one of them leads. Also, whether this one is a
    controller that has lost its disk, so that it has no vote.
    """
    body = {
        "seen_by": doors.cluster.node,
        "leader": doors.cluster.controller(),
        "voters": doors.cluster.controllers(),
        "has_lost_log": doors.condition.voters.has_lost_log,
    }
    return Answer(status=200, body=msgspec.json.encode(body), content_type=JSON)
