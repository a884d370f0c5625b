"""`/exchanges`: listed, declared and deleted."""

from typing import Final

import msgspec

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.admin.rabbitmq.calls import Call, Route
from kafkaesque.admin.rabbitmq.context import Context
from kafkaesque.admin.rabbitmq.errors import not_found
from kafkaesque.admin.rabbitmq.values import ExchangeShown, NewExchange
from kafkaesque.broker.metadata.queue_names import exchange_resource
from kafkaesque.broker.requests.exchange_commands import DeclareExchange, DeleteExchange
from kafkaesque.chassis.meanings import plain_arguments
from kafkaesque.routing.exchanges.topology import Exchange, Vhost
from kafkaesque.routing.policies import Target


class ExchangePages:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context: Final = context

    def routes(self) -> list[Route]:
        """Return the operations."""
        one = "/exchanges/{vhost}/{exchange}"
        return [
            Route(method="GET", path="/exchanges", handle=self.list_all),
            Route(method="GET", path="/exchanges/{vhost}", handle=self.list_vhost),
            Route(method="GET", path=one, handle=self.show),
            Route(method="PUT", path=one, handle=self.declare),
            Route(method="DELETE", path=one, handle=self.delete),
        ]

    def list_all(self, call: Call) -> None:
        """List those of all virtual hosts that the client may see."""
        door = self._context.doors.exchanges
        call.show_list(
            [each for name in door.vhosts() for each in self._seen(call, door.vhost(name))]
        )

    def list_vhost(self, call: Call) -> None:
        """List those of one virtual host."""
        call.show_list(self._seen(call, self._context.vhost(call)))

    def show(self, call: Call) -> None:
        """Show one."""
        call.show(shown(self._context.vhost(call), self.find(call)))

    def find(self, call: Call) -> Exchange:
        """Return the exchange that a path names.

        Raises:
            ApiRefused: there is none, or the client may not see it.
        """
        found = self._context.vhost(call).exchanges.get(call.exchange)
        if found is None or not call.sees_exchange(call.vhost, call.exchange):
            raise not_found(f"there is no exchange {call.exchange!r} in {call.vhost!r}")
        return found

    def declare(self, call: Call) -> None:
        """Declare one; the same declaration again is as good."""
        body = call.body(NewExchange)
        vhost, name = self._context.vhost(call), call.exchange
        call.need(Operation.CREATE, ResourceType.EXCHANGE, exchange_resource(vhost.name, name))
        is_new = name not in vhost.exchanges
        command = DeclareExchange(
            vhost=vhost.name,
            name=name,
            type=body.type,
            is_durable=body.durable,
            is_auto_delete=body.auto_delete,
            is_internal=body.internal,
            arguments=body.arguments,
        )
        self._context.submit(call, command, lambda: call.done(is_new=is_new))

    def delete(self, call: Call) -> None:
        """Delete one and its bindings."""
        self.find(call)
        command = DeleteExchange(
            vhost=call.vhost, name=call.exchange, if_unused=call.flag("if-unused")
        )
        self._context.submit(call, command, call.done)

    def _seen(self, call: Call, vhost: Vhost) -> list[ExchangeShown]:
        return [
            shown(vhost, vhost.exchanges[name])
            for name in sorted(vhost.exchanges)
            if call.sees_exchange(vhost.name, name)
        ]


def shown(vhost: Vhost, exchange: Exchange) -> ExchangeShown:
    """Return an exchange as clients see it."""
    definition = exchange.definition
    policy = vhost.policies.find(Target.EXCHANGE, definition.name).policy
    return ExchangeShown(
        name=definition.name,
        vhost=vhost.name,
        type=definition.type,
        durable=definition.is_durable,
        auto_delete=definition.is_auto_delete,
        internal=definition.is_internal,
        arguments=plain_arguments(definition.arguments),
        policy=msgspec.UNSET if policy is None else policy.name,
    )
