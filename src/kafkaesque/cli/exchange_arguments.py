"""Options that commands about exchanges share."""

import json
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Annotated, Final, NoReturn

import typer

from kafkaesque.cli.arguments import parse_pairs

ExchangeArgument = Annotated[str, typer.Argument(metavar="EXCHANGE", show_default=False)]
VhostOption = Annotated[
    str, typer.Option("--vhost", metavar="NAME", help="The virtual host, as AMQP has them.")
]
#: What values of arguments and of headers are: a headers exchange compares these with those.
_VALUES: Final = "A number, true, false or other JSON is taken as such; '\"1\"' is text."
ArgumentsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--argument",
        "-a",
        metavar="NAME=VALUE",
        help=f"An argument. {_VALUES} May be repeated.",
    ),
]
HeadersOption = Annotated[
    list[str] | None,
    typer.Option(
        "--header",
        "-H",
        metavar="NAME=VALUE",
        help=f"{_VALUES} May be repeated.",
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
    return _values(parse_pairs(given or (), "--argument", "x-match=any"))


def parse_headers(given: Sequence[str] | None) -> dict[str, object]:
    """Return headers with their types, which are read as those of arguments are.

    Raises:
        CommandFailed: one is no pair.
    """
    return _values(parse_pairs(given or (), "--header", "source=web"))


def _values(pairs: Mapping[str, str]) -> dict[str, object]:
    return {name: _value(text) for name, text in pairs.items()}


def _value(text: str) -> object:
    try:
        found: object = json.loads(text, parse_float=_finite, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text
    return found


def _finite(text: str) -> float:
    """Return a number; one that is too large for any, such as `1e999`, is none."""
    number = float(text)
    return number if isfinite(number) else _refuse(text)


def _refuse(word: str) -> NoReturn:
    """Take no `NaN` and no `Infinity` for a number, as JSON does not."""
    raise ValueError(word)


def shown_arguments(text: str) -> str:
    """Return arguments as they are given here."""
    found = json.loads(text) if text else {}
    return ", ".join(f"{name}={_shown(value)}" for name, value in found.items())


def _shown(value: object) -> str:
    is_plain = isinstance(value, str) and _value(value) == value
    return str(value) if is_plain else json.dumps(value)
