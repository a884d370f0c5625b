"""Whoever has sent a request to the admin port, as its handlers see them."""

from dataclasses import dataclass
from typing import Protocol

from kafkaesque.access.audit import ClientOrigin
from kafkaesque.access.authentication import Success
from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.principals import user_name


class MayDo(Protocol):
    """What somebody may do; see `Rights`."""

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether something may be done to a resource, which need not exist."""

    def could(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Tell the same of what nobody has asked for: no refusal is audited."""

    def refusal(self, operation: Operation, resource_type: ResourceType, name: str) -> str:
        """Return what is said where something may not be done."""

    def may_cluster(self, operation: Operation) -> bool:
        """Whether something may be done to the cluster as a whole."""

    def could_cluster(self, operation: Operation) -> bool:
        """Tell the same of what nobody has asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """Whoever sends a request, as far as that is known."""

    host: str = ""
    listener: str = ""
    #: Whether nobody can listen in.
    is_private: bool = True
    is_encrypted: bool = False
    #: Whether the listener lets everybody do everything.
    is_open: bool = True
    #: Whether nothing is allowed without a log-in.
    must_log_in: bool = False
    login: Success | None = None
    #: How it was said: http-basic or http-bearer.
    login_by: str = ""
    #: None: everything is allowed.
    rights: MayDo | None = None

    @property
    def origin(self) -> ClientOrigin:
        """Where it has come from, as the audit log says it."""
        return ClientOrigin(host=self.host, listener=self.listener)

    @property
    def user(self) -> str | None:
        """The name of who has logged in."""
        return None if self.login is None else user_name(self.login.principal)

    @property
    def is_stranger(self) -> bool:
        """Whether a log-in is wanted first."""
        return self.must_log_in and self.login is None
