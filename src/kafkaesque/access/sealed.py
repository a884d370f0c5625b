"""What is sealed by a key of the cluster: ciphertext, and which key opens it."""

import msgspec


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
