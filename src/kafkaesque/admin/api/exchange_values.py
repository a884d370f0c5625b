"""Exchanges and bindings as the API shows them.

Arguments are a JSON object as text, or empty: numbers beyond 53 bits come through any client so.
"""

from typing import Annotated, Literal

import msgspec

from kafkaesque.admin.api.paging import ListQuery
from kafkaesque.admin.api.queue_values import QueueDryRun, QueueQuery, QueuesQuery, Vhost
from kafkaesque.admin.api.values import Listing, View
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST

#: Bindings that one answer shows of an exchange, in each direction.
BINDINGS_MAX = 1_000

Name = Annotated[str, msgspec.Meta(max_length=255)]
Arguments = Annotated[str, msgspec.Meta(max_length=64 * 1024)]
DestinationKind = Literal["queue", "exchange", "topic"]


class ExchangesQuery(QueuesQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which exchanges."""


class ExchangeQuery(QueueQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where an exchange is."""


class ExchangeDryRun(QueueDryRun, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where an exchange is, and whether to say what would be done, and do nothing."""


class VhostsQuery(ListQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which virtual hosts."""


class NewExchange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An exchange to be declared."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    vhost: Vhost = DEFAULT_VHOST
    type: Annotated[str, msgspec.Meta(min_length=1, max_length=100)] = "direct"
    is_auto_delete: bool = False
    is_internal: bool = False
    arguments: Arguments = ""


class BindingBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A binding that begins at the exchange of the path."""

    to: DestinationKind
    destination: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    key: Name = ""
    arguments: Arguments = ""


class RouteQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A message that is not published: where would it go?"""

    key: Name = ""
    headers: Annotated[dict[str, str], msgspec.Meta(max_length=100)] = {}
    body: Annotated[str, msgspec.Meta(max_length=64 * 1024)] = ""


class RouteView(View, frozen=True, kw_only=True):
    """Where a message would go; nowhere, if all lists are empty: nobody would have it."""

    queues: list[str]
    topics: list[str]
    #: Queues that would have it only after `delay_ms`.
    delayed_queues: list[str]
    delay_ms: int


class ExchangeRow(msgspec.Struct, frozen=True, kw_only=True):
    """An exchange in a list."""

    vhost: str
    #: The exchange without a name is called amq.default.
    name: str
    type: str
    is_auto_delete: bool
    is_internal: bool
    #: Whether every virtual host has it, and nobody can delete it.
    is_built_in: bool
    #: Where messages go that no binding wants; null: nowhere.
    alternate: str | None
    arguments: str
    #: Bindings that begin here.
    bindings: int


class ExchangeList(Listing, frozen=True, kw_only=True):
    """Exchanges."""

    items: list[ExchangeRow]


class BindingView(msgspec.Struct, frozen=True, kw_only=True):
    """A binding; all of it is what it is known by."""

    source: str
    to: DestinationKind
    destination: str
    key: str
    arguments: str


class ExchangeView(View, frozen=True, kw_only=True):
    """An exchange, and what leads from it and to it, as far as the client may see it."""

    exchange: ExchangeRow
    #: Bindings that begin here; at most 1,000 of `from_total`.
    bindings_from: list[BindingView]
    from_total: int
    #: Bindings of other exchanges that lead here; at most 1,000 of `to_total`.
    bindings_to: list[BindingView]
    to_total: int


class VhostRow(msgspec.Struct, frozen=True, kw_only=True):
    """A virtual host."""

    name: str
    exchanges: int
    queues: int


class VhostList(Listing, frozen=True, kw_only=True):
    """Virtual hosts."""

    items: list[VhostRow]
