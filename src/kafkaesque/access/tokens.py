"""Bearer tokens of our own: 256 random bits, for sessions of people and for machines.

Only the hash is kept. The text has a prefix, so that a token that was published by mistake can be
searched for, and so that it is never taken for a JSON Web Token.
"""

import base64
import binascii
from typing import Final

from kafkaesque.access.credentials import BearerToken, CredentialId, secret_digest
from kafkaesque.access.secret import Secret
from kafkaesque.model.errors import InvariantBroken

TOKEN_PREFIX: Final = "kfq_"
TOKEN_BYTES: Final = 32
#: So far the clock of an OpenID provider, which issues tokens of its own, may be off.
CLOCK_SKEW_MS_MAX: Final = 5 * 60_000


def make_token(
    token_id: CredentialId,
    user: str,
    secret: Secret,
    *,
    expires_ms: int,
    networks: tuple[str, ...] = (),
    description: str = "",
) -> BearerToken:
    """Return the credential for a secret of 256 random bits."""
    if len(secret.reveal()) != TOKEN_BYTES:
        raise InvariantBroken("a token has 256 random bits")
    return BearerToken(
        id=token_id,
        user=user,
        digest=secret_digest(secret.reveal()),
        expires_ms=expires_ms,
        networks=networks,
        description=description,
    )


def write_token(secret: Secret) -> Secret:
    """Return the token as it is given to its user, once."""
    return Secret.of(TOKEN_PREFIX + base64.urlsafe_b64encode(secret.reveal()).decode().rstrip("="))


def read_token(text: str) -> Secret | None:
    """Return the secret of a token's text; None if it is no token of ours."""
    if not text.startswith(TOKEN_PREFIX):
        return None
    try:
        secret = base64.b64decode(text[len(TOKEN_PREFIX) :] + "=", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    return Secret(secret) if len(secret) == TOKEN_BYTES else None
