"""Tells the audit log of what is done to all messages of a queue."""

from collections.abc import Mapping
from types import MappingProxyType

from kafkaesque.access.audit import DataChange, Outcome
from kafkaesque.access.operations import ResourceType
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.metadata.queue_names import queue_resource
from kafkaesque.gateway.sqs.call import Call, RequestT, queue_name
from kafkaesque.model.errors import RequestRefused, RequestTimedOut


def tell_change(
    doors: Doors,
    call: Call[RequestT],
    change: DataChange,
    name: str,
    outcome: object,
    detail: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Tell what was done to a queue; what was refused has changed nothing."""
    if isinstance(outcome, RequestRefused) and not isinstance(outcome, RequestTimedOut):
        return
    doors.access.audit.change_of_data(
        call.client,
        change,
        ResourceType.QUEUE,
        queue_resource(queue_name(name)),
        detail,
        outcome=Outcome.UNKNOWN if isinstance(outcome, RequestTimedOut) else Outcome.DONE,
    )
