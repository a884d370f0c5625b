"""Roles: a name under which rules are written once for many users. Roles are not nested."""

import msgspec

from kafkaesque.access.principals import Principal, role_principal


class Role(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A role. Its members are the users that name it."""

    name: str
    description: str = ""
    #: Of the change that made it so.
    epoch: int = 0

    @property
    def principal(self) -> Principal:
        """The role's name in rules."""
        return role_principal(self.name)
