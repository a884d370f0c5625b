"""Names and passwords in the headers of HTTP requests (RFC 7617)."""

import base64
import binascii
from collections.abc import Mapping


def read_basic(headers: Mapping[str, str]) -> bytes | None:
    """Return name and password, as a message of SASL PLAIN; None if there are none."""
    scheme, _, text = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(text.strip(), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return b""
    return b"\0" + name + b"\0" + password if colon else b""
