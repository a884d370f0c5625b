"""Why an exchange passes a message on to nobody: its links."""

import shlex
from collections.abc import Callable, Iterator, Sequence

from kafkaesque.admin.api.why_links import BLOCKING, NAMES_MAX, PASSED, Link
from kafkaesque.broker.doors.exchanges import Exchanges
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST
from kafkaesque.model.counted import counted
from kafkaesque.model.errors import RequestRefused
from kafkaesque.routing.exchanges.kinds import Kind
from kafkaesque.routing.exchanges.records import Destination
from kafkaesque.routing.exchanges.router import keys_of
from kafkaesque.routing.exchanges.topology import Exchange
from kafkaesque.routing.message import RoutedMessage

#: Tells whether whoever asks may know of what a message goes to.
Sees = Callable[[Destination], bool]


def routing_links(
    door: Exchanges, vhost: str, name: str, shown: str, message: RoutedMessage, sees: Sees
) -> Iterator[Link]:
    """Say where a message goes that is published to an exchange, or why nowhere.

    What the client does not see is not named.

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
            command=_command(vhost, "exchange", "describe", shown),
        )
        return
    found = [
        *(Destination(each) for each in (*route.queues, *route.delayed_queues)),
        *(Destination(each, False, True) for each in route.topics),
    ]
    if found:
        yield Link(
            name="routed",
            state=PASSED,
            what=f"it goes to {_named(found, sees)}",
            evidence=[f"delayed by {route.delay_ms} ms"] if route.delayed_queues else [],
        )
        return
    yield _nowhere_link(exchange, vhost, shown, message, sees)


def _named(found: Sequence[Destination], sees: Sees) -> str:
    """Return the names of places, without those that are hidden."""
    seen = [each.name for each in found if sees(each)]
    if not seen:
        return "places that you may not see"
    others = "" if len(seen) == len(found) else ", and others that you may not see"
    return f"{counted(len(seen), 'place')}: {', '.join(seen[:NAMES_MAX])}{others}"


def _command(vhost: str, *words: str) -> str:
    """Return a command as a shell takes it: clients choose names."""
    more = () if vhost == DEFAULT_VHOST else ("--vhost", vhost)
    return shlex.join(["kafkaesque", *words, *more])


def _nowhere_link(
    exchange: Exchange, vhost: str, shown: str, message: RoutedMessage, sees: Sees
) -> Link:
    rows = sorted(set(exchange.matcher.rows(keys_of(message), message)))
    filtered = [row for row in rows if row in exchange.filters]
    count = len(exchange.bindings)
    begin = "begins" if count == 1 else "begin"
    evidence = [f"{counted(count, 'binding')} {begin} at {shown}"]
    if exchange.alternate is not None:
        is_seen = sees(Destination(exchange.alternate, True))
        name = f"exchange {exchange.alternate}" if is_seen else "exchange"
        evidence.append(f"nor does the alternate {name} pass it on")
    if filtered and len(filtered) == len(rows):
        places = _named([exchange.destination(row) for row in filtered], sees)
        return Link(
            name="filter",
            state=BLOCKING,
            what="bindings match its key, and their filters do not want it",
            evidence=[*evidence, f"filters of bindings to {places}"],
            command=_command(vhost, "exchange", "describe", shown),
        )
    # There a key is a weight: how much of the messages a queue gets.
    key = "1" if exchange.kind is Kind.CONSISTENT_HASH else message.key or "KEY"
    return Link(
        name="unroutable",
        state=BLOCKING,
        what=f"no binding of {shown} wants it: nobody has it",
        evidence=evidence,
        command=_command(vhost, "binding", "create", shown, "--key", key, "--queue", "NAME"),
    )
