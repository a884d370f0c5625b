"""`kafkaesque binding`: create, list and delete."""

from typing import TYPE_CHECKING, Annotated

import typer

from kafkaesque.cli.arguments import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    JsonOption,
    new_app,
    wrong_usage,
)
from kafkaesque.cli.exchange_arguments import (
    ArgumentsOption,
    ExchangeArgument,
    VhostOption,
    parse_arguments,
    shown_arguments,
    shown_exchange,
)
from kafkaesque.cli.screen import Cell, Screen, Table

if TYPE_CHECKING:
    from kafkaesque.cli.exchange_requests import Binding

app = new_app(help="Bindings: which messages of an exchange a queue, exchange or topic gets.")

QueueOption = Annotated[str | None, typer.Option("--queue", metavar="NAME", help="To a queue.")]
ExchangeOption = Annotated[
    str | None, typer.Option("--exchange", metavar="NAME", help="To another exchange.")
]
TopicOption = Annotated[str | None, typer.Option("--topic", metavar="NAME", help="To a topic.")]
KeyOption = Annotated[
    str, typer.Option("--key", "-k", help="The key, or pattern; what it means is the type's.")
]


def _binding(
    source: str,
    key: str,
    argument: list[str] | None,
    queue: str | None,
    exchange: str | None,
    topic: str | None,
) -> "Binding":
    """Return the binding that is meant.

    Raises:
        CommandFailed: it leads to nothing, or to more than one thing.
    """
    from kafkaesque.cli.exchange_requests import Binding

    found = [(kind, each) for kind, each in enumerate((queue, exchange, topic)) if each is not None]
    if len(found) != 1:
        raise wrong_usage("give one of --queue, --exchange and --topic", "--queue errors")
    ((kind, name),) = found
    return Binding(source, kind, name, key, parse_arguments(argument))


@app.command()
def create(
    source: ExchangeArgument,
    key: KeyOption = "",
    queue: QueueOption = None,
    exchange: ExchangeOption = None,
    topic: TopicOption = None,
    argument: ArgumentsOption = None,
    vhost: VhostOption = "/",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Bind a queue, an exchange or a topic to an exchange. Succeeds if it is bound so.

    \b
    Example:
      kafkaesque binding create logs --key "*.error" --queue errors
      kafkaesque binding create amq.headers -a kind=order -a x-match=all --queue orders
    """
    from kafkaesque.cli import exchange_requests as requests

    binding = _binding(source, key, argument, queue, exchange, topic)
    requests.alter_binding(requests.Where(bootstrap, vhost), binding, requests.CREATE)
    Screen(json=json).done(f"bound {binding.destination} to {source}", _document(binding))


@app.command()
def delete(
    source: ExchangeArgument,
    key: KeyOption = "",
    queue: QueueOption = None,
    exchange: ExchangeOption = None,
    topic: TopicOption = None,
    argument: ArgumentsOption = None,
    vhost: VhostOption = "/",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Remove a binding, which is known by all of it. Succeeds if there is none.

    \b
    Example:
      kafkaesque binding delete logs --key "*.error" --queue errors
    """
    from kafkaesque.cli import exchange_requests as requests

    binding = _binding(source, key, argument, queue, exchange, topic)
    requests.alter_binding(requests.Where(bootstrap, vhost), binding, requests.DELETE)
    Screen(json=json).done(f"unbound {binding.destination} from {source}", _document(binding))


@app.command("list")
def list_all(
    vhost: VhostOption = "/",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """List the bindings of a virtual host.

    \b
    Example:
      kafkaesque binding list
    """
    from kafkaesque.cli.exchange_requests import KINDS, describe

    (found,) = describe(bootstrap, vhost, with_bindings=True)
    rows: list[tuple[Cell, ...]] = [
        (
            shown_exchange(each.source),
            each.routing_key,
            KINDS[each.destination_type],
            each.destination,
            shown_arguments(each.arguments),
        )
        for each in found.bindings
    ]
    columns = ("EXCHANGE", "KEY", "TO", "NAME", "ARGUMENTS")
    names = ("exchange", "key", "to", "name", "arguments")
    document = [dict(zip(names, row, strict=True)) for row in rows]
    Screen(json=json).show(Table(columns=columns, rows=rows), document)


def _document(binding: "Binding") -> dict[str, object]:
    from kafkaesque.cli.exchange_requests import KINDS

    return {
        "exchange": binding.source,
        "key": binding.key,
        "to": KINDS[binding.kind],
        "name": binding.destination,
        "arguments": dict(binding.arguments),
    }
