"""SASL EXTERNAL (RFC 4422, appendix A): who the client is, its certificate has said.

The certificate was verified by TLS, and its name read by `principal_mapping`. A stored credential
of that name says whose it is; without one, the name is the user's.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kafkaesque.access.authentication import (
    Failure,
    FailureReason,
    Outcome,
    Success,
    WithoutWork,
    settle,
)
from kafkaesque.access.credentials import certificate_lookup
from kafkaesque.access.principals import user_name, user_principal
from kafkaesque.access.state import AccessState
from kafkaesque.model.errors import InvariantBroken


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalContext:
    """What one authentication goes by."""

    access: Callable[[], AccessState]
    host: str
    #: None: the client has shown no certificate.
    certificate_name: str | None


class ExternalServer(WithoutWork):
    """One client's authentication."""

    __slots__ = ("_context", "_is_over")

    def __init__(self, context: ExternalContext) -> None:
        self._context = context
        self._is_over = False

    def step(self, data: bytes, now_ms: int) -> Outcome:
        """Take whom the client wants to act as: nobody else."""
        if self._is_over:
            raise InvariantBroken("a second message of EXTERNAL")
        self._is_over = True
        name = self._context.certificate_name
        if name is None:
            return Failure(reason=FailureReason.UNKNOWN)
        outcome = check_certificate(self._context.access(), name, self._context.host, now_ms)
        if isinstance(outcome, Success):
            user = user_name(outcome.principal) or ""
            if data not in (b"", user.encode()):
                return Failure(reason=FailureReason.WRONG, user=user)
        return outcome


def check_certificate(state: AccessState, name: str, host: str, now_ms: int) -> Success | Failure:
    """Return the outcome for whoever has a verified certificate of this name.

    Its own end is TLS's to know: the connection's lifetime is the shorter of both.
    """
    found = state.find(certificate_lookup(name))
    if found is not None:
        return settle(state, found, host, now_ms)
    user = state.users.get(name)
    if user is not None and user.is_disabled:
        return Failure(reason=FailureReason.DISABLED, user=name)
    return Success(principal=user_principal(name))
