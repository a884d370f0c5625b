"""Whom this broker holds back or has refused: the part `why-clients`."""

from itertools import islice
from typing import Final

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.principals import read_principal
from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.fan_out import PartPage, PartServer
from kafkaesque.admin.api.why_clients import (
    RefusedClient,
    ThrottledClient,
    WhyClientsAnswer,
    WhyClientsQuestion,
)
from kafkaesque.admin.api.why_part import PARTITIONS_MAX
from kafkaesque.model.errors import InvalidRequest

WHY_CLIENTS: Final = PartPage(
    name="why-clients", question=WhyClientsQuestion, answer=WhyClientsAnswer
)
#: Of connections that are looked at, and of clients that are told.
CONNECTIONS_MAX: Final = 20_000
TOLD_MAX: Final = 100
#: What one question names: a group, and topics that it reads.
NEEDS_MAX: Final = PARTITIONS_MAX + 1
NAME_LENGTH_MAX: Final = 200


def register(context: Context, server: PartServer) -> None:
    """Have this part served."""
    server.register(WHY_CLIENTS, lambda question, done: done(_answer(context, question)))


def _answer(context: Context, question: WhyClientsQuestion) -> WhyClientsAnswer:
    if len(question.needs) > NEEDS_MAX:
        raise InvalidRequest(f"at most {NEEDS_MAX} needs are looked for at once")
    return WhyClientsAnswer(throttled=_throttled(context), refused=_refused(context, question))


def _throttled(context: Context) -> list[ThrottledClient]:
    if not context.chassis.quotas.is_active:
        return []
    every = (each for meter in context.chassis.meters.values() for each in meter.connections)
    muted = (each for each in islice(every, CONNECTIONS_MAX) if each.is_muted)
    return [
        ThrottledClient(
            host=each.identity.host,
            client_id=each.client_id[:NAME_LENGTH_MAX],
            user=each.identity.user,
            published_to=each.published_to,
        )
        for each in islice(muted, TOLD_MAX)
        if each.identity is not None
    ]


def _refused(context: Context, question: WhyClientsQuestion) -> list[RefusedClient]:
    access, needs = context.doors.access, set(question.needs)
    found = []
    for each in access.refusals.newest():
        need = (int(each.operation), int(each.resource_type), each.name)
        if need not in needs:
            continue
        who, host = read_principal(each.principal), each.host
        operation, kind = Operation(each.operation), ResourceType(each.resource_type)
        decision = access.decide(who, host, operation, kind, each.name)
        if not decision.allowed:
            told = RefusedClient(each.principal, host, *need, each.at_ms, decision.because)
            found.append(told)
    return found[:TOLD_MAX]
