"""Sealing of recoverable secrets by the cluster's key: AES-256-GCM.

An access key's secret and a TOTP secret have to be known in the clear to be used. They are sealed
for one purpose and one credential: sealed bytes that are moved to another credential do not open.
"""

import hmac
from collections.abc import Mapping
from typing import Final

from kafkaesque.access.errors import KeyUnknown, SealBroken
from kafkaesque.access.sealed import Sealed
from kafkaesque.access.secret import Secret
from kafkaesque.model.errors import InvariantBroken

KEY_BYTES: Final = 32
#: Nonces are random: a key seals a few secrets, never close to the 2^32 that GCM allows.
NONCE_BYTES: Final = 12


def cluster_key(cluster_secret: bytes) -> Secret:
    """Return the key of a cluster that keeps no other: derived from its secret."""
    return Secret(hmac.digest(cluster_secret, b"kafkaesque cluster key", "sha256"))


class ClusterKeys:
    """The cluster's keys in the clear, by version; the newest seals, each opens its own."""

    __slots__ = ("_keys", "newest", "oldest")

    def __init__(self, keys: Mapping[int, Secret]) -> None:
        for version, key in keys.items():
            if len(key.reveal()) != KEY_BYTES:
                raise InvariantBroken(f"version {version} of the cluster's key is not 256 bits")
        self._keys = dict(keys)
        #: Version that seals; 0: there is none.
        self.newest = max(keys, default=0)
        #: The first version that is here; 0: there is none.
        self.oldest = min(keys, default=0)

    def subkey(self, purpose: str, version: int | None = None) -> bytes:
        """Return the key for one purpose, so that none is used for two.

        Raises:
            KeyUnknown: there is no such version.
        """
        wanted = self.newest if version is None else version
        key = self._keys.get(wanted)
        if key is None:
            raise KeyUnknown(f"version {wanted} of the cluster's key is not here")
        return hmac.digest(key.reveal(), purpose.encode(), "sha256")

    def seal(self, secret: Secret, purpose: str, nonce: bytes) -> Sealed:
        """Return the secret, sealed for a purpose; `nonce` is 12 random bytes.

        Raises:
            KeyUnknown: the cluster has no key.
        """
        ciphertext = seal_bytes(self.subkey(_sealing(purpose)), nonce, secret.reveal(), purpose)
        return Sealed(key_version=self.newest, nonce=nonce, ciphertext=ciphertext)

    def open(self, sealed: Sealed, purpose: str) -> Secret:
        """Return the secret that was sealed for this purpose.

        Raises:
            KeyUnknown: the version that has sealed it is not here.
            SealBroken: changed, or sealed for another purpose.
        """
        key = self.subkey(_sealing(purpose), sealed.key_version)
        return Secret(open_bytes(key, sealed.nonce, sealed.ciphertext, purpose))

    def __repr__(self) -> str:
        return f"ClusterKeys(versions={sorted(self._keys)})"


def seal_bytes(key: bytes, nonce: bytes, plaintext: bytes, context: str) -> bytes:
    """Return ciphertext and tag of AES-256-GCM; the context is authenticated with it."""
    # With the first secret: loading takes 14 ms and 6 MB.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    if len(nonce) != NONCE_BYTES:
        raise InvariantBroken(f"a nonce has {NONCE_BYTES} bytes, not {len(nonce)}")
    return AESGCM(key).encrypt(nonce, plaintext, context.encode())


def open_bytes(key: bytes, nonce: bytes, ciphertext: bytes, context: str) -> bytes:
    """Return what `seal_bytes` has sealed.

    Raises:
        SealBroken: key, nonce, ciphertext or context is another one.
    """
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(key).decrypt(nonce, ciphertext, context.encode())
    except (InvalidTag, ValueError):
        raise SealBroken(f"what was sealed for {context} cannot be opened") from None


def _sealing(purpose: str) -> str:
    return f"seal {purpose}"


def access_key_purpose(access_key_id: str) -> str:
    """Return what an access key's secret is sealed for."""
    return f"access-key {access_key_id}"


def totp_purpose(user: str, credential_id: str) -> str:
    """Return what a second factor's secret is sealed for."""
    return f"totp {user} {credential_id}"
