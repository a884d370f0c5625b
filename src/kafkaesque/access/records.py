"""The records by which access changes, one by one, in the controller's log.

They have the form of all metadata records: MessagePack, with the kind in the field `kind`. The
kinds differ from those of `broker.metadata.records`, so that both can be one union. A field that is
added later gets a default; a kind that is not known stops the broker, because a rule that is
skipped is a hole.

The epoch of what a record brings is not the proposer's to say: applying the record gives it.
"""

import msgspec

from kafkaesque.access.credentials import AnyCredential
from kafkaesque.access.principals import User
from kafkaesque.access.roles import Role
from kafkaesque.access.rules import Rule
from kafkaesque.access.sealed import WrappedKey
from kafkaesque.access.topic_permissions import TopicPermission
from kafkaesque.model.errors import InvariantBroken


class AccessRecord(msgspec.Struct, frozen=True, tag_field="kind", kw_only=True):
    """Base of all records of access."""


class UserPut(AccessRecord, tag="user", frozen=True, kw_only=True):
    """A user exists, and is so from here on."""

    user: User


class UserRemoved(AccessRecord, tag="user-removed", frozen=True, kw_only=True):
    """A user is gone, and all credentials and topic permissions of theirs.

    Rules that name the user stay, as in Kafka.
    """

    name: str


class RolePut(AccessRecord, tag="role", frozen=True, kw_only=True):
    """A role exists, and is so from here on."""

    role: Role


class RoleRemoved(AccessRecord, tag="role-removed", frozen=True, kw_only=True):
    """A role is gone, and its rules. Users that name it get nothing from it."""

    name: str


class CredentialPut(AccessRecord, tag="credential", frozen=True, kw_only=True):
    """A credential exists, and is so from here on."""

    credential: AnyCredential


class CredentialRemoved(AccessRecord, tag="credential-removed", frozen=True, kw_only=True):
    """A credential is gone."""

    id: str


class ExpiryChanged(AccessRecord, tag="credential-expiry", frozen=True, kw_only=True):
    """A credential ends at another time; it stays the same in all else, and so does its epoch."""

    id: str
    expires_ms: int


class RuleAdded(AccessRecord, tag="rule", frozen=True, kw_only=True):
    """A rule holds from here on."""

    rule: Rule


class RuleRemoved(AccessRecord, tag="rule-removed", frozen=True, kw_only=True):
    """A rule holds no longer; its number is never used again."""

    id: int


class TopicPermissionPut(AccessRecord, tag="topic-permission", frozen=True, kw_only=True):
    """A user may use certain routing keys at an exchange alone, from here on."""

    permission: TopicPermission


class TopicPermissionRemoved(
    AccessRecord, tag="topic-permission-removed", frozen=True, kw_only=True
):
    """A user may use all routing keys at an exchange again."""

    user: str
    vhost: str
    exchange: str


class TotpStepUsed(AccessRecord, tag="totp-step", frozen=True, kw_only=True):
    """A person has logged in with the code of this step; it and all before it are used up."""

    credential_id: str
    step: int


class RecoveryCodeUsed(AccessRecord, tag="recovery-code", frozen=True, kw_only=True):
    """A person has logged in with a recovery code."""

    credential_id: str
    digest: bytes


class KeyPut(AccessRecord, tag="key", frozen=True, kw_only=True):
    """A key exists, or is wrapped anew by its keeper."""

    key: WrappedKey


class KeyRemoved(AccessRecord, tag="key-removed", frozen=True, kw_only=True):
    """A version of a key is gone: what it has sealed is shredded."""

    name: str
    version: int


class CertificateRevoked(AccessRecord, tag="certificate-revoked", frozen=True, kw_only=True):
    """A certificate of the cluster's own authority lets nobody in any more."""

    #: Hexadecimal, as tools show it.
    serial: str
    #: Unix time at which it ends anyway; then it need not be remembered.
    not_after_ms: int


class RevocationForgotten(AccessRecord, tag="revocation-forgotten", frozen=True, kw_only=True):
    """A revoked certificate has reached its end."""

    serial: str


AnyAccessRecord = (
    UserPut
    | UserRemoved
    | RolePut
    | RoleRemoved
    | CredentialPut
    | CredentialRemoved
    | ExpiryChanged
    | RuleAdded
    | RuleRemoved
    | TopicPermissionPut
    | TopicPermissionRemoved
    | TotpStepUsed
    | RecoveryCodeUsed
    | KeyPut
    | KeyRemoved
    | CertificateRevoked
    | RevocationForgotten
)


class AccessImage(msgspec.Struct, frozen=True, kw_only=True):
    """The whole state, as a list of records that rebuild it, and its counters."""

    records: list[AnyAccessRecord]
    epoch: int
    rules_epoch: int
    next_rule_id: int
    version: int = 1


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(AnyAccessRecord)
_image_decoder = msgspec.msgpack.Decoder(AccessImage)


def write_access_record(record: AnyAccessRecord) -> bytes:
    """Return the record as the value of a log record."""
    return _encoder.encode(record)


def read_access_record(value: bytes | memoryview) -> AnyAccessRecord:
    """Return the record that a log record's value holds.

    Raises:
        InvariantBroken: not a record of access that this release knows.
    """
    try:
        record: AnyAccessRecord = _decoder.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvariantBroken(f"a record of access cannot be read: {error}") from None
    return record


def write_access_image(image: AccessImage) -> bytes:
    """Return a state's image as a part of a snapshot."""
    return _encoder.encode(image)


def read_access_image(payload: bytes | memoryview) -> AccessImage:
    """Return the image that `write_access_image` wrote.

    Raises:
        InvariantBroken: the bytes are no such image of this release.
    """
    try:
        return _image_decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvariantBroken(f"the snapshot of access cannot be read: {error}") from None
