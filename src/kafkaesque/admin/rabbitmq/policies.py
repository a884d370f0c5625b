"""`/policies` and `/operator-policies`: settings by pattern and priority, and limits on them."""

from functools import partial
from typing import Final, Protocol

from kafkaesque.access.operations import Operation
from kafkaesque.admin.rabbitmq.calls import Call, Route
from kafkaesque.admin.rabbitmq.context import Context
from kafkaesque.admin.rabbitmq.errors import not_found
from kafkaesque.admin.rabbitmq.values import NewPolicy, PolicyShown
from kafkaesque.broker.requests.exchange_commands import PutPolicy, RemovePolicy
from kafkaesque.routing.exchanges.records import PolicyPut
from kafkaesque.routing.exchanges.topology import Vhost


class _Handle(Protocol):
    def __call__(self, call: Call, *, is_operator: bool) -> None:
        """Answer a call about policies, or about operators' ones."""


class PolicyPages:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context: Final = context

    def routes(self) -> list[Route]:
        """Return the operations."""
        return [
            *self._routes("/policies", is_operator=False),
            *self._routes("/operator-policies", is_operator=True),
        ]

    def _routes(self, root: str, *, is_operator: bool) -> list[Route]:
        one = f"{root}/{{vhost}}/{{policy}}"

        def route(method: str, path: str, handle: _Handle) -> Route:
            return Route(method=method, path=path, handle=partial(handle, is_operator=is_operator))

        return [
            route("GET", root, self.list_all),
            route("GET", f"{root}/{{vhost}}", self.list_vhost),
            route("GET", one, self.show),
            route("PUT", one, self.put),
            route("DELETE", one, self.delete),
        ]

    def list_all(self, call: Call, *, is_operator: bool) -> None:
        """List those of the virtual hosts that the client may see."""
        door = self._context.doors.exchanges
        names = [each for each in door.vhosts() if call.sees_vhost(each)]
        call.show_list(
            [each for name in names for each in _of(door.vhost(name), is_operator=is_operator)]
        )

    def list_vhost(self, call: Call, *, is_operator: bool) -> None:
        """List those of one virtual host."""
        call.show_list(_of(self._vhost(call), is_operator=is_operator))

    def show(self, call: Call, *, is_operator: bool) -> None:
        """Show one."""
        call.show(shown(self._find(call, is_operator=is_operator)))

    def put(self, call: Call, *, is_operator: bool) -> None:
        """Make one, or make one so."""
        body, name = call.body(NewPolicy), call.params["policy"]
        call.need_cluster(Operation.ALTER)
        known = self._context.vhost(call).policies.get(name, is_operator=is_operator)
        command = PutPolicy(
            vhost=call.vhost,
            name=name,
            pattern=body.pattern,
            apply_to=body.apply_to,
            definition=body.definition,
            priority=body.priority,
            is_operator=is_operator,
        )
        self._context.submit(call, command, lambda: call.done(is_new=known is None))

    def delete(self, call: Call, *, is_operator: bool) -> None:
        """Remove one."""
        call.need_cluster(Operation.ALTER)
        self._find(call, is_operator=is_operator)
        command = RemovePolicy(
            vhost=call.vhost, name=call.params["policy"], is_operator=is_operator
        )
        self._context.submit(call, command, call.done)

    def _vhost(self, call: Call) -> Vhost:
        found = self._context.vhost(call)
        if not call.sees_vhost(call.vhost):
            raise not_found(f"there is no virtual host {call.vhost!r}")
        return found

    def _find(self, call: Call, *, is_operator: bool) -> PolicyPut:
        name = call.params["policy"]
        found = self._vhost(call).policies.get(name, is_operator=is_operator)
        if found is None:
            raise not_found(f"there is no policy {name!r} in {call.vhost!r}")
        return found


def shown(policy: PolicyPut) -> PolicyShown:
    """Return a policy as clients see it."""
    return PolicyShown(
        vhost=policy.vhost,
        name=policy.name,
        pattern=policy.pattern,
        apply_to=policy.apply_to,
        definition=policy.definition,
        priority=policy.priority,
    )


def _of(vhost: Vhost, *, is_operator: bool) -> list[PolicyShown]:
    found = [each for each in vhost.policies if each.is_operator == is_operator]
    return [shown(each) for each in sorted(found, key=lambda each: each.name)]
