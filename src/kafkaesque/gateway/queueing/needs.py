"""What a request needs of a queue or an exchange, and what is said where no rule allows it."""

from __future__ import annotations

from typing import NamedTuple

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.broker.metadata.queue_names import QueueName, queue_resource
from kafkaesque.gateway.queueing.link import QueueingLink


class Need(NamedTuple):
    """An operation on a queue or an exchange of the connection's virtual host."""

    operation: Operation
    resource_type: ResourceType
    name: str


def has(link: QueueingLink, need: Need) -> bool:
    """Tell whether a client may do something; without rights it may."""
    rights = link.rights
    if rights is None:
        return True
    name = queue_resource(QueueName(link.vhost, need.name))
    return rights.may(need.operation, need.resource_type, name)


def refusal_of(user: str, vhost: str, need: Need) -> str:
    """Return what is said where no rule allows something."""
    return (
        f"{need.operation.name.lower()} access to {need.resource_type.name.lower()} "
        f"'{need.name}' in vhost '{vhost}' refused for user '{user}'"
    )
