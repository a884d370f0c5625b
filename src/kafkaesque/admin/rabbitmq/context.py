"""What all handlers share: one broker, and how changes are made by the controller."""

from collections.abc import Callable, Sequence
from typing import Final

from kafkaesque.admin.api.context import Context as AdminContext
from kafkaesque.admin.api.fan_out import FanOut
from kafkaesque.admin.rabbitmq.calls import Call
from kafkaesque.admin.rabbitmq.errors import not_found
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.options.queues import TRANSFORMATION_OUT
from kafkaesque.broker.requests.access_commands import (
    AccessCommand,
    AddRules,
    PutCredential,
    PutRole,
    PutTopicPermission,
    PutUser,
    RemoveCredential,
    RemoveRules,
    RemoveTopicPermissions,
)
from kafkaesque.broker.requests.commands import CreateTopic, DeleteTopic
from kafkaesque.broker.requests.exchange_commands import (
    BindDestination,
    CreateVhost,
    DeclareExchange,
    ExchangeCommand,
    PutPolicy,
    PutTransformation,
)
from kafkaesque.broker.requests.queue_commands import ClientQueueCommand, CreateQueue
from kafkaesque.model.errors import RequestRefused
from kafkaesque.routing.exchanges.topology import Vhost

Command = AccessCommand | ExchangeCommand | ClientQueueCommand | CreateTopic | DeleteTopic

CHANGE_MS_MAX: Final = 10_000
#: Commands of one import that are asked for at a time.
UNDER_WAY_MAX: Final = 64
#: What such an import asks for: a kind needs those before it.
KINDS: Final[tuple[type[Command], ...]] = (
    CreateVhost,
    PutRole,
    AddRules,
    PutUser,
    PutTopicPermission,
    RemoveTopicPermissions,
    PutCredential,
    RemoveCredential,
    RemoveRules,
    PutPolicy,
    DeclareExchange,
    CreateTopic,
    CreateQueue,
    # Their queues for failures have to be there.
    PutTransformation,
    BindDestination,
)
NODE_PREFIX: Final = "kafkaesque@"


def node_name(node: int) -> str:
    """Return what a broker is called here."""
    return f"{NODE_PREFIX}{node}"


class Context:
    """See the module."""

    __slots__ = ("_admin", "doors")

    def __init__(self, admin: AdminContext) -> None:
        self._admin: Final = admin
        self.doors: Final[Doors] = admin.doors

    @property
    def fan_out(self) -> FanOut:
        """Asks all brokers for their parts of an answer."""
        return self._admin.fan_out

    @property
    def version(self) -> str:
        """The release of this broker."""
        return self._admin.version

    def vhost(self, call: Call) -> Vhost:
        """Return the virtual host that a path names.

        Raises:
            ApiRefused: there is none, or the client may not know of it.
        """
        if not self.doors.exchanges.has_vhost(call.vhost) or not call.may_know_vhost(call.vhost):
            raise not_found(f"there is no virtual host {call.vhost!r}")
        return self.doors.exchanges.vhost(call.vhost)

    def submit(self, call: Call, command: Command, then: Callable[[], None]) -> None:
        """Have the controller carry out a command, and go on when this broker has heard of it."""
        self.submit_all(call, [command], then)

    def submit_all(self, call: Call, commands: Sequence[Command], then: Callable[[], None]) -> None:
        """Have the controller carry out commands one after the other; the first refusal ends it."""
        left = iter(commands)

        def on_outcome(outcome: object) -> None:
            call.guard(lambda: go_on(outcome))

        def go_on(outcome: object) -> None:
            if isinstance(outcome, RequestRefused):
                raise outcome
            command = next(left, None)
            if command is None:
                self.when_current(call, then)
            else:
                self.doors.cluster.submit(call.sign(command), CHANGE_MS_MAX, on_outcome)

        go_on(None)

    def submit_many(
        self, call: Call, commands: Sequence[Command], then: Callable[[], None]
    ) -> None:
        """Have the controller carry out commands, many at a time, in the order of `KINDS`.

        The first refusal ends it when those that were asked for at the same time are answered.
        """
        waiting = iter(stages_of(commands))

        def go_on() -> None:
            stage = next(waiting, None)
            if stage is None:
                self.when_current(call, then)
            else:
                _Stage(self, call, stage, go_on).start()

        go_on()

    def when_current(self, call: Call, then: Callable[[], None]) -> None:
        """Go on once this broker has heard of all that was decided, or after a while."""
        self.doors.cluster.when_current(CHANGE_MS_MAX, lambda _: call.guard(then))


def stages_of(commands: Sequence[Command]) -> list[list[Command]]:
    """Return commands in the order in which they are asked for: together, what can be."""
    outs = {
        (each.vhost, each.name): _out_of(each) for each in commands if isinstance(each, CreateQueue)
    }
    failures = {
        (each.vhost, each.name): each.rule.failures
        for each in commands
        if isinstance(each, PutTransformation)
    }

    def place_of(command: Command) -> tuple[int, int]:
        if not isinstance(command, CreateQueue | PutTransformation):
            return KINDS.index(type(command)), 0
        # Some queues need a transformation, which may need a queue that needs another one.
        rule, depth = command.name, 0
        if isinstance(command, CreateQueue):
            rule, depth = _out_of(command), 1
            if not rule:
                return KINDS.index(CreateQueue), 0
        seen: set[str] = set()
        while rule not in seen:
            seen.add(rule)
            rule = outs.get((command.vhost, failures.get((command.vhost, rule), "")), "")
            if not rule:
                break
            depth += 2
        return KINDS.index(PutTransformation), depth

    stages: dict[tuple[int, int], list[Command]] = {}
    for each in commands:
        stages.setdefault(place_of(each), []).append(each)
    return [stage for _, stage in sorted(stages.items())]


def _out_of(command: Command) -> str:
    if not isinstance(command, CreateQueue):
        return ""
    return command.options.get(TRANSFORMATION_OUT, "")


class _Stage:
    """Commands that do not depend on one another."""

    def __init__(
        self, context: Context, call: Call, commands: Sequence[Command], then: Callable[[], None]
    ) -> None:
        self._cluster = context.doors.cluster
        self._call = call
        self._left = iter(commands)
        self._then = then
        self._under_way = 0
        self._refusal: RequestRefused | None = None

    def start(self) -> None:
        """Ask for as many as may be under way."""
        while self._refusal is None and self._under_way < UNDER_WAY_MAX:
            command = next(self._left, None)
            if command is None:
                break
            self._under_way += 1
            self._cluster.submit(self._call.sign(command), CHANGE_MS_MAX, self._on_outcome)
        if not self._under_way:
            self._end()

    def _on_outcome(self, outcome: object) -> None:
        self._under_way -= 1
        if isinstance(outcome, RequestRefused):
            self._refusal = self._refusal or outcome
        if self._refusal is None:
            self.start()
        elif not self._under_way:
            self._end()

    def _end(self) -> None:
        if self._refusal is not None:
            self._call.refuse(self._refusal)
        else:
            self._then()
