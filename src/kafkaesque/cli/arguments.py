"""Arguments that several commands share, so that they look and mean the same everywhere."""

import sys
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from kafkaesque.cli.exit_codes import WRONG_USAGE
from kafkaesque.cli.failure import CommandFailed

BOOTSTRAP_DEFAULT = "127.0.0.1:9092"

BootstrapOption = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT,...",
        envvar="KAFKAESQUE_BOOTSTRAP_SERVER",
        help="One broker or several; any of them knows the others.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def new_app(**arguments: Any) -> typer.Typer:
    """Return a Typer application with our habits: no boxes and colours off a terminal."""
    defaults: dict[str, Any] = {
        "add_completion": False,
        "no_args_is_help": True,
        "pretty_exceptions_enable": False,
        "rich_markup_mode": "rich" if sys.stdout.isatty() else None,
        "context_settings": {"help_option_names": ["-h", "--help"]},
    }
    return typer.Typer(**{**defaults, **arguments})


def wrong_usage(message: str, hint: str = "") -> CommandFailed:
    """Return the failure for a command line that cannot be meant like that."""
    return CommandFailed(message, hint=hint, exit_code=WRONG_USAGE)


def parse_pairs(pairs: Iterable[str], option: str, example: str) -> dict[str, str]:
    """Return `name=value` words as a mapping.

    Raises:
        CommandFailed: a word has no `=` or no name, or a name is given twice.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise wrong_usage(f"{option} {pair!r} is not name=value", f"{option} {example}")
        if name in found:
            raise wrong_usage(f"{option} {name} is given twice: {found[name]!r} and {value!r}")
        found[name] = value
    return found
