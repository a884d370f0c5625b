"""Tells the audit log what became of the commands that clients gave through this broker."""

from collections.abc import Callable
from typing import TypeVar

from kafkaesque.access.audit import AuditEvent, AuditKind, Outcome
from kafkaesque.broker.audit import Audit
from kafkaesque.broker.metadata.audited_commands import Described, describe, with_answer
from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.requests.client_command import ClientCommand, OnBehalfOf
from kafkaesque.model.errors import NotAuthorized, RequestRefused, RequestTimedOut

OutcomeT = TypeVar("OutcomeT")

#: Whom a command is for that names no client: the broker, or a client of an open listener.
_NOBODY = OnBehalfOf("", "")


def audited(
    audit: Audit, command: object, state: ClusterState, on_done: Callable[[OutcomeT], None]
) -> Callable[[OutcomeT], None]:
    """Return what is to be called with a command's outcome in place of `on_done`.

    What was refused for another reason than the rules changes nothing, and is not told.
    """
    if not isinstance(command, ClientCommand):
        return on_done
    described = describe(command, state)
    if described is None:
        return on_done
    client = command.on_behalf_of or _NOBODY

    def on_outcome(outcome: OutcomeT) -> None:
        event = _event(described, client, outcome)
        if event is not None:
            audit.note(event)
        on_done(outcome)

    return on_outcome


def _event(described: Described, client: OnBehalfOf, outcome: object) -> AuditEvent | None:
    kind, because = described.kind, ""
    if isinstance(outcome, NotAuthorized):
        kind, ended, because = AuditKind.REFUSAL, Outcome.REFUSED, "the controller's rules"
    elif isinstance(outcome, RequestTimedOut):
        ended, because = Outcome.UNKNOWN, str(outcome)
    elif isinstance(outcome, RequestRefused):
        return None
    else:
        done = with_answer(described, outcome)
        if done is None:
            return None
        ended, described = Outcome.DONE, done
    return AuditEvent(
        at_ms=0,
        kind=kind,
        principal=client.principal,
        host=client.host,
        listener=client.listener,
        operation=described.operation,
        resource_type=described.resource_type,
        resource=described.resource,
        outcome=ended,
        because=because,
        detail=dict(described.detail),
    )
