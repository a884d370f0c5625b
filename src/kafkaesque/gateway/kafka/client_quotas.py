"""DescribeClientQuotas and AlterClientQuotas (KIP-546)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum

from kafkaesque.broker.metadata.client_quotas import (
    CLIENT_ID,
    ENTITY_TYPES,
    IP,
    USER,
    QuotaEntity,
    check_quota,
    make_entity,
)
from kafkaesque.broker.requests.commands import ChangeQuotas, ControllerResult, QuotaChange
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.errors import code_of, message_of
from kafkaesque.gateway.kafka.gathering import Queue
from kafkaesque.gateway.kafka.topic_admin import Piece, command_piece
from kafkaesque.model.errors import InvalidRequest, RequestRefused
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages import (
    alter_client_quotas_response,
    describe_client_quotas_response,
)
from kafkaesque.protocols.kafka.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
)
from kafkaesque.protocols.kafka.messages.alter_client_quotas_request import EntryData as Alteration
from kafkaesque.protocols.kafka.messages.alter_client_quotas_response import (
    AlterClientQuotasResponse,
)
from kafkaesque.protocols.kafka.messages.alter_client_quotas_response import EntryData as Altered
from kafkaesque.protocols.kafka.messages.describe_client_quotas_request import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from kafkaesque.protocols.kafka.messages.describe_client_quotas_response import (
    DescribeClientQuotasResponse,
    ValueData,
)
from kafkaesque.protocols.kafka.messages.describe_client_quotas_response import (
    EntryData as Described,
)

#: The requests themselves say no time; clients wait this long by default.
ALTER_TIMEOUT_MS = 30_000


class MatchType(IntEnum):
    """What a filter wants of an entity's name; the numbers are Kafka's."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


class _UnknownEntityType(InvalidRequest):
    """A filter names a type that this broker has no entities of; a newer one may have."""


# -- DescribeClientQuotas


def on_describe_client_quotas(context: Context, call: Call) -> None:
    """Say which entities that fit the filter have quotas, and which."""
    request: DescribeClientQuotasRequest = call.read()
    try:
        _check_filter(request.components)
    except RequestRefused as refusal:
        is_unknown = isinstance(refusal, _UnknownEntityType)
        code = ErrorCode.UNSUPPORTED_VERSION if is_unknown else code_of(refusal)
        call.answer(
            DescribeClientQuotasResponse(
                error_code=code, error_message=message_of(refusal), entries=None
            )
        )
        return
    entries = [
        Described(
            entity=[
                describe_client_quotas_response.EntityData(kind, name) for kind, name in entity
            ],
            values=[ValueData(name, value) for name, value in sorted(quotas.items())],
        )
        for entity, quotas in context.doors.cluster.state.client_quotas.items()
        if _fits(entity, request)
    ]
    call.answer(DescribeClientQuotasResponse(error_message=None, entries=entries))


def _check_filter(components: Sequence[ComponentData]) -> None:
    seen: list[str] = []
    for component in components:
        kind = component.entity_type
        if not kind:
            raise InvalidRequest("the filter names an empty type of entity")
        if kind not in ENTITY_TYPES:
            raise _UnknownEntityType(f"{kind!r} is no type of entity that has quotas here")
        if kind in seen:
            raise InvalidRequest(f"the filter names {kind} more than once")
        seen.append(kind)
        if component.match_type not in list(MatchType):
            raise InvalidRequest(f"there is no match type {component.match_type}")
        if (component.match_type == MatchType.EXACT) != (component.match is not None):
            raise InvalidRequest(f"the filter of {kind} does not fit its match type")
    if IP in seen and (USER in seen or CLIENT_ID in seen):
        raise InvalidRequest("an ip is not combined with a user or client-id")


def _fits(entity: QuotaEntity, request: DescribeClientQuotasRequest) -> bool:
    names = dict(entity)
    if request.strict and len(names) != len(request.components):
        return False
    return all(
        component.entity_type in names
        and (
            component.match_type == MatchType.ANY or names[component.entity_type] == component.match
        )
        for component in request.components
    )


# -- AlterClientQuotas


def on_alter_client_quotas(context: Context, call: Call) -> None:
    """Set quotas and take them away; each entity succeeds or fails by itself, as a whole."""
    request: AlterClientQuotasRequest = call.read()
    results = [
        Altered(
            error_message=None,
            entity=[
                alter_client_quotas_response.EntityData(part.entity_type, part.entity_name)
                for part in entry.entity
            ],
        )
        for entry in request.entries
    ]
    seen: set[QuotaEntity] = set()
    pieces: list[Piece] = []
    for entry, result in zip(request.entries, results, strict=True):
        try:
            validate_only = request.validate_only
            command = call.on_behalf(_command(entry, seen, validate_only=validate_only))
        except RequestRefused as refusal:
            result.error_code, result.error_message = code_of(refusal), message_of(refusal)
        else:
            on_outcome = _on_altered(result)
            pieces.append(command_piece(context.doors, command, ALTER_TIMEOUT_MS, on_outcome))
    Queue(
        context.doors.clock,
        pieces,
        lambda: call.answer(AlterClientQuotasResponse(entries=results)),
    ).start()


def _command(entry: Alteration, seen: set[QuotaEntity], *, validate_only: bool) -> ChangeQuotas:
    entity = make_entity((part.entity_type, part.entity_name) for part in entry.entity)
    if entity in seen:
        raise InvalidRequest("the entity is named more than once")
    seen.add(entity)
    changes = [QuotaChange(name=op.key, value=None if op.remove else op.value) for op in entry.ops]
    for change in changes:
        check_quota(entity, change.name, change.value)
    return ChangeQuotas(entity=entity, changes=changes, validate_only=validate_only)


def _on_altered(result: Altered) -> Callable[[ControllerResult | RequestRefused], None]:
    def on_outcome(outcome: ControllerResult | RequestRefused) -> None:
        if isinstance(outcome, RequestRefused):
            result.error_code, result.error_message = code_of(outcome), message_of(outcome)

    return on_outcome
