"""Passwords as RabbitMQ keeps them: four bytes of salt, and a hash of the salt and the password."""

import base64
import binascii
import hashlib
from collections.abc import Mapping
from hmac import compare_digest
from typing import Final

from kafkaesque.access.credentials import CredentialId, SaltedDigest
from kafkaesque.access.secret import Secret
from kafkaesque.model.errors import InvalidRequest

SALT_BYTES: Final = 4
#: RabbitMQ's names, and hashlib's. MD5 is none that a password is to be trusted to.
ALGORITHMS: Final[Mapping[str, str]] = {
    "rabbit_password_hashing_sha256": "sha256",
    "rabbit_password_hashing_sha512": "sha512",
}
DEFAULT_ALGORITHM: Final = "rabbit_password_hashing_sha256"


def salted_digest_id(user: str) -> CredentialId:
    """Return the id of a password that was brought over: each user has one."""
    return CredentialId(f"salted-digest/{user}")


def read_salted_digest(user: str, text: str, algorithm: str) -> SaltedDigest:
    """Return the credential that a user's `password_hash` is.

    Raises:
        InvalidRequest: it is none by this algorithm, or the algorithm is not known.
    """
    name = ALGORITHMS.get(algorithm)
    if name is None:
        raise InvalidRequest(
            f"hashing_algorithm is one of {', '.join(ALGORITHMS)}, not {algorithm[:100]!r}: give "
            "the password instead"
        )
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest("password_hash is no base64") from None
    if len(raw) != SALT_BYTES + hashlib.new(name).digest_size:
        raise InvalidRequest(
            f"password_hash is not as {algorithm} makes it: in base64, {SALT_BYTES} bytes of salt "
            f"and {hashlib.new(name).digest_size} of the hash"
        )
    return SaltedDigest(
        id=salted_digest_id(user),
        user=user,
        algorithm=name,
        salt=raw[:SALT_BYTES],
        digest=raw[SALT_BYTES:],
    )


def write_salted_digest(kept: SaltedDigest) -> tuple[str, str]:
    """Return `password_hash` and `hashing_algorithm` of a user."""
    names = {ours: theirs for theirs, ours in ALGORITHMS.items()}
    return base64.b64encode(kept.salt + kept.digest).decode(), names[kept.algorithm]


def is_salted_digest(kept: SaltedDigest, password: Secret) -> bool:
    """Tell whether it is the password."""
    digest = hashlib.new(kept.algorithm, kept.salt + password.reveal()).digest()
    return compare_digest(digest, kept.digest)
