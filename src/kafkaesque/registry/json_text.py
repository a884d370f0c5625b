"""JSON as schemas are written in it."""

import json
from typing import NoReturn

from kafkaesque.registry.errors import InvalidSchema


def read_json(text: str) -> object:
    """Return what a text says.

    Raises:
        InvalidSchema: it is no JSON, or has a number or a letter that is none.
    """
    try:
        read: object = json.loads(text, parse_constant=_refuse)
        # As it is kept: 1e999 is no number any more, and half of a surrogate pair no letter.
        compact(read).encode()
    except ValueError as error:
        raise InvalidSchema(f"it is no JSON: {error}") from None
    except RecursionError:
        raise InvalidSchema("it is nested too deeply") from None
    return read


def compact(value: object, *, sort_keys: bool = False) -> str:
    """Return JSON without spaces; keys keep their order unless they are to be sorted."""
    return json.dumps(
        value, separators=(",", ":"), sort_keys=sort_keys, ensure_ascii=False, allow_nan=False
    )


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")
