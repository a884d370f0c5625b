"""A SCRAM server (RFC 5802, RFC 7677, and KIP-48 for delegation tokens), without any I/O.

    AWAIT_FIRST --client-first--> AWAIT_FINAL --client-final--> OVER
         \\_________ anything that is refused __________________/

An unknown user gets as many steps, of the same form, and costs the same work as one who is known:
see `decoys`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from hmac import compare_digest
from typing import Final

from kafkaesque.access.authentication import (
    Challenge,
    Failure,
    FailureReason,
    Outcome,
    WithoutWork,
    settle,
)
from kafkaesque.access.credentials import (
    AnyCredential,
    DelegationToken,
    ScramVerifier,
    TokenVerifier,
    delegation_lookup,
    scram_lookup,
)
from kafkaesque.access.decoys import DecoyVerifier, make_decoy
from kafkaesque.access.scram_mechanisms import ScramMechanism
from kafkaesque.access.scram_messages import (
    ClientFirst,
    ScramMessageRefused,
    ServerFirst,
    read_client_final,
    read_client_first,
    write_base64,
)
from kafkaesque.access.state import AccessState
from kafkaesque.model.errors import InvariantBroken

#: Characters of the server's part of the nonce, at least: 96 bits in base64.
NONCE_LENGTH_MIN: Final = 16
#: Told of every failure: RFC 5802 has words that tell more.
_REFUSED: Final = b"e=invalid-proof"


class ScramState(Enum):
    """What a server waits for."""

    AWAIT_FIRST = auto()
    AWAIT_FINAL = auto()
    OVER = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramContext:
    """What one authentication goes by."""

    mechanism: ScramMechanism
    #: Returns the state of now, at each step.
    access: Callable[[], AccessState]
    #: Where the client comes from.
    host: str
    #: Random, in base64; of this authentication alone.
    nonce: str
    #: What unknown users' verifiers are made up with. The same on all brokers.
    decoy_key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class _Verifier:
    """What the proof is checked against."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes
    #: None: made up.
    credential: AnyCredential | None


class ScramServer(WithoutWork):
    """One client's authentication."""

    __slots__ = ("_context", "_first", "_server_first", "_state", "_verifier")

    def __init__(self, context: ScramContext) -> None:
        if len(context.nonce) < NONCE_LENGTH_MIN:
            raise InvariantBroken(f"a nonce of {len(context.nonce)} characters")
        self._context = context
        self._state = ScramState.AWAIT_FIRST
        self._first: ClientFirst | None = None
        self._server_first = ServerFirst(nonce="", salt=b"", iterations=0)
        self._verifier: _Verifier | None = None

    @property
    def user(self) -> str:
        """Whom the client says to be, or the id of its token."""
        return "" if self._first is None else self._first.name

    def step(self, data: bytes, now_ms: int) -> Outcome:
        """Take the client's next message."""
        on_message = _STEPS.get(self._state)
        if on_message is None:
            raise InvariantBroken(f"a SCRAM message in state {self._state.name}")
        # Whatever goes wrong below is the end.
        self._state = ScramState.OVER
        try:
            return on_message(self, data, now_ms)
        except ScramMessageRefused:
            return self._refused(FailureReason.MALFORMED)

    def _on_first(self, data: bytes, now_ms: int) -> Outcome:
        first = self._first = read_client_first(data)
        verifier = self._verifier = self._find(first)
        self._server_first = ServerFirst(
            nonce=first.nonce + self._context.nonce,
            salt=verifier.salt,
            iterations=verifier.iterations,
        )
        self._state = ScramState.AWAIT_FINAL
        return Challenge(message=self._server_first.write().encode())

    def _on_final(self, data: bytes, now_ms: int) -> Outcome:
        first, verifier, mechanism = self._first, self._verifier, self._context.mechanism
        if first is None or verifier is None:
            raise InvariantBroken("the last message of SCRAM before the first")
        final = read_client_final(data)
        if not compare_digest(final.channel_binding, first.gs2_header.encode()):
            return self._refused(FailureReason.WRONG)
        if not _is_nonce(final.nonce, first.nonce, self._server_first.nonce):
            return self._refused(FailureReason.WRONG)
        signed = ",".join((first.bare, self._server_first.write(), final.without_proof)).encode()
        signature = mechanism.hmac(verifier.stored_key, signed)
        if len(final.proof) != len(signature):
            return self._refused(FailureReason.WRONG)
        client_key = bytes(a ^ b for a, b in zip(final.proof, signature, strict=True))
        is_right = compare_digest(mechanism.hash(client_key), verifier.stored_key)
        server_signature = mechanism.hmac(verifier.server_key, signed)
        if verifier.credential is None:
            return self._refused(FailureReason.UNKNOWN)
        if not is_right:
            return self._refused(FailureReason.WRONG)
        outcome = settle(
            self._context.access(),
            verifier.credential,
            self._context.host,
            now_ms,
            message=b"v=" + write_base64(server_signature).encode(),
            is_token=first.is_token,
        )
        return self._refused(outcome.reason) if isinstance(outcome, Failure) else outcome

    def _refused(self, reason: FailureReason) -> Failure:
        name = "" if self._first is None else self._first.name
        return Failure(reason=reason, user=name, message=_REFUSED)

    def _find(self, first: ClientFirst) -> _Verifier:
        state, mechanism = self._context.access(), self._context.mechanism
        if first.is_token:
            found = _token_verifier(state, mechanism, first.name)
        else:
            found = _user_verifier(state, mechanism, first.name)
        if found is None:
            key = self._context.decoy_key
            decoy = make_decoy(key, mechanism, first.name, state.verifier_shapes)
            found = _verifier_of(decoy, None)
        return found


_STEPS: Final[dict[ScramState, Callable[[ScramServer, bytes, int], Outcome]]] = {
    ScramState.AWAIT_FIRST: ScramServer._on_first,
    ScramState.AWAIT_FINAL: ScramServer._on_final,
}


def _is_nonce(sent: str, of_client: str, agreed: str) -> bool:
    """Tell whether a last message repeats the nonce that was agreed on.

    librdkafka before 2.6.1, which is in many distributions' kcat, repeats its own part once more
    before it. That has all of ours in it as well, and is nothing else: equality, with either.
    """
    is_agreed = compare_digest(sent.encode(), agreed.encode())
    is_twice = compare_digest(sent.encode(), (of_client + agreed).encode())
    return is_agreed or is_twice


def _user_verifier(state: AccessState, mechanism: ScramMechanism, name: str) -> _Verifier | None:
    found = state.find(scram_lookup(mechanism.name, name))
    return _verifier_of(found, found) if isinstance(found, ScramVerifier) else None


def _token_verifier(state: AccessState, mechanism: ScramMechanism, name: str) -> _Verifier | None:
    token = state.find(delegation_lookup(name))
    if not isinstance(token, DelegationToken):
        return None
    for each in token.verifiers:
        if each.mechanism == mechanism.name:
            return _verifier_of(each, token)
    return None


def _verifier_of(
    keys: ScramVerifier | TokenVerifier | DecoyVerifier, credential: AnyCredential | None
) -> _Verifier:
    return _Verifier(
        salt=keys.salt,
        iterations=keys.iterations,
        stored_key=keys.stored_key,
        server_key=keys.server_key,
        credential=credential,
    )
