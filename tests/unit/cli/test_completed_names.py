"""Names of topics, groups and queues are completed wherever a command takes them."""

from collections.abc import Iterator
from typing import Any

import typer

from kafkaesque.cli.app import app

NAMES = {"TOPIC", "GROUP", "QUEUE"}
#: These make something new.
MAKING = {"topic create", "queue create"}


def arguments(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for each in command.params:
        if each.param_type_name == "argument":
            yield " ".join(path), each
    if hasattr(command, "list_commands"):
        context = typer.Context(command)
        for name in command.list_commands(context):
            # That also loads it.
            _, found, _ = command.resolve_command(context, [name])
            yield from arguments(found, (*path, name))


def test_every_argument_that_is_a_name_is_completed() -> None:
    found = [
        (path, each)
        for path, each in arguments(typer.main.get_command(app))
        if (each.metavar or "").strip("[].") in NAMES and path not in MAKING
    ]
    assert len(found) > 20
    plain = [path for path, each in found if each._custom_shell_complete is None]
    assert plain == []
