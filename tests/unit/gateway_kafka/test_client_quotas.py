"""DescribeClientQuotas and AlterClientQuotas, asked of real brokers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from kafkaesque.protocols.kafka.messages.describe_client_quotas_request import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from tests.unit.gateway_kafka.live import LiveCluster, versions_of
from tests.unit.gateway_kafka.quotas import Entity, alter, clear_quotas, entry

EXACT, DEFAULT, ANY = range(3)
APP: Entity = {"client-id": "app"}
ALICE: Entity = {"user": "alice"}
BOTH: Entity = {"user": "alice", "client-id": "app"}
DEFAULT_USER: Entity = {"user": None}
ADDRESS: Entity = {"ip": "10.0.0.1"}


@pytest.fixture
def quotas(live: LiveCluster) -> Iterator[LiveCluster]:
    """A broker whose quotas go with the test."""
    yield live
    clear_quotas(live)


def describe(
    live: LiveCluster,
    *components: tuple[str, int, str | None],
    strict: bool = False,
    version: int | None = None,
) -> Any:
    request = DescribeClientQuotasRequest([ComponentData(*each) for each in components], strict)
    return live.ask(request, version)


def found(answer: Any) -> list[tuple[Entity, dict[str, float]]]:
    assert answer.error_code == 0, answer.error_message
    return [
        (
            {part.entity_type: part.entity_name for part in each.entity},
            {value.key: value.value for value in each.values},
        )
        for each in answer.entries
    ]


@pytest.mark.parametrize("version", versions_of(ApiKey.ALTER_CLIENT_QUOTAS))
def test_what_is_set_is_described_and_can_be_taken_away(quotas: LiveCluster, version: int) -> None:
    rates = {"producer_byte_rate": 1000.0, "request_percentage": 12.5}
    assert alter(quotas, APP, rates, version=version).error_code == 0
    assert found(describe(quotas, version=version)) == [(APP, rates)]
    change = {"producer_byte_rate": None, "consumer_byte_rate": 7.0}
    assert alter(quotas, APP, change, version=version).error_code == 0
    left = {"request_percentage": 12.5, "consumer_byte_rate": 7.0}
    assert found(describe(quotas, version=version)) == [(APP, left)]
    alter(quotas, APP, dict.fromkeys(left), version=version)
    assert found(describe(quotas, version=version)) == []


def test_validation_alone_changes_nothing(quotas: LiveCluster) -> None:
    answer = alter(quotas, APP, {"producer_byte_rate": 1.0}, validate_only=True)
    assert answer.error_code == 0
    answer = alter(quotas, APP, {"producer_byte_rate": -1.0}, validate_only=True)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert found(describe(quotas)) == []


@pytest.mark.parametrize(
    ("entity", "rates", "said"),
    [
        ({}, {"producer_byte_rate": 1.0}, "is empty"),
        ({"group": "g"}, {"producer_byte_rate": 1.0}, "no entity has type 'group'"),
        ({"user": ""}, {"producer_byte_rate": 1.0}, "name of a user is empty"),
        ({"ip": "10.0.0.1", "user": "a"}, {"connection_creation_rate": 1.0}, "not combined"),
        ({"ip": "nowhere"}, {"connection_creation_rate": 1.0}, "no IP address"),
        (APP, {"producer_bytes": 1.0}, "'producer_bytes' is no quota of client-id 'app'"),
        (APP, {"producer_bytes": None}, "'producer_bytes' is no quota"),
        (APP, {"connection_creation_rate": 1.0}, "is no quota of client-id"),
        (ADDRESS, {"producer_byte_rate": 1.0}, "is no quota of ip"),
        (APP, {"producer_byte_rate": 0.0}, "above 0"),
        (APP, {"consumer_byte_rate": 1.5}, "whole number"),
    ],
)
def test_what_is_wrong_is_refused_with_the_reason(
    quotas: LiveCluster, entity: Entity, rates: dict[str, float | None], said: str
) -> None:
    answer = alter(quotas, entity, rates)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert said in answer.error_message
    assert {part.entity_type: part.entity_name for part in answer.entity} == entity
    assert found(describe(quotas)) == []


def test_each_entity_succeeds_or_fails_by_itself_and_as_a_whole(quotas: LiveCluster) -> None:
    request = AlterClientQuotasRequest(
        [
            entry(APP, {"producer_byte_rate": 5.0, "consumer_byte_rate": -1.0}),
            entry(ALICE, {"producer_byte_rate": 5.0}),
            entry(ADDRESS, {"connection_creation_rate": 5.0}),
            entry(ALICE, {"producer_byte_rate": 6.0}),
        ]
    )
    codes = [each.error_code for each in quotas.ask(request).entries]
    assert codes == [ErrorCode.INVALID_REQUEST, 0, 0, ErrorCode.INVALID_REQUEST]
    assert found(describe(quotas)) == [
        (ALICE, {"producer_byte_rate": 5.0}),
        (ADDRESS, {"connection_creation_rate": 5.0}),
    ]


def test_a_part_or_a_quota_that_is_named_twice_is_refused(quotas: LiveCluster) -> None:
    twice = EntryData([EntityData("user", "a"), EntityData("user", None)], [])
    ops = [OpData("producer_byte_rate", 1.0), OpData("producer_byte_rate", 2.0)]
    answer = quotas.ask(
        AlterClientQuotasRequest([twice, EntryData([EntityData("user", "a")], ops)])
    )
    assert [each.error_code for each in answer.entries] == [ErrorCode.INVALID_REQUEST] * 2
    assert "named twice" in answer.entries[1].error_message


@pytest.mark.parametrize(
    ("components", "strict", "wanted"),
    [
        ([], False, [APP, ALICE, BOTH, DEFAULT_USER, ADDRESS]),
        ([], True, []),
        ([("user", ANY, None)], False, [ALICE, BOTH, DEFAULT_USER]),
        ([("user", ANY, None)], True, [ALICE, DEFAULT_USER]),
        ([("user", DEFAULT, None)], False, [DEFAULT_USER]),
        ([("user", EXACT, "alice")], False, [ALICE, BOTH]),
        ([("user", EXACT, "alice")], True, [ALICE]),
        ([("user", EXACT, "alice"), ("client-id", ANY, None)], True, [BOTH]),
        ([("client-id", EXACT, "app")], False, [APP, BOTH]),
        ([("client-id", EXACT, "nobody")], False, []),
        ([("ip", ANY, None)], False, [ADDRESS]),
    ],
)
def test_a_filter_names_parts_and_a_strict_one_all_of_them(
    quotas: LiveCluster,
    components: list[tuple[str, int, str | None]],
    strict: bool,
    wanted: list[Entity],
) -> None:
    for entity in (APP, ALICE, BOTH, DEFAULT_USER):
        alter(quotas, entity, {"producer_byte_rate": 1e6})
    alter(quotas, ADDRESS, {"connection_creation_rate": 100.0})
    answer = describe(quotas, *components, strict=strict)
    assert [entity for entity, _ in found(answer)] == wanted


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("group", ANY, None)], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", ANY, None), ("user", DEFAULT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", DEFAULT, "alice")], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, "alice")], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, None), ("ip", ANY, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_filter_that_contradicts_itself_is_refused(
    live: LiveCluster, components: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    answer = describe(live, *components)
    assert answer.error_code == code
    assert answer.error_message
    assert answer.entries is None


def test_every_broker_knows(live_trio: LiveCluster) -> None:
    assert alter(live_trio, APP, {"producer_byte_rate": 5.0}, node=2).error_code == 0
    for live in live_trio.nodes.values():
        live_trio.wait(lambda one=live: bool(one.broker.state.client_quotas), "it is known")  # type: ignore[misc]
        assert live.gateway.context.quotas.is_active
        assert not live.gateway.context.quotas.is_active_for_hosts
