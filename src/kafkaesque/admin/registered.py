"""`/brokers`: all that are registered, up or not, and where their ports are, as JSON."""

from typing import Final

import msgspec

from kafkaesque.admin.http import Answer
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.listeners import ADMIN, KAFKA
from kafkaesque.env.network import Address

JSON: Final = "application/json"


def answer_brokers(doors: Doors) -> Answer:
    """Return each broker's addresses, and whether this one hears of it.

    A broker whose disk has failed closes its Kafka port and is heard of no more: its admin port
    says why, and here is where that is.
    """
    brokers = [
        {
            "id": each.node,
            "is_alive": doors.cluster.is_alive(node),
            "kafka": _told(each.endpoint(KAFKA)),
            "admin": _told(each.endpoint(ADMIN)),
        }
        for node, each in sorted(doors.cluster.state.brokers.items())
    ]
    body = msgspec.json.encode({"seen_by": doors.cluster.node, "brokers": brokers})
    return Answer(status=200, body=body, content_type=JSON)


def _told(address: Address | None) -> str | None:
    return None if address is None else str(address)
