"""SASL PLAIN (RFC 4616): a name and a password in the clear, so over TLS alone.

The password is checked against a SCRAM verifier, against a person's password, or against a digest
that was brought over from RabbitMQ. Each takes
milliseconds, which are handed out as work; a name that nobody has costs such work, too.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from hmac import compare_digest
from typing import Final

from kafkaesque.access.authentication import (
    Failure,
    FailureReason,
    Outcome,
    PasswordWork,
    settle,
)
from kafkaesque.access.credentials import (
    SCRYPT,
    CredentialId,
    Password,
    SaltedDigest,
    ScramVerifier,
    password_lookup,
    salted_digest_lookup,
    scram_lookup,
    totp_lookup,
)
from kafkaesque.access.decoys import choose_mechanism, make_decoy
from kafkaesque.access.passwords import (
    BLOCK_SIZE,
    COST,
    DIGEST_BYTES,
    PARALLELISM,
    PASSWORD_BYTES_MAX,
    is_password,
)
from kafkaesque.access.salted_digests import is_salted_digest
from kafkaesque.access.scram_mechanisms import (
    ITERATIONS_MIN,
    SCRAM_MECHANISMS,
    SCRAM_SHA_256,
    scram_mechanism,
)
from kafkaesque.access.secret import Secret
from kafkaesque.access.state import AccessState
from kafkaesque.access.verified_passwords import VerifiedPasswords
from kafkaesque.model.errors import InvariantBroken, RequestRefused

MESSAGE_BYTES_MAX: Final = 8 * 1024

#: What a password is checked against.
Checked = ScramVerifier | Password | SaltedDigest


class PlainMessageRefused(RequestRefused):
    """Not a message of PLAIN, or one that wants to act as somebody else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainMessage:
    """What a client has sent."""

    name: str
    password: Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainContext:
    """What one authentication goes by."""

    access: Callable[[], AccessState]
    host: str
    decoy_key: bytes = field(repr=False)
    verified: VerifiedPasswords
    #: Whether whoever asks sees to the second factor of a person.
    shows_second_factor: bool = False


def read_plain(data: bytes) -> PlainMessage:
    """Return what a client has sent.

    Raises:
        PlainMessageRefused: malformed, too long, without a name or a password, or to act as
            somebody else.
    """
    parts = data.split(b"\0")
    if len(data) > MESSAGE_BYTES_MAX or len(parts) != 3:
        raise PlainMessageRefused("not three parts, or too long")
    authzid, name, password = parts
    if not name or not password or len(password) > PASSWORD_BYTES_MAX:
        raise PlainMessageRefused("no name, no password, or one that is too long")
    if authzid not in (b"", name):
        raise PlainMessageRefused("acting as another user is not supported")
    try:
        return PlainMessage(name=name.decode(), password=Secret(password))
    except UnicodeDecodeError:
        raise PlainMessageRefused("the name is not UTF-8") from None


class PlainServer:
    """One client's authentication."""

    __slots__ = ("_checked", "_context", "_is_over", "_is_working", "_message", "user")

    def __init__(self, context: PlainContext) -> None:
        self._context = context
        #: Whom the client says to be; empty as long as that is not known.
        self.user = ""
        self._message = PlainMessage(name="", password=Secret(b""))
        #: None: nobody has this name.
        self._checked: Checked | None = None
        self._is_working = self._is_over = False

    def step(self, data: bytes, now_ms: int) -> Outcome:
        """Take the client's message."""
        if self._is_over or self._is_working:
            raise InvariantBroken("a second message of PLAIN")
        try:
            message = self._message = read_plain(data)
        except PlainMessageRefused:
            self._is_over = True
            return Failure(reason=FailureReason.MALFORMED)
        self.user = message.name
        state = self._context.access()
        checked = self._checked = find_checked(state, message.name)
        if self._is_remembered(checked, now_ms):
            return self._end(is_right=True, now_ms=now_ms)
        self._is_working = True
        against = checked or _decoy(self._context.decoy_key, state, message.name)
        return PasswordWork(run=partial(is_right_password, against, message.password))

    def resume(self, is_right: bool, now_ms: int) -> Outcome:
        """Take the result of the work."""
        if not self._is_working:
            raise InvariantBroken("PLAIN has no work under way")
        if is_right and self._checked is not None and not self._has_second_factor:
            self._context.verified.remember(self._checked, self._message.password, now_ms)
        return self._end(is_right=is_right, now_ms=now_ms)

    def _is_remembered(self, checked: Checked | None, now_ms: int) -> bool:
        """Tell whether the password was found right a short time ago.

        Not of people with a second factor: who guesses theirs is not told by the time it takes.
        """
        if checked is None or self._has_second_factor:
            return False
        return self._context.verified.has(checked, self._message.password, now_ms)

    @property
    def _has_second_factor(self) -> bool:
        return self._context.access().find(totp_lookup(self._message.name)) is not None

    def _end(self, *, is_right: bool, now_ms: int) -> Outcome:
        self._is_working, self._is_over = False, True
        name, checked = self._message.name, self._checked
        self._message = PlainMessage(name="", password=Secret(b""))
        if checked is None:
            return Failure(reason=FailureReason.UNKNOWN, user=name)
        if not is_right:
            return Failure(reason=FailureReason.WRONG, user=name)
        context = self._context
        return settle(
            context.access(),
            checked,
            context.host,
            now_ms,
            shows_second_factor=context.shows_second_factor,
        )


def find_checked(state: AccessState, name: str) -> Checked | None:
    """Return what a name's password is checked against: a verifier of SCRAM if there is one."""
    for mechanism in SCRAM_MECHANISMS:
        found = state.find(scram_lookup(mechanism, name))
        if isinstance(found, ScramVerifier):
            return found
    for lookup in (password_lookup(name), salted_digest_lookup(name)):
        found = state.find(lookup)
        if isinstance(found, Password | SaltedDigest):
            return found
    return None


def is_right_password(against: Checked, password: Secret) -> bool:
    """Tell whether it is the password; work of milliseconds."""
    if isinstance(against, Password):
        return is_password(against, password)
    if isinstance(against, SaltedDigest):
        # It takes as long as any other, so that nobody learns which users were brought over.
        SCRAM_SHA_256.salted_password(password.reveal(), against.salt, ITERATIONS_MIN)
        return is_salted_digest(against, password)
    mechanism = scram_mechanism(against.mechanism)
    salted = mechanism.salted_password(password.reveal(), against.salt, against.iterations)
    return compare_digest(mechanism.stored_key(salted), against.stored_key)


def _decoy(key: bytes, state: AccessState, name: str) -> Checked:
    """Return something that no password fits, and that takes as long as what there is."""
    shapes = state.verifier_shapes
    chosen = choose_mechanism(key, name, shapes, SCRAM_SHA_256)
    mechanism = SCRAM_SHA_256 if chosen == SCRYPT else scram_mechanism(chosen)
    made_up = make_decoy(key, mechanism, name, shapes)
    if chosen == SCRYPT:
        return Password(
            id=CredentialId(""),
            user=name,
            salt=made_up.salt,
            digest=made_up.stored_key[:DIGEST_BYTES],
            cost=COST,
            block_size=BLOCK_SIZE,
            parallelism=PARALLELISM,
        )
    return ScramVerifier(
        id=CredentialId(""),
        user=name,
        mechanism=mechanism.name,
        salt=made_up.salt,
        iterations=made_up.iterations,
        stored_key=made_up.stored_key,
        server_key=made_up.server_key,
    )
