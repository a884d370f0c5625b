"""The records of exchanges and bindings: every change, one by one, as the controller's log has it.

Each holds a decision: what is applied asks nothing and refuses nothing. Removing an exchange or a
queue removes the bindings that begin or end there, without records of their own.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from kafkaesque.routing.transformations.rules import Rule

#: What an AMQP client calls arguments: a table of options.
Arguments = Mapping[str, object]


class Destination(NamedTuple):
    """Where a binding leads: to a queue, to another exchange, or to a topic."""

    name: str
    is_exchange: bool = False
    #: Topics are those of the cluster, whatever the virtual host.
    is_topic: bool = False


class RoutingRecord(msgspec.Struct, frozen=True, tag_field="kind", kw_only=True):
    """Base of all records; they concern one virtual host each."""

    vhost: str


class VhostAdded(RoutingRecord, tag="vhost", frozen=True, kw_only=True):
    """A virtual host exists from here on, with the exchanges that each has."""


class VhostRemoved(RoutingRecord, tag="vhost-removed", frozen=True, kw_only=True):
    """A virtual host is gone, and all that was in it."""


class QueueAdded(RoutingRecord, tag="queue", frozen=True, kw_only=True):
    """Messages can be routed to a queue of this name."""

    name: str
    #: Of a stream: the topic that its messages are appended to.
    topic: str = ""


class QueueRemoved(RoutingRecord, tag="queue-removed", frozen=True, kw_only=True):
    """A queue is gone, and its bindings."""

    name: str


class ExchangeDeclared(RoutingRecord, tag="exchange", frozen=True, kw_only=True):
    """An exchange exists from here on."""

    name: str
    #: Its type, in AMQP's words.
    type: str
    is_durable: bool = True
    #: It is deleted when its last binding is.
    is_auto_delete: bool = False
    #: Only other exchanges may publish to it.
    is_internal: bool = False
    arguments: dict[str, object] = msgspec.field(default_factory=dict)


class ExchangeDeleted(RoutingRecord, tag="exchange-deleted", frozen=True, kw_only=True):
    """An exchange is gone, and its bindings."""

    name: str


class BindingRecord(RoutingRecord, frozen=True, kw_only=True):
    """Base of what names a binding."""

    source: str
    destination: Destination
    key: str = ""
    arguments: dict[str, object] = msgspec.field(default_factory=dict)


class Bound(BindingRecord, tag="bound", frozen=True, kw_only=True):
    """An exchange passes messages on from here on."""


class Unbound(BindingRecord, tag="unbound", frozen=True, kw_only=True):
    """It passes them on no longer."""


class PolicyPut(RoutingRecord, tag="policy", frozen=True, kw_only=True):
    """A policy exists, and is so from here on."""

    name: str
    #: A regular expression that the names of queues or exchanges have to fit, somewhere.
    pattern: str
    #: A word of `policies.APPLY_TO`.
    apply_to: str = "all"
    #: Settings, in RabbitMQ's words.
    definition: dict[str, object]
    #: Higher ones count first.
    priority: int = 0
    #: Whether it limits what other policies and arguments say.
    is_operator: bool = False


class PolicyRemoved(RoutingRecord, tag="policy-removed", frozen=True, kw_only=True):
    """A policy is gone."""

    name: str
    is_operator: bool = False


class TransformationPut(RoutingRecord, tag="transformation", frozen=True, kw_only=True):
    """A transformation exists, and is so from here on."""

    name: str
    rule: Rule


class TransformationRemoved(RoutingRecord, tag="transformation-removed", frozen=True, kw_only=True):
    """A transformation is gone."""

    name: str


AnyRoutingRecord = (
    VhostAdded
    | VhostRemoved
    | QueueAdded
    | QueueRemoved
    | ExchangeDeclared
    | ExchangeDeleted
    | Bound
    | Unbound
    | PolicyPut
    | PolicyRemoved
    | TransformationPut
    | TransformationRemoved
)
