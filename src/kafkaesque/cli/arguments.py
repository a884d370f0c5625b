"""Arguments that several commands share, so that they look and mean the same everywhere."""

import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from kafkaesque.cli.exit_codes import WRONG_USAGE
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.terminal import takes_escapes
from kafkaesque.cli.troubles import why

BOOTSTRAP_DEFAULT = "127.0.0.1:9092"
#: The largest number that Kafka's messages have room for, of a broker or of a partition.
NUMBER_MAX: Final = 2**31 - 1
#: Kafka's messages count milliseconds in as much room: some three weeks.
TIMEOUT_S_MAX: Final = 2_000_000.0
#: How old something may be that is asked for: more than anything is.
AGE_S_MAX: Final = 1e10
#: The library asks for no more of them.
PARTITIONS_MAX: Final = 100_000
REPLICAS_MAX: Final = 10_000

YesOption = Annotated[
    bool,
    typer.Option("--yes", "-y", help="Do not ask first; needed if standard input is no terminal."),
]
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


def number_option(*names: str, least: float, most: float = TIMEOUT_S_MAX, **arguments: Any) -> Any:
    """Return an option for seconds, or for another number that is no whole one.

    "nan" lies between all limits, for it is neither below the one nor above the other.
    """
    return typer.Option(*names, min=least, max=most, callback=_refuse_no_number, **arguments)


def _refuse_no_number(value: float | None) -> float | None:
    if value is not None and math.isnan(value):
        raise typer.BadParameter("nan is not a number.")
    return value


BrokerArgument = Annotated[
    int, typer.Argument(metavar="BROKER", show_default=False, min=0, max=NUMBER_MAX)
]
PartitionOption = Annotated[
    list[int] | None,
    typer.Option(
        "--partition", "-p", min=0, max=NUMBER_MAX, help="Only this one; may be repeated."
    ),
]
TimeoutOption = Annotated[float, number_option(least=0, help="Seconds to wait at most.")]


def new_app(**arguments: Any) -> typer.Typer:
    """Return a Typer application with our habits: no boxes and colours off a terminal."""
    defaults: dict[str, Any] = {
        "add_completion": False,
        "no_args_is_help": True,
        "pretty_exceptions_enable": False,
        "rich_markup_mode": "rich" if takes_escapes(sys.stdout) else None,
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


def check_can_ask(what: str, *, yes: bool) -> None:
    """Refuse what is to be asked first where nobody can be asked and --yes was not said.

    Raises:
        CommandFailed: it is so; nothing was done.
    """
    if not yes and not is_typed():
        raise wrong_usage(
            f"{what} asks first, and standard input is no terminal: nothing was done",
            "the same with --yes",
        )


def ask_first(what: str, question: str, *, yes: bool) -> None:
    """Ask whether something is to be done, unless --yes was said; a no ends the command.

    Raises:
        CommandFailed: nobody can be asked; nothing was done.
    """
    check_can_ask(what, yes=yes)
    if not yes:
        typer.confirm(question, abort=True)


def is_typed() -> bool:
    """Tell whether somebody sits at standard input; it may be closed."""
    return sys.stdin is not None and sys.stdin.isatty()


def check_output(path: Path | None, option: str) -> None:
    """Find out whether a file can be written, before there is anything to write into it.

    Raises:
        CommandFailed: it cannot.
    """
    if path is None:
        return
    is_new = not path.exists()
    try:
        with path.open("ab"):
            pass
        if is_new:
            path.unlink()
    except OSError as error:
        raise wrong_usage(f"{option} {path} cannot be written: {why(error)}") from None
