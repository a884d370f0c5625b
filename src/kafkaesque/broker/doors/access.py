"""Who may do what, and who is who: one judge for all ports of a broker."""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kafkaesque.access.audit import ClientOrigin, Outcome
from kafkaesque.access.authentication import (
    Authentication,
    Failure,
    FailureReason,
    Success,
    find_lapse,
)
from kafkaesque.access.credentials import AccessKey, BearerToken, CredentialId
from kafkaesque.access.decisions import Decision, Judge
from kafkaesque.access.external import check_certificate
from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.principal_mapping import (
    CertificateNames,
    CertificateRefused,
    PrincipalMapping,
)
from kafkaesque.access.principals import Principal, user_principal
from kafkaesque.access.refusals import Refusal, Refusals
from kafkaesque.access.sasl_mechanisms import NONCE_BYTES, Checkers, Client, offered
from kafkaesque.access.sealing import ClusterKeys
from kafkaesque.access.state import AccessState
from kafkaesque.access.verified_passwords import VerifiedPasswords
from kafkaesque.broker.audit import Audit
from kafkaesque.broker.controller.client import ControllerClient, OnOutcome
from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.metadata.queue_names import queue_resource
from kafkaesque.broker.metadata_follower import MetadataFollower
from kafkaesque.broker.requests.access_commands import AccessCommand
from kafkaesque.broker.upkeep.access_freshness import AccessFreshness
from kafkaesque.env.certificate import PeerCertificate
from kafkaesque.env.clock import Clock
from kafkaesque.env.dice import Dice
from kafkaesque.env.disk import Disk

if TYPE_CHECKING:
    from kafkaesque.access.access_keys import IsSignedBy
    from kafkaesque.access.json_web_tokens import JwtVerifier
    from kafkaesque.access.secret import Secret
    from kafkaesque.broker.doors.sessions import Sessions

#: Stands in the audit log for a name that no user has.
UNKNOWN_USER: Final = "(unknown user)"
#: Allows nothing to anybody.
_NOBODY: Final = Judge(AccessState(), ())


class Access:
    """Decides by this broker's copy of the metadata, which may be behind the controller's."""

    __slots__ = (
        "_checkers",
        "_clock",
        "_controller",
        "_dice",
        "_freshness",
        "_judge",
        "_mapping",
        "_metadata",
        "_on_changed",
        "_sessions",
        "audit",
        "refusals",
        "run",
    )

    def __init__(
        self,
        *,
        clock: Clock,
        dice: Dice,
        metadata: MetadataView,
        controller: ControllerClient,
        follower: MetadataFollower,
        freshness: AccessFreshness,
        keys: ClusterKeys,
        verified: VerifiedPasswords,
        disk: Disk,
        audit: Audit,
        super_users: Collection[Principal],
        mapping: PrincipalMapping,
    ) -> None:
        self._clock = clock
        #: Where refusals are told.
        self.audit = audit
        #: And which were the newest, whether they are audited or not.
        self.refusals: Final = Refusals()
        self._dice = dice
        self._metadata = metadata
        self._controller = controller
        #: Runs work off the loop, as `Disk.run` does: checking a password takes milliseconds.
        self.run: Callable[[Callable[[], object], Callable[[object, Exception | None], None]], None]
        self.run = disk.run
        self._freshness = freshness
        freshness.on_stale = self._tell_changed
        self._on_changed: list[Callable[[], None]] = []
        follower.on_access_changed = self._tell_changed
        self._mapping = mapping
        self._judge = Judge(AccessState(), super_users)
        self._checkers = Checkers(
            access=lambda: metadata.state.access, keys=keys, verified=verified
        )
        self._sessions: Sessions | None = None

    @property
    def state(self) -> AccessState:
        """The users, credentials and rules that hold here now."""
        return self._metadata.state.access

    @property
    def sessions(self) -> "Sessions":
        """People's sessions and second factors, for the admin port, and loaded with it."""
        if self._sessions is None:
            from kafkaesque.broker.doors.sessions import Sessions

            self._sessions = Sessions(
                clock=self._clock,
                dice=self._dice,
                checkers=self._checkers,
                controller=self._controller,
            )
        return self._sessions

    def note_refusal(
        self,
        principal: Principal,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> None:
        """Remember for a while that somebody was refused something."""
        at_ms = self._clock.wall_ms()
        self.refusals.note(Refusal(principal, host, operation, resource_type, name, at_ms))

    @property
    def is_stale(self) -> bool:
        """Whether users and rules are older here than they may be: nobody is to be let in."""
        return self._freshness.is_stale

    @property
    def judge(self) -> Judge:
        """Who decides now; ask anew for each request. With rules that are too old: nobody may."""
        if self._freshness.is_stale:
            return _NOBODY
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

    def queue_of_view(self, topic: str) -> str | None:
        """Return what rules call the queue that Kafka's clients see as this topic; None: none."""
        queue = self._metadata.state.topic_views.get(topic)
        return None if queue is None else queue_resource(queue.queue)

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
        certificate: PeerCertificate | None = None,
        challenge: bytes = b"",
    ) -> Authentication:
        """Return an authentication that waits for the client's first message.

        `certificate` is what TLS has verified, and `challenge` what the client was sent to be
        signed, for mechanisms that go by them.

        Raises:
            MechanismRefused: not one that the client was offered.
        """
        # Brokers without log-ins do without; `server` loads it at the start of those with them.
        from kafkaesque.access.sasl_servers import start_authentication

        client = Client(
            host=host,
            is_encrypted=is_encrypted,
            certificate_name=self._name_of(certificate),
            nonce=self._dice.unique_bytes(NONCE_BYTES),
            challenge=challenge,
        )
        return start_authentication(mechanism, enabled, self._checkers, client)

    def authenticate_certificate(
        self, certificate: PeerCertificate, host: str
    ) -> Success | Failure:
        """Return the outcome for a client that shows a certificate, which TLS has verified."""
        name = self._name_of(certificate)
        if name is None:
            return Failure(reason=FailureReason.UNKNOWN)
        outcome = check_certificate(self.state, name, host, self._clock.wall_ms())
        if isinstance(outcome, Failure):
            return outcome
        ends_ms = [each for each in (outcome.expires_ms, certificate.not_after_ms) if each]
        return replace(outcome, expires_ms=min(ends_ms), is_certificate=True)

    def has_access_key(self, access_key_id: str) -> bool:
        """Tell whether there is an access key of an id."""
        from kafkaesque.access.access_keys import find_access_key

        return find_access_key(self.state, access_key_id) is not None

    def authenticate_access_key(
        self, access_key_id: str, host: str, is_signed_by: "IsSignedBy"
    ) -> Success | Failure:
        """Return the outcome for a request that says to be signed with an access key.

        Raises:
            KeyUnknown, SealBroken: its secret cannot be opened here.
        """
        from kafkaesque.access.access_keys import check_access_key

        now_ms = self._clock.wall_ms()
        keys = self._checkers.keys
        return check_access_key(self.state, keys, access_key_id, host, now_ms, is_signed_by)

    def make_access_key(self, user: str) -> "tuple[AccessKey, Secret]":
        """Return a new access key of a user, which counts once it is put, and its secret.

        Raises:
            KeyUnknown: the cluster has no secret, and so no key to seal it with.
        """
        from kafkaesque.access.access_keys import make_access_key

        return make_access_key(user, self._dice.unique_bytes, self._checkers.keys)

    def _name_of(self, certificate: PeerCertificate | None) -> str | None:
        if certificate is None:
            return None
        names = CertificateNames(subject=certificate.attributes, uris=certificate.uris)
        try:
            return self._mapping.name_of(names)
        except CertificateRefused:
            return None

    def note_log_in(self, outcome: Success | Failure, origin: ClientOrigin, mechanism: str) -> None:
        """Tell the audit log that somebody has logged in, or why not."""
        if isinstance(outcome, Success):
            self.audit.log_in(Outcome.SUCCEEDED, origin, mechanism, outcome.principal, "")
        else:
            self.note_refused_log_in(outcome.user, origin, mechanism, outcome.reason.value)

    def note_refused_log_in(
        self, user: str, origin: ClientOrigin, mechanism: str, because: str
    ) -> None:
        """Tell the audit log that somebody who says to be a user was not let in.

        What is no user's name is not told: it may be a password that was typed in its place.
        """
        who = user_principal(user) if user in self.state.users else UNKNOWN_USER if user else ""
        self.audit.log_in(Outcome.FAILED, origin, mechanism, who, because)

    def check_tokens_with(self, jwt: "JwtVerifier") -> None:
        """Take the tokens that this verifier believes, from the next log-in on."""
        self._checkers = replace(self._checkers, jwt=jwt)
        self._sessions = None  # Its next one checks with this verifier, too.

    @property
    def takes_provider_tokens(self) -> bool:
        """Whether tokens of an OpenID provider let in users that are not kept here."""
        return self._checkers.jwt is not None

    @property
    def session_count(self) -> int:
        """Sessions of people that have not ended, in the whole cluster."""
        now_ms = self._clock.wall_ms()
        return sum(
            isinstance(each, BearerToken) and each.is_session and each.expires_ms > now_ms
            for each in self.state.credentials.values()
        )

    @property
    def rules_age_ms(self) -> int | None:
        """How old users and rules may be here; None where nobody asks, or nothing is known yet."""
        return self._freshness.age_ms

    def must_leave(self, success: Success, host: str) -> bool:
        """Tell whether a client that was let in may stay no longer; ask when access has changed."""
        if self.is_stale:
            return True
        return find_lapse(self.state, success, host, self._clock.wall_ms()) is not None

    def is_revoked(self, success: Success, host: str) -> bool:
        """Tell whether what a client was let in by was taken away, and is not only over."""
        lapse = find_lapse(self.state, replace(success, expires_ms=0), host, self._clock.wall_ms())
        return lapse not in (None, FailureReason.EXPIRED)

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
