"""Credentials: what users prove with who they are.

None of them holds what a client sends: verifiers, hashes, or secrets that are sealed by the
cluster's key. Even so a verifier allows guessing at leisure, and so none shows its bytes when it is
printed.
"""

import hashlib
from enum import Enum
from typing import Final, NewType

import msgspec

from kafkaesque.access.networks import is_within
from kafkaesque.access.sealed import Sealed

CredentialId = NewType("CredentialId", str)

#: What an authentication finds a credential by: the kind, and what the client names.
LookupKey = tuple[str, ...]

#: Stands for the mechanism of a `Password` where those of SCRAM have a name.
SCRYPT: Final = "scrypt"
#: Networks that one credential may be limited to.
NETWORKS_MAX: Final = 64
#: Renewers of one delegation token.
RENEWERS_MAX: Final = 100


class CredentialFault(Enum):
    """Why a credential is of no use now. For the audit log; clients are never told."""

    DISABLED = "is disabled"
    EXPIRED = "has expired"
    NETWORK = "is not for this network"


class Credential(msgspec.Struct, frozen=True, tag_field="kind", kw_only=True, omit_defaults=True):
    """Base of all credentials."""

    id: CredentialId
    #: Name of the user whom it proves.
    user: str
    #: Of the change that made it so. Who was authenticated by an earlier epoch is not any more.
    epoch: int = 0
    #: Unix time; 0: never.
    expires_ms: int = 0
    #: Addresses and networks that it may be used from; none named: all.
    networks: tuple[str, ...] = ()
    is_disabled: bool = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.id!r}, user={self.user!r}, epoch={self.epoch})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return [("id", self.id), ("user", self.user), ("epoch", self.epoch)]

    @property
    def lookups(self) -> tuple[LookupKey, ...]:
        """What it is found by, each of it by one credential alone."""
        raise NotImplementedError

    def find_fault(self, host: str, now_ms: int) -> CredentialFault | None:
        """Return why it cannot be used from a host at a time, or None if it can."""
        if self.is_disabled:
            return CredentialFault.DISABLED
        if self.expires_ms and now_ms >= self.expires_ms:
            return CredentialFault.EXPIRED
        if not is_within(host, self.networks):
            return CredentialFault.NETWORK
        return None


class ScramVerifier(Credential, tag="scram", frozen=True, kw_only=True):
    """What a SCRAM server needs to check a password that it does not know."""

    mechanism: str
    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    @property
    def lookups(self) -> tuple[LookupKey, ...]:
        return (scram_lookup(self.mechanism, self.user),)


class Password(Credential, tag="password", frozen=True, kw_only=True):
    """A person's password, by scrypt (RFC 7914)."""

    salt: bytes
    digest: bytes
    #: scrypt's N, r and p.
    cost: int
    block_size: int
    parallelism: int

    @property
    def lookups(self) -> tuple[LookupKey, ...]:
        return (password_lookup(self.user),)


class SaltedDigest(Credential, tag="salted-digest", frozen=True, kw_only=True):
    """A password as RabbitMQ has kept it: one hash of salt and password. Brought over, never made.

    It is quick to guess for whoever has it, and lets in by mechanisms alone that send the password.
    """

    #: As hashlib calls it.
    algorithm: str
    salt: bytes
    digest: bytes

    @property
    def lookups(self) -> tuple[LookupKey, ...]:
        return (salted_digest_lookup(self.user),)


class AccessKey(Credential, tag="access-key", frozen=True, kw_only=True):
    """A key whose secret signs requests (SigV4), and so has to be known: it is sealed."""

    access_key_id: str
    secret: Sealed

    @property
    def lookups(self) -> tuple[LookupKey, ...]:
        return (access_key_lookup(self.access_key_id),)


class CertificateName(Credential, tag="certificate", frozen=True, kw_only=True):
    """The name that a client's certificate has, as `principal_mapping` reads it."""

    name: str

    @property
    def lookups(self) -> tuple[LookupKey, ...]:
        return (certificate_lookup(self.name),)


class NKey(Credential, tag="nkey", frozen=True, kw_only=True):
    """The public half of a client's key, as NATS writes it; its seed signs what a broker sends."""

    public_key: str

    @property
    def lookups(self) -> tuple[LookupKey, ...]:
        return (nkey_lookup(self.public_key),)


class BearerToken(Credential, tag="token", frozen=True, kw_only=True):
    """A token of 256 random bits, of which only the hash is kept: a session, or a machine's."""

    digest: bytes
    description: str = ""
    #: Of a session: the credential that was proved when it began, and its epoch then.
    proved_by: str = ""
    proved_epoch: int = 0
    #: Of a session: the epoch of the second factor that was shown; 0: none was.
    factor_epoch: int = 0

    @property
    def lookups(self) -> tuple[LookupKey, ...]:
        return (token_lookup(self.digest),)

    @property
    def is_session(self) -> bool:
        """Whether a person has logged in for it; else it is a machine's."""
        return bool(self.proved_by)


class TokenVerifier(msgspec.Struct, frozen=True, kw_only=True):
    """What checks a delegation token that logs in by one of the SCRAM mechanisms."""

    mechanism: str
    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return f"TokenVerifier(mechanism={self.mechanism!r})"


class DelegationToken(Credential, tag="delegation-token", frozen=True, kw_only=True):
    """A delegation token of Kafka (KIP-48). `user` is its owner, `id` the token's id."""

    #: Of the 256 bits that are its secret.
    digest: bytes
    #: Principal that has asked for it.
    requester: str
    #: Principals that may renew and expire it, beside the owner and the requester.
    renewers: tuple[str, ...] = ()
    issued_ms: int
    #: Unix time beyond which it cannot be renewed.
    lifetime_end_ms: int
    verifiers: tuple[TokenVerifier, ...]

    @property
    def lookups(self) -> tuple[LookupKey, ...]:
        return (delegation_lookup(self.id), delegation_digest_lookup(self.digest))


class OidcSubject(Credential, tag="oidc", frozen=True, kw_only=True):
    """A subject of an OpenID provider."""

    issuer: str
    subject: str

    @property
    def lookups(self) -> tuple[LookupKey, ...]:
        return (oidc_lookup(self.issuer, self.subject),)


class TotpSecret(Credential, tag="totp", frozen=True, kw_only=True):
    """The second factor of a person: a secret shared with an authenticator (RFC 6238)."""

    secret: Sealed

    @property
    def lookups(self) -> tuple[LookupKey, ...]:
        return (totp_lookup(self.user),)


class RecoveryCodes(Credential, tag="recovery-codes", frozen=True, kw_only=True):
    """Hashes of the codes that stand in for a lost second factor, those not used yet."""

    digests: tuple[bytes, ...]

    @property
    def lookups(self) -> tuple[LookupKey, ...]:
        return (recovery_lookup(self.user),)


AnyCredential = (
    ScramVerifier
    | Password
    | SaltedDigest
    | AccessKey
    | CertificateName
    | NKey
    | BearerToken
    | DelegationToken
    | OidcSubject
    | TotpSecret
    | RecoveryCodes
)


#: What a new cluster can begin with.
FirstCredential = ScramVerifier | TotpSecret | RecoveryCodes


def scram_lookup(mechanism: str, user: str) -> LookupKey:
    """Return what a user's verifier is found by."""
    return ("scram", mechanism, user)


def password_lookup(user: str) -> LookupKey:
    """Return what a person's password is found by."""
    return ("password", user)


def salted_digest_lookup(user: str) -> LookupKey:
    """Return what a password that was brought over is found by."""
    return ("salted-digest", user)


def access_key_lookup(access_key_id: str) -> LookupKey:
    """Return what an access key is found by."""
    return ("access-key", access_key_id)


def certificate_lookup(name: str) -> LookupKey:
    """Return what a certificate's name is found by."""
    return ("certificate", name)


def nkey_lookup(public_key: str) -> LookupKey:
    """Return what an NKey is found by."""
    return ("nkey", public_key)


def token_lookup(digest: bytes) -> LookupKey:
    """Return what a bearer token is found by."""
    return ("token", digest.hex())


def delegation_lookup(token_id: str) -> LookupKey:
    """Return what a delegation token is found by when it logs in."""
    return ("delegation", token_id)


def delegation_digest_lookup(digest: bytes) -> LookupKey:
    """Return what a delegation token is found by when it is renewed or expired."""
    return ("delegation-digest", digest.hex())


def oidc_lookup(issuer: str, subject: str) -> LookupKey:
    """Return what an OpenID provider's subject is found by."""
    return ("oidc", issuer, subject)


def totp_lookup(user: str) -> LookupKey:
    """Return what a person's second factor is found by."""
    return ("totp", user)


def recovery_lookup(user: str) -> LookupKey:
    """Return what a person's recovery codes are found by."""
    return ("recovery", user)


def secret_digest(secret: bytes) -> bytes:
    """Return the hash under which 256 random bits are kept; too many to guess, so no salt."""
    return hashlib.sha256(secret).digest()
