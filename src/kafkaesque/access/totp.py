"""Time-based one-time passwords (RFC 6238): the second factor of people.

A step is used once, at whichever broker: `find_step` names the step that a code belongs to, and the
controller decides whether it was used before (`planner.plan_totp_step`).
"""

import base64
import hmac
from hmac import compare_digest
from typing import Final
from urllib.parse import parse_qs, quote, urlsplit

from kafkaesque.access.secret import Secret
from kafkaesque.model.errors import InvalidRequest

STEP_MS: Final = 30_000
DIGITS: Final = 6
#: RFC 4226 wants 128 bits at least and recommends 160.
SECRET_BYTES: Final = 20
#: Steps before and after now that are taken too, for clocks that are off.
WINDOW: Final = 1


def step_of(now_ms: int) -> int:
    """Return the step that a time is in."""
    return now_ms // STEP_MS


def write_code(secret: Secret, step: int, *, digits: int = DIGITS, digest: str = "sha1") -> str:
    """Return the code of a step (RFC 4226, section 5.3)."""
    mac = hmac.digest(secret.reveal(), step.to_bytes(8, "big"), digest)
    offset = mac[-1] & 0x0F
    number = int.from_bytes(mac[offset : offset + 4], "big") & 0x7FFFFFFF
    return str(number % 10**digits).zfill(digits)


def find_step(secret: Secret, code: str, now_ms: int, *, used: int = -1) -> int | None:
    """Return the step whose code it is, among those around now; None if there is none.

    Steps up to the newest that was `used` do not count: their codes were seen.
    """
    now, found = step_of(now_ms), None
    given = code.encode()
    # All of them are compared, so that the time does not tell which.
    for step in range(now - WINDOW, now + WINDOW + 1):
        if compare_digest(write_code(secret, max(step, 0)).encode(), given) and step > used:
            found = step
    return found


def read_uri(uri: str) -> Secret:
    """Return the secret in what `write_uri` has written.

    Raises:
        InvalidRequest: it is no such URI, or one of other digits, steps or hashes.
    """
    parts = urlsplit(uri.strip())
    values = {name: given[-1] for name, given in parse_qs(parts.query).items()}
    text = values.get("secret", "").upper()
    try:
        secret = base64.b32decode(text + "=" * (-len(text) % 8))
    except ValueError:
        secret = b""
    usual = (values.get("algorithm", "SHA1"), values.get("digits"), values.get("period"))
    if (parts.scheme, parts.netloc) != ("otpauth", "totp") or not secret:
        raise InvalidRequest("it is no otpauth://totp/ URI with a secret")
    if usual != ("SHA1", str(DIGITS), str(STEP_MS // 1_000)):
        raise InvalidRequest(f"it must have SHA1, {DIGITS} digits and {STEP_MS // 1_000} seconds")
    return Secret(secret)


def write_uri(secret: Secret, user: str, cluster: str) -> Secret:
    """Return what a QR code shows to an authenticator; shown once, and kept nowhere."""
    label = f"{quote(cluster, safe='')}:{quote(user, safe='')}"
    encoded = base64.b32encode(secret.reveal()).decode().rstrip("=")
    return Secret.of(
        f"otpauth://totp/{label}?secret={encoded}&issuer={quote(cluster, safe='')}"
        f"&algorithm=SHA1&digits={DIGITS}&period={STEP_MS // 1_000}"
    )
