"""What is sealed by a key of the cluster: ciphertext, and which key opens it."""

from typing import Final

import msgspec

_TOPIC_PREFIX: Final = "topic/"


def topic_key_name(topic_id: bytes) -> str:
    """Return the name of a topic's key."""
    return _TOPIC_PREFIX + topic_id.hex()


def topic_of_key(name: str) -> bytes | None:
    """Return the id of the topic that a key is for; None where it is another key."""
    if not name.startswith(_TOPIC_PREFIX):
        return None
    return bytes.fromhex(name.removeprefix(_TOPIC_PREFIX))


class Sealed(msgspec.Struct, frozen=True, kw_only=True):
    """Ciphertext of AES-256-GCM with its tag."""

    #: Version of the cluster's key.
    key_version: int
    nonce: bytes
    ciphertext: bytes

    def __repr__(self) -> str:
        return f"Sealed(key_version={self.key_version}, {len(self.ciphertext)} bytes)"


class WrappedKey(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A key of the cluster or of a topic, wrapped by a key keeper."""

    #: `cluster`, or `topic/` and the topic's id.
    name: str
    version: int
    #: Which keeper has wrapped it, and with which key of its own.
    keeper: str
    keeper_key: str
    wrapped: bytes
    #: Of the change that brought it.
    epoch: int = 0

    def __repr__(self) -> str:
        return f"WrappedKey({self.name!r}, version={self.version}, keeper={self.keeper!r})"
