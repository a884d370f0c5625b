"""What Kafka has no API for, asked and answered in JSON: users, roles, and who may do what.

Credentials are told by their kind, and never by what they check. One answer holds a secret: that to
`MakeAccessKey`, once.
"""

from typing import Final, TypeVar

import msgspec

from kafkaesque.access.credentials import AccessKey, AnyCredential, NKey, ScramVerifier
from kafkaesque.access.explanations import both, explain
from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.principals import Principal, User, user_name
from kafkaesque.access.state import AccessState
from kafkaesque.model.errors import InvalidRequest

_T = TypeVar("_T")
#: A question or a change is shorter.
BYTES_MAX: Final = 64 * 1024


class Asked(
    msgspec.Struct, frozen=True, tag_field="kind", kw_only=True, forbid_unknown_fields=True
):
    """Base of questions and of changes."""


class AskUsers(Asked, frozen=True, tag="users"):
    """Who there is, and what they log in by."""


class AskRoles(Asked, frozen=True, tag="roles"):
    """Which roles there are, and whose."""


class AskGrants(Asked, frozen=True, tag="grants", kw_only=True):
    """Who may do something to a resource, which need not exist."""

    operation: Operation
    resource_type: ResourceType
    name: str


class AskExposure(Asked, frozen=True, tag="exposure"):
    """How the broker that is asked listens, and how new its rules are."""


Question = AskUsers | AskRoles | AskGrants | AskExposure


class ChangeUser(Asked, frozen=True, tag="change-user", kw_only=True):
    """Change of a user what is named, and of all its credentials expiry and networks."""

    name: str
    is_disabled: bool | None = None
    add_roles: tuple[str, ...] = ()
    remove_roles: tuple[str, ...] = ()
    #: Unix time; 0: never.
    expires_ms: int | None = None
    #: None named: all.
    networks: tuple[str, ...] | None = None


class DeleteUser(Asked, frozen=True, tag="delete-user", kw_only=True):
    """Remove a user and all credentials; rules that name it stay."""

    name: str


class MakeRole(Asked, frozen=True, tag="make-role", kw_only=True):
    """Let a role exist."""

    name: str
    description: str = ""


class DeleteRole(Asked, frozen=True, tag="delete-role", kw_only=True):
    """Remove a role and its rules."""

    name: str


class MakeAccessKey(Asked, frozen=True, tag="make-access-key", kw_only=True):
    """Give a user, who is made if there is none, one more access key."""

    user: str


class DeleteAccessKey(Asked, frozen=True, tag="delete-access-key", kw_only=True):
    """Remove an access key."""

    access_key_id: str


class AddNKey(Asked, frozen=True, tag="add-nkey", kw_only=True):
    """Let a user, who is made if there is none, log in by the seed of a public key."""

    user: str
    public_key: str


class DeleteNKey(Asked, frozen=True, tag="delete-nkey", kw_only=True):
    """Remove a public key."""

    public_key: str


Change = (
    ChangeUser
    | DeleteUser
    | MakeRole
    | DeleteRole
    | MakeAccessKey
    | DeleteAccessKey
    | AddNKey
    | DeleteNKey
)


class ShownCredential(msgspec.Struct, frozen=True, kw_only=True):
    """A credential, without what it checks."""

    kind: str
    #: Of SCRAM; empty for others.
    mechanism: str
    expires_ms: int
    networks: tuple[str, ...]
    is_disabled: bool
    #: Of an access key; empty for others.
    access_key_id: str = ""
    #: Of an NKey; empty for others.
    public_key: str = ""


class ShownUser(msgspec.Struct, frozen=True, kw_only=True):
    """A user."""

    name: str
    kind: str
    roles: tuple[str, ...]
    is_disabled: bool
    credentials: tuple[ShownCredential, ...]


class ShownRole(msgspec.Struct, frozen=True, kw_only=True):
    """A role."""

    name: str
    description: str
    users: tuple[str, ...]
    rules: int


class ShownGrant(msgspec.Struct, frozen=True, kw_only=True):
    """That somebody may do it, and because of what."""

    principal: str
    #: In words; empty for a super user.
    rule: str
    #: Denies that hold from some hosts only, in words.
    but_for: tuple[str, ...] = ()
    #: The rule for the queue that a topic shows, which is needed as well; empty: none is.
    also: str = ""


class ShownListener(msgspec.Struct, frozen=True, kw_only=True):
    """A listener of a broker; `peers` is that for other brokers."""

    protocol: str
    name: str
    address: str
    #: As others are told.
    advertised: str
    access: str
    has_tls: bool
    is_local: bool
    #: What tells who a client is; earlier releases do not say it.
    log_in_by: str = "sasl"


class Users(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `AskUsers`."""

    users: tuple[ShownUser, ...]
    super_users: tuple[str, ...]


class Roles(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `AskRoles`."""

    roles: tuple[ShownRole, ...]


class Grants(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `AskGrants`."""

    grants: tuple[ShownGrant, ...]
    #: Of a topic that shows a queue: what rules call the queue; empty: it shows none.
    queue: str = ""


class Exposure(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `AskExposure`."""

    listeners: tuple[ShownListener, ...]
    #: Of the newest change of access that the broker knows.
    epoch: int
    #: Whether tokens of an OpenID provider let in users that are not kept here.
    has_provider: bool = False


class MadeAccessKey(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `MakeAccessKey`; the secret cannot be asked for again."""

    access_key_id: str
    secret: str

    def __repr__(self) -> str:
        return f"MadeAccessKey({self.access_key_id!r})"


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a change."""


_question_decoder: Final = msgspec.json.Decoder(Question)
_change_decoder: Final = msgspec.json.Decoder(Change)


def read_question(data: bytes | bytearray | memoryview) -> Question:
    """Return a question.

    Raises:
        InvalidRequest: it is none.
    """
    found: Question = _read(_question_decoder, data)
    return found


def read_change(data: bytes | bytearray | memoryview) -> Change:
    """Return a change.

    Raises:
        InvalidRequest: it is none.
    """
    found: Change = _read(_change_decoder, data)
    return found


def _read(decoder: msgspec.json.Decoder[_T], data: bytes | bytearray | memoryview) -> _T:
    if len(data) > BYTES_MAX:
        raise InvalidRequest(f"it has more than {BYTES_MAX} bytes")
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"it is not understood here: {error}") from None


def show_users(state: AccessState, super_users: tuple[Principal, ...]) -> Users:
    """Return all users, sorted by name."""
    shown = tuple(
        ShownUser(
            name=user.name,
            kind=user.kind,
            roles=user.roles,
            is_disabled=user.is_disabled,
            credentials=tuple(_shown(each) for each in state.credentials_of(user.name)),
        )
        for _, user in sorted(state.users.items())
    )
    return Users(users=shown, super_users=tuple(super_users))


def _shown(credential: AnyCredential) -> ShownCredential:
    return ShownCredential(
        kind=str(type(credential).__struct_config__.tag),
        mechanism=credential.mechanism if isinstance(credential, ScramVerifier) else "",
        expires_ms=credential.expires_ms,
        networks=credential.networks,
        is_disabled=credential.is_disabled,
        access_key_id=credential.access_key_id if isinstance(credential, AccessKey) else "",
        public_key=credential.public_key if isinstance(credential, NKey) else "",
    )


def show_roles(state: AccessState) -> Roles:
    """Return all roles, sorted by name."""
    shown = tuple(
        ShownRole(
            name=role.name,
            description=role.description,
            users=tuple(sorted(e.name for e in state.users.values() if role.name in e.roles)),
            rules=sum(each.principal == role.principal for each in state.rules.values()),
        )
        for _, role in sorted(state.roles.items())
    )
    return Roles(roles=shown)


def show_grants(
    state: AccessState,
    super_users: tuple[Principal, ...],
    asked: AskGrants,
    *,
    as_well: AskGrants | None = None,
) -> Grants:
    """Return who may do something: super users first, then by rules, sorted by principal.

    With `as_well`, only who may do that, too: the topic that is asked for shows this queue.
    """
    able = [each for each in super_users if not _is_disabled(state, each)]
    found = [ShownGrant(principal=each, rule="") for each in able]
    grants = explain(state, asked.operation, asked.resource_type, asked.name)
    if as_well is not None:
        others = explain(state, as_well.operation, as_well.resource_type, as_well.name)
        grants = both(grants, others)
    found += [
        ShownGrant(
            principal=each.principal,
            rule=str(each.rule),
            but_for=tuple(map(str, each.but_for)),
            also="" if each.also is None else str(each.also),
        )
        for each in grants
        if each.principal not in able
    ]
    return Grants(grants=tuple(found), queue="" if as_well is None else as_well.name)


def _is_disabled(state: AccessState, principal: Principal) -> bool:
    user = state.users.get(user_name(principal) or "")
    return user is not None and user.is_disabled


def changed_user(user: User, change: ChangeUser) -> User:
    """Return a user as a change wants it."""
    kept = [each for each in user.roles if each not in change.remove_roles]
    roles = tuple(dict.fromkeys([*kept, *change.add_roles]))
    is_disabled = user.is_disabled if change.is_disabled is None else change.is_disabled
    return msgspec.structs.replace(user, roles=roles, is_disabled=is_disabled)


def changed_credential(credential: AnyCredential, change: ChangeUser) -> AnyCredential:
    """Return a credential as a change of its user wants it."""
    expires_ms = credential.expires_ms if change.expires_ms is None else change.expires_ms
    networks = credential.networks if change.networks is None else change.networks
    return msgspec.structs.replace(credential, expires_ms=expires_ms, networks=networks)
