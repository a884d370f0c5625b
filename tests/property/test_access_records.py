"""Records, snapshots and the state machine of access under arbitrary histories."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.access.acl_filters import AclFilter
from kafkaesque.access.audit import AuditChain, AuditEvent, AuditKind, ChainBroken
from kafkaesque.access.credentials import (
    AccessKey,
    AnyCredential,
    BearerToken,
    CertificateName,
    CredentialId,
    OidcSubject,
    Password,
    RecoveryCodes,
    ScramVerifier,
    TotpSecret,
)
from kafkaesque.access.planner import (
    Records,
    plan_credential,
    plan_credential_removal,
    plan_filtered_removal,
    plan_role,
    plan_role_removal,
    plan_rules,
    plan_totp_step,
    plan_user,
    plan_user_removal,
)
from kafkaesque.access.principals import User
from kafkaesque.access.records import (
    AnyAccessRecord,
    read_access_record,
    write_access_record,
)
from kafkaesque.access.roles import Role
from kafkaesque.access.rule_index import RuleIndex
from kafkaesque.access.sealed import Sealed
from kafkaesque.access.state import AccessState
from kafkaesque.model.errors import RequestRefused
from tests.unit.access.makers import rule

NAMES = st.sampled_from(["alice", "bob", "carol"])
ROLES = st.sampled_from(["ops", "dev"])
BYTES = st.binary(max_size=8)
SEALED = st.builds(Sealed, key_version=st.integers(1, 3), nonce=BYTES, ciphertext=BYTES)
IDS = st.integers(0, 5).map(lambda each: CredentialId(f"c{each}"))
COMMON = {
    "id": IDS,
    "user": NAMES,
    "expires_ms": st.integers(0, 9),
    "networks": st.sampled_from([(), ("10.0.0.0/8", "::1")]),
    "is_disabled": st.booleans(),
}
CREDENTIALS: st.SearchStrategy[AnyCredential] = st.one_of(
    st.builds(
        ScramVerifier,
        mechanism=st.sampled_from(["SCRAM-SHA-256", "SCRAM-SHA-512"]),
        salt=BYTES,
        iterations=st.integers(1, 3),
        stored_key=BYTES,
        server_key=BYTES,
        **COMMON,
    ),
    st.builds(
        Password,
        salt=BYTES,
        digest=BYTES,
        cost=st.just(2),
        block_size=st.just(8),
        parallelism=st.just(1),
        **COMMON,
    ),
    st.builds(AccessKey, access_key_id=st.sampled_from(["A", "B"]), secret=SEALED, **COMMON),
    st.builds(CertificateName, name=st.sampled_from(["x", "y"]), **COMMON),
    st.builds(BearerToken, digest=BYTES, **COMMON),
    st.builds(OidcSubject, issuer=st.just("i"), subject=st.sampled_from(["s", "t"]), **COMMON),
    st.builds(TotpSecret, secret=SEALED, **COMMON),
    st.builds(RecoveryCodes, digests=st.lists(BYTES, max_size=3).map(tuple), **COMMON),
)
USERS = st.builds(
    User, name=NAMES, roles=st.sets(ROLES).map(sorted).map(tuple), is_disabled=st.booleans()
)
RULES = st.lists(
    st.builds(
        rule,
        st.sampled_from(["allow", "deny"]),
        st.sampled_from(["User:alice", "Role:ops", "User:*"]),
        name=st.sampled_from(["a", "a*", "*"]),
    ),
    max_size=3,
)


def removed_rules(state: AccessState, name: str) -> Records:
    """The records that remove the rules for a name."""
    return plan_filtered_removal(state, AclFilter(name=name))[1]


CHANGES = st.one_of(
    st.tuples(st.just(plan_user), USERS),
    st.tuples(st.just(plan_user_removal), NAMES),
    st.tuples(st.just(plan_role), st.builds(Role, name=ROLES)),
    st.tuples(st.just(plan_role_removal), ROLES),
    st.tuples(st.just(plan_credential), CREDENTIALS),
    st.tuples(st.just(plan_credential_removal), IDS),
    st.tuples(st.just(plan_rules), RULES),
    st.tuples(st.just(removed_rules), st.sampled_from(["a", "b"])),
    st.tuples(st.just(plan_totp_step), IDS, st.integers(0, 3)),
)


def history(changes: list[tuple[object, ...]]) -> tuple[AccessState, list[AnyAccessRecord]]:
    """The state after the changes that the planner lets through, and their records."""
    state, records = AccessState(), list[AnyAccessRecord]()
    for plan, *arguments in changes:
        try:
            planned = plan(state, *arguments)  # type: ignore[operator]
        except RequestRefused:
            continue
        records += planned
        state = state.apply_all(planned)
        check(state)
    return state, records


def check(state: AccessState) -> None:
    """What always holds."""
    assert {each for ids in state.by_user.values() for each in ids} == set(state.credentials)
    assert state.by_user.keys() <= state.users.keys()
    lookups = {lookup: each.id for each in state.credentials.values() for lookup in each.lookups}
    assert state.by_lookup == lookups
    assert state.rule_ids == {each.key: each.id for each in state.rules.values()}
    again = RuleIndex.of(state.rules.values())
    assert state.rule_index.by_principal.keys() == again.by_principal.keys()
    assert all(number < state.next_rule_id for number in state.rules)
    assert state.totp_steps.keys() <= state.credentials.keys()
    assert all(count > 0 for count in state.verifier_shapes.values())
    assert state.rules_epoch <= state.epoch


@given(st.lists(CHANGES, max_size=20))
def test_what_the_planner_lets_through_can_be_applied(changes: list[tuple[object, ...]]) -> None:
    history(changes)


@given(st.lists(CHANGES, max_size=20))
def test_all_brokers_have_the_same_state_however_they_came_to_it(
    changes: list[tuple[object, ...]],
) -> None:
    state, records = history(changes)
    one_by_one = AccessState()
    for record in records:
        assert read_access_record(write_access_record(record)) == record
        one_by_one = one_by_one.apply(record)
    assert one_by_one == state
    assert AccessState().apply_all(records) == state


@given(st.lists(CHANGES, max_size=20), st.lists(CHANGES, max_size=6))
def test_a_broker_that_begins_with_a_snapshot_goes_on_as_the_others(
    before: list[tuple[object, ...]], after: list[tuple[object, ...]]
) -> None:
    state, _ = history(before)
    restored = AccessState.read_snapshot(state.write_snapshot())
    assert restored == state
    for plan, *arguments in after:
        try:
            records = plan(state, *arguments)  # type: ignore[operator]
        except RequestRefused:
            continue
        state, restored = state.apply_all(records), restored.apply_all(records)
        assert restored == state


EVENTS = st.builds(
    AuditEvent,
    at_ms=st.integers(0, 2**40),
    kind=st.sampled_from(AuditKind),
    principal=st.text(max_size=8),
    because=st.text(max_size=8),
    detail=st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=3),
)


BEGUN = AuditChain(broker=1, name="a")


def broken_at(entries: list[bytes], known: AuditChain) -> int | None:
    """Where a chain is seen to be broken: at an entry, or at its end by the known hash."""
    try:
        end = BEGUN
        for each in entries:
            _, end = end.follow(each)
    except ChainBroken as broken:
        return broken.number
    return None if end == known else len(entries)


@given(st.lists(EVENTS, min_size=1, max_size=6), st.data())
def test_no_byte_of_an_audit_chain_can_be_changed(
    events: list[AuditEvent], data: st.DataObject
) -> None:
    written, chain = [], BEGUN
    for event in events:
        entry, chain = chain.append(event)
        written.append(entry)
    assert broken_at(written, chain) is None
    which = data.draw(st.integers(0, len(written) - 1))
    at = data.draw(st.integers(0, len(written[which]) - 1))
    other = data.draw(st.integers(1, 255))
    changed = bytearray(written[which])
    changed[at] ^= other
    tampered = [*written[:which], bytes(changed), *written[which + 1 :]]
    number = broken_at(tampered, chain)
    assert number in (which, which + 1)
