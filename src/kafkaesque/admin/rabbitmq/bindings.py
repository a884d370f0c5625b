"""`/bindings`: listed, made and ended.

A binding between two ends is known by its `properties_key`: the routing key as a URL has it, and,
if there are arguments, a digest of them behind a tilde.
"""

import base64
import hashlib
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote_plus, unquote, unquote_plus

from kafkaesque.admin.rabbitmq.calls import DEFAULT_WORD, Call, Route
from kafkaesque.admin.rabbitmq.context import Context
from kafkaesque.admin.rabbitmq.errors import REFUSED, ApiRefused, not_found
from kafkaesque.admin.rabbitmq.values import BindingShown, NewBinding
from kafkaesque.broker.metadata.queue_names import QueueName
from kafkaesque.broker.requests.exchange_commands import BindDestination, UnbindDestination
from kafkaesque.chassis.meanings import plain_arguments
from kafkaesque.routing.exchanges.records import Destination
from kafkaesque.routing.exchanges.topology import (
    DEFAULT_EXCHANGE,
    Binding,
    Exchange,
    Vhost,
    pack_arguments,
)

#: What stands for the destination's type in a path; topics are ours.
_KINDS: Final = {"q": "queue", "e": "exchange", "t": "topic"}
_DIGEST_BYTES: Final = 8


class BindingPages:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context: Final = context

    def routes(self) -> list[Route]:
        """Return the operations."""
        between = "/bindings/{vhost}/e/{exchange}/{kind}/{destination}"
        of_exchange = "/exchanges/{vhost}/{exchange}/bindings"
        return [
            Route(method="GET", path="/bindings", handle=self.list_all),
            Route(method="GET", path="/bindings/{vhost}", handle=self.list_vhost),
            Route(method="GET", path=between, handle=self.list_between),
            Route(method="POST", path=between, handle=self.bind),
            Route(method="GET", path=f"{between}/{{props}}", handle=self.show),
            Route(method="DELETE", path=f"{between}/{{props}}", handle=self.unbind),
            Route(method="GET", path=f"{of_exchange}/source", handle=self.list_from),
            Route(method="GET", path=f"{of_exchange}/destination", handle=self.list_to_exchange),
            Route(method="GET", path="/queues/{vhost}/{queue}/bindings", handle=self.list_to_queue),
        ]

    # -- lists

    def list_all(self, call: Call) -> None:
        """List those of all virtual hosts."""
        door = self._context.doors.exchanges
        found = [self._of_vhost(call, door.vhost(name)) for name in door.vhosts()]
        call.show_list([each for one in found for each in one])

    def list_vhost(self, call: Call) -> None:
        """List those of a virtual host."""
        call.show_list(self._of_vhost(call, self._context.vhost(call)))

    def list_from(self, call: Call) -> None:
        """List those that begin at an exchange."""
        vhost = self._context.vhost(call)
        if call.exchange == DEFAULT_EXCHANGE:
            call.show_list(self._seen(call, vhost, _implied(vhost)))
            return
        call.show_list(self._seen(call, vhost, sorted(_source(call, vhost).bindings)))

    def list_to_exchange(self, call: Call) -> None:
        """List those that lead to an exchange."""
        self._list_to(call, Destination(call.exchange, True))

    def list_to_queue(self, call: Call) -> None:
        """List those that lead to a queue: that of the exchange without a name, too."""
        self._list_to(call, Destination(call.queue.name))

    def list_between(self, call: Call) -> None:
        """List those between two ends."""
        vhost = self._context.vhost(call)
        call.show_list(self._seen(call, vhost, self._between(call, vhost)))

    def show(self, call: Call) -> None:
        """Show one."""
        vhost = self._context.vhost(call)
        call.show(shown(vhost.name, self._find(call, vhost)))

    def _list_to(self, call: Call, destination: Destination) -> None:
        vhost = self._context.vhost(call)
        if not vhost.has(destination) or not _sees_end(call, vhost.name, destination):
            raise not_found(f"there is no {destination.name!r} in {vhost.name!r}")
        found = sorted(vhost.bindings_to(destination))
        implied = [] if destination.is_exchange else [_implied_to(destination.name)]
        call.show_list(self._seen(call, vhost, [*implied, *found]))

    def _of_vhost(self, call: Call, vhost: Vhost) -> list[BindingShown]:
        every = [*_implied(vhost), *sorted(vhost.bindings())]
        return self._seen(call, vhost, every)

    def _seen(self, call: Call, vhost: Vhost, bindings: Iterable[Binding]) -> list[BindingShown]:
        return [
            shown(vhost.name, each)
            for each in bindings
            if call.sees_exchange(vhost.name, each.source)
            and _sees_end(call, vhost.name, each.destination)
        ]

    # -- one binding

    def bind(self, call: Call) -> None:
        """Make one; the same again is as good."""
        body, vhost = call.body(NewBinding), self._context.vhost(call)
        destination = _destination(call)
        if DEFAULT_EXCHANGE in (call.exchange, destination.name):
            raise ApiRefused(REFUSED, "operation not permitted on the default exchange")
        command = BindDestination(
            vhost=vhost.name,
            source=call.exchange,
            destination=destination,
            key=body.routing_key,
            arguments=body.arguments,
        )
        self._context.submit(call, command, lambda: call.done(is_new=True))

    def unbind(self, call: Call) -> None:
        """End one."""
        vhost = self._context.vhost(call)
        found = self._find(call, vhost)
        if found.source == DEFAULT_EXCHANGE:
            raise ApiRefused(REFUSED, "operation not permitted on the default exchange")
        command = UnbindDestination(
            vhost=vhost.name,
            source=found.source,
            destination=found.destination,
            key=found.key,
            arguments=dict(found.arguments),
        )
        self._context.submit(call, command, call.done)

    def _between(self, call: Call, vhost: Vhost) -> list[Binding]:
        destination = _destination(call)
        if call.exchange == DEFAULT_EXCHANGE:
            is_queue = not (destination.is_exchange or destination.is_topic)
            is_there = is_queue and vhost.has(destination)
            return [_implied_to(destination.name)] if is_there else []
        _source(call, vhost)
        found = vhost.bindings_to(destination)
        return sorted(each for each in found if each.source == call.exchange)

    def _find(self, call: Call, vhost: Vhost) -> Binding:
        wanted = call.params["props"]
        for each in self._between(call, vhost):
            is_seen = call.sees_exchange(vhost.name, each.source)
            # Clients send it as it was told, or decoded once, in part or as a whole.
            key = properties_key(each)
            names = (key, unquote(key), unquote_plus(key))
            if wanted in names and is_seen and _sees_end(call, vhost.name, each.destination):
                return each
        raise not_found(f"there is no binding {wanted!r} between the two")


def properties_key(binding: Binding) -> str:
    """Return what a binding is known by among those between the same two ends."""
    key = quote_plus(binding.key).replace("~", "%7E")
    if not binding.arguments:
        return key or "~"
    raw = pack_arguments(binding.arguments)
    digest = hashlib.blake2b(raw, digest_size=_DIGEST_BYTES).digest()
    return f"{key}~{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def shown(vhost: str, binding: Binding) -> BindingShown:
    """Return a binding as clients see it."""
    to = binding.destination
    return BindingShown(
        source=binding.source,
        vhost=vhost,
        destination=to.name,
        destination_type="topic" if to.is_topic else "exchange" if to.is_exchange else "queue",
        routing_key=binding.key,
        arguments=plain_arguments(binding.arguments),
        properties_key=properties_key(binding),
    )


def _source(call: Call, vhost: Vhost) -> Exchange:
    """Return the exchange that a path names.

    Raises:
        ApiRefused: there is none, or the client may not see it.
    """
    found = vhost.exchanges.get(call.exchange)
    if found is None or not call.sees_exchange(vhost.name, call.exchange):
        raise not_found(f"there is no exchange {call.exchange!r} in {call.vhost!r}")
    return found


def _destination(call: Call) -> Destination:
    """Return the end that a path names.

    Raises:
        ApiRefused: it names no type that there is.
    """
    kind, name = _KINDS.get(call.params["kind"]), call.params["destination"]
    if kind is None:
        raise not_found("a binding leads to a queue (q), an exchange (e) or a topic (t)")
    if kind == "exchange" and name == DEFAULT_WORD:
        name = DEFAULT_EXCHANGE
    return Destination(name, kind == "exchange", kind == "topic")


def _sees_end(call: Call, vhost: str, to: Destination) -> bool:
    if to.is_topic:
        return call.sees_topic(to.name)
    if to.is_exchange:
        return call.sees_exchange(vhost, to.name)
    return call.sees_queue(QueueName(vhost, to.name))


def _implied(vhost: Vhost) -> list[Binding]:
    """Return the bindings that the exchange without a name has of itself."""
    return [_implied_to(name) for name in sorted(vhost.queues)]


def _implied_to(queue: str) -> Binding:
    return Binding(DEFAULT_EXCHANGE, Destination(queue), queue)
