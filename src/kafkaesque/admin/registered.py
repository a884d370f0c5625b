"""`/brokers`: all that are registered, up or not, and where their ports are, as JSON."""

from typing import Final

import msgspec

from kafkaesque.admin.http import Answer
from kafkaesque.broker.doors import Doors

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
            "kafka": f"{each.host}:{each.kafka_port}",
            "admin": f"{each.host}:{each.admin_port}" if each.admin_port else None,
        }
        for node, each in sorted(doors.cluster.state.brokers.items())
    ]
    body = msgspec.json.encode({"seen_by": doors.cluster.node, "brokers": brokers})
    return Answer(status=200, body=body, content_type=JSON)
