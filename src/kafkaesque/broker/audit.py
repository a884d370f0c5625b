"""Where a broker's parts say what belongs in the audit log; nothing is written here.

What is told waits in the trail until `AuditWriter` takes it, four times a second. It costs nothing
where something is allowed: only refusals, log-ins, changes and use of keys are told.
"""

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final, Protocol

import msgspec

from kafkaesque.access.audit import (
    EVENT_KINDS,
    AuditEvent,
    AuditKind,
    ClientOrigin,
    DataChange,
    Outcome,
)
from kafkaesque.access.audit_trail import AuditTrail
from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.principals import Principal
from kafkaesque.env.clock import Clock
from kafkaesque.model.errors import RequestRefused, RequestTimedOut

#: Stands in the option for all kinds where somebody has to log in, and else for none.
AUTO: Final = "auto"


def chosen_kinds(chosen: Collection[str], *, is_secured: bool) -> frozenset[AuditKind]:
    """Return what is audited by the option `audit.events`."""
    if AUTO in chosen:
        return frozenset(EVENT_KINDS) if is_secured else frozenset()
    return frozenset(each for each in EVENT_KINDS if each in chosen)


def operation_word(operation: Operation) -> str:
    """Return an operation as rules are written."""
    return operation.name.lower().replace("_", "-")


def resource_word(resource_type: ResourceType) -> str:
    """Return a resource type as rules are written."""
    return resource_type.name.lower().replace("_", "-")


class AuditedClient(Protocol):
    """Who has logged in, and where it has come from."""

    @property
    def principal(self) -> str:
        """Its name in rules."""

    @property
    def host(self) -> str:
        """Its address."""

    @property
    def listener(self) -> str:
        """The name of the listener that it came by."""


class Audit:
    """One for each broker."""

    __slots__ = ("_clock", "trail")

    def __init__(self, clock: Clock, kinds: Iterable[AuditKind]) -> None:
        self._clock: Final = clock
        self.trail: Final = AuditTrail(frozenset(kinds))

    def wants(self, kind: AuditKind) -> bool:
        """Tell whether events of a kind are kept."""
        return kind in self.trail.kinds

    def note(self, event: AuditEvent) -> None:
        """Tell of something; its time is set here."""
        if event.kind in self.trail.kinds:
            clock = self._clock
            timed = msgspec.structs.replace(event, at_ms=clock.wall_ms())
            self.trail.note(timed, clock.now_ms())

    def log_in(
        self, outcome: Outcome, origin: ClientOrigin, mechanism: str, principal: str, because: str
    ) -> None:
        """Somebody has logged in, or was not let in."""
        self.note(
            AuditEvent(
                at_ms=0,
                kind=AuditKind.LOG_IN,
                principal=principal,
                host=origin.host,
                listener=origin.listener,
                mechanism=mechanism,
                outcome=outcome,
                because=because,
            )
        )

    def refusal(
        self,
        principal: Principal,
        origin: ClientOrigin,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        because: str,
    ) -> None:
        """Somebody was refused something that they had asked for."""
        self.note(
            AuditEvent(
                at_ms=0,
                kind=AuditKind.REFUSAL,
                principal=principal,
                host=origin.host,
                listener=origin.listener,
                operation=operation_word(operation),
                resource_type=resource_word(resource_type),
                resource=name,
                outcome=Outcome.REFUSED,
                because=because,
            )
        )

    def change_of_data(
        self,
        client: AuditedClient | None,
        change: DataChange,
        resource_type: ResourceType,
        name: str,
        detail: Mapping[str, str] = MappingProxyType({}),
        *,
        outcome: Outcome = Outcome.DONE,
    ) -> None:
        """Somebody has changed what is no metadata; `client` is None where nobody logs in."""
        self.note(
            AuditEvent(
                at_ms=0,
                kind=AuditKind.CHANGE,
                principal=client.principal if client else "",
                host=client.host if client else "",
                listener=client.listener if client else "",
                operation=change.value,
                resource_type=resource_word(resource_type),
                resource=name,
                outcome=outcome,
                detail=dict(detail),
            )
        )

    def change_of_queue(
        self,
        client: AuditedClient | None,
        change: DataChange,
        name: str,
        outcome: object,
        detail: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Tell what was done to all messages of a queue; what was refused has changed nothing."""
        is_unknown = isinstance(outcome, RequestTimedOut)
        if isinstance(outcome, RequestRefused) and not is_unknown:
            return
        self.change_of_data(
            client,
            change,
            ResourceType.QUEUE,
            name,
            detail,
            outcome=Outcome.UNKNOWN if is_unknown else Outcome.DONE,
        )
