"""Key keepers: what holds the key that wraps the cluster's and the topics' keys.

A keeper may be slow and far away (a key management service), so it is asked at a start and at a
rotation, off the loop, and never in a failover. The one that is built in has its key from a file.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from kafkaesque.access.errors import KeyUnknown
from kafkaesque.access.sealed import WrappedKey
from kafkaesque.access.sealing import KEY_BYTES, NONCE_BYTES, open_bytes, seal_bytes
from kafkaesque.access.secret import Secret
from kafkaesque.model.errors import ConfigError

#: Random bytes of this number, from the system.
Entropy = Callable[[int], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperDescription:
    """What a keeper says of itself, for `doctor` and for people."""

    name: str
    #: Which key of its own wraps now.
    key: str


class KeyKeeper(Protocol):
    """Wraps keys by a key that it alone has."""

    def wrap(self, name: str, version: int, key: Secret) -> WrappedKey:
        """Return a key, wrapped for this name and version.

        Raises:
            OSError: the keeper cannot be reached.
        """

    def unwrap(self, wrapped: WrappedKey) -> Secret:
        """Return the key.

        Raises:
            KeyUnknown: wrapped by another keeper, or by a key that it does not have.
            SealBroken: not what the keeper has wrapped for this name and version.
            OSError: the keeper cannot be reached.
        """

    def rewrap(self, wrapped: WrappedKey) -> WrappedKey:
        """Return the same key, wrapped by the keeper's newest key; as it is if it was so.

        Raises:
            KeyUnknown, SealBroken, OSError: see `unwrap`.
        """

    def describe(self) -> KeeperDescription:
        """Return what it is; nothing secret."""


class FileKeyKeeper:
    """The keeper that is built in. Its keys come from files that others read.

    The first key wraps, and the others unwrap what they have wrapped before a rotation.
    """

    NAME: Final = "file"

    def __init__(self, keys: tuple[Secret, ...], entropy: Entropy) -> None:
        if not keys:
            raise ConfigError("the key keeper `file` has no key")
        for key in keys:
            if len(key.reveal()) != KEY_BYTES:
                raise ConfigError(f"a key of the key keeper `file` has {KEY_BYTES} bytes")
        self._keys = {_key_id(key): key for key in keys}
        self._newest = _key_id(keys[0])
        self._entropy = entropy

    def wrap(self, name: str, version: int, key: Secret) -> WrappedKey:
        """Return a key, wrapped for this name and version."""
        nonce = self._entropy(NONCE_BYTES)
        wrapping = self._keys[self._newest].reveal()
        return WrappedKey(
            name=name,
            version=version,
            keeper=self.NAME,
            keeper_key=self._newest,
            wrapped=nonce + seal_bytes(wrapping, nonce, key.reveal(), _context(name, version)),
        )

    def unwrap(self, wrapped: WrappedKey) -> Secret:
        """Return the key."""
        wrapping = self._keys.get(wrapped.keeper_key) if wrapped.keeper == self.NAME else None
        if wrapping is None:
            raise KeyUnknown(f"{wrapped!r} was wrapped by a key that this broker does not have")
        nonce, ciphertext = wrapped.wrapped[:NONCE_BYTES], wrapped.wrapped[NONCE_BYTES:]
        context = _context(wrapped.name, wrapped.version)
        return Secret(open_bytes(wrapping.reveal(), nonce, ciphertext, context))

    def rewrap(self, wrapped: WrappedKey) -> WrappedKey:
        """Return the same key, wrapped by the newest key; as it is if it was so."""
        key = self.unwrap(wrapped)
        if wrapped.keeper_key == self._newest:
            return wrapped
        anew = self.wrap(wrapped.name, wrapped.version, key)
        return msgspec.structs.replace(anew, epoch=wrapped.epoch)

    def describe(self) -> KeeperDescription:
        """Return what it is."""
        return KeeperDescription(name=self.NAME, key=self._newest)


def _key_id(key: Secret) -> str:
    return hashlib.sha256(b"key id " + key.reveal()).hexdigest()[:16]


def _context(name: str, version: int) -> str:
    return f"wrapped {name} {version}"
