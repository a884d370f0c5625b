"""What access can refuse, beside the errors of `model`; gateways choose the wire codes."""

from kafkaesque.model.errors import KafkaesqueError, RequestRefused


class UserUnknown(RequestRefused):
    """There is no user of this name."""


class RoleUnknown(RequestRefused):
    """There is no role of this name."""


class CredentialUnknown(RequestRefused):
    """There is no credential of this id, or the user has none of this kind."""


class CodeUsed(RequestRefused):
    """A one-time code, of TOTP or for recovery, was used before."""


class TokenRefused(RequestRefused):
    """A delegation token cannot be created, renewed or expired."""


class TokenUnknown(TokenRefused):
    """No delegation token has this secret or this id."""


class TokenExpired(TokenRefused):
    """The delegation token's time, or its longest possible time, is over."""


class TokenOwnerMismatch(TokenRefused):
    """The principal is neither the token's owner nor one of its renewers."""


class TokenRequestNotAllowed(TokenRefused):
    """The connection may not create tokens: it was itself authenticated by a token."""


class SealBroken(KafkaesqueError):
    """Sealed bytes cannot be opened: they were changed, moved, or sealed by another key."""


class KeyUnknown(KafkaesqueError):
    """No key of this name and version is there: it was never made, or it was shredded."""
