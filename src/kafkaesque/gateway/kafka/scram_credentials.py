"""DescribeUserScramCredentials and AlterUserScramCredentials (KIP-554).

What a client sends is worth a password: it is made into a verifier here, before it goes anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from kafkaesque.access.credentials import ScramVerifier
from kafkaesque.access.errors import CredentialUnknown
from kafkaesque.access.principals import check_name
from kafkaesque.access.scram_mechanisms import SCRAM_MECHANISMS, ScramMechanism
from kafkaesque.access.scram_verifiers import scram_credential_id, verifier_of_salted_password
from kafkaesque.access.secret import Secret
from kafkaesque.access.state import AccessState
from kafkaesque.broker.requests.access_commands import (
    AccessCommand,
    PutCredential,
    RemoveCredential,
)
from kafkaesque.broker.requests.commands import ControllerResult
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.errors import code_of, message_of
from kafkaesque.gateway.kafka.gathering import Queue
from kafkaesque.model.errors import InvalidRequest, RequestRefused
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kafkaesque.protocols.kafka.messages.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kafkaesque.protocols.kafka.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
)
from kafkaesque.protocols.kafka.messages.describe_user_scram_credentials_response import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

#: The requests themselves say no time; clients wait this long by default.
TIMEOUT_MS: Final = 30_000

_BY_NUMBER: Final = {each.kafka_number: each for each in SCRAM_MECHANISMS.values()}

_Change = ScramCredentialDeletion | ScramCredentialUpsertion


# -- DescribeUserScramCredentials


def on_describe(context: Context, call: Call) -> None:
    """Say which verifiers users have: the mechanisms and the iterations, nothing else."""
    request: DescribeUserScramCredentialsRequest = call.read()
    state = context.doors.access.state
    named = [each.name for each in request.users or ()]
    if named:
        results = [_described(state, name, named.count(name)) for name in dict.fromkeys(named)]
    else:
        results = [
            _described(state, name, 1) for name in state.users if state.scram_verifiers(name)
        ]
    call.answer(DescribeUserScramCredentialsResponse(error_message=None, results=results))


def _described(state: AccessState, name: str, count: int) -> DescribeUserScramCredentialsResult:
    result = DescribeUserScramCredentialsResult(name, 0, None)
    verifiers = state.scram_verifiers(name)
    if count > 1:
        result.error_code = ErrorCode.DUPLICATE_RESOURCE
        result.error_message = f"The user {name!r} is named more than once."
    elif not verifiers:
        result.error_code = ErrorCode.RESOURCE_NOT_FOUND
        result.error_message = f"The user {name!r} has no SCRAM credential."
    else:
        result.credential_infos = [_info(each) for each in verifiers]
    return result


def _info(verifier: ScramVerifier) -> CredentialInfo:
    return CredentialInfo(SCRAM_MECHANISMS[verifier.mechanism].kafka_number, verifier.iterations)


# -- AlterUserScramCredentials


def on_alter(context: Context, call: Call) -> None:
    """Set and remove verifiers: all of a user's changes, or none if one of them is not possible."""
    request: AlterUserScramCredentialsRequest = call.read()
    changes: dict[str, list[_Change]] = {}
    asked: list[_Change] = [*request.deletions, *request.upsertions]
    for each in asked:
        changes.setdefault(each.name, []).append(each)
    pieces = [_UserChange(context, call, name, of_user) for name, of_user in changes.items()]

    def answer() -> None:
        results = [piece.result for piece in pieces]
        call.answer(AlterUserScramCredentialsResponse(results=results))

    Queue(context.clock, [piece.start for piece in pieces], answer).start()


class _UserChange:
    """The changes of one user."""

    __slots__ = ("_call", "_changes", "_context", "result")

    def __init__(self, context: Context, call: Call, name: str, changes: list[_Change]) -> None:
        self._context = context
        self._call = call
        self._changes = changes
        self.result = AlterUserScramCredentialsResult(name, 0, None)

    def start(self, on_done: Callable[[], None]) -> None:
        """Have the controller make the changes, one after the other."""
        refusal = self._find_fault()
        if refusal is None:
            try:
                commands = [self._command(each) for each in self._changes]
            except RequestRefused as error:
                refusal = ErrorCode.UNACCEPTABLE_CREDENTIAL, message_of(error)
        if refusal is not None:
            self.result.error_code, self.result.error_message = refusal
            on_done()
            return
        self._submit(iter(commands), on_done)

    def _find_fault(self) -> tuple[ErrorCode, str] | None:
        """Return what is wrong before anything is computed; None if nothing is."""
        name, state = self.result.user, self._context.doors.access.state
        numbers = [each.mechanism for each in self._changes]
        if len(set(numbers)) < len(numbers):
            return ErrorCode.DUPLICATE_RESOURCE, "A mechanism of a user is named more than once."
        if not all(number in _BY_NUMBER for number in numbers):
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "There is no such SCRAM mechanism."
        known = {each.mechanism for each in state.scram_verifiers(name)}
        for each in self._changes:
            is_deletion = isinstance(each, ScramCredentialDeletion)
            if is_deletion and _BY_NUMBER[each.mechanism].name not in known:
                return ErrorCode.RESOURCE_NOT_FOUND, "The user has no such credential."
        return None

    def _command(self, change: _Change) -> AccessCommand:
        mechanism: ScramMechanism = _BY_NUMBER[change.mechanism]
        if isinstance(change, ScramCredentialDeletion):
            return RemoveCredential(id=scram_credential_id(mechanism, change.name))
        check_name(change.name)
        if change.name == "ANONYMOUS":
            raise InvalidRequest("ANONYMOUS is the user of clients that have not logged in")
        salted = Secret(bytes(change.salted_password))
        verifier = verifier_of_salted_password(
            mechanism, change.name, salted, bytes(change.salt), change.iterations
        )
        return PutCredential(credential=self._with_limits(verifier))

    def _with_limits(self, verifier: ScramVerifier) -> ScramVerifier:
        """Return it with what the credential in its place was limited to, for Kafka cannot say."""
        before = self._context.doors.access.state.credentials.get(verifier.id)
        if before is None:
            return verifier
        return msgspec.structs.replace(
            verifier,
            expires_ms=before.expires_ms,
            networks=before.networks,
            is_disabled=before.is_disabled,
        )

    def _submit(self, commands: Iterator[AccessCommand], on_done: Callable[[], None]) -> None:
        command = next(commands, None)
        if command is None:
            on_done()
            return

        def on_outcome(outcome: ControllerResult | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                is_gone = isinstance(outcome, CredentialUnknown)
                code = ErrorCode.RESOURCE_NOT_FOUND if is_gone else code_of(outcome)
                self.result.error_code, self.result.error_message = code, message_of(outcome)
                on_done()
            else:
                self._submit(commands, on_done)

        self._context.doors.access.submit(self._call.on_behalf(command), TIMEOUT_MS, on_outcome)
