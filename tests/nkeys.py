"""NKeys as clients of NATS make them."""

from __future__ import annotations

import base64
import binascii

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

#: The first byte of a user's public key, and of a seed of any kind.
USER = 20 << 3
_SEED = 18 << 3


def written(prefix: int, key: bytes) -> str:
    """Return a public key as NATS writes it."""
    return _with_checksum(bytes([prefix]) + key)


def public_key_of(seed: Ed25519PrivateKey) -> str:
    """Return a user's public key."""
    return written(USER, seed.public_key().public_bytes_raw())


def seed_of(seed: Ed25519PrivateKey) -> str:
    """Return a user's seed as NATS writes it."""
    first = bytes([_SEED | USER >> 5, (USER & 31) << 3])
    return _with_checksum(first + seed.private_bytes_raw())


def sign(seed: Ed25519PrivateKey, what: bytes) -> str:
    """Return a signature as CONNECT has it."""
    return base64.urlsafe_b64encode(seed.sign(what)).decode().rstrip("=")


def _with_checksum(raw: bytes) -> str:
    checksum = binascii.crc_hqx(raw, 0).to_bytes(2, "little")
    return base64.b32encode(raw + checksum).decode().rstrip("=")
