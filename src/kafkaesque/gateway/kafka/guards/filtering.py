"""Requests of many parts: those that are forbidden are taken out, and refused in the answer."""

from collections.abc import Callable
from typing import Any

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.chassis.rights import Rights
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context

#: Returns whether the handler is to begin; else the request is answered.
Guard = Callable[[Rights, Context, Call], bool]


def keep_allowed(
    call: Call,
    request: Any,
    asked: str,
    is_allowed: Callable[[Any], bool],
    answers: str,
    refuse: Callable[[Any], Any],
) -> None:
    """Leave what is allowed of a list in a request, and have the rest refused in the answer.

    Args:
        asked: the attribute of the request.
        answers: the attribute of the answer; what `refuse` returns comes to its end.
    """
    call.prepare(request)
    allowed: list[Any] = []
    refused: list[Any] = []
    for each in getattr(request, asked):
        (allowed if is_allowed(each) else refused).append(each)
    if not refused:
        return
    setattr(request, asked, allowed)
    refusals = [refuse(each) for each in refused]

    def amend(answer: Any) -> None:
        setattr(answer, answers, [*getattr(answer, answers), *refusals])

    call.prepare(request, amend)


def topics_guard(
    operation: Operation, answers: str, refuse: Callable[[Any], Any], *, name: str = "name"
) -> Guard:
    """Return the guard of requests with a list `topics`, each with its name in an attribute."""

    def guard(rights: Rights, context: Context, call: Call) -> bool:
        keep_allowed(
            call,
            call.read(),
            "topics",
            lambda topic: rights.may(operation, ResourceType.TOPIC, getattr(topic, name)),
            answers,
            refuse,
        )
        return True

    return guard
