"""Masks: columns of text that no longer say what they said."""

from __future__ import annotations

import hashlib
from typing import Any

from pyspark.sql import functions as f

from kafkaesque.spark.conversion.rules import Mask

KINDS = ("hash", "redact", "keep-last")
KEEP_MAX = 16
_STARS = "*****"
_BLOCK_BYTES = 64


def masked(text: Any, mask: Mask, salt: bytes) -> Any:
    """Return a masked column.

    `hash` gives HMAC-SHA-256 under the salt (RFC 2104), the same for the same text, in hexadecimal;
    `redact` always the same stars; `keep-last` stars, and the last characters of a longer text.
    """
    if mask.kind == "hash":
        return _hmac(text, salt)
    if mask.kind == "redact":
        return f.when(text.isNotNull(), f.lit(_STARS))
    length = f.char_length(text)
    stars = f.lit("*" * mask.keep)
    kept = f.concat(f.lit(_STARS), f.right(text, f.lit(mask.keep)))
    return f.when(length > mask.keep, kept).when(text.isNotNull(), stars)


def _hmac(text: Any, salt: bytes) -> Any:
    key = hashlib.sha256(salt).digest() if len(salt) > _BLOCK_BYTES else salt
    padded = key.ljust(_BLOCK_BYTES, b"\0")
    inner, outer = (f.unhex(f.lit(bytes(each ^ pad for each in padded).hex())) for pad in (54, 92))
    within = f.unhex(f.sha2(f.concat(inner, text.cast("binary")), 256))
    return f.sha2(f.concat(outer, within), 256)
