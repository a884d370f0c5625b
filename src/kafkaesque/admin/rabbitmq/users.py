"""`/users`: who there is. RabbitMQ's tags are roles of the same names.

A role that a tag names is made with the tag's rules, if it does not exist: an administrator may
change the cluster, and a monitor look at it. Passwords become verifiers here, and go no further.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

import msgspec

from kafkaesque.access.acl_filters import AclFilter, PatternType
from kafkaesque.access.credentials import SaltedDigest, ScramVerifier
from kafkaesque.access.operations import CLUSTER_NAME, Operation, ResourceType
from kafkaesque.access.principals import Principal, User, check_name, role_principal, user_principal
from kafkaesque.access.roles import Role
from kafkaesque.access.rules import Effect, PatternKind, Rule
from kafkaesque.access.salted_digests import (
    DEFAULT_ALGORITHM,
    read_salted_digest,
    write_salted_digest,
)
from kafkaesque.access.scram_mechanisms import SCRAM_MECHANISMS
from kafkaesque.access.scram_verifiers import verifier_of_password
from kafkaesque.access.secret import Secret
from kafkaesque.access.state import AccessState
from kafkaesque.admin.rabbitmq.calls import Call, Route
from kafkaesque.admin.rabbitmq.cluster import ADMINISTRATOR, MONITORING
from kafkaesque.admin.rabbitmq.context import Command, Context
from kafkaesque.admin.rabbitmq.errors import ApiRefused, not_found
from kafkaesque.admin.rabbitmq.values import NewUser, UserNames, UserShown
from kafkaesque.broker.requests.access_commands import (
    AddRules,
    PutCredential,
    PutRole,
    PutUser,
    RemoveCredential,
    RemoveRules,
    RemoveUser,
)

ITERATIONS: Final = 8_192
SALT_BYTES: Final = 16
#: Of one request.
USERS_MAX: Final = 100
_TAG_RULES: Final = {
    ADMINISTRATOR: (
        (Operation.ALL, ResourceType.CLUSTER),
        (Operation.ALL, ResourceType.VHOST),
    ),
    MONITORING: (
        (Operation.DESCRIBE, ResourceType.CLUSTER),
        (Operation.DESCRIBE, ResourceType.VHOST),
    ),
}
#: What RabbitMQ's permissions are made of: they go with their user.
OWN_TYPES: Final = (ResourceType.QUEUE, ResourceType.EXCHANGE)


class UserPages:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context: Final = context

    def routes(self) -> list[Route]:
        """Return the operations."""
        one = "/users/{user}"
        return [
            Route(method="GET", path="/users", handle=self.list_all),
            Route(method="GET", path="/users/without-permissions", handle=self.list_without),
            Route(method="POST", path="/users/bulk-delete", handle=self.delete_some),
            Route(method="GET", path=one, handle=self.show),
            Route(method="PUT", path=one, handle=self.put),
            Route(method="DELETE", path=one, handle=self.delete),
        ]

    def list_all(self, call: Call) -> None:
        """List all users."""
        call.need_cluster(Operation.DESCRIBE)
        users = self._context.doors.access.state.users
        call.show_list([self._shown(call, users[name]) for name in sorted(users)])

    def list_without(self, call: Call) -> None:
        """List the users for whom there is no rule about queues or exchanges."""
        call.need_cluster(Operation.DESCRIBE)
        state = self._context.doors.access.state
        call.show_list(
            [
                self._shown(call, each)
                for _, each in sorted(state.users.items())
                if not any(
                    kind in state.rule_index.shelves(user_principal(each.name))
                    for kind in (*OWN_TYPES, ResourceType.VHOST)
                )
            ]
        )

    def show(self, call: Call) -> None:
        """Show one."""
        call.show(self._shown(call, self.find_seen(call)))

    def _shown(self, call: Call, user: User) -> UserShown:
        is_administrator = call.could_cluster(Operation.ALTER)
        return defined(self._context.doors.access.state, user) if is_administrator else shown(user)

    def find(self, name: str) -> User:
        """Return a user.

        Raises:
            ApiRefused: there is none.
        """
        found = self._context.doors.access.state.users.get(name)
        if found is None:
            raise not_found(f"there is no user {name!r}")
        return found

    def find_seen(self, call: Call) -> User:
        """Return the user that a path names; everybody may see themselves.

        Raises:
            ApiRefused: the client may not see it, or there is none.
        """
        name = call.params["user"]
        if name != call.request.visitor.user:
            call.need_cluster(Operation.DESCRIBE)
        return self.find(name)

    def find_in_vhost(self, call: Call) -> tuple[str, str]:
        """Return the user and the virtual host to whom a request gives permissions.

        Raises:
            ApiRefused: there is no such one. RabbitMQ says 404 only of what is asked for.
        """
        try:
            return self.find(call.params["user"]).name, self._context.vhost(call).name
        except ApiRefused as refusal:
            raise ApiRefused(400, str(refusal)) from None

    # -- changes

    def put(self, call: Call) -> None:
        """Make a user, or make one so; without a password, those that it has stay."""
        name, body = call.params["user"], call.body(NewUser)
        call.need_cluster(Operation.ALTER)
        is_new = name not in self._context.doors.access.state.users

        def on_checked(commands: Sequence[Command]) -> None:
            self._context.submit_all(call, commands, lambda: call.done(is_new=is_new))

        self.plan(call, name, body, on_checked)

    def plan(
        self, call: Call, name: str, body: NewUser, then: Callable[[Sequence[Command]], None]
    ) -> None:
        """Go on with the commands that make a user so; a password takes milliseconds of work.

        Raises:
            RequestRefused: the name or the password is not possible.
        """
        check_name(name)
        if name == "ANONYMOUS":
            raise ApiRefused(400, "ANONYMOUS is the user of clients that have not logged in")
        if isinstance(body.password, str) and body.password_hash is not None:
            raise ApiRefused(400, "give password or password_hash, not both")
        access = self._context.doors.access
        known = access.state.users.get(name) or User(name=name)
        user = msgspec.structs.replace(known, roles=body.roles(), epoch=0)
        commands = [*_roles(body.roles(), access.state.roles), PutUser(user=user)]
        if not isinstance(body.password, str):
            then([*commands, *self._digest_commands(name, body)])
            return
        password = Secret.of(body.password)
        salts = {
            mechanism: self._context.doors.dice.unique_bytes(SALT_BYTES)
            for mechanism in SCRAM_MECHANISMS.values()
        }

        def work() -> object:
            # Clients ask for one or the other, as of users of `kafkaesque user create`.
            return [
                verifier_of_password(mechanism, name, password, salt, ITERATIONS)
                for mechanism, salt in salts.items()
            ]

        def on_done(outcome: object, error: Exception | None) -> None:
            if isinstance(outcome, list):
                put = self._replacing(outcome)
                call.guard(lambda: then([*commands, *put]))
            else:
                call.refuse(error or ApiRefused(500, "the password could not be taken"))

        access.run(work, on_done)

    def _digest_commands(self, name: str, body: NewUser) -> list[Command]:
        if not body.password_hash:
            return []
        algorithm = body.hashing_algorithm or DEFAULT_ALGORITHM
        return self._replacing([read_salted_digest(name, body.password_hash, algorithm)])

    def _replacing(self, made: Sequence[ScramVerifier | SaltedDigest]) -> list[Command]:
        """Return the commands that put a password in the place of those that a user has.

        Whatever limits those have, the new one has, too. `made` are forms of one password.
        """
        before = [
            each
            for each in self._context.doors.access.state.credentials_of(made[0].user)
            if isinstance(each, ScramVerifier | SaltedDigest)
        ]
        if before:
            made = [
                msgspec.structs.replace(
                    each,
                    expires_ms=before[0].expires_ms,
                    networks=before[0].networks,
                    is_disabled=before[0].is_disabled,
                )
                for each in made
            ]
        new = {each.id for each in made}
        old = [RemoveCredential(id=each.id) for each in before if each.id not in new]
        return [*(PutCredential(credential=each) for each in made), *old]

    def delete(self, call: Call) -> None:
        """Delete a user, with all credentials, and the rules about queues and exchanges."""
        name = call.params["user"]
        call.need_cluster(Operation.ALTER)
        self.find(name)
        self._context.submit_all(call, _deletion([name]), call.done)

    def delete_some(self, call: Call) -> None:
        """Delete several; those that do not exist are passed over."""
        call.need_cluster(Operation.ALTER)
        names = call.body(UserNames).users
        if len(names) > USERS_MAX:
            raise ApiRefused(400, f"at most {USERS_MAX} users are deleted at once")
        known = self._context.doors.access.state.users
        there = [each for each in dict.fromkeys(names) if each in known]
        self._context.submit_all(call, _deletion(there), call.done)


def defined(state: AccessState, user: User) -> UserShown:
    """Return a user as administrators see it: with its password, if that was brought over."""
    for each in state.credentials_of(user.name):
        if isinstance(each, SaltedDigest):
            text, algorithm = write_salted_digest(each)
            return msgspec.structs.replace(
                shown(user), password_hash=text, hashing_algorithm=algorithm
            )
    return shown(user)


def shown(user: User) -> UserShown:
    """Return a user as others see it."""
    return UserShown(name=user.name, tags=list(user.roles))


def _roles(tags: Iterable[str], known: Collection[str]) -> list[Command]:
    """Return the commands that make the roles which tags name and which do not exist."""
    commands: list[Command] = []
    for tag in tags:
        if tag in known:
            continue
        commands.append(PutRole(role=Role(name=tag, description="a tag of RabbitMQ's")))
        rules = tuple(
            _rule(role_principal(tag), operation, kind)
            for operation, kind in _TAG_RULES.get(tag, ())
        )
        if rules:
            commands.append(AddRules(rules=rules))
    return commands


def _rule(principal: Principal, operation: Operation, kind: ResourceType) -> Rule:
    is_cluster = kind is ResourceType.CLUSTER
    return Rule(
        effect=Effect.ALLOW,
        principal=principal,
        operation=operation,
        resource_type=kind,
        pattern=PatternKind.LITERAL if is_cluster else PatternKind.ANY,
        name=CLUSTER_NAME if is_cluster else "",
    )


def _deletion(names: Iterable[str]) -> list[Command]:
    """Return the commands that end users; rules go first, or a later user would have them."""
    commands: list[Command] = []
    for name in names:
        for kind in (*OWN_TYPES, ResourceType.VHOST):
            wanted = AclFilter(
                resource_type=kind,
                pattern_type=PatternType.ANY,
                principal=user_principal(name),
            )
            commands.append(RemoveRules(wanted=wanted))
        commands.append(RemoveUser(name=name))
    return commands
