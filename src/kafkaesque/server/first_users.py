"""The users and rules that a new cluster begins with, in a file: verifiers, and no passwords.

So a cluster can require a log-in from its first moment, and needs no open listener to make the
first administrator at. The file means nothing to a cluster that exists.
"""

import os
import stat
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from kafkaesque.access.credentials import RecoveryCodes, ScramVerifier, TotpSecret
from kafkaesque.access.principals import check_name
from kafkaesque.access.recovery_codes import CODES, recovery_credential_id
from kafkaesque.access.rules import Rule, check_rule
from kafkaesque.access.scram_mechanisms import (
    SCRAM_MECHANISMS,
    check_parameters,
    scram_mechanism,
)
from kafkaesque.access.scram_verifiers import scram_credential_id, verifier_of_password
from kafkaesque.access.sealed import Sealed
from kafkaesque.access.sealing import NONCE_BYTES
from kafkaesque.access.second_factor import totp_credential_id
from kafkaesque.access.secret import Secret
from kafkaesque.model.errors import ConfigError, InvalidRequest

FILE_BYTES_MAX: Final = 64 * 1024
VERIFIERS_MAX: Final = 32
RULES_MAX: Final = 100
ITERATIONS: Final = 8192
SALT_BYTES: Final = 16
_DIGEST_BYTES: Final = 32


class _Verifier(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    user: str
    mechanism: str
    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    def made(self) -> ScramVerifier:
        """Return it as a credential.

        Raises:
            InvalidRequest: a part of it is not possible.
        """
        check_name(self.user)
        mechanism = scram_mechanism(self.mechanism)
        check_parameters(self.salt, self.iterations)
        if {len(self.stored_key), len(self.server_key)} != {mechanism.digest_bytes}:
            raise InvalidRequest(f"a key of {self.user} is none of {mechanism.name}")
        return ScramVerifier(
            id=scram_credential_id(mechanism, self.user),
            user=self.user,
            mechanism=self.mechanism,
            salt=self.salt,
            iterations=self.iterations,
            stored_key=self.stored_key,
            server_key=self.server_key,
        )


class _Factor(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A second factor; its secret is sealed by the cluster's secret."""

    user: str
    key_version: int
    nonce: bytes
    ciphertext: bytes
    #: Hashes of the recovery codes.
    recovery: tuple[bytes, ...] = ()

    def made(self) -> tuple[TotpSecret, RecoveryCodes]:
        """Return it as credentials.

        Raises:
            InvalidRequest: a part of it is not possible.
        """
        check_name(self.user)
        if self.key_version < 1 or len(self.nonce) != NONCE_BYTES or not self.ciphertext:
            raise InvalidRequest(f"the second factor of {self.user} is not sealed")
        if len(self.recovery) > CODES or {*map(len, self.recovery)} - {_DIGEST_BYTES}:
            raise InvalidRequest(f"the recovery codes of {self.user} are no hashes")
        secret = Sealed(key_version=self.key_version, nonce=self.nonce, ciphertext=self.ciphertext)
        return (
            TotpSecret(id=totp_credential_id(self.user), user=self.user, secret=secret),
            RecoveryCodes(
                id=recovery_credential_id(self.user), user=self.user, digests=self.recovery
            ),
        )


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    verifiers: tuple[_Verifier, ...]
    rules: tuple[Rule, ...] = ()
    factors: tuple[_Factor, ...] = ()


class FirstAccess(NamedTuple):
    """Who may log in to a new cluster, and what they may do."""

    verifiers: tuple[ScramVerifier, ...] = ()
    rules: tuple[Rule, ...] = ()
    factors: tuple[TotpSecret | RecoveryCodes, ...] = ()


def make_verifiers(name: str, password: Secret) -> tuple[ScramVerifier, ...]:
    """Return a user's verifiers, one for each mechanism; work of milliseconds.

    Raises:
        InvalidRequest: the name or the password is not possible.
    """
    check_name(name)
    return tuple(
        verifier_of_password(each, name, password, os.urandom(SALT_BYTES), ITERATIONS)
        for each in SCRAM_MECHANISMS.values()
    )


def write_first_access(first: FirstAccess) -> bytes:
    """Return the content of a file."""
    shown = tuple(
        _Verifier(
            user=each.user,
            mechanism=each.mechanism,
            iterations=each.iterations,
            salt=each.salt,
            stored_key=each.stored_key,
            server_key=each.server_key,
        )
        for each in first.verifiers
    )
    file = _File(verifiers=shown, rules=first.rules, factors=_shown_factors(first))
    encoded = msgspec.json.encode(file)
    return msgspec.json.format(encoded, indent=2) + b"\n"


def _shown_factors(first: FirstAccess) -> tuple[_Factor, ...]:
    codes = {each.user: each.digests for each in first.factors if isinstance(each, RecoveryCodes)}
    return tuple(
        _Factor(
            user=each.user,
            key_version=each.secret.key_version,
            nonce=each.secret.nonce,
            ciphertext=each.secret.ciphertext,
            recovery=codes.get(each.user, ()),
        )
        for each in first.factors
        if isinstance(each, TotpSecret)
    )


def read_first_access(path: Path) -> FirstAccess:
    """Return what is in a file.

    Raises:
        ConfigError: it cannot be read, is not such a file, or others may read it.
    """
    where = f"first.users.file {path}"
    try:
        with path.open("rb") as file:
            is_for_others = os.fstat(file.fileno()).st_mode & stat.S_IRWXO
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {where}: {error.strerror}") from None
    if is_for_others:
        raise ConfigError(
            f"{where}: others may read it, and guess passwords by it; chmod o= {path}"
        )
    if len(data) > FILE_BYTES_MAX:
        raise ConfigError(f"{where} is longer than {FILE_BYTES_MAX} bytes")
    try:
        found = msgspec.json.decode(data, type=_File)
        made = tuple(each.made() for each in found.verifiers)
        factors = tuple(part for each in found.factors for part in each.made())
        for rule in found.rules:
            check_rule(rule)
    except (msgspec.MsgspecError, UnicodeDecodeError, InvalidRequest) as error:
        raise ConfigError(
            f"{where} is not what `kafkaesque user prepare` writes: {error}"
        ) from None
    if len({each.id for each in (*made, *factors)}) < len(made) + len(factors):
        raise ConfigError(f"{where} has a mechanism or a second factor of a user twice")
    strangers = {each.user for each in factors} - {each.user for each in made}
    if strangers:
        raise ConfigError(f"{where} has a second factor of {min(strangers)}, who has no password")
    if len(made) > VERIFIERS_MAX or len(found.rules) > RULES_MAX:
        raise ConfigError(f"{where} has more than {VERIFIERS_MAX} verifiers or {RULES_MAX} rules")
    return FirstAccess(made, found.rules, factors)
