"""`/permissions`: what a user may configure, write and read in a virtual host, as rules have it.

Configure is Create, Delete and Alter, write is Write, read is Read, each on queues and exchanges.
What is shown are the rules for the user alone: roles have more. Who has a permission may see the
virtual host.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from kafkaesque.access.acl_filters import AclFilter, PatternType, Permission
from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.access.principals import user_principal
from kafkaesque.access.rules import DEFAULT_VHOST_PREFIX, VHOST_MARK, Effect, PatternKind, Rule
from kafkaesque.access.state import AccessState
from kafkaesque.admin.rabbitmq.calls import Call, Route
from kafkaesque.admin.rabbitmq.context import Command, Context
from kafkaesque.admin.rabbitmq.errors import not_found
from kafkaesque.admin.rabbitmq.name_patterns import Term, read_pattern, write_pattern
from kafkaesque.admin.rabbitmq.users import OWN_TYPES, UserPages
from kafkaesque.admin.rabbitmq.values import DefinedPermission, NewPermission
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST, QueueName, queue_resource
from kafkaesque.broker.requests.access_commands import AddRules, RemoveRules

_O: Final = Operation
CONFIGURE: Final = (_O.CREATE, _O.DELETE, _O.ALTER)
WRITE: Final = (_O.WRITE,)
READ: Final = (_O.READ,)


class PermissionPages:
    """See the module."""

    def __init__(self, context: Context, users: UserPages) -> None:
        self._context: Final = context
        self._users: Final = users

    def routes(self) -> list[Route]:
        """Return the operations."""
        one = "/permissions/{vhost}/{user}"
        return [
            Route(method="GET", path="/permissions", handle=self.list_all),
            Route(method="GET", path="/vhosts/{vhost}/permissions", handle=self.list_vhost),
            Route(method="GET", path="/users/{user}/permissions", handle=self.list_user),
            Route(method="GET", path=one, handle=self.show),
            Route(method="PUT", path=one, handle=self.put),
            Route(method="DELETE", path=one, handle=self.delete),
        ]

    # -- lists

    def list_all(self, call: Call) -> None:
        """List those of all users in all virtual hosts."""
        call.need_cluster(_O.DESCRIBE)
        call.show_list(self.all())

    def all(self) -> list[DefinedPermission]:
        """Return those of all users in all virtual hosts."""
        users = self._context.doors.access.state.users
        return self._found(sorted(users), self._context.doors.exchanges.vhosts())

    def list_vhost(self, call: Call) -> None:
        """List those of all users in a virtual host."""
        call.need_cluster(_O.DESCRIBE)
        vhost = self._context.vhost(call).name
        call.show_list(self._found(sorted(self._context.doors.access.state.users), [vhost]))

    def list_user(self, call: Call) -> None:
        """List those of a user in all virtual hosts; everybody may see their own."""
        user = self._users.find_seen(call)
        call.show_list(self._found([user.name], self._context.doors.exchanges.vhosts()))

    def show(self, call: Call) -> None:
        """Show those of a user in a virtual host."""
        user, vhost = self._users.find_seen(call), self._context.vhost(call).name
        found = self._found([user.name], [vhost])
        if not found:
            raise not_found(f"user {user.name!r} has no permissions in {vhost!r}")
        call.show(found[0])

    def _found(self, users: Iterable[str], vhosts: Sequence[str]) -> list[DefinedPermission]:
        state = self._context.doors.access.state
        found: list[DefinedPermission] = []
        for user in users:
            rules = _rules_of(state, user)
            for vhost in vhosts if rules else ():
                here = [(rule, term) for rule in rules for term in _terms(rule, vhost)]
                if here:
                    found.append(_shown(user, vhost, here))
        return found

    # -- changes

    def put(self, call: Call) -> None:
        """Let a user have these permissions in a virtual host, and no others of their own."""
        call.need_cluster(_O.ALTER)
        body = call.body(NewPermission)
        name, vhost = self._users.find_in_vhost(call)
        is_new = not self._found([name], [vhost])
        commands = self.plan(name, vhost, body)
        self._context.submit_all(call, commands, lambda: call.done(is_new=is_new))

    def plan(self, user: str, vhost: str, wanted: NewPermission) -> list[Command]:
        """Return the commands that give a user these permissions.

        Raises:
            ApiRefused: rules cannot say a pattern.
        """
        rules = _wanted_rules(user, vhost, wanted)
        kept = {rule.key for rule in rules}
        before = _own_rules(self._context.doors.access.state, user, vhost)
        removed = [_removal(rule) for rule in before if rule.key not in kept]
        return [AddRules(rules=tuple(rules)), *removed]

    def delete(self, call: Call) -> None:
        """Take all permissions in a virtual host from a user."""
        call.need_cluster(_O.ALTER)
        vhost = self._context.vhost(call).name
        name = self._users.find(call.params["user"]).name
        rules = _own_rules(self._context.doors.access.state, name, vhost)
        if not rules:
            raise not_found(f"user {name!r} has no permissions of their own in {vhost!r}")
        self._context.submit_all(call, [_removal(each) for each in rules], call.done)


# -- rules as permissions


def _rules_of(state: AccessState, user: str) -> list[Rule]:
    """Return the rules that allow a user something in virtual hosts."""
    shelves = state.rule_index.shelves(user_principal(user))
    return [
        indexed.rule
        for kind in (*OWN_TYPES, ResourceType.VHOST)
        if kind in shelves
        for indexed in shelves[kind].all_rules()
        if not indexed.is_deny
    ]


def _base(vhost: str) -> str:
    """Return what all names of a virtual host begin with in rules."""
    if vhost == DEFAULT_VHOST:
        return DEFAULT_VHOST_PREFIX
    return queue_resource(QueueName(vhost, ""))


def _terms(rule: Rule, vhost: str) -> list[Term]:
    """Return which names of a virtual host a rule is for; of the host itself, nothing."""
    if rule.resource_type is ResourceType.VHOST:
        # To see it is to have a permission, however little it allows.
        return [Term("", False)] if rule.matches_name(vhost) else []
    if rule.pattern is PatternKind.ANY:
        return [Term("", True)]
    base, is_prefix = _base(vhost), rule.pattern is PatternKind.PREFIX
    if rule.name.startswith(base):
        return [Term(rule.name[len(base) :], is_prefix)]
    if vhost == DEFAULT_VHOST:
        return [] if rule.name.startswith(VHOST_MARK) else [Term(rule.name, is_prefix)]
    return [Term("", True)] if is_prefix and base.startswith(rule.name) else []


def _shown(user: str, vhost: str, rules: Sequence[tuple[Rule, Term]]) -> DefinedPermission:
    def pattern(operation: Operation) -> str:
        return write_pattern(
            [
                term
                for rule, term in rules
                if rule.operation in (operation, _O.ALL)
                and rule.resource_type is not ResourceType.VHOST
            ]
        )

    return DefinedPermission(
        user=user,
        vhost=vhost,
        configure=pattern(CONFIGURE[0]),
        write=pattern(WRITE[0]),
        read=pattern(READ[0]),
    )


# -- permissions as rules


def _wanted_rules(user: str, vhost: str, wanted: NewPermission) -> list[Rule]:
    found = [
        Rule(
            effect=Effect.ALLOW,
            principal=user_principal(user),
            operation=_O.DESCRIBE,
            resource_type=ResourceType.VHOST,
            name=vhost,
        )
    ]
    for pattern, operations in (
        (wanted.configure, CONFIGURE),
        (wanted.write, WRITE),
        (wanted.read, READ),
    ):
        for term in read_pattern(pattern):
            name = _base(vhost) + term.text
            if vhost == DEFAULT_VHOST and not term.is_prefix:
                name = term.text
            found += [
                Rule(
                    effect=Effect.ALLOW,
                    principal=user_principal(user),
                    operation=operation,
                    resource_type=kind,
                    pattern=PatternKind.PREFIX if term.is_prefix else PatternKind.LITERAL,
                    name=name,
                )
                for operation in operations
                for kind in OWN_TYPES
            ]
    return found


def _own_rules(state: AccessState, user: str, vhost: str) -> list[Rule]:
    """Return the rules for a user that are for one virtual host alone."""
    base = _base(vhost)

    def is_own(rule: Rule) -> bool:
        if rule.resource_type is ResourceType.VHOST:
            return rule.pattern is PatternKind.LITERAL and rule.name == vhost
        if rule.pattern is PatternKind.ANY:
            return False
        is_plain = vhost == DEFAULT_VHOST and not rule.name.startswith(VHOST_MARK)
        return is_plain or rule.name.startswith(base)

    return [each for each in _rules_of(state, user) if is_own(each)]


def _removal(rule: Rule) -> RemoveRules:
    """Return the command that removes a rule, and no other."""
    is_prefix = rule.pattern is PatternKind.PREFIX
    return RemoveRules(
        wanted=AclFilter(
            resource_type=rule.resource_type,
            name=rule.name,
            pattern_type=PatternType.PREFIXED if is_prefix else PatternType.LITERAL,
            principal=rule.principal,
            host=rule.host,
            operation=rule.operation,
            permission=Permission.ALLOW,
        )
    )
