"""`kafkaesque vhost`: create, list and delete."""

from typing import Annotated

import typer

from kafkaesque.cli.arguments import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    JsonOption,
    YesOption,
    ask_first,
    new_app,
)
from kafkaesque.cli.screen import Screen, Table

app = new_app(help="Virtual hosts: spaces of names for queues and exchanges, as AMQP has them.")

NameArgument = Annotated[str, typer.Argument(metavar="VHOST", show_default=False)]


@app.command()
def create(
    name: NameArgument, bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT, json: JsonOption = False
) -> None:
    """Create a virtual host. Succeeds if it exists.

    \b
    Example:
      kafkaesque vhost create shop
    """
    from kafkaesque.cli import exchange_requests as requests

    requests.alter_vhost(requests.Where(bootstrap, name), requests.CREATE)
    Screen(json=json).done(f"created virtual host {name}", {"vhost": name})


@app.command("list")
def list_all(bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT, json: JsonOption = False) -> None:
    """List the virtual hosts, with how many exchanges and bindings each has.

    \b
    Example:
      kafkaesque vhost list
    """
    from kafkaesque.cli.exchange_requests import describe

    rows = [
        (each.vhost, len(each.exchanges), sum(one.binding_count for one in each.exchanges))
        for each in describe(bootstrap, None)
    ]
    columns = ("VHOST", "EXCHANGES", "BINDINGS")
    document = [
        {"vhost": name, "exchanges": count, "bindings": bindings} for name, count, bindings in rows
    ]
    Screen(json=json).show(Table(columns=columns, rows=list(rows)), document)


@app.command()
def delete(
    name: NameArgument,
    yes: YesOption = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Delete a virtual host with its queues, their messages, and its exchanges.

    \b
    Example:
      kafkaesque vhost delete shop --yes
    """
    from kafkaesque.cli import exchange_requests as requests

    ask_first("vhost delete", f"Delete {name} with all its queues?", yes=yes)
    requests.alter_vhost(requests.Where(bootstrap, name), requests.DELETE)
    Screen(json=json).done(f"deleted virtual host {name}", {"vhost": name})
