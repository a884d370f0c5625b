"""What the controller can be asked of access: users, roles, credentials, rules.

A broker that passes on a secret has already made a verifier, a digest or sealed bytes of it: what
travels here is what is written down.
"""

import msgspec

from kafkaesque.access.acl_filters import AclFilter
from kafkaesque.access.credentials import AnyCredential, BearerToken
from kafkaesque.access.principals import User
from kafkaesque.access.roles import Role
from kafkaesque.access.rules import Rule
from kafkaesque.broker.peers.messages import PeerRequest


class PutUser(PeerRequest, frozen=True, tag="put-user", kw_only=True):
    """Let a user exist, and be so."""

    user: User
    #: Which state of the user this was meant for; None: any.
    epoch: int | None = None


class RemoveUser(PeerRequest, frozen=True, tag="remove-user", kw_only=True):
    """Remove a user and all credentials."""

    name: str
    epoch: int | None = None


class PutRole(PeerRequest, frozen=True, tag="put-role", kw_only=True):
    """Let a role exist, and be so."""

    role: Role
    epoch: int | None = None


class RemoveRole(PeerRequest, frozen=True, tag="remove-role", kw_only=True):
    """Remove a role and its rules."""

    name: str
    epoch: int | None = None


class PutCredential(PeerRequest, frozen=True, tag="put-credential", kw_only=True):
    """Add a credential, or replace the one of its id; its user is made if there is none."""

    credential: AnyCredential
    epoch: int | None = None


class RemoveCredential(PeerRequest, frozen=True, tag="remove-credential", kw_only=True):
    """Remove a credential."""

    id: str
    epoch: int | None = None


class AddRules(PeerRequest, frozen=True, tag="add-rules", kw_only=True):
    """Add rules; those that there are already are passed over."""

    rules: tuple[Rule, ...]


class RemoveRules(PeerRequest, frozen=True, tag="remove-rules", kw_only=True):
    """Remove the rules that a filter is for; answered with `RemovedRules`."""

    wanted: AclFilter


class UseTotpStep(PeerRequest, frozen=True, tag="use-totp-step", kw_only=True):
    """Use up a step of a second factor, at whichever broker it was shown."""

    credential_id: str
    step: int


class UseRecoveryCode(PeerRequest, frozen=True, tag="use-recovery-code", kw_only=True):
    """Use up a recovery code."""

    credential_id: str
    digest: bytes


class OpenSession(PeerRequest, frozen=True, tag="open-session", kw_only=True):
    """Begin a person's session, and use up the code that was shown for it."""

    session: BearerToken
    #: The credential whose code was shown; empty: the person has no second factor.
    factor: str = ""
    #: Of a code of TOTP; else it is a recovery code, and this its digest.
    step: int = -1
    digest: bytes = b""
    #: Unix time where the person logs in.
    now_ms: int


class ExtendToken(PeerRequest, frozen=True, tag="extend-token", kw_only=True):
    """Let a delegation token end at another time, as the broker that was asked has decided."""

    id: str
    expires_ms: int


class RemovedRules(msgspec.Struct, frozen=True, kw_only=True, tag="removed-rules"):
    """The rules that there are no more; empty where none was removed by a filter."""

    removed: tuple[Rule, ...]


AccessCommand = (
    PutUser
    | RemoveUser
    | PutRole
    | RemoveRole
    | PutCredential
    | RemoveCredential
    | AddRules
    | RemoveRules
    | UseTotpStep
    | UseRecoveryCode
    | ExtendToken
    | OpenSession
)
