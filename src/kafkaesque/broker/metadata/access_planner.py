"""What the controller decides of access, as records of the metadata's log."""

from collections.abc import Sequence
from typing import Final

import msgspec

from kafkaesque.access import planner
from kafkaesque.access.credentials import CredentialId, DelegationToken
from kafkaesque.access.delegation_tokens import ended_tokens
from kafkaesque.access.errors import TokenExpired
from kafkaesque.access.records import AnyAccessRecord, CredentialRemoved
from kafkaesque.access.rules import Rule
from kafkaesque.access.sealed import topic_of_key
from kafkaesque.access.second_factor import FactorUse, RecoveryUse, TotpUse
from kafkaesque.access.sessions import plan_session
from kafkaesque.access.state import AccessState
from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.feature_planner import check_may_change_access
from kafkaesque.broker.metadata.features import LEVEL_WITH_ACCESS, METADATA
from kafkaesque.broker.metadata.records import AccessChanged, FeatureLevelChanged
from kafkaesque.broker.metadata.topic_names import INTERNAL_TOPICS
from kafkaesque.broker.requests.access_commands import (
    AccessCommand,
    AddRules,
    ExtendToken,
    OpenSession,
    PutCredential,
    PutKey,
    PutRole,
    PutTopicPermission,
    PutUser,
    RemoveCredential,
    RemoveKey,
    RemoveRole,
    RemoveRules,
    RemoveTopicPermissions,
    RemoveUser,
    UseRecoveryCode,
    UseTotpStep,
)
from kafkaesque.broker.requests.commands import RegisterBroker
from kafkaesque.model.errors import InvalidRequest, UnknownTopicId
from kafkaesque.model.ids import TopicId

#: Delegation tokens that are over and go when the next one is made.
ENDED_REMOVED_MAX: Final = 100


def plan_access(
    state: ClusterState, command: AccessCommand, wall_ms: int
) -> tuple[list[AccessChanged], tuple[Rule, ...]]:
    """Return the records, and the rules that they remove by a filter.

    Raises:
        FeatureUpdateFailed: brokers of an earlier release may be there.
        RequestRefused: see `access.planner`.
    """
    check_may_change_access(state)
    if isinstance(command, RemoveKey):
        _check_shreddable(state, command.name)
    if isinstance(command, PutKey):
        _check_has_owner(state, command.key.name)
    removed: tuple[Rule, ...] = ()
    if isinstance(command, RemoveRules):
        removed, records = planner.plan_filtered_removal(state.access, command.wanted)
    elif isinstance(command, PutCredential) and isinstance(command.credential, DelegationToken):
        # Nothing else removes those that are over, and nobody makes one without coming by here.
        ended = ended_tokens(state.access, wall_ms)[:ENDED_REMOVED_MAX]
        removals: list[AnyAccessRecord] = [CredentialRemoved(id=each) for each in ended]
        records = [*removals, *_plan(state.access.apply_all(removals), command)]
    else:
        records = _plan(state.access, command)
    return [AccessChanged(change=each) for each in records], removed


def _check_shreddable(state: ClusterState, key: str) -> None:
    topic_id = topic_of_key(key)
    topic = None if topic_id is None else state.topics_by_id.get(TopicId(topic_id))
    if topic is not None and topic.name in INTERNAL_TOPICS:
        raise InvalidRequest(
            f"{topic.name} is an internal topic: what an old version of its key has sealed is "
            "needed, and nobody can make it unreadable"
        )


def _check_has_owner(state: ClusterState, key: str) -> None:
    """Let no broker that has not heard of it make a key for what was deleted: it would stay."""
    topic_id = topic_of_key(key)
    if topic_id is not None and state.owner(TopicId(topic_id)) is None:
        raise UnknownTopicId(f"the topic or queue of the key {key} does not exist")


def _plan(state: AccessState, command: AccessCommand) -> list[AnyAccessRecord]:
    match command:
        case PutUser():
            return planner.plan_user(state, command.user, epoch=command.epoch)
        case RemoveUser():
            return planner.plan_user_removal(state, command.name, epoch=command.epoch)
        case PutRole():
            return planner.plan_role(state, command.role, epoch=command.epoch)
        case RemoveRole():
            return planner.plan_role_removal(state, command.name, epoch=command.epoch)
        case PutCredential():
            return planner.plan_credential(state, command.credential, epoch=command.epoch)
        case RemoveCredential():
            credential_id = CredentialId(command.id)
            return planner.plan_credential_removal(state, credential_id, epoch=command.epoch)
        case AddRules():
            return planner.plan_rules(state, command.rules)
        case PutTopicPermission():
            return planner.plan_topic_permission(state, command.permission)
        case RemoveTopicPermissions():
            return planner.plan_topic_permission_removal(
                state, command.user, command.vhost, command.exchange
            )
        case UseTotpStep():
            return planner.plan_totp_step(state, CredentialId(command.credential_id), command.step)
        case UseRecoveryCode():
            credential_id = CredentialId(command.credential_id)
            return planner.plan_recovery_code(state, credential_id, command.digest)
        case ExtendToken():
            return _plan_extension(state, command)
        case PutKey():
            return planner.plan_key(state, command.key, is_rewrapped=command.is_rewrapped)
        case RemoveKey():
            return planner.plan_key_removal(state, command.name, command.version)
        case OpenSession():
            return plan_session(state, command.session, _use_of(command), command.now_ms)
        case RemoveRules():
            return planner.plan_filtered_removal(state, command.wanted)[1]


def _use_of(command: OpenSession) -> FactorUse | None:
    credential = CredentialId(command.factor)
    if not credential:
        return None
    if command.step >= 0:
        return TotpUse(credential=credential, step=command.step)
    return RecoveryUse(credential=credential, digest=command.digest)


def plan_first_access(
    state: ClusterState, levels: Sequence[FeatureLevelChanged], command: RegisterBroker
) -> list[AccessChanged]:
    """Return the users and rules that a new cluster begins with; nothing in an older cluster.

    Args:
        levels: of the features of a cluster that is being founded; empty if it is none.

    Raises:
        InvalidRequest: a user or a rule is not possible.
    """
    level = next((each.level for each in levels if each.name == METADATA), 0)
    if level < LEVEL_WITH_ACCESS:
        return []
    access, found = state.access, list[AnyAccessRecord]()
    for credential in command.first_users or ():
        records = planner.plan_credential(access, credential)
        access = access.apply_all(records)
        found += records
    found += planner.plan_rules(access, command.first_rules or ())
    return [AccessChanged(change=each) for each in found]


def _plan_extension(state: AccessState, command: ExtendToken) -> list[AnyAccessRecord]:
    token = state.credentials.get(CredentialId(command.id))
    if not isinstance(token, DelegationToken):
        raise TokenExpired("the token was removed")
    changed = msgspec.structs.replace(token, expires_ms=command.expires_ms)
    return planner.plan_token_change(state, changed)
