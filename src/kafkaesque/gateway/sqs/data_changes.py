"""Tells the audit log of what is done to all messages of a queue."""

from collections.abc import Mapping
from types import MappingProxyType

from kafkaesque.access.audit import DataChange
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.metadata.queue_names import queue_resource
from kafkaesque.gateway.sqs.call import Call, RequestT, queue_name


def tell_change(
    doors: Doors,
    call: Call[RequestT],
    change: DataChange,
    name: str,
    outcome: object,
    detail: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Tell what was done to a queue; what was refused has changed nothing."""
    resource = queue_resource(queue_name(name))
    doors.access.audit.change_of_queue(call.client, change, resource, outcome, detail)
