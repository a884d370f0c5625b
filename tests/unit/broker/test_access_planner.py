"""The controller's side of users and rules: commands through their bytes to the state, and back."""

from __future__ import annotations

import msgspec
import pytest

from kafkaesque.access.acl_filters import AclFilter
from kafkaesque.access.credentials import (
    CredentialId,
    DelegationToken,
    RecoveryCodes,
    TotpSecret,
)
from kafkaesque.access.errors import (
    CodeUsed,
    CredentialUnknown,
    RoleUnknown,
    TokenExpired,
    UserUnknown,
)
from kafkaesque.access.operations import Operation
from kafkaesque.access.planner import ChangedMeanwhile
from kafkaesque.access.principals import User
from kafkaesque.access.recovery_codes import keep_codes
from kafkaesque.access.roles import Role
from kafkaesque.access.scram_mechanisms import SCRAM_SHA_256
from kafkaesque.access.scram_verifiers import verifier_of_password
from kafkaesque.access.sealed import Sealed
from kafkaesque.access.sealing import ClusterKeys, cluster_key
from kafkaesque.access.second_factor import (
    RecoveryUse,
    check_code,
    has_second_factor,
    seal_totp,
)
from kafkaesque.access.secret import Secret
from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.features import KNOWN, LEVEL_WITH_ACCESS, METADATA
from kafkaesque.broker.metadata.records import FeatureLevelChanged
from kafkaesque.broker.requests.access_commands import (
    AddRules,
    ExtendToken,
    PutCredential,
    PutRole,
    PutUser,
    RemoveCredential,
    RemovedRules,
    RemoveRole,
    RemoveRules,
    RemoveUser,
    UseRecoveryCode,
    UseTotpStep,
)
from kafkaesque.broker.requests.commands import RegisterBroker
from kafkaesque.model.errors import FeatureUpdateFailed, InvalidRequest
from tests.unit.access.makers import rule
from tests.unit.broker.test_planner import Cluster

VERIFIER = verifier_of_password(SCRAM_SHA_256, "alice", Secret.of("x"), b"a salt of tests", 4096)
SEALED = Sealed(key_version=1, nonce=b"n" * 12, ciphertext=b"c")


@pytest.fixture
def cluster() -> Cluster:
    found = Cluster()
    found.state.apply(FeatureLevelChanged(name=METADATA, level=KNOWN[METADATA][1], epoch=1))
    return found


def test_an_older_cluster_stores_no_users(cluster: Cluster) -> None:
    cluster.state.apply(FeatureLevelChanged(name=METADATA, level=LEVEL_WITH_ACCESS - 1, epoch=2))
    with pytest.raises(FeatureUpdateFailed, match="users and rules"):
        cluster.do(PutUser(user=User(name="alice")))
    cluster.state.apply(FeatureLevelChanged(name=METADATA, level=LEVEL_WITH_ACCESS, epoch=3))
    cluster.do(PutUser(user=User(name="alice")))
    assert set(cluster.state.access.users) == {"alice"}


def test_users_roles_and_credentials_come_and_go(cluster: Cluster) -> None:
    with pytest.raises(RoleUnknown):
        cluster.do(PutUser(user=User(name="alice", roles=("ops",))))
    cluster.do(PutRole(role=Role(name="ops")))
    cluster.do(PutUser(user=User(name="alice", roles=("ops",))))
    cluster.do(PutCredential(credential=VERIFIER))
    assert cluster.state.access.scram_verifiers("alice")[0].stored_key == VERIFIER.stored_key
    cluster.do(RemoveCredential(id=VERIFIER.id))
    assert cluster.state.access.scram_verifiers("alice") == ()
    with pytest.raises(CredentialUnknown):
        cluster.do(RemoveCredential(id=VERIFIER.id))
    cluster.do(RemoveRole(name="ops"))
    cluster.do(RemoveUser(name="alice"))
    with pytest.raises(UserUnknown):
        cluster.do(RemoveUser(name="alice"))
    assert cluster.state.access.users == {}


def test_a_change_meant_for_another_state_is_refused(cluster: Cluster) -> None:
    cluster.do(PutUser(user=User(name="alice")))
    epoch = cluster.state.access.users["alice"].epoch
    cluster.do(PutUser(user=User(name="alice", is_disabled=True), epoch=epoch))
    for command in (
        PutUser(user=User(name="alice"), epoch=epoch),
        RemoveUser(name="alice", epoch=epoch),
    ):
        with pytest.raises(ChangedMeanwhile):
            cluster.do(command)


def test_rules_are_added_once_and_removed_by_a_filter(cluster: Cluster) -> None:
    rules = (rule("allow", "User:alice"), rule("deny", "User:bob", Operation.WRITE))
    for _ in range(2):
        cluster.do(AddRules(rules=rules))
    assert len(cluster.state.access.rules) == 2
    removed = cluster.do(RemoveRules(wanted=AclFilter(principal="User:bob")))
    assert isinstance(removed, RemovedRules)
    assert [each.principal for each in removed.removed] == ["User:bob"]
    assert [each.principal for each in cluster.state.access.rules.values()] == ["User:alice"]
    with pytest.raises(InvalidRequest):
        cluster.do(RemoveRules(wanted=AclFilter(operation=99)))


def test_of_two_brokers_one_may_use_a_code(cluster: Cluster) -> None:
    totp = TotpSecret(id=CredentialId("totp/alice"), user="alice", secret=SEALED)
    cluster.do(PutCredential(credential=totp))
    cluster.do(UseTotpStep(credential_id=totp.id, step=7))
    for step in (7, 6):
        with pytest.raises(CodeUsed):
            cluster.do(UseTotpStep(credential_id=totp.id, step=step))
    codes = RecoveryCodes(id=CredentialId("codes/alice"), user="alice", digests=(b"1", b"2"))
    cluster.do(PutCredential(credential=codes))
    cluster.do(UseRecoveryCode(credential_id=codes.id, digest=b"1"))
    with pytest.raises(CodeUsed):
        cluster.do(UseRecoveryCode(credential_id=codes.id, digest=b"1"))


def test_a_token_is_extended_while_it_is_there(cluster: Cluster) -> None:
    token = DelegationToken(
        id=CredentialId("token-1"),
        user="alice",
        digest=b"d" * 32,
        requester="User:alice",
        issued_ms=1,
        lifetime_end_ms=1000,
        expires_ms=10,
        verifiers=(),
    )
    cluster.do(PutCredential(credential=token))
    cluster.do(ExtendToken(id=token.id, expires_ms=20))
    assert cluster.state.access.credentials[token.id].expires_ms == 20
    cluster.do(RemoveCredential(id=token.id))
    with pytest.raises(TokenExpired):
        cluster.do(ExtendToken(id=token.id, expires_ms=30))


def test_a_snapshot_has_all_of_it(cluster: Cluster) -> None:
    cluster.do(PutCredential(credential=VERIFIER))
    cluster.do(AddRules(rules=(rule("allow", "User:alice"),)))
    loaded = ClusterState.read_snapshot(cluster.state.write_snapshot())
    assert loaded.access.users == cluster.state.access.users
    assert loaded.access.credentials == cluster.state.access.credentials
    assert loaded.access.rules == cluster.state.access.rules
    assert loaded.access.rules_epoch == cluster.state.access.rules_epoch


def registration(**more: object) -> RegisterBroker:
    given: dict[str, object] = {
        "node": 1,
        "host": "h",
        "kafka_port": 1,
        "text_port": 0,
        "peer_host": "h",
        "peer_port": 3,
        "rack": None,
        "incarnation": 9,
        "features": dict(KNOWN),
    }
    return msgspec.convert({**given, **more}, RegisterBroker)


def test_a_new_cluster_begins_with_its_first_users_and_rules() -> None:
    cluster = Cluster(0)
    first = rule("allow", "User:alice")
    asked = msgspec.structs.replace(
        registration(), first_users=(VERIFIER,), first_rules=(first, first)
    )
    cluster.do(asked)
    access = cluster.state.access
    assert access.scram_verifiers("alice")[0].stored_key == VERIFIER.stored_key
    assert [each.principal for each in access.rules.values()] == ["User:alice"]
    # Another broker, or the same one once more, brings nothing to a cluster that exists.
    other = verifier_of_password(SCRAM_SHA_256, "eve", Secret.of("x"), b"a salt of tests", 4096)
    for node in (1, 2):
        later = msgspec.structs.replace(registration(node=node), first_users=(other,))
        cluster.do(later)
    assert set(cluster.state.access.users) == {"alice"}


def test_an_older_release_that_founds_a_cluster_takes_no_users() -> None:
    cluster = Cluster(0)
    older = registration(features={METADATA: (1, LEVEL_WITH_ACCESS - 1)})
    cluster.do(msgspec.structs.replace(older, first_users=(VERIFIER,)))
    assert cluster.state.access.users == {}


def test_a_new_cluster_begins_with_a_second_factor() -> None:
    cluster = Cluster(0)
    keys = ClusterKeys({1: cluster_key(b"the secret of a cluster")})
    codes = (Secret.of("AAAA-BBBB"),)
    factor = seal_totp(keys, "alice", Secret(b"a secret of TOTP"), bytes(12))
    first = (VERIFIER, factor, keep_codes("alice", codes))
    asked = msgspec.structs.replace(registration(), first_users=first)
    # As it travels.
    encoded = msgspec.msgpack.encode(asked)
    cluster.do(msgspec.msgpack.decode(encoded, type=RegisterBroker))
    access = cluster.state.access
    assert has_second_factor(access, "alice")
    use = check_code(access, keys, "alice", "aaaabbbb", "127.0.0.1", 0)
    assert isinstance(use, RecoveryUse)
