"""Kafka's bindings and filters over rules, and the bit field of authorized operations."""

from __future__ import annotations

import pytest

from kafkaesque.access.acl_filters import (
    AclBinding,
    AclFilter,
    PatternType,
    Permission,
    find_rules,
    read_binding,
    write_binding,
)
from kafkaesque.access.authorized_operations import authorized_operations
from kafkaesque.access.decisions import Judge
from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.rules import PatternKind
from kafkaesque.model.errors import InvalidRequest
from tests.unit.access.makers import ALICE, BOB, HOST, rule, state_of

LITERAL = rule("allow", ALICE, name="orders", number=1)
PREFIX = rule("deny", BOB, Operation.WRITE, name="ord*", number=2, host="10.0.0.0/8")
WILD = rule("allow", ALICE, Operation.ALL, name="*", number=3)
GROUP = rule("allow", ALICE, name="orders", kind=ResourceType.GROUP, number=4)
OWN = rule("allow", ALICE, name="orders", kind=ResourceType.QUEUE, number=5)
ALL_RULES = (LITERAL, PREFIX, WILD, GROUP, OWN)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (AclFilter(), [1, 2, 3, 4]),
        (AclFilter(resource_type=ResourceType.TOPIC), [1, 2, 3]),
        (AclFilter(resource_type=ResourceType.QUEUE), [5]),
        (AclFilter(resource_type=ResourceType.EXCHANGE), []),
        (AclFilter(principal="User:bob"), [2]),
        (AclFilter(host="10.0.0.0/8"), [2]),
        (AclFilter(host="*"), [1, 3, 4]),
        (AclFilter(operation=Operation.ALL), [3]),
        (AclFilter(permission=Permission.DENY), [2]),
        (AclFilter(name="orders"), [1, 4]),
        (AclFilter(name="ord"), [2]),
        (AclFilter(name="*"), [3]),
        (AclFilter(name="orders", pattern_type=PatternType.MATCH), [1, 2, 3, 4]),
        (AclFilter(name="ordinary", pattern_type=PatternType.MATCH), [2, 3]),
        (AclFilter(name="or", pattern_type=PatternType.MATCH), [3]),
        (AclFilter(name="orders", pattern_type=PatternType.LITERAL), [1, 4]),
        (AclFilter(name="*", pattern_type=PatternType.LITERAL), [3]),
        (AclFilter(name="ord", pattern_type=PatternType.PREFIXED), [2]),
        (AclFilter(name="orders", pattern_type=PatternType.PREFIXED), []),
        (AclFilter(pattern_type=PatternType.PREFIXED), [2]),
        (AclFilter(pattern_type=PatternType.MATCH), [1, 2, 3, 4]),
    ],
)
def test_a_filter_finds(wanted: AclFilter, expected: list[int]) -> None:
    assert [each.id for each in find_rules(ALL_RULES, wanted)] == expected


@pytest.mark.parametrize(
    "wanted",
    [
        AclFilter(resource_type=0),
        AclFilter(resource_type=99),
        AclFilter(operation=0),
        AclFilter(operation=99),
        AclFilter(permission=0),
        AclFilter(pattern_type=0),
    ],
)
def test_a_filter_with_an_unknown_number_is_refused(wanted: AclFilter) -> None:
    with pytest.raises(InvalidRequest):
        find_rules(ALL_RULES, wanted)


@pytest.mark.parametrize("given", ALL_RULES, ids=str)
def test_a_rule_is_written_and_read_back(given: object) -> None:
    [chosen] = [each for each in ALL_RULES if each is given]
    assert read_binding(write_binding(chosen)).key == chosen.key


def binding(
    *,
    resource_type: int = ResourceType.TOPIC,
    name: str = "orders",
    pattern_type: int = PatternType.LITERAL,
    principal: str = "User:alice",
    host: str = "*",
    operation: int = Operation.READ,
    permission: int = Permission.ALLOW,
) -> AclBinding:
    return AclBinding(
        resource_type=resource_type,
        name=name,
        pattern_type=pattern_type,
        principal=principal,
        host=host,
        operation=operation,
        permission=permission,
    )


def test_the_literal_star_is_any_name_and_the_prefix_star_is_a_prefix() -> None:
    assert read_binding(binding(name="*")).pattern is PatternKind.ANY
    read = read_binding(binding(name="*", pattern_type=PatternType.PREFIXED))
    assert (read.pattern, read.name) == (PatternKind.PREFIX, "*")


@pytest.mark.parametrize(
    "wrong",
    [
        binding(resource_type=1),
        binding(resource_type=99),
        binding(name=""),
        binding(name="", pattern_type=PatternType.PREFIXED),
        binding(name="a\0b"),
        binding(pattern_type=PatternType.MATCH),
        binding(principal="alice"),
        binding(principal="User:"),
        binding(principal="Role:*"),
        binding(host=""),
        binding(host="10.0.0.1/8"),
        binding(host="somewhere"),
        binding(operation=1),
        binding(permission=Permission.ANY),
    ],
)
def test_a_binding_that_is_no_rule_is_refused(wrong: AclBinding) -> None:
    with pytest.raises(InvalidRequest):
        read_binding(wrong)


def test_authorized_operations_are_bits_by_kafkas_numbers() -> None:
    judge = Judge(state_of(rule("allow", ALICE, Operation.READ)), [BOB])
    topic = ResourceType.TOPIC
    assert authorized_operations(judge, ALICE, HOST, topic, "orders") == (1 << 3) | (1 << 8)
    assert authorized_operations(judge, ALICE, HOST, topic, "other") == 0
    everything = sum(1 << number for number in (3, 4, 5, 6, 7, 8, 10, 11))
    assert authorized_operations(judge, BOB, HOST, topic, "orders") == everything
