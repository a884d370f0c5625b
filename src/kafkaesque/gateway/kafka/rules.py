"""CreateAcls, DescribeAcls and DeleteAcls: the rules, as Kafka's tools know them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kafkaesque.access.acl_filters import (
    AclBinding,
    AclFilter,
    find_rules,
    read_binding,
    write_binding,
)
from kafkaesque.broker.requests.access_commands import AddRules, RemovedRules, RemoveRules
from kafkaesque.broker.requests.commands import ControllerResult
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.errors import code_of, message_of
from kafkaesque.gateway.kafka.gathering import Queue
from kafkaesque.model.errors import RequestRefused
from kafkaesque.protocols.kafka.messages.create_acls_request import CreateAclsRequest
from kafkaesque.protocols.kafka.messages.create_acls_response import (
    AclCreationResult,
    CreateAclsResponse,
)
from kafkaesque.protocols.kafka.messages.delete_acls_request import DeleteAclsRequest
from kafkaesque.protocols.kafka.messages.delete_acls_response import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)
from kafkaesque.protocols.kafka.messages.describe_acls_request import DescribeAclsRequest
from kafkaesque.protocols.kafka.messages.describe_acls_response import (
    AclDescription,
    DescribeAclsResource,
    DescribeAclsResponse,
)

#: The requests themselves say no time; clients wait this long by default.
TIMEOUT_MS: Final = 30_000

Piece = Callable[[Callable[[], None]], None]


def on_describe_acls(context: Context, call: Call) -> None:
    """Return the rules that a filter is for, by what they are for."""
    request: DescribeAclsRequest = call.read()
    try:
        found = find_rules(context.doors.access.state.rules.values(), _filter(request))
    except RequestRefused as refusal:
        call.answer(
            DescribeAclsResponse(error_code=code_of(refusal), error_message=message_of(refusal))
        )
        return
    resources: dict[tuple[int, str, int], list[AclDescription]] = {}
    for rule in found:
        each = write_binding(rule)
        key = (each.resource_type, each.name, each.pattern_type)
        resources.setdefault(key, []).append(
            AclDescription(each.principal, each.host, each.operation, each.permission)
        )
    answer = DescribeAclsResponse(
        error_message=None,
        resources=[DescribeAclsResource(*key, acls) for key, acls in resources.items()],
    )
    call.answer(answer)


def _filter(wanted: Any) -> AclFilter:
    return AclFilter(
        resource_type=wanted.resource_type_filter,
        name=wanted.resource_name_filter,
        pattern_type=wanted.pattern_type_filter,
        principal=wanted.principal_filter,
        host=wanted.host_filter,
        operation=wanted.operation,
        permission=wanted.permission_type,
    )


def on_create_acls(context: Context, call: Call) -> None:
    """Add rules; those that are possible are added all at once, or not at all."""
    request: CreateAclsRequest = call.read()
    results = [AclCreationResult(0, None) for _ in request.creations]
    rules = []
    asked: list[AclCreationResult] = []
    for each, result in zip(request.creations, results, strict=True):
        try:
            rule = read_binding(
                AclBinding(
                    resource_type=each.resource_type,
                    name=each.resource_name,
                    pattern_type=each.resource_pattern_type,
                    principal=each.principal,
                    host=each.host,
                    operation=each.operation,
                    permission=each.permission_type,
                )
            )
        except RequestRefused as refusal:
            result.error_code, result.error_message = code_of(refusal), message_of(refusal)
        else:
            rules.append(rule)
            asked.append(result)

    def on_done(outcome: ControllerResult | RequestRefused) -> None:
        if isinstance(outcome, RequestRefused):
            for result in asked:
                result.error_code, result.error_message = code_of(outcome), message_of(outcome)
        call.answer(CreateAclsResponse(results=results))

    if rules:
        command = call.on_behalf(AddRules(rules=tuple(rules)))
        context.doors.access.submit(command, TIMEOUT_MS, on_done)
    else:
        call.answer(CreateAclsResponse(results=results))


def on_delete_acls(context: Context, call: Call) -> None:
    """Remove the rules that filters are for, one filter after the other."""
    request: DeleteAclsRequest = call.read()
    results = [DeleteAclsFilterResult(0, None) for _ in request.filters]

    def piece(wanted: AclFilter, result: DeleteAclsFilterResult) -> Piece:
        def run(on_piece: Callable[[], None]) -> None:
            def on_done(outcome: ControllerResult | RequestRefused) -> None:
                if isinstance(outcome, RequestRefused):
                    result.error_code, result.error_message = code_of(outcome), message_of(outcome)
                elif isinstance(outcome, RemovedRules):
                    result.matching_acls = [_removed(write_binding(r)) for r in outcome.removed]
                on_piece()

            command = call.on_behalf(RemoveRules(wanted=wanted))
            context.doors.access.submit(command, TIMEOUT_MS, on_done)

        return run

    pieces = [
        piece(_filter(each), result) for each, result in zip(request.filters, results, strict=True)
    ]
    response = DeleteAclsResponse(filter_results=results)
    Queue(context.clock, pieces, lambda: call.answer(response), under_way_max=1).start()


def _removed(each: AclBinding) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=each.resource_type,
        resource_name=each.name,
        pattern_type=each.pattern_type,
        principal=each.principal,
        host=each.host,
        operation=each.operation,
        permission_type=each.permission,
    )
