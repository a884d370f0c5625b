"""What the audit log says of commands: something of each, and no secret of any."""

from __future__ import annotations

import msgspec
import pytest

from kafkaesque.access.acl_filters import AclFilter
from kafkaesque.access.audit import AuditKind, Outcome
from kafkaesque.access.credentials import (
    AccessKey,
    AnyCredential,
    BearerToken,
    CredentialId,
    DelegationToken,
    RecoveryCodes,
    TokenVerifier,
    TotpSecret,
)
from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.principals import Principal
from kafkaesque.access.rules import Effect, Rule
from kafkaesque.access.sealed import Sealed, WrappedKey, topic_key_name
from kafkaesque.access.topic_permissions import TopicPermission
from kafkaesque.broker.audit import Audit, chosen_kinds
from kafkaesque.broker.controller.audited_changes import audited
from kafkaesque.broker.metadata.audited_commands import describe, has_row
from kafkaesque.broker.metadata.change_rights import has_rule
from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.requests.access_commands import (
    AddRules,
    OpenSession,
    PutCredential,
    PutKey,
    PutTopicPermission,
    RemovedRules,
    RemoveRules,
    RemoveTopicPermissions,
    UseRecoveryCode,
)
from kafkaesque.broker.requests.client_command import ClientCommand, OnBehalfOf
from kafkaesque.broker.requests.commands import (
    AskMetadataEnd,
    ChangeConfig,
    ConfigChange,
    CreateTopic,
    Done,
)
from kafkaesque.model.errors import (
    ClusterNotAuthorized,
    RequestRefused,
    RequestTimedOut,
    TopicExists,
)
from kafkaesque.sim.env import World
from tests.unit.access.makers import scram

CANARY = b"canary-0123456789"
ALICE = OnBehalfOf("User:alice", "10.0.0.1", "outside")
SEALED = Sealed(key_version=1, nonce=CANARY, ciphertext=CANARY)
ID = CredentialId("the-id")
RULE = Rule(
    effect=Effect.ALLOW,
    principal=Principal("User:mia"),
    operation=Operation.READ,
    resource_type=ResourceType.TOPIC,
    name="orders",
)


def all_commands(base: type[ClientCommand] = ClientCommand) -> list[type[ClientCommand]]:
    found: list[type[ClientCommand]] = []
    for each in base.__subclasses__():
        found += [each, *all_commands(each)]
    return [each for each in found if each.__module__.startswith("kafkaesque.")]


def test_each_command_of_a_client_has_a_row() -> None:
    commands = all_commands()
    assert len(commands) > 25
    assert [each.__name__ for each in commands if not has_row(each)] == []
    assert [each.__name__ for each in commands if not has_rule(each)] == []


CREDENTIALS: tuple[AnyCredential, ...] = (
    scram(password=CANARY.decode()),
    AccessKey(id=ID, user="mia", access_key_id="AK", secret=SEALED),
    BearerToken(id=ID, user="mia", digest=CANARY),
    TotpSecret(id=ID, user="mia", secret=SEALED),
    RecoveryCodes(id=ID, user="mia", digests=(CANARY,)),
    DelegationToken(
        id=ID,
        user="mia",
        digest=CANARY,
        requester="User:mia",
        issued_ms=1,
        lifetime_end_ms=2,
        verifiers=(
            TokenVerifier(
                mechanism="SCRAM-SHA-256",
                salt=CANARY,
                iterations=4096,
                stored_key=CANARY,
                server_key=CANARY,
            ),
        ),
    ),
)


@pytest.mark.parametrize("credential", CREDENTIALS, ids=lambda each: type(each).__name__)
def test_nothing_that_proves_anything_is_told_of_a_credential(credential: AnyCredential) -> None:
    told = describe(PutCredential(credential=credential), ClusterState())
    assert told is not None
    assert told.resource == credential.user
    written = msgspec.json.encode(told).decode()
    for hidden in (CANARY, *filter(None, _secrets_of(credential))):
        assert hidden.decode(errors="replace") not in written
        assert hidden.hex() not in written
    assert set(told.detail) <= {"credential", "id", "expires_ms", "networks", "disabled"}


def _secrets_of(credential: AnyCredential) -> list[bytes]:
    values = [getattr(credential, each) for each in credential.__struct_fields__]
    return [each for each in values if isinstance(each, bytes)]


def test_a_wrapped_key_and_the_parts_of_a_log_in_are_not_told() -> None:
    name = topic_key_name(bytes(16))
    key = WrappedKey(name=name, version=2, keeper="file", keeper_key="ab", wrapped=CANARY)
    told = describe(PutKey(key=key), ClusterState())
    assert told is not None
    assert (told.kind, told.operation) == (AuditKind.KEY, "rotate")
    assert CANARY.decode() not in str(told)
    session = BearerToken(id=ID, user="mia", digest=CANARY)
    for command in (
        OpenSession(session=session, now_ms=1),
        UseRecoveryCode(credential_id="x", digest=CANARY),
    ):
        assert describe(command, ClusterState()) is None


def outcomes(command: object, outcome: object) -> list[tuple[object, ...]]:
    """The kind, the outcome and the details of what the audit log is told."""
    audit = Audit(World(1).add_machine("a").boot().clock, AuditKind)
    done: list[object] = []
    audited(audit, command, ClusterState(), done.append)(outcome)
    assert done == [outcome]
    return [
        (each.kind, each.outcome, each.principal, each.host, each.listener, each.detail)
        for each in audit.trail.take(0, 0)
    ]


def details(command: object, outcome: object) -> dict[str, str]:
    ((*_, found),) = outcomes(command, outcome)
    assert isinstance(found, dict)
    return found


WHO = ("User:alice", "10.0.0.1", "outside")


def test_changes_are_told_with_whom_they_were_for_and_how_they_ended() -> None:
    command = CreateTopic(name="orders", partition_count=3, on_behalf_of=ALICE)
    detail = {"partitions": "3"}
    assert outcomes(command, Done()) == [(AuditKind.CHANGE, Outcome.DONE, *WHO, detail)]
    assert outcomes(command, ClusterNotAuthorized("no")) == [
        (AuditKind.REFUSAL, Outcome.REFUSED, *WHO, detail)
    ]
    assert outcomes(command, RequestTimedOut("?")) == [
        (AuditKind.CHANGE, Outcome.UNKNOWN, *WHO, detail)
    ]
    assert outcomes(command, TopicExists("it is there")) == []
    assert outcomes(CreateTopic(name="orders", validate_only=True), Done()) == []
    assert outcomes(AskMetadataEnd(), RequestRefused("no")) == []


def test_rules_are_told_one_by_one() -> None:
    added = AddRules(rules=(RULE,) * 30, on_behalf_of=ALICE)
    detail = details(added, RemovedRules(removed=()))
    assert detail["1"] == "allow User:mia READ on TOPIC literal 'orders'"
    assert (len(detail), detail["more"]) == (20, "11")
    removed = RemoveRules(wanted=AclFilter(), on_behalf_of=ALICE)
    assert outcomes(removed, RemovedRules(removed=())) == []
    assert details(removed, RemovedRules(removed=(RULE,))) == {
        "1": "allow User:mia READ on TOPIC literal 'orders'"
    }


def test_topic_permissions_are_told_with_their_exchange_as_rules_name_it() -> None:
    limit = TopicPermission(user="mia", vhost="b", exchange="logs", write="^a", read="^b")
    state = ClusterState()
    put = PutTopicPermission(permission=limit, on_behalf_of=ALICE)
    told = describe(put, state)
    assert told is not None
    assert (told.operation, told.resource) == ("create-topic-permission", "mia")
    assert told.detail == {"exchange": "vhost:b/logs", "write": "^a", "read": "^b"}
    for exchange, detail in (("logs", {"exchange": "vhost:b/logs"}), (None, {"vhost": "b"})):
        removed = RemoveTopicPermissions(
            user="mia", vhost="b", exchange=exchange, on_behalf_of=ALICE
        )
        assert details(removed, Done()) == detail


def test_options_are_told_with_their_values() -> None:
    changes = [
        ConfigChange(name="retention.ms", value="1000"),
        ConfigChange(name="segment.ms", value=None, operation="delete"),
    ]
    told = describe(ChangeConfig(topic="orders", changes=changes), ClusterState())
    assert told is not None
    assert told.detail == {"1": "set retention.ms=1000", "2": "delete segment.ms"}


def test_what_is_audited_by_itself() -> None:
    everything = {AuditKind.LOG_IN, AuditKind.REFUSAL, AuditKind.CHANGE, AuditKind.KEY}
    assert chosen_kinds(["auto"], is_secured=True) == everything
    assert chosen_kinds(["auto"], is_secured=False) == set()
    assert chosen_kinds(["key", "change"], is_secured=False) == {AuditKind.KEY, AuditKind.CHANGE}
    assert chosen_kinds([""], is_secured=True) == set()
