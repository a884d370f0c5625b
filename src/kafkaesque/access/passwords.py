"""People's passwords: scrypt (RFC 7914), about 30 ms and 16 MB for each guess."""

import hashlib
from hmac import compare_digest
from typing import Final

from kafkaesque.access.credentials import CredentialId, Password
from kafkaesque.access.secret import Secret
from kafkaesque.model.errors import InvalidRequest

COST: Final = 2**14
BLOCK_SIZE: Final = 8
PARALLELISM: Final = 1
DIGEST_BYTES: Final = 32
SALT_BYTES_MIN: Final = 16
LENGTH_MIN: Final = 8
#: Longer ones are refused unread: hashing must not become a way to keep a broker busy.
PASSWORD_BYTES_MAX: Final = 1_024
#: scrypt takes 128 · N · r bytes, and OpenSSL some more.
_MEMORY_BYTES_MAX: Final = 64 * 1024 * 1024


def password_credential_id(user: str) -> CredentialId:
    """Return the id of a person's password: each has one."""
    return CredentialId(f"password/{user}")


def hash_password(user: str, password: Secret, salt: bytes) -> Password:
    """Return what is kept of a password; work of 30 ms.

    Raises:
        InvalidRequest: the password is too short or too long, or the salt too short.
    """
    given = password.reveal()
    if not LENGTH_MIN <= len(given) <= PASSWORD_BYTES_MAX:
        raise InvalidRequest(f"a password has {LENGTH_MIN} to {PASSWORD_BYTES_MAX} bytes")
    if len(salt) < SALT_BYTES_MIN:
        raise InvalidRequest(f"a salt of {len(salt)} bytes must have {SALT_BYTES_MIN} at least")
    return Password(
        id=password_credential_id(user),
        user=user,
        salt=salt,
        digest=_derive(given, salt, COST, BLOCK_SIZE, PARALLELISM),
        cost=COST,
        block_size=BLOCK_SIZE,
        parallelism=PARALLELISM,
    )


def is_password(kept: Password, password: Secret) -> bool:
    """Tell whether it is the password; work of 30 ms."""
    given = password.reveal()
    if len(given) > PASSWORD_BYTES_MAX:
        return False
    derived = _derive(given, kept.salt, kept.cost, kept.block_size, kept.parallelism)
    return compare_digest(derived, kept.digest)


def _derive(given: bytes, salt: bytes, cost: int, block_size: int, parallelism: int) -> bytes:
    return hashlib.scrypt(
        given,
        salt=salt,
        n=cost,
        r=block_size,
        p=parallelism,
        maxmem=_MEMORY_BYTES_MAX,
        dklen=DIGEST_BYTES,
    )
