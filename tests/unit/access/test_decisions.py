"""Decisions, rule by rule."""

from __future__ import annotations

import pytest

from kafkaesque.access.decisions import REMEMBERED_CHARACTERS_MAX, Judge, Reason
from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.principals import ANONYMOUS, ANY_USER, Principal, User
from kafkaesque.access.records import RoleRemoved, RuleAdded, RuleRemoved, TotpStepUsed, UserPut
from kafkaesque.access.rules import INTERNAL_PREFIX, Rule
from tests.unit.access.makers import ALICE, BOB, HOST, numbered, rule, state_of

READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
TOPIC = ResourceType.TOPIC


def may(
    *rules: Rule,
    principal: Principal = ALICE,
    operation: Operation = READ,
    name: str = "orders",
    host: str = HOST,
    kind: ResourceType = TOPIC,
) -> bool:
    return Judge(state_of(*rules)).decide(principal, host, operation, kind, name).allowed


def test_without_a_rule_there_is_no_access() -> None:
    decision = Judge(state_of()).decide(ALICE, HOST, READ, TOPIC, "orders")
    assert (decision.allowed, decision.reason) == (False, Reason.NO_RULE)
    assert decision.because == "no rule allows it"


def test_a_rule_is_for_its_principal_operation_type_and_name_alone() -> None:
    allow = rule("allow", ALICE)
    assert may(allow)
    assert not may(allow, principal=BOB)
    assert not may(allow, operation=WRITE)
    assert not may(allow, kind=ResourceType.GROUP)
    assert not may(allow, name="orders-private")
    assert not may(allow, name="order")


def test_a_deny_wins_wherever_it_stands() -> None:
    allow, deny = rule("allow", ALICE), rule("deny", ANY_USER, name="*")
    assert not may(allow, deny)
    assert not may(deny, allow)
    decision = Judge(state_of(allow, deny)).decide(ALICE, HOST, READ, TOPIC, "orders")
    assert decision.because == "denied by rule 2: deny User:* READ on TOPIC any name"


def test_a_prefix_reaches_what_begins_with_it() -> None:
    allow = rule("allow", ALICE, name="orders*")
    assert may(allow)
    assert may(allow, name="orders-private")
    assert not may(allow, name="order")


def test_a_name_that_is_shorter_than_a_prefix_is_not_taken_for_it() -> None:
    allow = rule("allow", ALICE, name="ord*")
    longer = rule("allow", ALICE, name="orders*")
    assert may(allow, longer, name="ord")
    assert not may(longer, name="ord")


def test_allows_for_many_names_never_reach_the_brokers_own() -> None:
    internal = f"{INTERNAL_PREFIX}consumer_offsets"
    assert not may(rule("allow", ALICE, name="*"), name=internal)
    assert not may(rule("allow", ALICE, name="__*"), name=internal)
    assert not may(rule("allow", ALICE, name="_*"), name=internal)
    assert not may(rule("allow", ALICE, Operation.ALL, name="__consumer*"), name=internal)
    assert may(rule("allow", ALICE, name=internal), name=internal)


@pytest.mark.parametrize("name", ["*", "__*"])
def test_denies_for_many_names_do_reach_the_brokers_own(name: str) -> None:
    internal = "__consumer_offsets"
    assert not may(
        rule("allow", ALICE, name=internal), rule("deny", ALICE, name=name), name=internal
    )


@pytest.mark.parametrize(
    "operation", [READ, WRITE, Operation.DELETE, Operation.ALTER, Operation.ALL]
)
def test_what_is_allowed_implies_describe(operation: Operation) -> None:
    assert may(rule("allow", ALICE, operation), operation=DESCRIBE)


@pytest.mark.parametrize("operation", [Operation.CREATE, Operation.ALTER_CONFIGS])
def test_what_does_not_imply_describe(operation: Operation) -> None:
    assert not may(rule("allow", ALICE, operation), operation=DESCRIBE)


def test_altering_configs_implies_describing_them() -> None:
    alter, describe = Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS
    assert may(rule("allow", ALICE, alter), operation=describe)
    assert not may(rule("allow", ALICE, describe), operation=alter)


def test_a_deny_implies_nothing() -> None:
    everything = rule("allow", ALICE, Operation.ALL)
    assert may(everything, rule("deny", ALICE, READ), operation=DESCRIBE)
    assert not may(everything, rule("deny", ALICE, DESCRIBE), operation=DESCRIBE)
    assert may(everything, rule("deny", ALICE, DESCRIBE), operation=READ)


def test_all_means_every_operation() -> None:
    for operation in Operation:
        assert may(rule("allow", ALICE, Operation.ALL), operation=operation)
        assert not may(
            rule("allow", ALICE, Operation.ALL),
            rule("deny", ALICE, Operation.ALL),
            operation=operation,
        )


@pytest.mark.parametrize(
    ("wanted", "host", "expected"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("10.0.0.0/8", "10.200.3.4", True),
        ("10.0.0.0/8", "11.0.0.1", False),
        ("10.0.0.0/8", "::ffff:10.0.0.1", True),
        ("::ffff:10.0.0.0/104", "10.0.0.1", True),
        ("2001:db8::/32", "2001:db8:1::5", True),
        ("2001:db8::/32", "2001:db9::5", False),
        ("fe80::/10", "fe80::1%eth0", True),
        ("0.0.0.0/0", "a-name-is-no-address", False),
        ("*", "a-name-is-no-address", True),
    ],
)
def test_a_rule_is_for_its_host_or_network(wanted: str, host: str, expected: bool) -> None:
    assert may(rule("allow", ALICE, host=wanted), host=host) is expected
    denied = not may(rule("allow", ALICE), rule("deny", ALICE, host=wanted), host=host)
    assert denied is expected


def test_roles_give_their_rules_to_members_while_they_exist() -> None:
    member = User(name="alice", roles=("ops", "gone"))
    allow, stray = rule("allow", "Role:ops"), rule("allow", "Role:gone", WRITE)
    state = state_of(allow, stray, users=(member,), roles=("ops",))
    judge = Judge(state)
    assert judge.decide(ALICE, HOST, READ, TOPIC, "orders").allowed
    assert not judge.decide(ALICE, HOST, WRITE, TOPIC, "orders").allowed
    assert not judge.decide(BOB, HOST, READ, TOPIC, "orders").allowed
    after = judge.after(state.apply(RoleRemoved(name="ops")))
    assert not after.decide(ALICE, HOST, READ, TOPIC, "orders").allowed


def test_nobody_is_a_role() -> None:
    judge = Judge(state_of(rule("allow", "Role:ops"), roles=("ops",)))
    assert not judge.decide(Principal("Role:ops"), HOST, READ, TOPIC, "orders").allowed
    assert not judge.decide(Principal("ops"), HOST, READ, TOPIC, "orders").allowed


def test_a_rule_for_all_users_is_for_the_anonymous_one_too() -> None:
    assert may(rule("allow", ANY_USER), principal=ANONYMOUS)
    assert not may(rule("allow", ALICE), principal=ANONYMOUS)


def test_a_super_user_may_do_everything_unless_disabled() -> None:
    state = state_of(rule("deny", ALICE), users=(User(name="alice"),))
    judge = Judge(state, [ALICE])
    decision = judge.decide(ALICE, HOST, WRITE, TOPIC, "__consumer_offsets")
    assert (decision.allowed, decision.reason) == (True, Reason.SUPER_USER)
    assert judge.decide(ALICE, HOST, READ, TOPIC, "orders").allowed
    assert not judge.decide(BOB, HOST, READ, TOPIC, "orders").allowed
    after = judge.after(state.apply(UserPut(user=User(name="alice", is_disabled=True))))
    decision = after.decide(ALICE, HOST, READ, TOPIC, "orders")
    assert (decision.allowed, decision.reason) == (False, Reason.DISABLED)


def test_a_change_of_rules_is_heeded_at_once_and_other_changes_keep_the_memory() -> None:
    state = state_of(rule("allow", ALICE))
    judge = Judge(state)
    assert judge.decide(ALICE, HOST, READ, TOPIC, "orders").allowed
    other = state.apply(TotpStepUsed(credential_id="x", step=1))
    assert judge.after(other) is judge
    denied = other.apply(RuleAdded(rule=numbered(rule("deny", ALICE), 7)))
    later = judge.after(denied)
    assert not later.decide(ALICE, HOST, READ, TOPIC, "orders").allowed
    again = later.after(denied.apply(RuleRemoved(id=7)))
    assert again.decide(ALICE, HOST, READ, TOPIC, "orders").allowed


def test_names_that_are_long_do_not_fill_the_memory() -> None:
    judge = Judge(state_of(rule("allow", ALICE, name="*")))
    kept = judge.decide(ALICE, HOST, READ, TOPIC, "orders")
    assert judge.decide(ALICE, HOST, READ, TOPIC, "orders") is kept
    length = REMEMBERED_CHARACTERS_MAX // 50
    for number in range(60):
        assert judge.decide(ALICE, HOST, READ, TOPIC, str(number) + "x" * length).allowed
    # It was made room for the others, so it is decided anew, and the same.
    again = judge.decide(ALICE, HOST, READ, TOPIC, "orders")
    assert again is not kept
    assert again == kept


def test_an_unknown_name_and_a_forbidden_one_get_the_same_decision() -> None:
    judge = Judge(state_of(rule("allow", BOB, name="secret-plans"), rule("allow", ALICE)))
    forbidden = judge.decide(ALICE, HOST, DESCRIBE, TOPIC, "secret-plans")
    unknown = judge.decide(ALICE, HOST, DESCRIBE, TOPIC, "never-created")
    assert forbidden == unknown
    stranger = judge.decide(Principal("User:nobody"), HOST, DESCRIBE, TOPIC, "orders")
    assert stranger == unknown


def some(*rules: Rule) -> bool:
    return Judge(state_of(*rules)).decide_some(ALICE, HOST, WRITE, TOPIC).allowed


def test_whether_there_is_any_name_that_may_be_written() -> None:
    assert not some()
    assert some(rule("allow", ALICE, WRITE))
    assert some(rule("allow", ALICE, Operation.ALL, name="*"))
    assert not some(rule("allow", ALICE, READ))
    assert not some(rule("allow", ALICE, WRITE, host="10.9.9.9"))
    assert not some(rule("allow", ALICE, WRITE), rule("deny", ANY_USER, WRITE))
    assert not some(rule("allow", ALICE, WRITE), rule("deny", ALICE, WRITE, "ord*"))
    assert not some(rule("allow", ALICE, WRITE, "ord*"), rule("deny", ALICE, WRITE, "o*"))
    assert not some(rule("allow", ALICE, WRITE, "*"), rule("deny", ALICE, WRITE, "*"))
    assert some(rule("allow", ALICE, WRITE, "o*"), rule("deny", ALICE, WRITE, "ord*"))
    assert some(rule("allow", ALICE, WRITE, "ord*"), rule("deny", ALICE, WRITE, "ord"))
    assert some(rule("allow", ALICE, WRITE, "*"), rule("deny", ALICE, WRITE, "ord*"))
    assert some(rule("allow", ALICE, WRITE, "a"), rule("deny", ALICE, WRITE, "b"))


def test_all_operations_that_are_allowed() -> None:
    judge = Judge(state_of(rule("allow", ALICE, WRITE)))
    assert judge.decide_all(ALICE, HOST, TOPIC, "orders") == {WRITE, DESCRIBE}
