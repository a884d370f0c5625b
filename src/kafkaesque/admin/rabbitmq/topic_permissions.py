"""`/topic-permissions`: which routing keys a user may use at an exchange of the type topic."""

from collections.abc import Callable
from typing import Final

from kafkaesque.access.operations import Operation
from kafkaesque.access.topic_permissions import (
    TopicPermission,
    TopicPermissionKey,
    check_topic_permission,
)
from kafkaesque.admin.rabbitmq.calls import Call, Route
from kafkaesque.admin.rabbitmq.context import Context
from kafkaesque.admin.rabbitmq.errors import not_found
from kafkaesque.admin.rabbitmq.users import UserPages
from kafkaesque.admin.rabbitmq.values import (
    DefinedTopicPermission,
    NewTopicPermission,
)
from kafkaesque.broker.requests.access_commands import PutTopicPermission, RemoveTopicPermissions


class TopicPermissionPages:
    """See the module."""

    def __init__(self, context: Context, users: UserPages) -> None:
        self._context: Final = context
        self._users: Final = users

    def routes(self) -> list[Route]:
        """Return the operations."""
        one = "/topic-permissions/{vhost}/{user}"
        return [
            Route(method="GET", path="/topic-permissions", handle=self.list_all),
            Route(method="GET", path="/vhosts/{vhost}/topic-permissions", handle=self.list_vhost),
            Route(method="GET", path="/users/{user}/topic-permissions", handle=self.list_user),
            Route(method="GET", path=one, handle=self.show),
            Route(method="PUT", path=one, handle=self.put),
            Route(method="DELETE", path=one, handle=self.delete),
            Route(method="DELETE", path=f"{one}/{{exchange}}", handle=self.delete_one),
        ]

    # -- lists

    def list_all(self, call: Call) -> None:
        """List those of all users."""
        call.need_cluster(Operation.DESCRIBE)
        call.show_list(self.all())

    def list_vhost(self, call: Call) -> None:
        """List those of all users in a virtual host."""
        call.need_cluster(Operation.DESCRIBE)
        vhost = self._context.vhost(call).name
        call.show_list(self._found(lambda each: each.vhost == vhost))

    def list_user(self, call: Call) -> None:
        """List those of a user; everybody may see their own."""
        user = self._users.find_seen(call).name
        call.show_list(self._found(lambda each: each.user == user))

    def show(self, call: Call) -> None:
        """List those of a user in a virtual host."""
        user, vhost = self._users.find_seen(call).name, self._context.vhost(call).name
        found = self._found(lambda each: (each.user, each.vhost) == (user, vhost))
        if not found:
            raise not_found(f"user {user!r} has no topic permissions in {vhost!r}")
        call.show_list(found)

    def all(self) -> list[DefinedTopicPermission]:
        """Return those of all users in all virtual hosts."""
        return self._found(lambda _: True)

    def _found(self, wants: Callable[[TopicPermission], bool]) -> list[DefinedTopicPermission]:
        # Those of a virtual host that was deleted wait for the next one of the name.
        doors = self._context.doors
        return [
            DefinedTopicPermission(
                user=each.user,
                vhost=each.vhost,
                exchange=each.exchange,
                write=each.write,
                read=each.read,
            )
            for _, each in sorted(doors.access.state.topic_permissions.items())
            if wants(each) and doors.exchanges.has_vhost(each.vhost)
        ]

    # -- changes

    def put(self, call: Call) -> None:
        """Let a user use these routing keys at an exchange, and no others."""
        call.need_cluster(Operation.ALTER)
        body = call.body(NewTopicPermission)
        name, vhost = self._users.find_in_vhost(call)
        known = self._context.doors.access.state.topic_permissions
        is_new = TopicPermissionKey(name, vhost, body.exchange) not in known
        command = self.plan(name, vhost, body)
        self._context.submit(call, command, lambda: call.done(is_new=is_new))

    def plan(self, user: str, vhost: str, wanted: NewTopicPermission) -> PutTopicPermission:
        """Return the command that gives a user a topic permission.

        Raises:
            InvalidRequest: RE2 does not take a pattern, or a name is not possible.
        """
        permission = TopicPermission(
            user=user, vhost=vhost, exchange=wanted.exchange, write=wanted.write, read=wanted.read
        )
        check_topic_permission(permission)
        return PutTopicPermission(permission=permission)

    def delete(self, call: Call) -> None:
        """Let a user use all routing keys of a virtual host again."""
        self._delete(call, None)

    def delete_one(self, call: Call) -> None:
        """Let a user use all routing keys of an exchange again."""
        self._delete(call, call.exchange)

    def _delete(self, call: Call, exchange: str | None) -> None:
        call.need_cluster(Operation.ALTER)
        vhost = self._context.vhost(call).name
        name = self._users.find(call.params["user"]).name
        known = self._context.doors.access.state.topic_permissions
        if not any(
            (each.user, each.vhost) == (name, vhost) and exchange in (None, each.exchange)
            for each in known
        ):
            raise not_found(f"user {name!r} has no such topic permission in {vhost!r}")
        command = RemoveTopicPermissions(user=name, vhost=vhost, exchange=exchange)
        self._context.submit(call, command, call.done)
