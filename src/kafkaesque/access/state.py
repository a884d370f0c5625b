"""Who exists, what they prove it by, and which rules hold: the state machine of access.

It is a value. It changes only by `apply`, with committed records in the log's order, which returns
another value; so whoever decides by one is not disturbed by the next, and all brokers that have
applied the same records decide the same. Whatever checks (names, bounds, who may) has checked
before a record is proposed: see `planner`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from kafkaesque.access.credentials import (
    SCRYPT,
    AnyCredential,
    CredentialId,
    LookupKey,
    Password,
    RecoveryCodes,
    ScramVerifier,
    TotpSecret,
)
from kafkaesque.access.principals import User
from kafkaesque.access.records import (
    AccessImage,
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
    read_access_image,
    write_access_image,
)
from kafkaesque.access.roles import Role
from kafkaesque.access.rule_index import RuleIndex
from kafkaesque.access.rules import Rule, RuleKey
from kafkaesque.access.sealed import WrappedKey
from kafkaesque.access.topic_permissions import TopicPermissionKey, TopicPermissions
from kafkaesque.model.errors import InvariantBroken

_K = TypeVar("_K")
_V = TypeVar("_V")
_S = TypeVar("_S", bound=msgspec.Struct)
#: From so many changes of rules at once on, the index is made anew: each costs a copy otherwise.
_REINDEX_FROM = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessState:
    """All of it; read freely, change by `apply` only."""

    users: Mapping[str, User] = field(default_factory=dict)
    roles: Mapping[str, Role] = field(default_factory=dict)
    credentials: Mapping[CredentialId, AnyCredential] = field(default_factory=dict)
    rules: Mapping[int, Rule] = field(default_factory=dict)
    topic_permissions: TopicPermissions = field(default_factory=dict)
    #: Per credential: the newest step of TOTP that was used.
    totp_steps: Mapping[CredentialId, int] = field(default_factory=dict)
    keys: Mapping[tuple[str, int], WrappedKey] = field(default_factory=dict)
    #: Serials of revoked certificates, with the time at which each ends anyway.
    revoked: Mapping[str, int] = field(default_factory=dict)

    #: Of the newest record.
    epoch: int = 0
    #: Of the newest record that can change a decision; for what is derived from the rules.
    rules_epoch: int = 0
    #: Numbers below it have been given to a rule once.
    next_rule_id: int = 1

    # Indexes: derived from the above, and kept beside it.
    by_lookup: Mapping[LookupKey, CredentialId] = field(default_factory=dict)
    by_user: Mapping[str, tuple[CredentialId, ...]] = field(default_factory=dict)
    rule_ids: Mapping[RuleKey, int] = field(default_factory=dict)
    rule_index: RuleIndex = field(default_factory=lambda: RuleIndex({}))
    #: How many verifiers have this mechanism, cost and length of the salt: what is made up for
    #: unknown users looks like one of them, and takes as long.
    verifier_shapes: Mapping[tuple[str, int, int], int] = field(default_factory=dict)

    def apply(self, record: AnyAccessRecord) -> "AccessState":
        """Return the state after a committed record.

        Raises:
            InvariantBroken: the record does not fit the state; the controller let through what it
                should have refused.
        """
        return self.apply_all((record,))

    def apply_all(self, records: Iterable[AnyAccessRecord]) -> "AccessState":
        """Return the state after these committed records; see `apply`.

        Takes one copy of what they change, not one for each.
        """
        draft = _Draft(self)
        for record in records:
            draft.apply(record)
        return draft.finish()

    def find(self, lookup: LookupKey) -> AnyCredential | None:
        """Return the credential that is found by this, usable or not."""
        credential_id = self.by_lookup.get(lookup)
        return None if credential_id is None else self.credentials[credential_id]

    def credentials_of(self, user: str) -> tuple[AnyCredential, ...]:
        """Return all credentials of a user, in the order in which they came."""
        return tuple(self.credentials[each] for each in self.by_user.get(user, ()))

    def scram_verifiers(self, user: str) -> tuple[ScramVerifier, ...]:
        """Return a user's SCRAM verifiers, as DescribeUserScramCredentials lists them."""
        return tuple(each for each in self.credentials_of(user) if isinstance(each, ScramVerifier))

    def dump(self) -> AccessImage:
        """Return the whole state as plain values."""
        records: list[AnyAccessRecord] = [
            *(UserPut(user=each) for each in self.users.values()),
            *(RolePut(role=each) for each in self.roles.values()),
            *(CredentialPut(credential=each) for each in self.credentials.values()),
            *(RuleAdded(rule=each) for each in self.rules.values()),
            *(TopicPermissionPut(permission=each) for each in self.topic_permissions.values()),
            *(
                TotpStepUsed(credential_id=each, step=step)
                for each, step in self.totp_steps.items()
            ),
            *(KeyPut(key=each) for each in self.keys.values()),
            *(
                CertificateRevoked(serial=serial, not_after_ms=not_after_ms)
                for serial, not_after_ms in self.revoked.items()
            ),
        ]
        return AccessImage(
            records=records,
            epoch=self.epoch,
            rules_epoch=self.rules_epoch,
            next_rule_id=self.next_rule_id,
        )

    @staticmethod
    def load(image: AccessImage) -> "AccessState":
        """Return the state that `dump` has written down, epochs included."""
        draft = _Draft(AccessState(), keeps_epochs=True)
        for record in image.records:
            draft.apply(record)
        draft.epoch, draft.rules_epoch = image.epoch, image.rules_epoch
        draft.next_rule_id = image.next_rule_id
        return draft.finish()

    def write_snapshot(self) -> bytes:
        """Return the whole state as bytes."""
        return write_access_image(self.dump())

    @staticmethod
    def read_snapshot(payload: bytes | memoryview) -> "AccessState":
        """Return the state that `write_snapshot` wrote.

        Raises:
            InvariantBroken: the bytes are not a snapshot of this release.
        """
        return AccessState.load(read_access_image(payload))


class _Draft:
    """A state in the making: maps are copied with their first change."""

    def __init__(self, state: AccessState, *, keeps_epochs: bool = False) -> None:
        self.epoch, self.rules_epoch = state.epoch, state.rules_epoch
        self.next_rule_id = state.next_rule_id
        self._keeps_epochs = keeps_epochs
        self._users = _Owned(state.users)
        self._roles = _Owned(state.roles)
        self._credentials = _Owned(state.credentials)
        self._rules = _Owned(state.rules)
        self._topic_permissions = _Owned(state.topic_permissions)
        self._totp_steps = _Owned(state.totp_steps)
        self._keys = _Owned(state.keys)
        self._revoked = _Owned(state.revoked)
        self._by_lookup = _Owned(state.by_lookup)
        self._by_user = _Owned(state.by_user)
        self._rule_ids = _Owned(state.rule_ids)
        self._shapes = _Owned(state.verifier_shapes)
        self._index = state.rule_index
        #: Rules that came, and that went, since the index was made.
        self._index_changes: list[tuple[bool, Rule]] = []

    def finish(self) -> AccessState:
        """Return the state."""
        return AccessState(
            users=self._users.map,
            roles=self._roles.map,
            credentials=self._credentials.map,
            rules=self._rules.map,
            topic_permissions=self._topic_permissions.map,
            totp_steps=self._totp_steps.map,
            keys=self._keys.map,
            revoked=self._revoked.map,
            epoch=self.epoch,
            rules_epoch=self.rules_epoch,
            next_rule_id=self.next_rule_id,
            by_lookup=self._by_lookup.map,
            by_user=self._by_user.map,
            rule_ids=self._rule_ids.map,
            rule_index=self._indexed(),
            verifier_shapes=self._shapes.map,
        )

    def apply(self, record: AnyAccessRecord) -> None:
        """Take a record."""
        self.epoch += 1
        match record:
            case (
                UserPut() | UserRemoved() | RolePut() | RoleRemoved() | RuleAdded() | RuleRemoved()
            ):
                self.rules_epoch = self.epoch
                self._on_rules_changed(record)
            case TopicPermissionPut() | TopicPermissionRemoved():
                self.rules_epoch = self.epoch
                self._on_topic_permission_changed(record)
            case CredentialPut():
                self._put_credential(self._stamp(record.credential))
            case CredentialRemoved():
                self._drop_credential(CredentialId(record.id))
            case ExpiryChanged():
                self._on_expiry_changed(record)
            case TotpStepUsed() | RecoveryCodeUsed():
                self._on_code_used(record)
            case KeyPut():
                self._keys.put((record.key.name, record.key.version), self._stamp(record.key))
            case KeyRemoved():
                self._keys.drop((record.name, record.version))
            case CertificateRevoked():
                self._revoked.put(record.serial, record.not_after_ms)
            case RevocationForgotten():
                self._revoked.drop(record.serial)

    def _stamp(self, value: _S) -> _S:
        if self._keeps_epochs:
            return value
        return msgspec.structs.replace(value, epoch=self.epoch)

    def _on_rules_changed(
        self, record: UserPut | UserRemoved | RolePut | RoleRemoved | RuleAdded | RuleRemoved
    ) -> None:
        match record:
            case UserPut():
                self._users.put(record.user.name, self._stamp(record.user))
            case UserRemoved():
                self._users.drop(record.name)
                for credential_id in self._by_user.map.get(record.name, ()):
                    self._drop_credential(credential_id)
                for key in tuple(self._topic_permissions.map):
                    if key.user == record.name:
                        self._topic_permissions.drop(key)
            case RolePut():
                self._roles.put(record.role.name, self._stamp(record.role))
            case RoleRemoved():
                role = self._roles.drop(record.name)
                if role is not None:
                    self._drop_rules_of(role)
            case RuleAdded():
                self._add_rule(self._stamp(record.rule))
            case RuleRemoved():
                self._drop_rule(record.id)

    def _on_topic_permission_changed(
        self, record: TopicPermissionPut | TopicPermissionRemoved
    ) -> None:
        match record:
            case TopicPermissionPut():
                self._topic_permissions.put(record.permission.key, self._stamp(record.permission))
            case TopicPermissionRemoved():
                key = TopicPermissionKey(record.user, record.vhost, record.exchange)
                self._topic_permissions.drop(key)

    def _add_rule(self, rule: Rule) -> None:
        if rule.id in self._rules.map or rule.key in self._rule_ids.map:
            raise InvariantBroken(f"rule {rule.id} ({rule}) was added twice")
        self._rules.put(rule.id, rule)
        self._rule_ids.put(rule.key, rule.id)
        self._index_changes.append((True, rule))
        self.next_rule_id = max(self.next_rule_id, rule.id + 1)

    def _drop_rule(self, rule_id: int) -> None:
        rule = self._rules.drop(rule_id)
        if rule is not None:
            self._rule_ids.drop(rule.key)
            self._index_changes.append((False, rule))

    def _drop_rules_of(self, role: Role) -> None:
        principal = role.principal
        for rule in tuple(self._rules.map.values()):
            if rule.principal == principal:
                self._drop_rule(rule.id)

    def _put_credential(self, credential: AnyCredential) -> None:
        step = self._totp_steps.map.get(credential.id)
        self._drop_credential(credential.id)
        if step is not None:
            # A code that was used stays used, whatever else of the credential changes.
            self._totp_steps.put(credential.id, step)
        if credential.user not in self._users.map:
            raise InvariantBroken(f"{credential!r} is of a user who does not exist")
        for lookup in credential.lookups:
            if lookup in self._by_lookup.map:
                raise InvariantBroken(f"{credential!r} and another one are found by the same")
            self._by_lookup.put(lookup, credential.id)
        self._credentials.put(credential.id, credential)
        self._by_user.put(
            credential.user, (*self._by_user.map.get(credential.user, ()), credential.id)
        )
        self._count_shape(credential, 1)

    def _drop_credential(self, credential_id: CredentialId) -> None:
        credential = self._credentials.drop(credential_id)
        if credential is None:
            return
        for lookup in credential.lookups:
            self._by_lookup.drop(lookup)
        rest = tuple(each for each in self._by_user.map[credential.user] if each != credential_id)
        if rest:
            self._by_user.put(credential.user, rest)
        else:
            self._by_user.drop(credential.user)
        self._totp_steps.drop(credential_id)
        self._count_shape(credential, -1)

    def _count_shape(self, credential: AnyCredential, change: int) -> None:
        match credential:
            case ScramVerifier():
                shape = (credential.mechanism, credential.iterations, len(credential.salt))
            case Password():
                shape = (SCRYPT, credential.cost, len(credential.salt))
            case _:
                return
        count = self._shapes.map.get(shape, 0) + change
        if count:
            self._shapes.put(shape, count)
        else:
            self._shapes.drop(shape)

    def _on_expiry_changed(self, record: ExpiryChanged) -> None:
        credential = self._credentials.map.get(CredentialId(record.id))
        if credential is not None:
            changed = msgspec.structs.replace(credential, expires_ms=record.expires_ms)
            self._credentials.put(credential.id, changed)

    def _on_code_used(self, record: TotpStepUsed | RecoveryCodeUsed) -> None:
        credential_id = CredentialId(record.credential_id)
        credential = self._credentials.map.get(credential_id)
        match record:
            case TotpStepUsed():
                if isinstance(credential, TotpSecret):
                    newest = max(record.step, self._totp_steps.map.get(credential_id, record.step))
                    self._totp_steps.put(credential_id, newest)
            case RecoveryCodeUsed():
                if isinstance(credential, RecoveryCodes):
                    left = tuple(each for each in credential.digests if each != record.digest)
                    changed = msgspec.structs.replace(credential, digests=left)
                    self._credentials.put(credential_id, changed)

    def _indexed(self) -> RuleIndex:
        if len(self._index_changes) >= _REINDEX_FROM:
            return RuleIndex.of(self._rules.map.values())
        index = self._index
        for is_added, rule in self._index_changes:
            index = index.with_rule(rule) if is_added else index.without(rule)
        return index


class _Owned(Generic[_K, _V]):
    """A map that is copied with its first change."""

    __slots__ = ("_own", "map")

    def __init__(self, given: Mapping[_K, _V]) -> None:
        self.map = given
        self._own: dict[_K, _V] | None = None

    def put(self, key: _K, value: _V) -> None:
        """Set an entry."""
        self._changing()[key] = value

    def drop(self, key: _K) -> _V | None:
        """Take an entry away, and return it; None if there is none."""
        return self._changing().pop(key, None) if key in self.map else None

    def _changing(self) -> dict[_K, _V]:
        if self._own is None:
            self.map = self._own = dict(self.map)
        return self._own
