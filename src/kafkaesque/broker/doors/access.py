"""Who may do what, and who is who: one judge for all ports of a broker."""

from collections.abc import Callable, Collection

from kafkaesque.access.authentication import Authentication, Success, find_lapse
from kafkaesque.access.credentials import BearerToken, CredentialId
from kafkaesque.access.decisions import Decision, Judge
from kafkaesque.access.json_web_tokens import JwtVerifier
from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.principals import Principal
from kafkaesque.access.sasl_mechanisms import (
    NONCE_BYTES,
    Checkers,
    Client,
    offered,
    start_authentication,
)
from kafkaesque.access.sealing import ClusterKeys
from kafkaesque.access.state import AccessState
from kafkaesque.access.verified_passwords import VerifiedPasswords
from kafkaesque.broker.controller.client import ControllerClient, OnOutcome
from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.doors.sessions import Sessions
from kafkaesque.broker.metadata_follower import MetadataFollower
from kafkaesque.broker.requests.access_commands import AccessCommand
from kafkaesque.env.clock import Clock
from kafkaesque.env.dice import Dice
from kafkaesque.env.disk import Disk


class Access:
    """Decides by this broker's copy of the metadata, which may be behind the controller's."""

    __slots__ = (
        "_checkers",
        "_clock",
        "_controller",
        "_dice",
        "_judge",
        "_metadata",
        "_on_changed",
        "run",
        "sessions",
    )

    def __init__(
        self,
        *,
        clock: Clock,
        dice: Dice,
        metadata: MetadataView,
        controller: ControllerClient,
        follower: MetadataFollower,
        keys: ClusterKeys,
        verified: VerifiedPasswords,
        disk: Disk,
        super_users: Collection[Principal],
        jwt: JwtVerifier | None = None,
    ) -> None:
        self._clock = clock
        self._dice = dice
        self._metadata = metadata
        self._controller = controller
        #: Runs work off the loop, as `Disk.run` does: checking a password takes milliseconds.
        self.run: Callable[[Callable[[], object], Callable[[object, Exception | None], None]], None]
        self.run = disk.run
        self._on_changed: list[Callable[[], None]] = []
        follower.on_access_changed = self._tell_changed
        self._judge = Judge(AccessState(), super_users)
        self._checkers = Checkers(
            access=lambda: metadata.state.access, keys=keys, verified=verified, jwt=jwt
        )
        self.sessions = Sessions(
            clock=clock, dice=dice, checkers=self._checkers, controller=controller
        )

    @property
    def state(self) -> AccessState:
        """The users, credentials and rules that hold here now."""
        return self._metadata.state.access

    @property
    def judge(self) -> Judge:
        """Who decides now; ask anew for each request."""
        judge, state = self._judge, self._metadata.state.access
        if judge.rules_epoch != state.rules_epoch:
            judge = self._judge = judge.after(state)
        return judge

    def decide(
        self,
        principal: Principal,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> Decision:
        """Return whether somebody may do something, and because of what."""
        return self.judge.decide(principal, host, operation, resource_type, name)

    # -- who is who

    def mechanisms(self, enabled: Collection[str], *, is_encrypted: bool) -> tuple[str, ...]:
        """Return the mechanisms that a client is told of, the strongest first."""
        return offered(enabled, is_encrypted=is_encrypted)

    def authenticate(
        self,
        mechanism: str,
        enabled: Collection[str],
        *,
        host: str,
        is_encrypted: bool,
        certificate_name: str | None = None,
    ) -> Authentication:
        """Return an authentication that waits for the client's first message.

        Raises:
            MechanismRefused: not one that the client was offered.
        """
        client = Client(
            host=host,
            is_encrypted=is_encrypted,
            certificate_name=certificate_name,
            nonce=self._dice.unique_bytes(NONCE_BYTES),
        )
        return start_authentication(mechanism, enabled, self._checkers, client)

    def must_leave(self, success: Success, host: str) -> bool:
        """Tell whether a client that was let in may stay no longer; ask when access has changed."""
        return find_lapse(self.state, success, host, self._clock.wall_ms()) is not None

    def is_session(self, credential: CredentialId) -> bool:
        """Tell whether a credential is a person's session."""
        found = self.state.credentials.get(credential)
        return isinstance(found, BearerToken) and found.is_session

    def on_changed(self, callback: Callable[[], None]) -> None:
        """Have `callback` called when users, credentials or rules have changed."""
        self._on_changed.append(callback)

    def _tell_changed(self) -> None:
        for callback in self._on_changed:
            callback()

    # -- changes

    def submit(self, command: AccessCommand, timeout_ms: int, on_done: OnOutcome) -> None:
        """Have the controller change access; see `ControllerClient`."""
        self._controller.submit(command, timeout_ms, on_done)
