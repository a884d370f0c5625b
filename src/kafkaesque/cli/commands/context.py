"""`kafkaesque context`: several clusters by name."""

import os
from typing import Annotated

import typer

from kafkaesque.cli.arguments import JsonOption, YesOption, ask_first, new_app
from kafkaesque.cli.completion import context_names
from kafkaesque.cli.screen import Cell, Screen, Table

app = new_app(
    help="Clusters by name: create, list, use, delete.\n\n\b\nExample:\n"
    "  . clients/admin.env && kafkaesque context create prod\n"
    "  kafkaesque context use prod"
)
NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", show_default=False, autocompletion=context_names)
]


@app.command()
def create(
    name: NameArgument,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-server",
            "-b",
            metavar="HOST:PORT,...",
            help="Where its brokers are.",
            show_default="KAFKAESQUE_BOOTSTRAP_SERVER",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Keep what KAFKAESQUE_... variables say now under a name; one of the name is replaced.

    Kept are addresses, the user's name, and where files with certificates and passwords are.

    \b
    Example:
      kafkaesque context create test -b 10.0.0.7:9092
      . clients/admin.env && kafkaesque context create prod
    """
    from kafkaesque.cli import contexts
    from kafkaesque.cli.arguments import wrong_usage

    contexts.check_name(name)
    said = contexts.from_environment(os.environ, bootstrap)
    if "KAFKAESQUE_BOOTSTRAP_SERVER" not in said:
        raise wrong_usage("where are its brokers?", "--bootstrap-server HOST:PORT")
    found = contexts.read_contexts()
    if name not in found.contexts and len(found.contexts) >= contexts.CONTEXTS_MAX:
        raise wrong_usage(
            f"there are {contexts.CONTEXTS_MAX} contexts already", "kafkaesque context delete NAME"
        )
    found.contexts[name] = said
    contexts.write_contexts(found)
    Screen(json=json).done(f"the context {name} is kept", {"context": name, "variables": said})


@app.command("list")
def list_all(json: JsonOption = False) -> None:
    """List contexts; * marks the one that is used.

    \b
    Example:
      kafkaesque context list
    """
    from kafkaesque.cli import contexts

    found = contexts.read_contexts()
    rows: list[tuple[Cell, ...]] = [
        (
            "*" if name == found.current else None,
            name,
            each.get("KAFKAESQUE_BOOTSTRAP_SERVER"),
            each.get("KAFKAESQUE_USER"),
        )
        for name, each in sorted(found.contexts.items())
    ]
    documents = [
        {"context": name, "is_used": name == found.current, "variables": each}
        for name, each in sorted(found.contexts.items())
    ]
    columns = ("USED", "CONTEXT", "BROKERS", "USER")
    Screen(json=json).show(Table(columns=columns, rows=rows), documents)


@app.command()
def use(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", show_default=False, autocompletion=context_names),
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="Use none.")] = False,
    json: JsonOption = False,
) -> None:
    """Use a context wherever no KAFKAESQUE_... variable says something else.

    \b
    Example:
      kafkaesque context use prod
      kafkaesque context use --none
    """
    from kafkaesque.cli import contexts
    from kafkaesque.cli.arguments import wrong_usage

    if (name is None) != none:
        raise wrong_usage("give a name, or --none", "kafkaesque context list")
    found = contexts.read_contexts()
    if name is not None:
        contexts.find(found, name)
    found.current = name
    contexts.write_contexts(found)
    sentence = "no context is used" if name is None else f"{name} is used"
    Screen(json=json).done(sentence, {"context": name})


@app.command()
def delete(name: NameArgument, yes: YesOption = False, json: JsonOption = False) -> None:
    """Delete a context; files that it names stay.

    \b
    Example:
      kafkaesque context delete test --yes
    """
    from kafkaesque.cli import contexts

    found = contexts.read_contexts()
    contexts.find(found, name)
    ask_first("context delete", f"Delete the context {name}?", yes=yes)
    del found.contexts[name]
    if found.current == name:
        found.current = None
    contexts.write_contexts(found)
    Screen(json=json).done(f"the context {name} is deleted", {"context": name})
