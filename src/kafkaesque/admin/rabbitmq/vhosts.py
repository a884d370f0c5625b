"""`/vhosts`: virtual hosts."""

from typing import Final

from kafkaesque.admin.rabbitmq.calls import Call, Route
from kafkaesque.admin.rabbitmq.context import Context, node_name
from kafkaesque.admin.rabbitmq.errors import not_found
from kafkaesque.admin.rabbitmq.values import VhostShown
from kafkaesque.broker.requests.exchange_commands import CreateVhost, DeleteVhost


class VhostPages:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context: Final = context

    def routes(self) -> list[Route]:
        """Return the operations."""
        one = "/vhosts/{vhost}"
        return [
            Route(method="GET", path="/vhosts", handle=self.list_all),
            Route(method="GET", path=one, handle=self.show),
            Route(method="PUT", path=one, handle=self.create),
            Route(method="DELETE", path=one, handle=self.delete),
        ]

    def list_all(self, call: Call) -> None:
        """List those that the client may see."""
        names = self._context.doors.exchanges.vhosts()
        call.show_list([self._shown(name) for name in names if call.sees_vhost(name)])

    def show(self, call: Call) -> None:
        """Show one."""
        self._context.vhost(call)
        if not call.sees_vhost(call.vhost):
            raise not_found(f"there is no virtual host {call.vhost!r}")
        call.show(self._shown(call.vhost))

    def create(self, call: Call) -> None:
        """Let one exist; descriptions and tags are not kept."""
        is_new = not self._context.doors.exchanges.has_vhost(call.vhost)
        command = CreateVhost(vhost=call.vhost)
        self._context.submit(call, command, lambda: call.done(is_new=is_new))

    def delete(self, call: Call) -> None:
        """Delete one with all that is in it."""
        self._context.submit(call, DeleteVhost(vhost=call.vhost), call.done)

    def _shown(self, name: str) -> VhostShown:
        alive = self._context.doors.cluster.alive_brokers()
        return VhostShown(
            name=name, cluster_state={node_name(each.node): "running" for each in alive}
        )
