"""Decisions against an evaluator that goes through all rules, one by one."""

from __future__ import annotations

import ipaddress

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.access.acl_filters import AclFilter, PatternType, find_rules
from kafkaesque.access.decisions import Judge
from kafkaesque.access.explanations import explain
from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.principals import Principal, User
from kafkaesque.access.records import RuleRemoved, UserPut
from kafkaesque.access.rule_index import RuleIndex
from kafkaesque.access.rules import Effect, PatternKind, Rule
from kafkaesque.access.state import AccessState
from tests.unit.access.makers import ALICE, rule, state_of

USERS = ("alice", "bob", "ANONYMOUS")
ROLES = ("ops", "dev", "gone")
EXISTING_ROLES = ROLES[:2]
PRINCIPALS = (*(f"User:{each}" for each in (*USERS, "*")), *(f"Role:{each}" for each in ROLES))
HOSTS = ("10.0.0.1", "10.0.1.1", "192.168.0.1", "::ffff:10.0.0.1", "2001:db8::1", "sim-host")
NETWORKS = ("*", "10.0.0.1", "10.0.0.0/24", "10.0.0.0/8", "2001:db8::/32", "0.0.0.0/0")
NAMES = ("a", "ab", "abc", "b", "_", "__", "__a", "__ab", "*")
PATTERNS = (*NAMES[:-1], *(f"{each}*" for each in NAMES[:-1]), "*")
TYPES = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.QUEUE)
OPERATIONS = st.sampled_from(list(Operation))

RULES = st.builds(
    rule,
    st.sampled_from(["allow", "allow", "deny"]),
    st.sampled_from(PRINCIPALS),
    OPERATIONS,
    st.sampled_from(PATTERNS),
    kind=st.sampled_from(TYPES),
    host=st.sampled_from(NETWORKS),
)
RULE_SETS = st.lists(RULES, max_size=24, unique_by=lambda each: each.key)
MEMBERS = st.builds(
    User,
    name=st.sampled_from(USERS),
    roles=st.lists(st.sampled_from(ROLES), unique=True).map(tuple),
    is_disabled=st.sampled_from([False, False, False, True]),
)
Question = tuple[str, str, Operation, ResourceType, str]
QUESTIONS = st.tuples(
    st.sampled_from(USERS),
    st.sampled_from(HOSTS),
    OPERATIONS.filter(lambda each: each is not Operation.ALL),
    st.sampled_from(TYPES),
    st.sampled_from(NAMES),
)


def with_rivals(rules: list[Rule]) -> list[Rule]:
    """The rules, and for some of them one for all users that says the opposite of the same."""
    found = {each.key: each for each in rules}
    for each in rules[::2]:
        effect = Effect.ALLOW if each.effect is Effect.DENY else Effect.DENY
        rival = msgspec.structs.replace(each, effect=effect, principal=Principal("User:*"))
        found.setdefault(rival.key, rival)
    return list(found.values())


def about(rules: list[Rule]) -> list[Question]:
    """What each rule is for, asked by everybody: drawn questions seldom meet two rules."""
    return [
        (user, host, operation, each.resource_type, each.name or "a")
        for each in rules
        for user in USERS
        for host in ("10.0.0.1", "2001:db8::1")
        for operation in (Operation.DESCRIBE, each.operation)
        if operation is not Operation.ALL
    ]


def is_for_host(wanted: str, host: str) -> bool:
    """The same question to `ipaddress`, by the slow way."""
    if wanted == "*":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return address in ipaddress.ip_network(wanted)


def is_for_name(each: Rule, name: str) -> bool:
    if each.pattern is PatternKind.LITERAL:
        return each.name == name
    if name[:2] == "__" and each.effect is Effect.ALLOW:
        return False
    return each.pattern is PatternKind.ANY or name[: len(each.name)] == each.name


def is_for_operation(each: Rule, operation: Operation) -> bool:
    if each.operation in (Operation.ALL, operation):
        return True
    if each.effect is Effect.DENY:
        return False
    return (operation.name, each.operation.name) in {
        ("DESCRIBE", "READ"),
        ("DESCRIBE", "WRITE"),
        ("DESCRIBE", "DELETE"),
        ("DESCRIBE", "ALTER"),
        ("DESCRIBE_CONFIGS", "ALTER_CONFIGS"),
    }


def naive(
    rules: list[Rule],
    user: User,
    host: str,
    operation: Operation,
    kind: ResourceType,
    name: str,
) -> bool:
    """May they? Written from the words of the model, with no index."""
    if user.is_disabled:
        return False
    names = {f"User:{user.name}", "User:*"}
    names |= {f"Role:{each}" for each in user.roles if each in EXISTING_ROLES}
    found = {
        each.effect
        for each in rules
        if each.principal in names
        and each.resource_type is kind
        and is_for_host(each.host, host)
        and is_for_name(each, name)
        and is_for_operation(each, operation)
    }
    return found == {Effect.ALLOW}


@given(RULE_SETS, st.lists(MEMBERS, unique_by=lambda each: each.name), st.lists(QUESTIONS))
def test_decisions_are_those_of_the_naive_evaluator(
    rules: list[Rule], users: list[User], questions: list[Question]
) -> None:
    rules = with_rivals(rules)
    judge = Judge(state_of(*rules, users=tuple(users), roles=EXISTING_ROLES))
    known = {each.name: each for each in users}
    for name, *rest in [*questions, *about(rules)]:
        user = known.get(name, User(name=name))
        expected = naive(rules, user, *rest)  # type: ignore[arg-type]
        # Twice: by the rules, and from memory.
        for _ in range(2):
            decision = judge.decide(user.principal, *rest)  # type: ignore[arg-type]
            assert decision.allowed is expected
        if decision.rule is not None:
            assert (decision.rule.effect is Effect.ALLOW) is expected


@given(RULE_SETS, st.data())
def test_rules_added_and_removed_one_by_one_give_the_same_index(
    rules: list[Rule], data: st.DataObject
) -> None:
    state = state_of(*rules)
    gone = data.draw(
        st.lists(st.sampled_from(sorted(state.rules)), unique=True) if rules else st.just([])
    )
    for number in gone:
        state = state.apply(RuleRemoved(id=number))
    again = RuleIndex.of(state.rules.values())
    assert state.rule_index.by_principal.keys() == again.by_principal.keys()
    for principal, shelves in again.by_principal.items():
        assert state.rule_index.shelves(principal) == shelves


@given(RULE_SETS, st.lists(MEMBERS, unique_by=lambda each: each.name))
def test_a_snapshot_gives_the_same_state(rules: list[Rule], users: list[User]) -> None:
    state = state_of(*rules, users=tuple(users), roles=EXISTING_ROLES)
    # Of another order than the log's: what is put again stays where it was.
    state = state.apply(UserPut(user=User(name="bob", roles=("ops",))))
    assert AccessState.read_snapshot(state.write_snapshot()) == state


@given(
    RULE_SETS, st.sampled_from(NAMES), st.sampled_from(HOSTS), OPERATIONS, st.sampled_from(TYPES)
)
def test_who_is_said_to_be_allowed_is(
    rules: list[Rule], name: str, host: str, operation: Operation, kind: ResourceType
) -> None:
    state = state_of(*rules, users=(User(name="alice", roles=("ops",)),), roles=EXISTING_ROLES)
    judge = Judge(state)
    grants = explain(state, operation, kind, name)
    for principal in (Principal(f"User:{each}") for each in USERS):
        own = [each for each in grants if each.principal == principal]
        if principal != ALICE and principal not in {each.principal for each in rules}:
            # Nobody has heard of them: what is said of `User:*` is said of them.
            own = [each for each in grants if each.principal == "User:*"]
        said = any(
            is_for_host(each.rule.host, host)
            and not any(is_for_host(deny.host, host) for deny in each.but_for)
            for each in own
        )
        assert judge.decide(principal, host, operation, kind, name).allowed is said


@given(RULE_SETS, st.sampled_from(NAMES), st.sampled_from(TYPES[:2]))
def test_a_matching_filter_finds_every_rule_that_decides(
    rules: list[Rule], name: str, kind: ResourceType
) -> None:
    wanted = AclFilter(resource_type=kind, name=name, pattern_type=PatternType.MATCH)
    found = {each.key for each in find_rules(rules, wanted)}
    deciding = {
        each.key for each in rules if each.resource_type is kind and is_for_name(each, name)
    }
    assert deciding <= found
