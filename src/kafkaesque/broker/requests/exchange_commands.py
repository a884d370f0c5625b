"""What the controller can be asked of virtual hosts, exchanges, bindings and what goes with them.

RabbitMQ's rules hold: what is there with the same type and flags can be declared again, and what is
absent can be deleted and unbound. Answer of all: `Done`.
"""

import msgspec

from kafkaesque.broker.requests.client_command import ClientCommand
from kafkaesque.routing.exchanges.records import Destination
from kafkaesque.routing.transformations.rules import Rule


class CreateVhost(ClientCommand, frozen=True, tag="create-vhost", kw_only=True):
    """Let a virtual host exist."""

    vhost: str


class DeleteVhost(ClientCommand, frozen=True, tag="delete-vhost", kw_only=True):
    """Delete a virtual host, with its queues, their messages, its exchanges and bindings."""

    vhost: str


class DeclareExchange(ClientCommand, frozen=True, tag="declare-exchange", kw_only=True):
    """Let an exchange exist; see `ExchangeDeclared` for what its fields say."""

    vhost: str
    name: str
    type: str
    is_durable: bool = True
    is_auto_delete: bool = False
    is_internal: bool = False
    arguments: dict[str, object] = msgspec.field(default_factory=dict)


class DeleteExchange(ClientCommand, frozen=True, tag="delete-exchange", kw_only=True):
    """Delete an exchange and its bindings."""

    vhost: str
    name: str
    #: Only if no binding begins there.
    if_unused: bool = False


class BindDestination(ClientCommand, frozen=True, tag="bind", kw_only=True):
    """Let an exchange pass messages on to a queue, another exchange or a topic."""

    vhost: str
    source: str
    destination: Destination
    key: str = ""
    arguments: dict[str, object] = msgspec.field(default_factory=dict)


class UnbindDestination(ClientCommand, frozen=True, tag="unbind", kw_only=True):
    """End a binding; all of it is what it is known by."""

    vhost: str
    source: str
    destination: Destination
    key: str = ""
    arguments: dict[str, object] = msgspec.field(default_factory=dict)


class PutPolicy(ClientCommand, frozen=True, tag="put-policy", kw_only=True):
    """Let a policy exist, and be so; see `PolicyPut` for what its fields say."""

    vhost: str
    name: str
    pattern: str
    apply_to: str = "all"
    definition: dict[str, object]
    priority: int = 0
    is_operator: bool = False


class RemovePolicy(ClientCommand, frozen=True, tag="remove-policy", kw_only=True):
    """Remove a policy; one that is absent is as good."""

    vhost: str
    name: str
    is_operator: bool = False


class PutTransformation(ClientCommand, frozen=True, tag="put-transformation", kw_only=True):
    """Let a transformation exist, and be so: bindings that name it go by it."""

    vhost: str
    name: str
    rule: Rule


class RemoveTransformation(ClientCommand, frozen=True, tag="remove-transformation", kw_only=True):
    """Remove a transformation that no binding names; one that is absent is as good."""

    vhost: str
    name: str


ExchangeCommand = (
    CreateVhost
    | DeleteVhost
    | DeclareExchange
    | DeleteExchange
    | BindDestination
    | UnbindDestination
    | PutPolicy
    | RemovePolicy
    | PutTransformation
    | RemoveTransformation
)
