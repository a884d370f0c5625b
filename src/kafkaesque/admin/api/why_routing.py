"""Why an exchange passes a message on to nobody: its links."""

from collections.abc import Iterator
from typing import Final

from kafkaesque.admin.api.why_links import BLOCKING, NAMES_MAX, PASSED, Link
from kafkaesque.broker.doors.exchanges import Exchanges
from kafkaesque.model.errors import RequestRefused
from kafkaesque.routing.exchanges.router import keys_of
from kafkaesque.routing.exchanges.topology import Exchange
from kafkaesque.routing.message import RoutedMessage

_BIND: Final = "kafkaesque binding create {name} --key {key} --queue NAME"


def routing_links(
    door: Exchanges, vhost: str, name: str, shown: str, message: RoutedMessage
) -> Iterator[Link]:
    """Say where a message goes that is published to an exchange, or why nowhere.

    Raises:
        NoSuchVhost, NoSuchExchange: there is none of this name.
    """
    exchange = door.find(vhost, name)
    yield Link(name="exchange", state=PASSED, what=f"there is an exchange {shown}")
    try:
        route = door.route(vhost, name, message)
    except RequestRefused as refusal:
        is_internal = exchange.definition.is_internal
        yield Link(
            name="internal" if is_internal else "headers",
            state=BLOCKING,
            what=str(refusal),
            command=f"kafkaesque exchange describe {shown}",
        )
        return
    found = [*route.queues, *route.delayed_queues, *route.topics]
    if found:
        yield Link(
            name="routed",
            state=PASSED,
            what=f"it goes to {len(found)} places: {', '.join(found[:NAMES_MAX])}",
            evidence=[f"delayed by {route.delay_ms} ms"] if route.delayed_queues else [],
        )
        return
    yield _nowhere_link(exchange, shown, message)


def _nowhere_link(exchange: Exchange, shown: str, message: RoutedMessage) -> Link:
    rows = sorted(set(exchange.matcher.rows(keys_of(message), message)))
    filtered = [row for row in rows if row in exchange.filters]
    evidence = [f"{len(exchange.bindings)} bindings begin at {shown}"]
    if exchange.alternate is not None:
        evidence.append(f"nor does the alternate exchange {exchange.alternate} pass it on")
    if filtered and len(filtered) == len(rows):
        places = [exchange.destination(row).name for row in filtered[:NAMES_MAX]]
        return Link(
            name="filter",
            state=BLOCKING,
            what="bindings match its key, and their filters do not want it",
            evidence=[*evidence, f"filters of bindings to {', '.join(places)}"],
            command=f"kafkaesque exchange describe {shown}",
        )
    return Link(
        name="unroutable",
        state=BLOCKING,
        what=f"no binding of {shown} wants it: nobody has it",
        evidence=evidence,
        command=_BIND.format(name=shown, key=message.key or "KEY"),
    )
