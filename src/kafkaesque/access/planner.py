"""What the controller decides of access: checks a change, and returns the records that make it.

Every check of a change is here, so that a record that is committed can be applied without one. An
`epoch` that is given says which state of a thing the change was meant for; if it was changed since,
the change is refused.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from kafkaesque.access.acl_filters import AclFilter, find_rules
from kafkaesque.access.credentials import (
    NETWORKS_MAX,
    AnyCredential,
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
from kafkaesque.access.networks import read_network
from kafkaesque.access.principals import NAME_LENGTH_MAX, User, check_name
from kafkaesque.access.records import (
    AnyAccessRecord,
    CertificateRevoked,
    CredentialPut,
    CredentialRemoved,
    ExpiryChanged,
    KeyPut,
    KeyRemoved,
    RecoveryCodeUsed,
    RevocationForgotten,
    RolePut,
    RoleRemoved,
    RuleAdded,
    RuleRemoved,
    TopicPermissionPut,
    TopicPermissionRemoved,
    TotpStepUsed,
    UserPut,
    UserRemoved,
)
from kafkaesque.access.roles import Role
from kafkaesque.access.rules import Rule, check_rule
from kafkaesque.access.sealed import WrappedKey
from kafkaesque.access.state import AccessState
from kafkaesque.access.topic_permissions import TopicPermission, check_topic_permission
from kafkaesque.model.errors import InvalidRequest, OverBound

USERS_MAX: Final = 100_000
ROLES_MAX: Final = 10_000
RULES_MAX: Final = 100_000
TOPIC_PERMISSIONS_MAX: Final = 100_000
CREDENTIALS_MAX: Final = 200_000
CREDENTIALS_PER_USER_MAX: Final = 1_000
ROLES_PER_USER_MAX: Final = 64
REVOKED_MAX: Final = 100_000
#: Versions of all keys together.
KEYS_MAX: Final = 100_000
DESCRIPTION_LENGTH_MAX: Final = 1_000

Records = list[AnyAccessRecord]


class ChangedMeanwhile(InvalidRequest):
    """The thing is not in the state that the change was meant for."""


def plan_user(state: AccessState, user: User, *, epoch: int | None = None) -> Records:
    """Return the records that make a user so; none if it is.

    Raises:
        InvalidRequest: the name is not possible, or there are too many roles.
        RoleUnknown: one of the roles does not exist.
        ChangedMeanwhile: see above.
        OverBound: there are as many users as there may be.
    """
    check_name(user.name)
    known = state.users.get(user.name)
    _check_epoch(known, epoch)
    if len(user.roles) > ROLES_PER_USER_MAX or len(set(user.roles)) < len(user.roles):
        raise InvalidRequest(f"a user has at most {ROLES_PER_USER_MAX} roles, each of them once")
    for each in user.roles:
        if each not in state.roles:
            raise RoleUnknown(f"there is no role {each!r}")
    if known is None:
        _check_bound("users", len(state.users), USERS_MAX)
    elif msgspec.structs.replace(user, epoch=known.epoch) == known:
        return []
    return [UserPut(user=user)]


def plan_user_removal(state: AccessState, name: str, *, epoch: int | None = None) -> Records:
    """Return the records that remove a user and all credentials.

    Raises:
        UserUnknown: there is none.
        ChangedMeanwhile: see above.
    """
    user = state.users.get(name)
    if user is None:
        raise UserUnknown(f"there is no user {name!r}")
    _check_epoch(user, epoch)
    return [UserRemoved(name=name)]


def plan_role(state: AccessState, role: Role, *, epoch: int | None = None) -> Records:
    """Return the records that make a role so; none if it is.

    Raises:
        InvalidRequest: the name or the description is not possible.
        ChangedMeanwhile: see above.
        OverBound: there are as many roles as there may be.
    """
    check_name(role.name)
    if len(role.description) > DESCRIPTION_LENGTH_MAX:
        raise InvalidRequest(f"a description has at most {DESCRIPTION_LENGTH_MAX} characters")
    known = state.roles.get(role.name)
    _check_epoch(known, epoch)
    if known is None:
        _check_bound("roles", len(state.roles), ROLES_MAX)
    elif msgspec.structs.replace(role, epoch=known.epoch) == known:
        return []
    return [RolePut(role=role)]


def plan_role_removal(state: AccessState, name: str, *, epoch: int | None = None) -> Records:
    """Return the records that remove a role and its rules.

    Raises:
        RoleUnknown: there is none.
        ChangedMeanwhile: see above.
    """
    role = state.roles.get(name)
    if role is None:
        raise RoleUnknown(f"there is no role {name!r}")
    _check_epoch(role, epoch)
    return [RoleRemoved(name=name)]


def plan_credential(
    state: AccessState, credential: AnyCredential, *, epoch: int | None = None
) -> Records:
    """Return the records that add a credential, or put it in the place of the one of its id.

    A user who does not exist is made, as Kafka's tools expect.

    Raises:
        InvalidRequest: its user or a network is not possible, or another one is found by the same.
        ChangedMeanwhile: see above.
        OverBound: there are as many credentials as there may be.
    """
    known = state.credentials.get(credential.id)
    _check_epoch(known, epoch)
    if known is not None and known.user != credential.user:
        raise InvalidRequest(f"the id {credential.id} is that of another user's credential")
    if not credential.id or len(credential.id) > 2 * NAME_LENGTH_MAX:
        raise InvalidRequest("the id of a credential is empty or too long")
    if len(credential.networks) > NETWORKS_MAX:
        raise InvalidRequest(f"a credential is for at most {NETWORKS_MAX} networks")
    for network in credential.networks:
        read_network(network)
    for lookup in credential.lookups:
        if state.by_lookup.get(lookup, credential.id) != credential.id:
            raise InvalidRequest(f"there is a {lookup[0]} like that already")
    if known is None:
        of_user = len(state.by_user.get(credential.user, ()))
        _check_bound("credentials", len(state.credentials), CREDENTIALS_MAX)
        _check_bound("credentials of one user", of_user, CREDENTIALS_PER_USER_MAX)
    made: Records = []
    user, is_token = state.users.get(credential.user), isinstance(credential, DelegationToken)
    if user is None:
        made = plan_user(state, User(name=credential.user, is_external=is_token))
    elif user.is_external and not is_token:
        # From now on the name is this cluster's own.
        made = plan_user(state, msgspec.structs.replace(user, is_external=False))
    return [*made, CredentialPut(credential=credential)]


def plan_credential_removal(
    state: AccessState, credential_id: CredentialId, *, epoch: int | None = None
) -> Records:
    """Return the records that remove a credential.

    Raises:
        CredentialUnknown: there is none.
        ChangedMeanwhile: see above.
    """
    credential = state.credentials.get(credential_id)
    if credential is None:
        raise CredentialUnknown("there is no such credential")
    _check_epoch(credential, epoch)
    return [CredentialRemoved(id=credential_id)]


def plan_rules(state: AccessState, rules: Iterable[Rule]) -> Records:
    """Return the records that add those of the rules that there are not yet.

    Raises:
        InvalidRequest: one of them is not possible.
        OverBound: there would be more rules than there may be.
    """
    new: dict[object, Rule] = {}
    for rule in rules:
        check_rule(rule)
        if rule.key not in state.rule_ids:
            new.setdefault(rule.key, rule)
    _check_bound("rules", len(state.rules) + len(new) - 1, RULES_MAX)
    return [
        RuleAdded(rule=msgspec.structs.replace(rule, id=number))
        for number, rule in enumerate(new.values(), start=state.next_rule_id)
    ]


def plan_filtered_removal(
    state: AccessState, wanted: AclFilter
) -> tuple[tuple[Rule, ...], Records]:
    """Return the rules that a filter of DeleteAcls is for, and the records that remove them.

    Raises:
        InvalidRequest: the filter has a number that Kafka does not have.
    """
    found = find_rules(state.rules.values(), wanted)
    return found, [RuleRemoved(id=each.id) for each in found]


def plan_topic_permission(state: AccessState, permission: TopicPermission) -> Records:
    """Return the records that make a topic permission so; none if it is.

    Raises:
        InvalidRequest: a name or a pattern is not possible.
        UserUnknown: there is no such user.
        OverBound: there are as many as there may be.
    """
    check_topic_permission(permission)
    if permission.user not in state.users:
        raise UserUnknown(f"there is no user {permission.user!r}")
    known = state.topic_permissions.get(permission.key)
    if known is None:
        _check_bound("topic permissions", len(state.topic_permissions), TOPIC_PERMISSIONS_MAX)
    elif msgspec.structs.replace(permission, epoch=known.epoch) == known:
        return []
    return [TopicPermissionPut(permission=permission)]


def plan_topic_permission_removal(
    state: AccessState, user: str, vhost: str, exchange: str | None
) -> Records:
    """Return the records that remove a user's topic permission, or all in a virtual host."""
    return [
        TopicPermissionRemoved(user=user, vhost=vhost, exchange=each.exchange)
        for each in state.topic_permissions
        if (each.user, each.vhost) == (user, vhost) and exchange in (None, each.exchange)
    ]


def plan_totp_step(state: AccessState, credential_id: CredentialId, step: int) -> Records:
    """Return the records that use up a step.

    Raises:
        CredentialUnknown: there is no such second factor.
        CodeUsed: this step, or a later one, was used before, at this or another broker.
    """
    if not isinstance(state.credentials.get(credential_id), TotpSecret):
        raise CredentialUnknown("there is no such second factor")
    if step <= state.totp_steps.get(credential_id, -1):
        raise CodeUsed("this code was used before: wait for the next")
    return [TotpStepUsed(credential_id=credential_id, step=step)]


def plan_recovery_code(state: AccessState, credential_id: CredentialId, digest: bytes) -> Records:
    """Return the records that use up a recovery code.

    Raises:
        CredentialUnknown: there are no such codes.
        CodeUsed: this one was used before, at this or another broker, or was never one.
    """
    codes = state.credentials.get(credential_id)
    if not isinstance(codes, RecoveryCodes):
        raise CredentialUnknown("there are no such recovery codes")
    if digest not in codes.digests:
        raise CodeUsed("this recovery code was used before")
    return [RecoveryCodeUsed(credential_id=credential_id, digest=digest)]


def plan_token_change(state: AccessState, token: DelegationToken) -> Records:
    """Return the records that take a token's new expiry, as it was decided elsewhere.

    Raises:
        TokenExpired: it was removed meanwhile.
    """
    if not isinstance(state.credentials.get(token.id), DelegationToken):
        raise TokenExpired("the token was removed")
    return [ExpiryChanged(id=token.id, expires_ms=token.expires_ms)]


def plan_revocation(state: AccessState, serial: str, not_after_ms: int, now_ms: int) -> Records:
    """Return the records that revoke a certificate, and forget those that have ended by now.

    Raises:
        OverBound: there are as many revoked certificates as there may be.
    """
    ended = [each for each, end_ms in state.revoked.items() if end_ms < now_ms]
    _check_bound("revoked certificates", len(state.revoked) - len(ended), REVOKED_MAX)
    return [
        *(RevocationForgotten(serial=each) for each in ended),
        CertificateRevoked(serial=serial, not_after_ms=not_after_ms),
    ]


def plan_key(state: AccessState, key: WrappedKey, *, is_rewrapped: bool) -> Records:
    """Return the records that add a key's next version, or wrap one anew that there is.

    Raises:
        InvalidRequest: another version is the next one, or there is none to be wrapped anew.
        OverBound: there are as many keys as there may be.
    """
    newest = newest_version(state, key.name)
    if is_rewrapped:
        if (key.name, key.version) not in state.keys:
            raise InvalidRequest(f"there is no version {key.version} of the key {key.name}")
    elif key.version != newest + 1:
        raise InvalidRequest(
            f"the next version of the key {key.name} is {newest + 1}, not {key.version}"
        )
    else:
        _check_bound("keys", len(state.keys), KEYS_MAX)
    return [KeyPut(key=key)]


def plan_key_removal(state: AccessState, name: str, version: int) -> Records:
    """Return the records that remove a version: what it has sealed can never be read again.

    Raises:
        InvalidRequest: there is none, or it is the newest one, which seals.
    """
    if (name, version) not in state.keys:
        raise InvalidRequest(f"there is no version {version} of the key {name}")
    if version == newest_version(state, name):
        raise InvalidRequest(
            f"version {version} of the key {name} is the newest one, which seals: rotate it first"
        )
    return [KeyRemoved(name=name, version=version)]


def newest_version(state: AccessState, name: str) -> int:
    """Return a key's newest version; 0 where there is none."""
    return max((version for key, version in state.keys if key == name), default=0)


def _check_epoch(known: User | Role | AnyCredential | None, epoch: int | None) -> None:
    if epoch is not None and epoch != (0 if known is None else known.epoch):
        raise ChangedMeanwhile("it was changed meanwhile: look at it again")


def _check_bound(what: str, count: int, maximum: int) -> None:
    if count >= maximum:
        raise OverBound(f"there are {count} {what}, and {maximum} at most")
