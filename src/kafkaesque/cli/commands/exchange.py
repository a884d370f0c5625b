"""`kafkaesque exchange`: create, list, describe, publish and delete."""

from typing import TYPE_CHECKING, Annotated

import typer

from kafkaesque.cli.arguments import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    JsonOption,
    new_app,
)
from kafkaesque.cli.exchange_arguments import (
    ArgumentsOption,
    ExchangeArgument,
    HeadersOption,
    VhostOption,
    exchange_of,
    parse_arguments,
    parse_headers,
    shown_arguments,
    shown_exchange,
)
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.screen import Cell, Screen, Table, counted

if TYPE_CHECKING:
    from kafkaesque.protocols.kafka.messages.describe_exchanges_response import (
        DescribedBinding,
        DescribedExchange,
    )

app = new_app(help="Exchanges, which pass each message on to all queues that want it.")


@app.command()
def create(
    name: ExchangeArgument,
    kind: Annotated[
        str,
        typer.Option(
            "--type",
            "-t",
            metavar="TYPE",
            help="direct, fanout, topic, headers, x-consistent-hash, x-modulus-hash, x-random, "
            "x-local-random or x-delayed-message.",
        ),
    ] = "direct",
    argument: ArgumentsOption = None,
    auto_delete: Annotated[
        bool, typer.Option("--auto-delete", help="Delete it with its last binding.")
    ] = False,
    internal: Annotated[
        bool, typer.Option("--internal", help="Only other exchanges may publish to it.")
    ] = False,
    vhost: VhostOption = "/",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Create an exchange. Succeeds if it exists with the same type and flags.

    \b
    Example:
      kafkaesque exchange create logs --type topic
      kafkaesque exchange create orders -t direct -a alternate-exchange=unrouted
    """
    from kafkaesque.cli import exchange_requests as requests

    arguments = parse_arguments(argument)
    requests.declare(
        requests.Where(bootstrap, vhost),
        name,
        kind,
        arguments,
        is_auto_delete=auto_delete,
        is_internal=internal,
    )
    document = {"exchange": name, "vhost": vhost, "type": kind, "arguments": arguments}
    Screen(json=json).done(f"created exchange {name}", document)


@app.command("list")
def list_all(
    vhost: VhostOption = "/",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """List the exchanges of a virtual host.

    amq.default is the exchange without a name: it passes each message on to the queue that the
    routing key names.

    \b
    Example:
      kafkaesque exchange list
    """
    from kafkaesque.cli.exchange_requests import describe as ask_for

    (found,) = ask_for(bootstrap, vhost)
    rows: list[tuple[Cell, ...]] = [
        (shown_exchange(each.exchange), each.type, each.binding_count, _flags(each))
        for each in found.exchanges
    ]
    columns = ("EXCHANGE", "TYPE", "BINDINGS", "FLAGS")
    document = [_document(each) for each in found.exchanges]
    Screen(json=json).show(Table(columns=columns, rows=rows), document)


@app.command()
def describe(
    name: ExchangeArgument,
    vhost: VhostOption = "/",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Show an exchange, and the bindings that begin there.

    \b
    Example:
      kafkaesque exchange describe logs
    """
    from kafkaesque.cli.exchange_requests import describe as ask_for

    (found,) = ask_for(bootstrap, vhost, with_bindings=True)
    wanted = exchange_of(name)
    shown = next((each for each in found.exchanges if each.exchange == wanted), None)
    if shown is None:
        raise CommandFailed(f"exchange {name} does not exist", hint="kafkaesque exchange list")
    facts: list[tuple[Cell, ...]] = [("type", shown.type), ("flags", _flags(shown))]
    if shown.arguments:
        facts.append(("arguments", shown_arguments(shown.arguments)))
    bindings = [each for each in found.bindings if each.source == wanted]
    tables = [
        Table(title="exchange", columns=("FACT", "VALUE"), rows=facts),
        Table(
            title="bindings",
            columns=("KEY", "TO", "NAME", "ARGUMENTS"),
            rows=[_binding_row(each) for each in bindings],
        ),
    ]
    document = _document(shown)
    document["bindings"] = [_binding_document(each) for each in bindings]
    Screen(json=json).show(tables, document)


def _flags(shown: "DescribedExchange") -> str:
    flags = {"auto-delete": shown.is_auto_delete, "internal": shown.is_internal}
    return ", ".join(name for name, is_set in flags.items() if is_set)


def _document(shown: "DescribedExchange") -> dict[str, object]:
    return {
        "exchange": shown_exchange(shown.exchange),
        "type": shown.type,
        "auto_delete": shown.is_auto_delete,
        "internal": shown.is_internal,
        "arguments": shown_arguments(shown.arguments),
        "binding_count": shown.binding_count,
    }


def _binding_row(each: "DescribedBinding") -> tuple[Cell, ...]:
    from kafkaesque.cli.exchange_requests import KINDS

    kind = KINDS[each.destination_type]
    return (each.routing_key, kind, each.destination, shown_arguments(each.arguments))


def _binding_document(each: "DescribedBinding") -> dict[str, object]:
    key, kind, name, arguments = _binding_row(each)
    return {"key": key, "to": kind, "name": name, "arguments": arguments}


@app.command()
def publish(
    name: ExchangeArgument,
    messages: Annotated[list[str], typer.Argument(metavar="MESSAGE...", show_default=False)],
    key: Annotated[str, typer.Option("--key", "-k", help="The routing key.")] = "",
    header: HeadersOption = None,
    vhost: VhostOption = "/",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Publish messages; returns when each is on a majority of the replicas of all its queues.

    A message that no binding wants is confirmed, and told.

    \b
    Example:
      kafkaesque exchange publish logs -k db.error "disk is full"
      kafkaesque exchange publish amq.headers -H kind=order -H size=7 "two tickets"
    """
    from kafkaesque.cli import exchange_requests as requests
    from kafkaesque.model.records import Record

    headers = requests.written_headers(exchange_of(name), key, parse_headers(header))
    records = [
        Record(number, 0, None, text.encode(errors="surrogateescape"), headers)
        for number, text in enumerate(messages)
    ]
    where = requests.Where(bootstrap, vhost)
    outcomes = requests.publish(where, exchange_of(name), key, records)
    refused = [each.refusal for each in outcomes if each.refusal]
    if refused:
        raise CommandFailed(f"{counted(len(refused), 'message')} not published: {refused[0]}")
    counts = [each.places for each in outcomes]
    screen = Screen(json=json)
    screen.done(
        f"published {counted(len(counts), 'message')} to {counted(sum(counts), 'place')}",
        {"published": len(counts), "destinations": counts},
    )
    lost = counts.count(0)
    if lost:
        screen.note(f"no binding wants {counted(lost, 'message')}: nobody has it")


@app.command()
def delete(
    name: ExchangeArgument,
    if_unused: Annotated[
        bool, typer.Option("--if-unused", help="Only if no binding begins there.")
    ] = False,
    vhost: VhostOption = "/",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Delete an exchange and its bindings. Succeeds if it does not exist.

    \b
    Example:
      kafkaesque exchange delete logs
    """
    from kafkaesque.cli import exchange_requests as requests

    requests.delete(requests.Where(bootstrap, vhost), name, if_unused=if_unused)
    Screen(json=json).done(f"deleted exchange {name}", {"exchange": name, "vhost": vhost})
