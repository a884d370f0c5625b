"""Recovery codes: what lets a person in who has lost the second factor, each of them once."""

import base64
import hashlib
from collections.abc import Sequence
from hmac import compare_digest
from typing import Final

from kafkaesque.access.credentials import CredentialId, RecoveryCodes
from kafkaesque.access.secret import Secret
from kafkaesque.model.errors import InvariantBroken

CODES: Final = 10
#: 80 bits, so that a hash without a salt cannot be guessed: sixteen letters and digits.
CODE_BYTES: Final = 10
_GROUP: Final = 4


def recovery_credential_id(user: str) -> CredentialId:
    """Return the id of a person's recovery codes: each has one set."""
    return CredentialId(f"recovery-codes/{user}")


def make_codes(user: str, random: bytes) -> tuple[RecoveryCodes, tuple[Secret, ...]]:
    """Return the credential, and the codes as they are shown once; from 100 random bytes."""
    if len(random) != CODES * CODE_BYTES:
        raise InvariantBroken(f"{CODES} recovery codes need {CODES * CODE_BYTES} random bytes")
    texts = [_write(random[at : at + CODE_BYTES]) for at in range(0, len(random), CODE_BYTES)]
    codes = tuple(Secret.of(each) for each in texts)
    return keep_codes(user, codes), codes


def keep_codes(user: str, codes: Sequence[Secret]) -> RecoveryCodes:
    """Return the credential for codes that were drawn before."""
    return RecoveryCodes(
        id=recovery_credential_id(user),
        user=user,
        digests=tuple(code_digest(user, each.reveal().decode()) for each in codes),
    )


def find_code(kept: RecoveryCodes, code: str) -> bytes | None:
    """Return the hash under which a code is kept; None if it is none, or was used."""
    digest, found = code_digest(kept.user, code), None
    for each in kept.digests:
        if compare_digest(each, digest):
            found = each
    return found


def code_digest(user: str, code: str) -> bytes:
    """Return the hash of a code, however it is typed: with dashes or without, in either case."""
    plain = code.replace("-", "").replace(" ", "").upper()
    return hashlib.sha256(f"recovery {user}\0{plain}".encode()).digest()


def _write(random: bytes) -> str:
    text = base64.b32encode(random).decode()
    return "-".join(text[at : at + _GROUP] for at in range(0, len(text), _GROUP))
