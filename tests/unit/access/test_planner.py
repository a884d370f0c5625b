"""What the controller lets through, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from kafkaesque.access import planner
from kafkaesque.access.acl_filters import AclFilter
from kafkaesque.access.credentials import BearerToken, CertificateName, CredentialId
from kafkaesque.access.errors import CredentialUnknown, RoleUnknown, UserUnknown
from kafkaesque.access.operations import Operation
from kafkaesque.access.planner import (
    ChangedMeanwhile,
    Records,
    plan_credential,
    plan_credential_removal,
    plan_filtered_removal,
    plan_revocation,
    plan_role,
    plan_role_removal,
    plan_rules,
    plan_user,
    plan_user_removal,
)
from kafkaesque.access.principals import User
from kafkaesque.access.records import RuleAdded, UserPut
from kafkaesque.access.roles import Role
from kafkaesque.access.rules import Rule
from kafkaesque.access.state import AccessState
from kafkaesque.model.errors import InvalidRequest, OverBound
from tests.unit.access.makers import ALICE, NOW_MS, rule, scram, state_of

EMPTY = AccessState()
STATE = state_of(rule("allow", ALICE), credentials=(scram(),), roles=("ops",))


def test_what_is_so_already_needs_no_record() -> None:
    assert plan_user(STATE, User(name="alice")) == []
    assert plan_role(STATE, Role(name="ops")) == []
    assert plan_rules(STATE, [rule("allow", ALICE)]) == []
    assert plan_user(STATE, User(name="alice", roles=("ops",))) != []


@pytest.mark.parametrize("name", ["", "*", "a\nb", "a\0b", "x" * 1_001])
def test_names_that_are_none_are_refused(name: str) -> None:
    with pytest.raises(InvalidRequest):
        plan_user(EMPTY, User(name=name))
    with pytest.raises(InvalidRequest):
        plan_role(EMPTY, Role(name=name))
    with pytest.raises(InvalidRequest):
        plan_credential(EMPTY, scram(user=name))


def test_a_user_has_roles_that_exist_each_once() -> None:
    with pytest.raises(RoleUnknown):
        plan_user(STATE, User(name="alice", roles=("gone",)))
    with pytest.raises(InvalidRequest):
        plan_user(STATE, User(name="alice", roles=("ops", "ops")))


def test_what_was_changed_meanwhile_is_not_changed() -> None:
    epoch = STATE.users["alice"].epoch
    changed = User(name="alice", is_disabled=True)
    assert plan_user(STATE, changed, epoch=epoch) == [UserPut(user=changed)]
    with pytest.raises(ChangedMeanwhile):
        plan_user(STATE, changed, epoch=epoch + 1)
    with pytest.raises(ChangedMeanwhile):
        plan_user(STATE, User(name="new"), epoch=3)
    assert plan_user(STATE, User(name="new"), epoch=0)
    with pytest.raises(ChangedMeanwhile):
        plan_user_removal(STATE, "alice", epoch=99)
    with pytest.raises(ChangedMeanwhile):
        plan_role_removal(STATE, "ops", epoch=99)
    with pytest.raises(ChangedMeanwhile):
        plan_credential(STATE, scram(), epoch=99)
    with pytest.raises(ChangedMeanwhile):
        plan_credential_removal(STATE, scram().id, epoch=99)


def test_what_does_not_exist_is_not_removed() -> None:
    with pytest.raises(UserUnknown):
        plan_user_removal(STATE, "bob")
    with pytest.raises(RoleUnknown):
        plan_role_removal(STATE, "dev")
    with pytest.raises(CredentialUnknown):
        plan_credential_removal(STATE, CredentialId("x"))


def test_what_is_removed_is_gone() -> None:
    state = STATE
    for plan in (
        plan_filtered_removal(state, AclFilter())[1],
        plan_credential_removal(state, scram().id),
        plan_role_removal(state, "ops"),
        plan_user_removal(state, "alice"),
    ):
        state = state.apply_all(plan)
    assert (state.rules, state.credentials, state.roles, state.users) == ({}, {}, {}, {})


def test_a_credential_makes_its_user_as_kafkas_tools_expect() -> None:
    state = EMPTY.apply_all(plan_credential(EMPTY, scram("new")))
    assert list(state.users) == ["new"]
    assert len(plan_credential(state, scram("new", "other"))) == 1


def test_a_credential_does_not_take_the_place_of_another_ones() -> None:
    mine = CertificateName(id=CredentialId("c1"), user="alice", name="laptop")
    state = STATE.apply_all(plan_credential(STATE, mine))
    theirs = CertificateName(id=CredentialId("c2"), user="bob", name="laptop")
    with pytest.raises(InvalidRequest, match="already"):
        plan_credential(state, theirs)
    with pytest.raises(InvalidRequest, match="another user"):
        plan_credential(state, msgspec.structs.replace(mine, user="bob"))
    with pytest.raises(InvalidRequest):
        plan_credential(state, msgspec.structs.replace(mine, networks=("nowhere",)))
    with pytest.raises(InvalidRequest):
        plan_credential(state, msgspec.structs.replace(mine, networks=("10.0.0.1",) * 65))
    with pytest.raises(InvalidRequest):
        plan_credential(state, msgspec.structs.replace(mine, id=CredentialId("")))


def test_rules_are_numbered_on_and_each_is_there_once() -> None:
    read, write = rule("allow", ALICE, name="x"), rule("allow", ALICE, Operation.WRITE)
    records = plan_rules(STATE, [read, write, read, rule("allow", ALICE)])
    assert [each.rule.id for each in records if isinstance(each, RuleAdded)] == [2, 3]
    assert plan_rules(STATE.apply_all(records), [read, write]) == []


@pytest.mark.parametrize(
    "wrong",
    [
        rule("allow", "alice"),
        rule("allow", "Group:x"),
        rule("allow", "Role:*"),
        rule("allow", ALICE, host="nowhere"),
        rule("allow", ALICE, host="10.0.0.1/8"),
        msgspec.structs.replace(rule("allow", ALICE), name=""),
        msgspec.structs.replace(rule("allow", ALICE), name="*"),
        msgspec.structs.replace(rule("allow", ALICE, name="x*"), name=""),
        msgspec.structs.replace(rule("allow", ALICE, name="*"), name="x"),
        rule("allow", ALICE, name="x" * 1_001),
        rule("allow", ALICE, name="a\0b"),
    ],
    ids=repr,
)
def test_a_rule_that_is_none_is_refused(wrong: Rule) -> None:
    with pytest.raises(InvalidRequest):
        plan_rules(EMPTY, [wrong])


def test_a_filter_removes_what_it_finds() -> None:
    state = STATE.apply_all(plan_rules(STATE, [rule("deny", ALICE, name="y")]))
    found, records = plan_filtered_removal(state, AclFilter(name="y"))
    assert [each.name for each in found] == ["y"]
    assert [each.name for each in state.apply_all(records).rules.values()] == ["orders"]


def test_revoked_certificates_are_forgotten_when_they_have_ended() -> None:
    state = EMPTY.apply_all(plan_revocation(EMPTY, "0a", NOW_MS + 5, NOW_MS))
    state = state.apply_all(plan_revocation(state, "0b", NOW_MS + 50, NOW_MS + 6))
    assert state.revoked == {"0b": NOW_MS + 50}


def test_everything_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("USERS_MAX", "ROLES_MAX", "RULES_MAX", "CREDENTIALS_MAX", "REVOKED_MAX"):
        monkeypatch.setattr(planner, name, 1)
    token = BearerToken(id=CredentialId("t"), user="alice", digest=b"d")
    state = STATE.apply_all(plan_revocation(EMPTY, "0a", NOW_MS, NOW_MS))
    plans: list[Callable[[], Records]] = [
        lambda: plan_user(state, User(name="new")),
        lambda: plan_role(state, Role(name="new")),
        lambda: plan_rules(state, [rule("deny", ALICE)]),
        lambda: plan_credential(state, token),
        lambda: plan_revocation(state, "0b", NOW_MS, NOW_MS),
    ]
    for plan in plans:
        with pytest.raises(OverBound):
            plan()
    monkeypatch.setattr(planner, "CREDENTIALS_MAX", 99)
    monkeypatch.setattr(planner, "CREDENTIALS_PER_USER_MAX", 1)
    with pytest.raises(OverBound):
        plan_credential(state, token)
