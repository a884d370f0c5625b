"""Quotas of a test's broker: set, and gone with the test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkaesque.protocols.kafka.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from tests.unit.gateway_kafka.live import LiveCluster

Entity = dict[str, str | None]


def entry(entity: Entity, rates: Mapping[str, float | None]) -> EntryData:
    """Returns a change of an entity's quotas; no rate takes one away."""
    return EntryData(
        [EntityData(kind, name) for kind, name in entity.items()],
        [OpData(key, value or 0.0, value is None) for key, value in rates.items()],
    )


def alter(
    live: LiveCluster,
    entity: Entity,
    rates: Mapping[str, float | None],
    *,
    version: int | None = None,
    validate_only: bool = False,
    node: int = 1,
) -> Any:
    """Changes quotas of one entity and returns the result."""
    request = AlterClientQuotasRequest([entry(entity, rates)], validate_only)
    (result,) = live.ask(request, version, node=node).entries
    return result


def clear_quotas(live: LiveCluster) -> None:
    """Takes all quotas away, and with them what clients owe."""
    for entity, quotas in list(live.broker.state.client_quotas.items()):
        assert alter(live, dict(entity), dict.fromkeys(quotas)).error_code == 0
    assert not live.broker.state.client_quotas
