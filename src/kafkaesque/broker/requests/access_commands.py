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
from kafkaesque.access.sealed import WrappedKey
from kafkaesque.access.topic_permissions import TopicPermission
from kafkaesque.broker.requests.client_command import ClientCommand


class PutUser(ClientCommand, frozen=True, tag="put-user", kw_only=True):
    """Let a user exist, and be so."""

    user: User
    #: Which state of the user this was meant for; None: any.
    epoch: int | None = None


class RemoveUser(ClientCommand, frozen=True, tag="remove-user", kw_only=True):
    """Remove a user and all credentials."""

    name: str
    epoch: int | None = None


class PutRole(ClientCommand, frozen=True, tag="put-role", kw_only=True):
    """Let a role exist, and be so."""

    role: Role
    epoch: int | None = None


class RemoveRole(ClientCommand, frozen=True, tag="remove-role", kw_only=True):
    """Remove a role and its rules."""

    name: str
    epoch: int | None = None


class PutCredential(ClientCommand, frozen=True, tag="put-credential", kw_only=True):
    """Add a credential, or replace the one of its id; its user is made if there is none."""

    credential: AnyCredential
    epoch: int | None = None


class RemoveCredential(ClientCommand, frozen=True, tag="remove-credential", kw_only=True):
    """Remove a credential."""

    id: str
    epoch: int | None = None


class AddRules(ClientCommand, frozen=True, tag="add-rules", kw_only=True):
    """Add rules; those that there are already are passed over."""

    rules: tuple[Rule, ...]


class RemoveRules(ClientCommand, frozen=True, tag="remove-rules", kw_only=True):
    """Remove the rules that a filter is for; answered with `RemovedRules`."""

    wanted: AclFilter


class PutTopicPermission(ClientCommand, frozen=True, tag="put-topic-permission", kw_only=True):
    """Let a user use certain routing keys at an exchange alone."""

    permission: TopicPermission


class RemoveTopicPermissions(
    ClientCommand, frozen=True, tag="remove-topic-permissions", kw_only=True
):
    """Let a user use all routing keys again."""

    user: str
    vhost: str
    #: None: at all exchanges of the virtual host.
    exchange: str | None = None


class UseTotpStep(ClientCommand, frozen=True, tag="use-totp-step", kw_only=True):
    """Use up a step of a second factor, at whichever broker it was shown."""

    credential_id: str
    step: int


class UseRecoveryCode(ClientCommand, frozen=True, tag="use-recovery-code", kw_only=True):
    """Use up a recovery code."""

    credential_id: str
    digest: bytes


class OpenSession(ClientCommand, frozen=True, tag="open-session", kw_only=True):
    """Begin a person's session, and use up the code that was shown for it."""

    session: BearerToken
    #: The credential whose code was shown; empty: the person has no second factor.
    factor: str = ""
    #: Of a code of TOTP; else it is a recovery code, and this its digest.
    step: int = -1
    digest: bytes = b""
    #: Unix time where the person logs in.
    now_ms: int


class ExtendToken(ClientCommand, frozen=True, tag="extend-token", kw_only=True):
    """Let a delegation token end at another time, as the broker that was asked has decided."""

    id: str
    expires_ms: int


class PutKey(ClientCommand, frozen=True, tag="put-key", kw_only=True):
    """Add the next version of a key, or wrap one anew that there is."""

    key: WrappedKey
    is_rewrapped: bool = False


class RemoveKey(ClientCommand, frozen=True, tag="remove-key", kw_only=True):
    """Remove a version of a key: what it has sealed is shredded."""

    name: str
    version: int


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
    | PutTopicPermission
    | RemoveTopicPermissions
    | UseTotpStep
    | UseRecoveryCode
    | ExtendToken
    | PutKey
    | RemoveKey
    | OpenSession
)
