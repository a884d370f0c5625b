"""What all handlers share: one broker, and how changes are made by the controller."""

from collections.abc import Callable, Sequence
from typing import Final

from kafkaesque.admin.api.context import Context as AdminContext
from kafkaesque.admin.api.fan_out import FanOut
from kafkaesque.admin.rabbitmq.calls import Call
from kafkaesque.admin.rabbitmq.errors import not_found
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.requests.access_commands import AccessCommand
from kafkaesque.broker.requests.exchange_commands import ExchangeCommand
from kafkaesque.broker.requests.queue_commands import ClientQueueCommand
from kafkaesque.model.errors import RequestRefused
from kafkaesque.routing.exchanges.topology import Vhost

CHANGE_MS_MAX: Final = 10_000
NODE_PREFIX: Final = "kafkaesque@"

Command = AccessCommand | ExchangeCommand | ClientQueueCommand


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
            ApiRefused: there is none.
        """
        if not self.doors.exchanges.has_vhost(call.vhost):
            raise not_found(f"there is no virtual host {call.vhost!r}")
        return self.doors.exchanges.vhost(call.vhost)

    def submit(self, call: Call, command: Command, then: Callable[[], None]) -> None:
        """Have the controller carry out a command, and go on when this broker has heard of it."""
        self.submit_all(call, [command], then)

    def submit_all(self, call: Call, commands: Sequence[Command], then: Callable[[], None]) -> None:
        """Have the controller carry out commands one after the other; the first refusal ends it."""
        left = iter(commands)

        def on_outcome(outcome: object) -> None:
            if isinstance(outcome, RequestRefused):
                call.refuse(outcome)
                return
            command = next(left, None)
            if command is None:
                self.when_current(call, then)
            else:
                self.doors.cluster.submit(call.sign(command), CHANGE_MS_MAX, on_outcome)

        on_outcome(None)

    def when_current(self, call: Call, then: Callable[[], None]) -> None:
        """Go on once this broker has heard of all that was decided, or after a while."""
        self.doors.cluster.when_current(CHANGE_MS_MAX, lambda _: call.guard(then))
