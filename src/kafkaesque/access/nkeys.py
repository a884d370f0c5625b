"""NKeys: who the client is, it shows by a signature of what it was sent first (Ed25519, RFC 8032).

The cluster keeps the public key alone, as NATS writes it: a prefix, 32 bytes and a checksum, in
base32. The seed, which signs, stays with the client. What is signed is the broker's, random and of
one connection: a signature that somebody has listened to is worth nothing on another one.
"""

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kafkaesque.access.authentication import Failure, FailureReason, Outcome, WithoutWork, settle
from kafkaesque.access.credentials import CredentialId, NKey, nkey_lookup
from kafkaesque.access.state import AccessState
from kafkaesque.model.errors import InvalidRequest, InvariantBroken

#: How a user's public key begins: `U`. A seed begins with `S`.
_USER_PREFIX: Final = 20 << 3
_KEY_BYTES: Final = 32
_CHECKSUM_BYTES: Final = 2
#: Clients write signatures as URLs have base64, or as mails have it.
_PLAIN_ALPHABET: Final = str.maketrans("-_", "+/")
#: Characters of a public key.
TEXT_LENGTH: Final = 56


def read_user_key(text: str) -> bytes:
    """Return the 32 bytes of a user's public key.

    Raises:
        InvalidRequest: it is none.
    """
    if text[:1] == "S":
        raise InvalidRequest("this begins like a seed, which is secret: give the public key (U...)")
    try:
        raw = base64.b32decode(text.encode("ascii"))
    except (binascii.Error, UnicodeEncodeError):
        raw = b""
    body, checksum = raw[:-_CHECKSUM_BYTES], raw[-_CHECKSUM_BYTES:]
    if (
        len(text) != TEXT_LENGTH
        or len(body) != 1 + _KEY_BYTES
        or body[0] != _USER_PREFIX
        or binascii.crc_hqx(body, 0).to_bytes(_CHECKSUM_BYTES, "little") != checksum
    ):
        raise InvalidRequest(f"{text[:64]!r} is no public NKey of a user")
    return body[1:]


def make_nkey(user: str, public_key: str) -> NKey:
    """Return the credential of a user who has the seed of a public key.

    Raises:
        InvalidRequest: it is none.
    """
    read_user_key(public_key)
    return NKey(id=CredentialId(f"nkey/{public_key}"), user=user, public_key=public_key)


def find_nkey(state: AccessState, public_key: str) -> NKey | None:
    """Return the credential of a public key, if there is one."""
    found = state.find(nkey_lookup(public_key))
    return found if isinstance(found, NKey) else None


def is_signed(public_key: str, signature: str, signed: bytes) -> bool:
    """Tell whether a signature, in base64 of either alphabet, is of this key's seed."""
    # Brokers where nobody logs in do without.
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    padded = signature.rstrip("=") + "=" * (-len(signature.rstrip("=")) % 4)
    try:
        raw = base64.b64decode(padded.translate(_PLAIN_ALPHABET), validate=True)
        Ed25519PublicKey.from_public_bytes(read_user_key(public_key)).verify(raw, signed)
    except (InvalidRequest, InvalidSignature, ValueError):
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class NKeyContext:
    """What one authentication goes by."""

    access: Callable[[], AccessState]
    host: str
    #: What the client was sent to be signed.
    challenge: bytes


class NKeyServer(WithoutWork):
    """One client's authentication."""

    __slots__ = ("_context", "_is_over")

    def __init__(self, context: NKeyContext) -> None:
        self._context = context
        self._is_over = False

    def step(self, data: bytes, now_ms: int) -> Outcome:
        """Take a public key and a signature, with a line feed between them."""
        if self._is_over:
            raise InvariantBroken("a second message of an NKey")
        self._is_over = True
        public_key, _, signature = data.decode("ascii", "replace").partition("\n")
        state = self._context.access()
        found = find_nkey(state, public_key)
        # Before it is told whether there is one: both take as long.
        is_right = is_signed(public_key, signature, self._context.challenge)
        if found is None:
            return Failure(reason=FailureReason.UNKNOWN)
        if not is_right:
            return Failure(reason=FailureReason.WRONG, user=found.user)
        return settle(state, found, self._context.host, now_ms)
