"""Principals: the names that rules are written for, and the users behind them.

A principal is text, as in Kafka: `User:alice`, `Role:ops`. Rules may name users that are not
stored here; then the certificate or the token is all that there is of them.
"""

from typing import Final, Literal, NewType

import msgspec

from kafkaesque.model.errors import InvalidRequest

#: `User:name` or `Role:name`.
Principal = NewType("Principal", str)

USER_PREFIX: Final = "User:"
ROLE_PREFIX: Final = "Role:"
#: A client of a listener without authentication.
ANONYMOUS: Final = Principal("User:ANONYMOUS")
#: In a rule: every user, the anonymous one included.
ANY_USER: Final = Principal("User:*")

#: Characters in the name of a user or a role.
NAME_LENGTH_MAX: Final = 1_000

UserKind = Literal["person", "service", "broker"]


class User(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Somebody who may prove who they are."""

    name: str
    kind: UserKind = "service"
    #: Names of roles. One that does not exist gives nothing.
    roles: tuple[str, ...] = ()
    #: May not log in, and no rule allows anything.
    is_disabled: bool = False
    #: Made for a delegation token alone: who it is, is proved elsewhere, by an OpenID provider or a
    #: certificate.
    is_external: bool = False
    #: Of the change that made it so.
    epoch: int = 0

    @property
    def principal(self) -> Principal:
        """The user's name in rules."""
        return user_principal(self.name)


def user_principal(name: str) -> Principal:
    """Return the principal of a user."""
    return Principal(USER_PREFIX + name)


def role_principal(name: str) -> Principal:
    """Return the principal of a role."""
    return Principal(ROLE_PREFIX + name)


def user_name(principal: Principal) -> str | None:
    """Return the user's name, or None if the principal is no user."""
    return principal[len(USER_PREFIX) :] if principal.startswith(USER_PREFIX) else None


def read_principal(text: str) -> Principal:
    """Return the principal that a rule is to be written for.

    Raises:
        InvalidRequest: neither a user nor a role, or not such a name.
    """
    for prefix in (USER_PREFIX, ROLE_PREFIX):
        if text.startswith(prefix):
            name = text[len(prefix) :]
            if prefix == ROLE_PREFIX and name == "*":
                raise InvalidRequest("a rule cannot be for all roles; User:* is for all users")
            if name != "*":
                check_name(name)
            return Principal(text)
    raise InvalidRequest(f"{text!r} is no principal: write User:name or Role:name")


def check_name(name: str) -> None:
    """Check the name of a user or a role.

    Raises:
        InvalidRequest: empty, too long, `*`, or with characters that cannot be seen.
    """
    if not name or name == "*":
        raise InvalidRequest(f"{name!r} cannot be the name of a user or a role")
    if len(name) > NAME_LENGTH_MAX:
        raise InvalidRequest(
            f"a name has at most {NAME_LENGTH_MAX} characters, this has {len(name)}"
        )
    if not name.isprintable():
        raise InvalidRequest(f"the name {name!r} has characters that cannot be seen")
