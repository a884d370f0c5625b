"""Topic permissions: which keys fit, what may be written, and what becomes of them."""

from __future__ import annotations

import pytest

from kafkaesque.access.decisions import Judge
from kafkaesque.access.errors import UserUnknown
from kafkaesque.access.operations import Operation
from kafkaesque.access.planner import plan_topic_permission, plan_topic_permission_removal
from kafkaesque.access.principals import Principal, User
from kafkaesque.access.records import UserPut, UserRemoved
from kafkaesque.access.state import AccessState
from kafkaesque.access.topic_permissions import TopicPermission
from kafkaesque.model.errors import InvalidRequest, OverBound
from tests.unit.access.makers import ALICE, rule, state_of

READ, WRITE = Operation.READ, Operation.WRITE


def permission(
    write: str = "", read: str = "", user: str = "alice", exchange: str = "amq.topic"
) -> TopicPermission:
    return TopicPermission(user=user, vhost="shop", exchange=exchange, write=write, read=read)


def given(state: AccessState, *wanted: TopicPermission) -> AccessState:
    for each in wanted:
        state = state.apply_all(plan_topic_permission(state, each))
    return state


@pytest.mark.parametrize(
    ("pattern", "user", "key", "is_allowed"),
    [
        ("^orders\\.", "alice", "orders.eu", True),
        ("^orders\\.", "alice", "my.orders.eu", False),
        # As RabbitMQ's, it fits anywhere.
        ("orders", "alice", "my.orders.eu", True),
        (".*", "alice", "", True),
        # As RabbitMQ's: the empty key, and no other.
        ("", "alice", "", True),
        ("", "alice", "a", False),
        ("^$", "alice", "a", False),
        ("^a", "alice", "a\udcff", True),
        ("^{username}\\.", "alice", "alice.x", True),
        ("^{username}\\.", "alice", "bob.x", False),
        ("^{vhost}/{username}$", "alice", "shop/alice", True),
        # A name is never a pattern, whatever stands around it.
        ("^{username}$", ".*", "alice", False),
        ("^{username}$", ".*", ".*", True),
        ("^{username}$", "a|b", "b", False),
        ("^{username}$", "{vhost}", "shop", False),
        ("^{username}$", "{vhost}", "{vhost}", True),
        ("^{username}{2}$", "ab", "abab", True),
        ("^\\{username}$", "d", "7", False),
        # Clients of MQTT are called so, and they are not asked.
        ("^{client_id}", "alice", "{client_id}", False),
        ("^a|^{client_id}", "alice", "a", True),
        ("^{other}$", "alice", "{other}", True),
    ],
)
def test_a_pattern_says_which_keys_may_be_used(
    pattern: str, user: str, key: str, is_allowed: bool
) -> None:
    assert permission(write=pattern, user=user).allows(WRITE, key) is is_allowed
    assert permission(read=pattern, user=user).allows(READ, key) is is_allowed
    assert permission(read=pattern, user=user).allows(WRITE, key) is (key == "")


@pytest.mark.parametrize("pattern", ["(", "a{3,1}", "(?=a)", "(a)\\1", "x" * 1_001, "a\n"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    state = state_of(users=(User(name="alice"),))
    for wanted in (permission(write=pattern), permission(read=pattern)):
        with pytest.raises(InvalidRequest):
            plan_topic_permission(state, wanted)


def test_it_is_somebodys_who_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserUnknown):
        plan_topic_permission(AccessState(), permission())
    state = given(state_of(users=(User(name="alice"),)), permission("^a"))
    assert plan_topic_permission(state, permission("^a")) == []
    monkeypatch.setattr("kafkaesque.access.planner.TOPIC_PERMISSIONS_MAX", 1)
    with pytest.raises(OverBound):
        plan_topic_permission(state, permission("^a", exchange="other"))
    assert plan_topic_permission(state, permission("^b")) != []


def test_they_are_put_removed_and_in_snapshots() -> None:
    state = state_of(rule("allow", ALICE), users=(User(name="alice"), User(name="bob")))
    first, second = permission("^a"), permission("^b", exchange="logs")
    state = given(state, first, second, permission("^c", user="bob"))
    assert [(each.write, each.epoch) for each in state.topic_permissions.values()] == [
        ("^a", state.epoch - 2),
        ("^b", state.epoch - 1),
        ("^c", state.epoch),
    ]
    again = AccessState.read_snapshot(state.write_snapshot())
    assert again.topic_permissions == state.topic_permissions
    one = state.apply_all(plan_topic_permission_removal(state, "alice", "shop", "logs"))
    assert [each.write for each in one.topic_permissions.values()] == ["^a", "^c"]
    every = state.apply_all(plan_topic_permission_removal(state, "alice", "shop", None))
    assert [each.write for each in every.topic_permissions.values()] == ["^c"]
    assert plan_topic_permission_removal(state, "alice", "/", None) == []


def test_they_go_with_their_user() -> None:
    state = state_of(users=(User(name="alice"), User(name="bob")))
    state = given(state, permission("^a"), permission("^c", user="bob"))
    state = state.apply(UserRemoved(name="alice")).apply(UserPut(user=User(name="alice")))
    assert [each.user for each in state.topic_permissions.values()] == ["bob"]


def test_a_judge_knows_those_of_its_state() -> None:
    state = state_of(users=(User(name="alice"),))
    judge = Judge(state, super_users=[Principal("User:root")])
    assert judge.topic_permission(ALICE, "shop", "amq.topic") is None
    changed = given(state, permission("^a"))
    after = judge.after(changed)
    found = after.topic_permission(ALICE, "shop", "amq.topic")
    assert found is not None
    assert found.write == "^a"
    assert after.topic_permission(ALICE, "/", "amq.topic") is None
    assert after.topic_permission(Principal("User:bob"), "shop", "amq.topic") is None
    removed = changed.apply_all(plan_topic_permission_removal(changed, "alice", "shop", None))
    assert after.after(removed).topic_permission(ALICE, "shop", "amq.topic") is None


def test_a_super_user_has_none() -> None:
    state = given(state_of(users=(User(name="alice"),)), permission("^a"))
    judge = Judge(state, super_users=[ALICE])
    assert judge.topic_permission(ALICE, "shop", "amq.topic") is None
