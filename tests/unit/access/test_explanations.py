"""Who may, because of what, and what a rule would match."""

from __future__ import annotations

from kafkaesque.access.explanations import both, explain, matches
from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.principals import ANY_USER, User
from kafkaesque.access.rules import Rule
from tests.unit.access.makers import ALICE, BOB, rule, state_of

READ, TOPIC = Operation.READ, ResourceType.TOPIC


def grants(*rules: Rule, users: tuple[User, ...] = (), name: str = "orders") -> list[object]:
    state = state_of(*rules, users=users, roles=("ops",))
    return [
        (each.principal, each.rule.id, *(deny.id for deny in each.but_for))
        for each in explain(state, READ, TOPIC, name)
    ]


def test_everybody_who_may_is_named_with_the_rule() -> None:
    assert grants(
        rule("allow", ALICE),
        rule("allow", "Role:ops", name="ord*"),
        rule("allow", BOB, name="other"),
        users=(User(name="carol", roles=("ops",)), User(name="dave")),
    ) == [(ALICE, 1), ("User:carol", 2)]


def test_a_rule_for_all_users_names_them_and_the_rest_of_the_world() -> None:
    found = grants(rule("allow", ANY_USER), users=(User(name="alice"),))
    assert found == [("User:*", 1), (ALICE, 1)]


def test_who_is_denied_or_disabled_is_not_named() -> None:
    assert grants(rule("allow", ALICE), rule("deny", ANY_USER)) == []
    off = User(name="alice", is_disabled=True)
    assert grants(rule("allow", ALICE), users=(off,)) == []


def test_a_deny_for_some_hosts_is_named_beside_the_grant() -> None:
    somewhere = rule("deny", ALICE, host="10.0.0.0/8")
    assert grants(rule("allow", ALICE), somewhere) == [(ALICE, 1, 2)]
    assert grants(rule("allow", ALICE, host="10.0.0.0/8"), somewhere) == []


def test_who_needs_two_grants_has_them_from_the_same_hosts() -> None:
    def found(*rules: Rule) -> list[object]:
        state = state_of(*rules, users=(), roles=("ops",))
        grants = [explain(state, READ, TOPIC, name) for name in ("view", "queue")]
        return [
            (each.principal, each.rule.name, each.also.name, *(deny.id for deny in each.but_for))
            for each in both(*grants)
            if each.also is not None
        ]

    def view(effect: str, host: str = "*") -> Rule:
        return rule(effect, ALICE, name="view", host=host)

    def queue(effect: str, host: str = "*") -> Rule:
        return rule(effect, ALICE, name="queue", host=host)

    pair = (ALICE, "view", "queue")
    assert found(view("allow"), rule("allow", BOB, name="queue")) == []
    assert found(view("allow"), queue("allow")) == [pair]
    assert found(view("allow", "10.0.0.0/8"), queue("allow", "10.1.0.0/16")) == [pair]
    assert found(view("allow", "10.0.0.0/8"), queue("allow", "11.0.0.1")) == []
    denied = queue("deny", "10.0.0.0/8")
    assert found(view("allow", "10.1.0.0/16"), queue("allow"), denied) == []
    assert found(view("allow", "11.0.0.1"), queue("allow"), denied) == [(*pair, 3)]


def test_an_explanation_never_tells_of_the_brokers_own_names() -> None:
    assert grants(rule("allow", ALICE, name="*"), name="__consumer_offsets") == []


def test_what_a_rule_would_match_is_listed_before_it_is_added() -> None:
    names = ["orders", "orders-private", "order", "__orders"]
    assert matches(rule("allow", ALICE, name="orders*"), names) == ("orders", "orders-private")
    assert matches(rule("allow", ALICE, name="*"), names) == tuple(names[:3])
    assert matches(rule("allow", ALICE, name="order"), names) == ("order",)
    assert matches(rule("deny", ALICE, name="*"), names) == tuple(names)
