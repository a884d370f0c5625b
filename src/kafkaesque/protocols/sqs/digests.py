"""MD5 digests by which clients check that nothing was changed on the way.

They protect against mistakes, not against anybody: MD5 is what the protocol has.
"""

import hashlib
from collections.abc import Mapping
from typing import Protocol


class AttributeValue(Protocol):
    """The value of an attribute of a message."""

    @property
    def data_type(self) -> str:
        """`String`, `Number` or `Binary`, with a suffix of the sender's."""

    @property
    def string_value(self) -> str | None:
        """What it is, unless it is binary."""

    @property
    def binary_value(self) -> bytes | None:
        """What it is, if it is binary."""


def digest_of_body(body: str) -> str:
    """Return the digest of a message's body."""
    return _md5(body.encode()).hexdigest()


def digest_of_attributes(attributes: Mapping[str, AttributeValue]) -> str | None:
    """Return the digest of a message's attributes; None where it has none."""
    if not attributes:
        return None
    digest = _md5(b"")
    for name in sorted(attributes):
        value = attributes[name]
        for part in (name.encode(), value.data_type.encode()):
            digest.update(len(part).to_bytes(4, "big") + part)
        if value.string_value is not None:
            kind, raw = b"\x01", value.string_value.encode()
        else:
            kind, raw = b"\x02", value.binary_value or b""
        digest.update(kind + len(raw).to_bytes(4, "big") + raw)
    return digest.hexdigest()


def _md5(data: bytes) -> "hashlib._Hash":
    return hashlib.md5(data, usedforsecurity=False)
