"""Tells the audit log of changes of data: by requests that no controller hears of."""

from collections.abc import Iterable
from typing import Final

from kafkaesque.access.audit import AuditKind, DataChange, Outcome, numbered
from kafkaesque.access.operations import ResourceType
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.protocols.kafka.error_codes import ErrorCode

#: What was refused has changed nothing; of these nobody knows.
_OUTCOMES: Final = {
    ErrorCode.NONE: Outcome.DONE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Outcome.DONE,
    ErrorCode.REQUEST_TIMED_OUT: Outcome.UNKNOWN,
}


def tell_parts(
    context: Context,
    call: Call,
    change: DataChange,
    resource_type: ResourceType,
    name: str,
    parts: Iterable[tuple[int, str]],
) -> None:
    """Tell what was done to parts of a resource, each by its error code and in words.

    One entry for all that are done, and one for all of which nobody knows.
    """
    if not context.doors.access.audit.wants(AuditKind.CHANGE):
        return
    said: dict[Outcome, list[str]] = {}
    for code, text in parts:
        outcome = _OUTCOMES.get(ErrorCode(code))
        if outcome is not None:
            said.setdefault(outcome, []).append(text)
    for outcome, texts in said.items():
        context.doors.access.audit.change_of_data(
            call.client,
            change,
            resource_type,
            name,
            numbered(each for each in texts if each),
            outcome=outcome,
        )


def tell(
    context: Context,
    call: Call,
    change: DataChange,
    resource_type: ResourceType,
    name: str,
    code: int,
    detail: str = "",
) -> None:
    """Tell what was done to a whole resource."""
    tell_parts(context, call, change, resource_type, name, [(code, detail)])
