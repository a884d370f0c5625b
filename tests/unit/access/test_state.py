"""The state machine of access: what records do, and what is refused as a defect of ours."""

from __future__ import annotations

import msgspec
import pytest

from kafkaesque.access.credentials import (
    BearerToken,
    CredentialId,
    RecoveryCodes,
    TotpSecret,
    scram_lookup,
    secret_digest,
    token_lookup,
)
from kafkaesque.access.principals import User
from kafkaesque.access.records import (
    CertificateRevoked,
    CredentialPut,
    CredentialRemoved,
    KeyPut,
    KeyRemoved,
    RecoveryCodeUsed,
    RevocationForgotten,
    RolePut,
    RoleRemoved,
    RuleAdded,
    TotpStepUsed,
    UserPut,
    UserRemoved,
    read_access_record,
    write_access_record,
)
from kafkaesque.access.roles import Role
from kafkaesque.access.sealed import Sealed, WrappedKey
from kafkaesque.access.state import AccessState
from kafkaesque.model.errors import InvariantBroken
from tests.unit.access.makers import ALICE, numbered, rule, scram, state_of

TOKEN = BearerToken(id=CredentialId("t1"), user="alice", digest=secret_digest(b"x" * 32))
SEALED = Sealed(key_version=1, nonce=bytes(12), ciphertext=b"c")
TOTP = TotpSecret(id=CredentialId("totp/alice"), user="alice", secret=SEALED)
CODES = RecoveryCodes(id=CredentialId("rc"), user="alice", digests=(b"a", b"b"))


def test_a_change_gives_another_state_and_leaves_the_first_alone() -> None:
    before = state_of(rule("allow", ALICE), users=(User(name="alice"),))
    after = before.apply(UserPut(user=User(name="bob")))
    assert (sorted(before.users), sorted(after.users)) == (["alice"], ["alice", "bob"])
    assert after.rules is before.rules
    added = after.apply(RuleAdded(rule=numbered(rule("deny", ALICE), 2)))
    assert (len(after.rules), len(added.rules)) == (1, 2)
    assert len(list(after.rule_index.shelves(ALICE).values())) == 1


def test_each_change_has_an_epoch_and_what_it_brings_bears_it() -> None:
    state = AccessState().apply(UserPut(user=User(name="alice")))
    assert (state.epoch, state.rules_epoch, state.users["alice"].epoch) == (1, 1, 1)
    state = state.apply(CredentialPut(credential=TOKEN))
    assert (state.epoch, state.rules_epoch) == (2, 1)
    assert state.credentials[TOKEN.id].epoch == 2
    state = state.apply(UserPut(user=User(name="alice", is_disabled=True, epoch=77)))
    assert (state.rules_epoch, state.users["alice"].epoch) == (3, 3)


def test_a_credential_is_found_by_what_a_client_names() -> None:
    state = state_of(credentials=(scram(), TOKEN))
    found = state.find(scram_lookup("SCRAM-SHA-256", "alice"))
    assert found is not None
    assert found.id == "scram-sha-256/alice"
    assert state.find(scram_lookup("SCRAM-SHA-512", "alice")) is None
    assert state.find(token_lookup(TOKEN.digest)) == state.credentials[TOKEN.id]
    assert [each.id for each in state.credentials_of("alice")] == [found.id, TOKEN.id]
    assert [each.id for each in state.scram_verifiers("alice")] == [found.id]
    state = state.apply(CredentialRemoved(id=TOKEN.id))
    assert state.find(token_lookup(TOKEN.digest)) is None
    assert [each.id for each in state.credentials_of("alice")] == [found.id]


def test_a_credential_that_is_put_again_is_not_found_by_what_it_was() -> None:
    state = state_of(credentials=(TOKEN,))
    state = state.apply(CredentialPut(credential=msgspec.structs.replace(TOKEN, digest=b"new")))
    assert state.find(token_lookup(TOKEN.digest)) is None
    assert state.find(token_lookup(b"new")) is not None


def test_credentials_go_with_their_user_and_come_back_with_nobody() -> None:
    state = state_of(rule("allow", ALICE), credentials=(scram(), TOKEN))
    state = state.apply(UserRemoved(name="alice"))
    assert (state.credentials, state.by_lookup, state.by_user) == ({}, {}, {})
    state = state.apply(UserPut(user=User(name="alice")))
    assert state.credentials_of("alice") == ()
    assert len(state.rules) == 1


def test_the_rules_of_a_role_go_with_it() -> None:
    state = state_of(rule("allow", ALICE), rule("allow", "Role:ops"), roles=("ops",))
    state = state.apply(RoleRemoved(name="ops"))
    assert [each.principal for each in state.rules.values()] == [ALICE]
    state = state.apply(RolePut(role=Role(name="ops")))
    assert len(state.rules) == 1


def test_the_number_of_a_removed_rule_is_not_given_again() -> None:
    state = state_of(rule("allow", ALICE), roles=("ops",))
    state = state.apply(RuleAdded(rule=numbered(rule("allow", "Role:ops"), state.next_rule_id)))
    state = state.apply(RoleRemoved(name="ops"))
    assert state.next_rule_id == 3
    assert AccessState.read_snapshot(state.write_snapshot()).next_rule_id == 3


def test_shapes_of_verifiers_are_counted() -> None:
    state = state_of(credentials=(scram(), scram("bob"), scram("carol", iterations=8192)))
    assert state.verifier_shapes == {("SCRAM-SHA-256", 4096, 16): 2, ("SCRAM-SHA-256", 8192, 16): 1}
    state = state.apply(UserRemoved(name="carol")).apply(UserRemoved(name="bob"))
    assert state.verifier_shapes == {("SCRAM-SHA-256", 4096, 16): 1}


def test_a_used_step_stays_used_when_its_credential_changes() -> None:
    state = state_of(credentials=(TOTP,)).apply(TotpStepUsed(credential_id=TOTP.id, step=5))
    state = state.apply(CredentialPut(credential=TOTP))
    assert state.totp_steps == {TOTP.id: 5}
    state = state.apply(TotpStepUsed(credential_id=TOTP.id, step=4))
    assert state.totp_steps == {TOTP.id: 5}
    assert state.apply(CredentialRemoved(id=TOTP.id)).totp_steps == {}
    assert state.apply(TotpStepUsed(credential_id="other", step=9)).totp_steps == {TOTP.id: 5}


def test_a_used_recovery_code_is_gone() -> None:
    state = state_of(credentials=(CODES,))
    state = state.apply(RecoveryCodeUsed(credential_id=CODES.id, digest=b"a"))
    left = state.credentials[CODES.id]
    assert isinstance(left, RecoveryCodes)
    assert left.digests == (b"b",)


def test_keys_and_revoked_certificates_come_and_go() -> None:
    key = WrappedKey(name="cluster", version=1, keeper="file", keeper_key="k", wrapped=b"w")
    state = AccessState().apply(KeyPut(key=key))
    state = state.apply(CertificateRevoked(serial="0a", not_after_ms=9))
    assert (list(state.keys), state.revoked) == ([("cluster", 1)], {"0a": 9})
    state = state.apply(KeyRemoved(name="cluster", version=1))
    state = state.apply(RevocationForgotten(serial="0a"))
    assert (state.keys, state.revoked) == ({}, {})


def test_records_that_do_not_fit_are_a_defect_of_ours() -> None:
    state = state_of(rule("allow", ALICE), credentials=(TOKEN,))
    with pytest.raises(InvariantBroken):
        state.apply(RuleAdded(rule=numbered(rule("allow", ALICE), 9)))
    with pytest.raises(InvariantBroken):
        state.apply(RuleAdded(rule=numbered(rule("deny", ALICE), 1)))
    other = msgspec.structs.replace(TOKEN, id=CredentialId("t2"))
    with pytest.raises(InvariantBroken):
        state.apply(CredentialPut(credential=other))
    with pytest.raises(InvariantBroken):
        AccessState().apply(CredentialPut(credential=TOKEN))


def test_a_record_of_a_kind_that_is_not_known_is_not_skipped() -> None:
    with pytest.raises(InvariantBroken, match="cannot be read"):
        read_access_record(msgspec.msgpack.encode({"kind": "backdoor"}))
    with pytest.raises(InvariantBroken, match="cannot be read"):
        AccessState.read_snapshot(b"\xc1")


def test_a_record_is_messagepack_with_its_kind() -> None:
    record = RuleAdded(rule=numbered(rule("deny", ALICE, host="10.0.0.0/8"), 3))
    written = write_access_record(record)
    assert msgspec.msgpack.decode(written) == {
        "kind": "rule",
        "rule": {
            "effect": "deny",
            "principal": "User:alice",
            "operation": 3,
            "resource_type": 2,
            "name": "orders",
            "host": "10.0.0.0/8",
            "id": 3,
        },
    }
    assert read_access_record(written) == record
