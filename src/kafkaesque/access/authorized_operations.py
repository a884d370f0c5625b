"""The bit field of authorized operations, which Kafka's describe and metadata answers carry."""

from kafkaesque.access.decisions import Judge
from kafkaesque.access.operations import SUPPORTED, ResourceType
from kafkaesque.access.principals import Principal


def authorized_operations(
    judge: Judge, principal: Principal, host: str, resource_type: ResourceType, name: str
) -> int:
    """Return one bit for each allowed operation of those that the type has, by Kafka's number."""
    bits = 0
    for each in SUPPORTED[resource_type]:
        if judge.decide(principal, host, each, resource_type, name).allowed:
            bits |= 1 << each
    return bits
