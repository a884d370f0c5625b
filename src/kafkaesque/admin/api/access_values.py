"""Users, roles and rules as the API shows them; no secret is among them but a new one, once."""

from typing import Annotated, Literal

import msgspec

from kafkaesque.access.administration import ShownCredential, ShownGrant, ShownRole
from kafkaesque.access.passwords import PASSWORD_BYTES_MAX
from kafkaesque.access.principals import NAME_LENGTH_MAX
from kafkaesque.admin.api.changes import Change
from kafkaesque.admin.api.numbers import Unsigned
from kafkaesque.admin.api.paging import ListQuery
from kafkaesque.admin.api.values import Listing, View

#: Names that a new rule would be for, as many as are shown.
NAMES_MAX = 50

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_LENGTH_MAX)]
Word = Annotated[str, msgspec.Meta(min_length=1, max_length=40)]
ResourceName = Annotated[str, msgspec.Meta(max_length=1_000)]
Names = Annotated[list[Name], msgspec.Meta(max_length=100)]
Pattern = Literal["literal", "prefix", "any"]


class UsersQuery(ListQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which users."""


class RolesQuery(ListQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which roles."""


class RulesQuery(ListQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which rules; `q` is looked for in the principal and in the name."""

    #: Only of this one, such as User:app; empty: of all.
    principal: ResourceName = ""
    #: Only for this type, such as topic; empty: for all.
    resource_type: Annotated[str, msgspec.Meta(max_length=40)] = ""


class ExplainQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Who may do something; with a principal, whether that one may, and why."""

    #: Such as read, write or describe-configs.
    operation: Word
    #: Such as topic, group, queue or cluster.
    resource_type: Word
    #: Need not exist; the cluster has none.
    name: ResourceName = ""
    #: Such as User:app; empty: nobody in particular.
    principal: ResourceName = ""
    #: From where it would ask; empty: from any address.
    host: Annotated[str, msgspec.Meta(max_length=100)] = ""


class UserRow(msgspec.Struct, frozen=True, kw_only=True):
    """A user."""

    name: str
    kind: str
    roles: list[str]
    is_disabled: bool
    #: Whether it may do everything, as brokers' files say.
    is_super: bool
    #: Without sessions.
    credentials: list[ShownCredential]
    sessions: int


class UserList(Listing, frozen=True, kw_only=True):
    """Users."""

    items: list[UserRow]
    #: Principals that may do everything, whether they are stored as users or not.
    super_users: list[str]


class RoleList(Listing, frozen=True, kw_only=True):
    """Roles."""

    items: list[ShownRole]


class RuleRow(msgspec.Struct, frozen=True, kw_only=True):
    """A rule."""

    id: int
    effect: str
    principal: str
    operation: str
    resource_type: str
    pattern: Pattern
    #: Empty for any.
    name: str
    #: An address, a network, or `*`.
    host: str


class RuleList(Listing, frozen=True, kw_only=True):
    """Rules."""

    items: list[RuleRow]


class NewUser(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A user to be created, or one that gets another password."""

    name: Name
    password: Annotated[str, msgspec.Meta(min_length=8, max_length=PASSWORD_BYTES_MAX)]
    #: Whether one that exists gets this password; else it is refused.
    replace: bool = False

    def __repr__(self) -> str:
        return f"NewUser(name={self.name!r})"


class UserChanges(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is to change of a user; null stays."""

    is_disabled: bool | None = None
    add_roles: Names = []
    remove_roles: Names = []
    #: Of all that it logs in by; 0: never.
    expires_at: Unsigned | None = None
    #: Addresses and networks that it may log in from; empty: all.
    networks: Names | None = None


class NewRole(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A role to be created, or described otherwise."""

    name: Name
    description: Annotated[str, msgspec.Meta(max_length=1_000)] = ""


class NewRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Rules to be added: one for each operation."""

    principal: Name
    operations: Annotated[list[Word], msgspec.Meta(min_length=1, max_length=20)]
    resource_type: Word
    pattern: Pattern = "literal"
    #: Empty for any, and for the cluster.
    name: ResourceName = ""
    effect: Literal["allow", "deny"] = "allow"
    host: Annotated[str, msgspec.Meta(min_length=1, max_length=100)] = "*"


class RuleChange(Change, frozen=True, kw_only=True):
    """What was done, or would be, and what there is now that the rules are for."""

    #: At most 50 of `match_total`; null: such resources cannot be listed.
    matches: list[str] | None
    match_total: int


class AccessKeyView(View, frozen=True, kw_only=True):
    """A new access key; the secret cannot be asked for again."""

    access_key_id: str
    secret: str

    def __repr__(self) -> str:
        return f"AccessKeyView({self.access_key_id!r})"


class Explanation(View, frozen=True, kw_only=True):
    """Who may do something, and because of what; nobody else may."""

    grants: list[ShownGrant]
    #: Of a topic that shows a queue: what rules call the queue, with which the same has to be
    #: allowed; empty: it shows none.
    queue: str
    #: Whether the principal that was named may; null: none was.
    is_allowed: bool | None
    #: In words.
    because: str
    command: str


class CertificateUser(msgspec.Struct, frozen=True, kw_only=True):
    """A name that a certificate may have, and the user that it proves."""

    name: str
    user: str
    expires_at: int | None


class TlsListener(msgspec.Struct, frozen=True, kw_only=True):
    """A listener of the broker that answers."""

    protocol: str
    name: str
    advertised: str
    has_tls: bool
    access: str
    log_in_by: str


class CertificateList(View, frozen=True, kw_only=True):
    """Names that certificates log in as, and the listeners of the broker that answers."""

    names: list[CertificateUser]
    listeners: list[TlsListener]
