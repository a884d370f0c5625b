"""Options that commands about exchanges share."""

import json
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from kafkaesque.cli.arguments import parse_pairs

ExchangeArgument = Annotated[str, typer.Argument(metavar="EXCHANGE", show_default=False)]
VhostOption = Annotated[
    str, typer.Option("--vhost", metavar="NAME", help="The virtual host, as AMQP has them.")
]
ArgumentsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--argument",
        "-a",
        metavar="NAME=VALUE",
        help="An argument; a number, true, false or other JSON is taken as such. May be repeated.",
    ),
]
#: What the exchange without a name is called here.
DEFAULT_WORD: Final = "amq.default"


def exchange_of(word: str) -> str:
    """Return the name of an exchange; one has none."""
    return "" if word == DEFAULT_WORD else word


def shown_exchange(name: str) -> str:
    """Return what an exchange is called here."""
    return name or DEFAULT_WORD


def parse_arguments(given: Sequence[str] | None) -> dict[str, object]:
    """Return arguments with their types.

    Raises:
        CommandFailed: one is no pair.
    """
    pairs = parse_pairs(given or (), "--argument", "x-match=any")
    return {name: _value(text) for name, text in pairs.items()}


def _value(text: str) -> object:
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return found


def shown_arguments(text: str) -> str:
    """Return arguments as they are given here."""
    found = json.loads(text) if text else {}
    return ", ".join(
        f"{name}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in found.items()
    )
