"""Who may do something, as gateways and the API explain it: of views, by the rules for both."""

from kafkaesque.access.administration import AskGrants, Grants, show_grants
from kafkaesque.access.decisions import Decision
from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.principals import Principal
from kafkaesque.broker.doors.access import Access
from kafkaesque.chassis.rights import needed_as_well


def explain_grants(access: Access, super_users: tuple[Principal, ...], asked: AskGrants) -> Grants:
    """Return who may do something; of a topic that shows a queue, by rules for both."""
    needed = needed_as_well(access, asked.operation, asked.resource_type, asked.name)
    if needed is None:
        return show_grants(access.state, super_users, asked)
    operation, kind, name = needed
    queue = AskGrants(operation=operation, resource_type=kind, name=name)
    return show_grants(access.state, super_users, asked, as_well=queue)


def decide_with_queue(
    access: Access,
    principal: Principal,
    host: str,
    operation: Operation,
    resource_type: ResourceType,
    name: str,
) -> Decision:
    """Return whether somebody may do something; of a topic that shows a queue, with both.

    The decision is that for the topic if that refuses it, else that for the queue.
    """
    decision = access.decide(principal, host, operation, resource_type, name)
    needed = needed_as_well(access, operation, resource_type, name)
    if needed is None or not decision.allowed:
        return decision
    return access.decide(principal, host, *needed)
