"""Who asks: the access key that has signed a request, on listeners where that counts."""

from collections.abc import Callable, Collection
from typing import Final

from kafkaesque.access.authentication import Failure, FailureReason, Success
from kafkaesque.access.errors import KeyUnknown, SealBroken
from kafkaesque.broker.doors.access import Access
from kafkaesque.broker.listeners import AccessMode, LogInBy
from kafkaesque.chassis.logins import TOO_MANY
from kafkaesque.chassis.request_login import OnKnown, RequestLogins, take_unnamed
from kafkaesque.chassis.rights import Rights
from kafkaesque.env.clock import Clock
from kafkaesque.gateway.sqs.connection import SqsConnection
from kafkaesque.gateway.sqs.web_pages import check_page
from kafkaesque.protocols.sqs.calls import HttpRequest
from kafkaesque.protocols.sqs.errors import SqsError
from kafkaesque.protocols.sqs.signatures import (
    ALGORITHM,
    check_time,
    is_signed_by,
    read_signature,
)

OnRefused = Callable[[SqsError], None]

_NO_SIGNATURE: Final = SqsError("MissingAuthenticationToken", "The request is not signed.")
_REFUSED: Final = SqsError("RequestThrottled", "Too many signatures were wrong: try again later.")
_NO_KEY: Final = SqsError(
    "InvalidClientTokenId", "The security token included in the request is invalid."
)
_WRONG: Final = SqsError(
    "SignatureDoesNotMatch",
    "The request signature we calculated does not match the signature you provided. Check your "
    "secret access key and signing method.",
)
_SEALED: Final = SqsError(
    "InternalFailure", "The secret of the access key was sealed by another secret of the cluster."
)
_FULL: Final = SqsError("RequestThrottled", "The user has all connections that it may have.")


class Signing:
    """Checks each request by itself; on an open listener none."""

    __slots__ = ("_access", "_clock", "_logins", "_names")

    def __init__(
        self,
        access: Access,
        logins: RequestLogins,
        clock: Clock,
        names: Callable[[], Collection[str]],
    ) -> None:
        """`names` are those that listeners for SQS are advertised with."""
        self._names = names
        self._access = access
        self._logins = logins
        self._clock = clock

    def is_known(self, caller: SqsConnection, head: HttpRequest) -> bool:
        """Tell by its head whether a request may be one of somebody who is known."""
        if not caller.is_guarded or caller.rights is not None:
            return True
        if caller.shared.options.access is AccessMode.OPTIONAL:
            return True
        try:
            signature = read_signature(head)
        except SqsError:
            return False
        return signature is not None and self._access.has_access_key(signature.access_key_id)

    def identify(
        self, caller: SqsConnection, request: HttpRequest, on_known: OnKnown, on_refused: OnRefused
    ) -> None:
        """Find out who asks; a refusal may come later."""
        options = caller.shared.options
        is_signed = caller.is_guarded and options.log_in_by is not LogInBy.CERTIFICATE
        host = caller.peer_host
        try:
            signature = read_signature(request) if is_signed else None
            if signature is None:
                check_page(request, self._names())
            else:
                check_time(signature, self._clock.wall_ms())
        except SqsError as error:
            on_refused(error)
            return
        if signature is None:
            take_unnamed(caller, on_known, lambda: on_refused(_NO_SIGNATURE))
            return
        if not self._logins.may_try(host, ""):
            self._access.note_refused_log_in("", caller.origin, ALGORITHM, TOO_MANY)
            on_refused(_REFUSED)
            return
        try:
            outcome = self._access.authenticate_access_key(
                signature.access_key_id,
                host,
                lambda secret: is_signed_by(signature, secret, request),
            )
        except (KeyUnknown, SealBroken):
            on_refused(_SEALED)
            return
        if isinstance(outcome, Failure):
            caller.shared.meter.login_failures += 1
            refusal = _WRONG if outcome.reason is FailureReason.WRONG else _NO_KEY
            self._logins.fail(outcome, caller.origin, ALGORITHM, lambda: on_refused(refusal))
        elif self._is_let_in(caller, outcome):
            on_known(Rights(self._access, outcome.principal, caller.origin))
        else:
            on_refused(_FULL)

    def _is_let_in(self, caller: SqsConnection, success: Success) -> bool:
        """Have a connection be its user's; the audit log is told of the first request alone."""
        if success == caller.login:
            return True
        if not caller.let_in(success, ALGORITHM):
            return False
        self._access.note_log_in(success, caller.origin, ALGORITHM)
        return True
