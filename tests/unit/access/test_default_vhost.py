"""Rules for all names of the default virtual host, and of no other one."""

from __future__ import annotations

import pytest

from kafkaesque.access import planner
from kafkaesque.access.decisions import Judge
from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.principals import user_principal
from kafkaesque.access.rules import Effect, PatternKind, Rule
from kafkaesque.access.state import AccessState
from kafkaesque.model.errors import InvalidRequest

_O, _T = Operation, ResourceType
ALICE = user_principal("alice")
ALL = "vhost:%2F/"


def rule(name: str, *, effect: Effect = Effect.ALLOW, kind: ResourceType = _T.QUEUE) -> Rule:
    return Rule(
        effect=effect,
        principal=ALICE,
        operation=_O.READ,
        resource_type=kind,
        pattern=PatternKind.PREFIX if name else PatternKind.ANY,
        name=name,
    )


def may(name: str, *rules: Rule, kind: ResourceType = _T.QUEUE) -> bool:
    state = AccessState()
    state = state.apply_all(planner.plan_rules(state, rules))
    for each in rules:
        # One by one the index is made in another way.
        single = AccessState().apply_all(planner.plan_rules(AccessState(), [each]))
        assert single.rule_index == state.rule_index or len(rules) > 1
    decided = Judge(state).decide(ALICE, "10.0.0.1", _O.READ, kind, name).allowed
    by_hand = [each for each in rules if each.resource_type is kind and each.matches_name(name)]
    is_denied = any(each.effect is Effect.DENY for each in by_hand)
    assert decided == (bool(by_hand) and not is_denied)
    return decided


def test_a_prefix_with_the_virtual_host_is_for_it_alone() -> None:
    assert may("orders", rule(ALL))
    assert may("orders", rule(f"{ALL}ord"))
    assert not may("bills", rule(f"{ALL}ord"))
    assert not may("vhost:b/orders", rule(ALL))
    # One without it is for what begins so, wherever that is.
    assert may("vhost:b/orders", rule("v"))
    assert not may("orders", rule("vhost:"))
    assert not may("orders", rule("vhost:%2"))
    assert may("vhost:b/orders", rule("vhost:"))


def test_it_denies_as_well_and_leaves_the_brokers_own_names() -> None:
    assert not may("orders", rule(""), rule(ALL, effect=Effect.DENY))
    assert may("vhost:b/orders", rule(""), rule(ALL, effect=Effect.DENY))
    assert not may("__own", rule(ALL))


def test_it_is_for_queues_and_exchanges() -> None:
    assert may("logs", rule(ALL, kind=_T.EXCHANGE), kind=_T.EXCHANGE)
    with pytest.raises(InvalidRequest, match="only queues and exchanges"):
        may("logs", rule(ALL, kind=_T.TOPIC), kind=_T.TOPIC)
    literal = Rule(
        effect=Effect.ALLOW,
        principal=ALICE,
        operation=_O.READ,
        resource_type=_T.QUEUE,
        name=f"{ALL}orders",
    )
    with pytest.raises(InvalidRequest, match="the name alone"):
        may("orders", literal)


def test_a_deny_of_plain_names_covers_one_with_the_virtual_host() -> None:
    state = AccessState()
    rules = [rule(f"{ALL}ord"), rule("or", effect=Effect.DENY)]
    state = state.apply_all(planner.plan_rules(state, rules))
    assert not Judge(state).decide_some(ALICE, "10.0.0.1", _O.READ, _T.QUEUE).allowed
