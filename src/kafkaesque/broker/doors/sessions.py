"""People's sessions and second factors: what a password and a code are exchanged for."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kafkaesque.access.authentication import Authentication, Failure, FailureReason, Success
from kafkaesque.access.credentials import CredentialId, recovery_lookup, totp_lookup
from kafkaesque.access.errors import CodeUsed, CredentialUnknown, UserUnknown
from kafkaesque.access.oauthbearer import BearerContext, check_bearer
from kafkaesque.access.recovery_codes import CODE_BYTES, CODES, make_codes
from kafkaesque.access.sasl_mechanisms import NONCE_BYTES, Checkers, Client
from kafkaesque.access.sasl_servers import start_authentication
from kafkaesque.access.sealing import NONCE_BYTES as SEALING_NONCE_BYTES
from kafkaesque.access.second_factor import RecoveryUse, TotpUse, seal_totp
from kafkaesque.access.secret import Secret
from kafkaesque.access.sessions import Proof, make_session, prove, sessions_of
from kafkaesque.access.tokens import TOKEN_BYTES, write_token
from kafkaesque.access.totp import SECRET_BYTES, write_uri
from kafkaesque.broker.controller.client import ControllerClient
from kafkaesque.broker.requests.access_commands import OpenSession, PutCredential, RemoveCredential
from kafkaesque.broker.requests.client_command import OnBehalfOf
from kafkaesque.env.clock import Clock
from kafkaesque.env.dice import Dice
from kafkaesque.model.errors import InvalidRequest, RequestRefused

#: A change at the controller is done within this time, or it is not known whether it will be.
CHANGE_MS_MAX: Final = 10_000
_ID_BYTES: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session that has begun."""

    user: str
    #: As its person presents it; shown once.
    token: Secret
    expires_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFactor:
    """A second factor that counts from now on; shown once."""

    #: What an authenticator reads, from a QR code.
    uri: Secret
    recovery_codes: tuple[Secret, ...]


OnSession = Callable[[Session | Failure | RequestRefused], None]
OnFactor = Callable[[NewFactor | RequestRefused], None]
OnRemoved = Callable[[RequestRefused | None], None]
OnClosed = Callable[[int | RequestRefused], None]


class Sessions:
    """Checks by this broker's copy of the metadata; the controller decides what is begun."""

    __slots__ = ("_checkers", "_clock", "_controller", "_dice")

    def __init__(
        self, *, clock: Clock, dice: Dice, checkers: Checkers, controller: ControllerClient
    ) -> None:
        self._clock: Final = clock
        self._dice: Final = dice
        self._checkers: Final = checkers
        self._controller: Final = controller

    @property
    def can_be(self) -> bool:
        """Whether the cluster has a secret, without which nobody has a session."""
        return self._checkers.keys.newest > 0

    def check_token(self, token: Secret, host: str) -> Success | Failure:
        """Return who presents a token: a session's, a machine's or an OpenID provider's."""
        context = BearerContext(
            access=self._checkers.access, host=host, verifier=self._checkers.jwt
        )
        return check_bearer(context, token, self._clock.wall_ms())

    def check_password(self, host: str, *, shows_second_factor: bool) -> Authentication:
        """Return an authentication that waits for a message of PLAIN.

        With `shows_second_factor` its success is half of one: `open` asks for the code.
        """
        client = Client(
            host=host,
            is_encrypted=True,
            nonce=self._dice.unique_bytes(NONCE_BYTES),
            shows_second_factor=shows_second_factor,
        )
        return start_authentication("PLAIN", ("PLAIN",), self._checkers, client)

    def open(self, password: Success, code: str, host: str, on_done: OnSession) -> None:
        """Begin a session for a right password and, where the person has one, a code.

        `on_done` gets the session once it is committed, a failure if the code is wrong or was used
        before, or the refusal of a controller.
        """
        now_ms = self._clock.wall_ms()
        keys = self._checkers.keys
        proof = prove(self._checkers.access(), keys, password, code, host, now_ms)
        if isinstance(proof, Failure):
            on_done(proof)
            return
        secret = Secret(self._dice.unique_bytes(TOKEN_BYTES))
        session = make_session(proof, self._dice.unique_bytes(_ID_BYTES).hex(), secret, now_ms)
        begun = Session(user=proof.user, token=write_token(secret), expires_ms=session.expires_ms)

        def on_outcome(outcome: object) -> None:
            if isinstance(outcome, CodeUsed | CredentialUnknown | InvalidRequest):
                # The code was used at another broker, or what was shown does not count any more.
                on_done(Failure(reason=FailureReason.SECOND_FACTOR, user=proof.user))
            else:
                on_done(outcome if isinstance(outcome, RequestRefused) else begun)

        command = _with_use(OpenSession(session=session, now_ms=now_ms), proof)
        self._controller.submit(command, CHANGE_MS_MAX, on_outcome)

    def close(self, credential: CredentialId, on_done: OnRemoved) -> None:
        """End a session; done as well if there is none such."""
        self._remove([credential], None, on_done)

    def close_all(self, user: str, client: OnBehalfOf | None, on_done: OnClosed) -> None:
        """End all sessions of a person that are known here; `on_done` gets how many they were.

        Of the client the controller asks whether it may, as in what follows.
        """
        state, now_ms = self._checkers.access(), self._clock.wall_ms()
        if user not in state.users:
            on_done(UserUnknown(f"there is no user {user!r}"))
            return
        ids = [each.id for each in sessions_of(state, user) if each.expires_ms > now_ms]
        if ids:
            self._remove(ids, client, lambda refusal: on_done(refusal or len(ids)))
        else:
            on_done(0)

    # -- second factors

    def add_factor(
        self, user: str, cluster: str, client: OnBehalfOf | None, on_done: OnFactor
    ) -> None:
        """Give a person a second factor, in place of the one that there was.

        Sessions that were begun without it, and connections by its password alone, end.
        """
        if user not in self._checkers.access().users:
            on_done(UserUnknown(f"there is no user {user!r}"))
            return
        secret = Secret(self._dice.unique_bytes(SECRET_BYTES))
        nonce = self._dice.unique_bytes(SEALING_NONCE_BYTES)
        factor = seal_totp(self._checkers.keys, user, secret, nonce)
        kept, codes = make_codes(user, self._dice.unique_bytes(CODES * CODE_BYTES))
        new = NewFactor(uri=write_uri(secret, user, cluster), recovery_codes=codes)

        def on_factor(outcome: object) -> None:
            on_done(outcome if isinstance(outcome, RequestRefused) else new)

        def on_codes(outcome: object) -> None:
            if isinstance(outcome, RequestRefused):
                on_done(outcome)
            else:
                command = PutCredential(credential=factor, on_behalf_of=client)
                self._controller.submit(command, CHANGE_MS_MAX, on_factor)

        first = PutCredential(credential=kept, on_behalf_of=client)
        self._controller.submit(first, CHANGE_MS_MAX, on_codes)

    def remove_factor(self, user: str, client: OnBehalfOf | None, on_done: OnRemoved) -> None:
        """Take a person's second factor and recovery codes away."""
        state = self._checkers.access()
        found = [state.find(each) for each in (totp_lookup(user), recovery_lookup(user))]
        ids = [each.id for each in found if each is not None]
        if not ids:
            on_done(CredentialUnknown(f"user {user!r} has no second factor"))
            return
        self._remove(ids, client, on_done)

    def _remove(
        self, ids: list[CredentialId], client: OnBehalfOf | None, on_done: OnRemoved
    ) -> None:
        """Remove one credential after the other."""

        def on_outcome(outcome: object) -> None:
            is_gone = isinstance(outcome, CredentialUnknown)
            if isinstance(outcome, RequestRefused) and not is_gone:
                on_done(outcome)
            elif len(ids) == 1:
                on_done(None)
            else:
                self._remove(ids[1:], client, on_done)

        command = RemoveCredential(id=ids[0], on_behalf_of=client)
        self._controller.submit(command, CHANGE_MS_MAX, on_outcome)


def _with_use(command: OpenSession, proof: Proof) -> OpenSession:
    match proof.use:
        case TotpUse(credential=credential, step=step):
            return OpenSession(
                session=command.session, factor=credential, step=step, now_ms=command.now_ms
            )
        case RecoveryUse(credential=credential, digest=digest):
            return OpenSession(
                session=command.session, factor=credential, digest=digest, now_ms=command.now_ms
            )
    return command
