"""`/definitions`: all that can be brought from one cluster to another, or from RabbitMQ.

An import is checked as a whole before anything is changed. What is there already and the same stays
as it is, so an import that has ended in the middle can be asked for again. Nothing is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Final

import msgspec

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.admin.rabbitmq.calls import Call, Route
from kafkaesque.admin.rabbitmq.context import Command, Context, stages_of
from kafkaesque.admin.rabbitmq.errors import REFUSALS, ApiRefused
from kafkaesque.admin.rabbitmq.permissions import PermissionPages
from kafkaesque.admin.rabbitmq.queues import QueuePages
from kafkaesque.admin.rabbitmq.topic_permissions import TopicPermissionPages
from kafkaesque.admin.rabbitmq.users import UserPages, defined
from kafkaesque.admin.rabbitmq.values import (
    DefinedBinding,
    DefinedExchange,
    DefinedParameter,
    DefinedPermission,
    DefinedPolicy,
    DefinedQueue,
    DefinedTopicPermission,
    DefinedUser,
    DefinedVhost,
    Definitions,
    NewPolicy,
    UserShown,
)
from kafkaesque.broker.metadata.queue_names import (
    QueueName,
    check_vhost,
    exchange_resource,
    queue_resource,
)
from kafkaesque.broker.metadata.rehearsal import Rehearsal
from kafkaesque.broker.requests.commands import CreateTopic
from kafkaesque.broker.requests.exchange_commands import (
    BindDestination,
    CreateVhost,
    DeclareExchange,
    PutPolicy,
    PutTransformation,
)
from kafkaesque.broker.requests.queue_commands import CreateQueue
from kafkaesque.chassis.amqp.arguments import arguments_of, declaration_of
from kafkaesque.chassis.meanings import plain_arguments
from kafkaesque.routing.exchanges.records import Destination, PolicyPut
from kafkaesque.routing.exchanges.topology import (
    DEFAULT_EXCHANGE,
    PREDECLARED,
    Vhost,
)
from kafkaesque.routing.transformations.rules import Rule

OPERATOR_POLICY: Final = "operator_policy"
#: RabbitMQ has no such component.
TRANSFORMATION: Final = "transformation"
_KINDS: Final = ("queue", "exchange", "topic")
#: Commands that are planned in one turn of the loop: some milliseconds of work.
PER_TURN_MAX: Final = 100
Scope = str | msgspec.UnsetType
_Scoped = (
    DefinedPolicy
    | DefinedParameter
    | DefinedQueue
    | DefinedExchange
    | DefinedBinding
    | DefinedPermission
    | DefinedTopicPermission
)


class DefinitionPages:
    """See the module."""

    def __init__(
        self,
        context: Context,
        queues: QueuePages,
        users: UserPages,
        permissions: PermissionPages,
        topic_permissions: TopicPermissionPages,
    ) -> None:
        self._context: Final = context
        self._queues: Final = queues
        self._users: Final = users
        self._permissions: Final = permissions
        self._topic_permissions: Final = topic_permissions

    def routes(self) -> list[Route]:
        """Return the operations."""
        return [
            Route(method="GET", path="/definitions", handle=self.export_all),
            Route(method="POST", path="/definitions", handle=self.import_all),
            Route(method="GET", path="/definitions/{vhost}", handle=self.export_vhost),
            Route(method="POST", path="/definitions/{vhost}", handle=self.import_vhost),
        ]

    # -- export

    def export_all(self, call: Call) -> None:
        """Return all of the cluster: for those who could give themselves any right to see it."""
        call.need_cluster(Operation.ALTER)
        door, state = self._context.doors.exchanges, self._context.doors.access.state
        vhosts = [door.vhost(name) for name in door.vhosts()]
        users = [_user(defined(state, user)) for _, user in sorted(state.users.items())]
        found = Definitions(
            product_version=self._context.version,
            users=users,
            vhosts=[DefinedVhost(name=each.name) for each in vhosts],
            permissions=self._permissions.all(),
            topic_permissions=self._topic_permissions.all(),
            parameters=[each for vhost in vhosts for each in _parameters(vhost, vhost.name)],
            policies=[each for vhost in vhosts for each in _policies(vhost, vhost.name)],
            queues=[each for vhost in vhosts for each in self._queues_of(vhost, vhost.name)],
            exchanges=[each for vhost in vhosts for each in _exchanges(vhost, vhost.name)],
            bindings=[each for vhost in vhosts for each in _bindings(vhost, vhost.name)],
        )
        call.answer(found)

    def export_vhost(self, call: Call) -> None:
        """Return what is in a virtual host, without its name: for another one."""
        call.need_cluster(Operation.ALTER)
        vhost = self._context.vhost(call)
        found = Definitions(
            product_version=self._context.version,
            parameters=list(_parameters(vhost, msgspec.UNSET)),
            policies=list(_policies(vhost, msgspec.UNSET)),
            queues=list(self._queues_of(vhost, msgspec.UNSET)),
            exchanges=list(_exchanges(vhost, msgspec.UNSET)),
            bindings=list(_bindings(vhost, msgspec.UNSET)),
        )
        call.answer(found)

    def _queues_of(self, vhost: Vhost, scope: Scope) -> Iterator[DefinedQueue]:
        queues = self._context.doors.cluster.state.queues_by_vhost.get(vhost.name, {})
        for name, queue in sorted(queues.items()):
            said = declaration_of(queue)
            if queue.source is not None or (said is not None and said.is_exclusive):
                # A cursor goes with its topic, an exclusive queue with its connection.
                continue
            yield DefinedQueue(
                vhost=scope,
                name=name,
                durable=True if said is None else said.durable,
                auto_delete=said is not None and said.auto_delete,
                arguments=arguments_of(queue),
            )

    # -- import

    def import_all(self, call: Call) -> None:
        """Bring in what a file says of a whole cluster."""
        call.need_cluster(Operation.ALTER)
        wanted = call.body(Definitions)
        vhosts = {each.name for each in wanted.vhosts}
        for name in vhosts:
            check_vhost(name)
        known = {*vhosts, *self._context.doors.exchanges.vhosts()}
        commands: list[Command] = [CreateVhost(vhost=name) for name in sorted(vhosts)]
        rest = self._plan(call, wanted, lambda of: _vhost_of(of, known))
        users = {*self._context.doors.access.state.users, *(each.name for each in wanted.users)}
        permissions: list[Command] = [
            each
            for wish in wanted.permissions
            for each in self._permissions.plan(_user_of(wish, users), _vhost_of(wish, known), wish)
        ]
        permissions += [
            self._topic_permissions.plan(_user_of(each, users), _vhost_of(each, known), each)
            for each in wanted.topic_permissions
        ]

        def on_users(planned: Sequence[Command]) -> None:
            every = [*commands, *planned, *permissions, *rest]
            self._context.submit_many(call, every, call.done)

        self._rehearse(
            call, [*commands, *rest], lambda: self._plan_users(call, wanted.users, on_users)
        )

    def import_vhost(self, call: Call) -> None:
        """Bring in what a file says of one virtual host."""
        call.need_cluster(Operation.ALTER)
        name = self._context.vhost(call).name
        commands = self._plan(call, call.body(Definitions), lambda _: name)
        self._rehearse(call, commands, lambda: self._context.submit_many(call, commands, call.done))

    def _plan_users(
        self, call: Call, users: Iterable[DefinedUser], then: Callable[[list[Command]], None]
    ) -> None:
        """Go on with the commands for all users; each password takes milliseconds of work."""
        left, commands = iter(users), list[Command]()
        is_running = is_due = False

        def go_on(planned: Sequence[Command]) -> None:
            # Without a password it is called within `plan`: thousands deep it may not be.
            nonlocal is_running, is_due
            commands.extend(planned)
            is_due = True
            if is_running:
                return
            is_running = True
            while is_due:
                is_due = False
                user = next(left, None)
                if user is None:
                    then(commands)
                    return
                self._users.plan(call, user.name, user, go_on)
            is_running = False

        go_on(())

    def _plan(
        self, call: Call, wanted: Definitions, vhost_of: Callable[[_Scoped], str]
    ) -> list[Command]:
        """Return the commands for what is in virtual hosts.

        Raises:
            ApiRefused, AmqpError: something cannot be so, or is there and differs.
        """
        commands: list[Command] = [
            _put(vhost_of(each), each.name, each, is_operator=False) for each in wanted.policies
        ]
        for each in wanted.parameters:
            if each.component == OPERATOR_POLICY:
                body = _operator_policy(each)
                commands.append(_put(vhost_of(each), each.name, body, is_operator=True))
            elif each.component == TRANSFORMATION:
                commands.append(_transformation(vhost_of(each), each))
        for exchange in wanted.exchanges:
            commands += _exchange(vhost_of(exchange), exchange)
        commands += self._plan_queues(wanted.queues, vhost_of)
        for binding in wanted.bindings:
            commands += _binding(call, vhost_of(binding), binding)
        return commands

    def _plan_queues(
        self, queues: Iterable[DefinedQueue], vhost_of: Callable[[_Scoped], str]
    ) -> Iterator[Command]:
        seen: dict[QueueName, DefinedQueue] = {}
        for queue in queues:
            name = QueueName(vhost_of(queue), queue.name)
            alone = msgspec.structs.replace(queue, vhost=msgspec.UNSET)
            if seen.setdefault(name, alone) != alone:
                raise ApiRefused(400, f"{_word(queue)} is in the file twice, and differs")
            if seen[name] is alone:
                yield from self._queues.plan(name, queue)

    def _rehearse(self, call: Call, commands: Sequence[Command], then: Callable[[], None]) -> None:
        """Go on if all can be done, one after the other: few are looked at in each turn.

        Raises:
            ApiRefused: one cannot.
        """
        rehearsal = Rehearsal(self._context.doors.cluster.state)
        left = chain.from_iterable(stages_of(commands))

        def go_on() -> None:
            few = list(islice(left, PER_TURN_MAX))
            for command in few:
                try:
                    rehearsal.plan(command)
                except REFUSALS as refusal:
                    raise ApiRefused(400, f"{_subject(command)}: {refusal}") from None
            if len(few) < PER_TURN_MAX:
                then()
            else:
                self._context.doors.clock.call_soon(lambda: call.guard(go_on))

        go_on()


# -- what there is, as definitions


def _user(user: UserShown) -> DefinedUser:
    return DefinedUser(
        name=user.name,
        password_hash=user.password_hash,
        hashing_algorithm=user.hashing_algorithm,
        tags=user.tags,
    )


def _parameters(vhost: Vhost, scope: Scope) -> Iterator[DefinedParameter]:
    for each in vhost.policies:
        if each.is_operator:
            value = {
                "pattern": each.pattern,
                "definition": each.definition,
                "priority": each.priority,
                "apply-to": each.apply_to,
            }
            yield DefinedParameter(
                component=OPERATOR_POLICY, vhost=scope, name=each.name, value=value
            )
    for name, made in sorted(vhost.transformations.items()):
        yield DefinedParameter(
            component=TRANSFORMATION, vhost=scope, name=name, value=msgspec.to_builtins(made.rule)
        )


def _policies(vhost: Vhost, scope: Scope) -> Iterator[DefinedPolicy]:
    for each in vhost.policies:
        if not each.is_operator:
            yield _policy(each, scope)


def _policy(policy: PolicyPut, scope: Scope) -> DefinedPolicy:
    return DefinedPolicy(
        vhost=scope,
        name=policy.name,
        pattern=policy.pattern,
        definition=policy.definition,
        priority=policy.priority,
        apply_to=policy.apply_to,
    )


def _exchanges(vhost: Vhost, scope: Scope) -> Iterator[DefinedExchange]:
    for name, each in sorted(vhost.exchanges.items()):
        if name not in PREDECLARED:
            yield DefinedExchange(
                vhost=scope,
                name=name,
                type=each.definition.type,
                durable=each.definition.is_durable,
                auto_delete=each.definition.is_auto_delete,
                internal=each.definition.is_internal,
                arguments=plain_arguments(each.definition.arguments),
            )


def _bindings(vhost: Vhost, scope: Scope) -> Iterator[DefinedBinding]:
    for each in sorted(vhost.bindings()):
        to = each.destination
        yield DefinedBinding(
            vhost=scope,
            source=each.source,
            destination=to.name,
            destination_type="topic" if to.is_topic else "exchange" if to.is_exchange else "queue",
            routing_key=each.key,
            arguments=plain_arguments(each.arguments),
        )


# -- definitions as commands


def _vhost_of(defined: _Scoped, known: Container[str]) -> str:
    """Return the virtual host that something is in.

    Raises:
        ApiRefused: it says none, or one that is not there.
    """
    vhost = defined.vhost
    if isinstance(vhost, msgspec.UnsetType):
        raise ApiRefused(
            400,
            f"{_word(defined)} has no vhost: a file of one virtual host is imported with the name"
            " of one",
        )
    if vhost not in known:
        raise ApiRefused(400, f"there is no virtual host {vhost!r}, and none is defined")
    return vhost


def _word(defined: _Scoped) -> str:
    """Return what a definition is called in a sentence."""
    match defined:
        case DefinedBinding():
            return f"the binding from {defined.source!r} to {defined.destination!r}"
        case DefinedPermission() | DefinedTopicPermission():
            return f"the permission of user {defined.user!r}"
        case DefinedParameter():
            return f"{defined.component} {defined.name!r}"
        case _:
            kind = type(defined).__name__.removeprefix("Defined").lower()
            return f"{kind} {defined.name!r}"


def _subject(command: Command) -> str:
    """Return what a command is about, for a sentence."""
    match command:
        case BindDestination():
            return f"the binding from {command.source!r} to {command.destination.name!r}"
        case DeclareExchange():
            return f"exchange {command.name!r}"
        case CreateQueue():
            return f"queue {command.name!r}"
        case PutPolicy():
            return f"policy {command.name!r}"
        case PutTransformation():
            return f"transformation {command.name!r}"
        case CreateTopic():
            return f"topic {command.name!r}"
        case _:
            return "the file"


def _user_of(permission: DefinedPermission | DefinedTopicPermission, known: Container[str]) -> str:
    """Return whose permission it is.

    Raises:
        ApiRefused: there is no such user, and none is defined.
    """
    if permission.user not in known:
        raise ApiRefused(400, f"there is no user {permission.user!r}, and none is defined")
    return permission.user


def _put(vhost: str, name: str, policy: NewPolicy, *, is_operator: bool) -> PutPolicy:
    return PutPolicy(
        vhost=vhost,
        name=name,
        pattern=policy.pattern,
        apply_to=policy.apply_to,
        definition=policy.definition,
        priority=policy.priority,
        is_operator=is_operator,
    )


def _operator_policy(parameter: DefinedParameter) -> NewPolicy:
    try:
        return msgspec.convert(parameter.value, NewPolicy)
    except msgspec.ValidationError as error:
        raise ApiRefused(400, f"operator policy {parameter.name!r}: {error}") from None


def _transformation(vhost: str, parameter: DefinedParameter) -> PutTransformation:
    try:
        rule = msgspec.convert(parameter.value, Rule)
    except msgspec.ValidationError as error:
        raise ApiRefused(400, f"transformation {parameter.name!r}: {error}") from None
    return PutTransformation(vhost=vhost, name=parameter.name, rule=rule)


def _exchange(vhost: str, exchange: DefinedExchange) -> list[DeclareExchange]:
    if exchange.name in PREDECLARED:
        return []
    return [
        DeclareExchange(
            vhost=vhost,
            name=exchange.name,
            type=exchange.type,
            is_durable=exchange.durable,
            is_auto_delete=exchange.auto_delete,
            is_internal=exchange.internal,
            arguments=exchange.arguments,
        )
    ]


def _binding(call: Call, vhost: str, binding: DefinedBinding) -> list[BindDestination]:
    """Return the command that makes a binding.

    Raises:
        ApiRefused: no rule allows it, or it leads to what there is no type of.
    """
    if binding.source == DEFAULT_EXCHANGE:
        # Each queue has it of itself.
        return []
    kind = binding.destination_type
    if kind not in _KINDS:
        raise ApiRefused(400, f"a binding leads to one of {', '.join(_KINDS)}, not to {kind!r}")
    to = Destination(binding.destination, kind == "exchange", kind == "topic")
    call.need(Operation.READ, ResourceType.EXCHANGE, exchange_resource(vhost, binding.source))
    if to.is_topic:
        call.need(Operation.WRITE, ResourceType.TOPIC, to.name)
    else:
        kind_of = ResourceType.EXCHANGE if to.is_exchange else ResourceType.QUEUE
        call.need(Operation.WRITE, kind_of, queue_resource(QueueName(vhost, to.name)))
    return [
        BindDestination(
            vhost=vhost,
            source=binding.source,
            destination=to,
            key=binding.routing_key,
            arguments=binding.arguments,
        )
    ]
