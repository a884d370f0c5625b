"""Reasons that RabbitMQ and we tell in other words.

Codes are the same everywhere, and so are most texts, which programs may look at. Of a value that
is not what it has to be, RabbitMQ shows the term of Erlang's that its check has returned; we say
what is expected. It also names the type that a value has on the wire.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

#: What stands for each reason, and how both say it; it is the end of a line.
_REASONS: Final = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("bad CC", r"(?:invalid message: \{unacc|the header B?CC has to ).*"),
        ("bad expiration", r"invalid expiration .*"),
        ("bad argument", r"invalid arg '[\w-]+'(?: for queue '.*?' in vhost '.*?')?: .*"),
        ("bad argument", r"invalid type '\w+' for arg '[\w-]+' in queue .*"),
        ("", r"(?<=') of type '\w+'"),
        ("bad x-match", r"(?:Invalid x-match field value|x-match has to be) .*"),
        ("bad type", r"(?:invalid|unknown) exchange type (?='')"),
        (
            "bad frame",
            r"(?:(?<=ERROR - )|(?<=FRAME - ))(?:type |frame |unknown fr|a heartb|channel 0 ).*",
        ),
        ("bad method", r"(?<=COMMAND_INVALID - )(?:unimpl|\w+: only|unknown m).*"),
    )
)


def alike(lines: Sequence[str]) -> list[str]:
    """Return lines with names in place of reasons that are told in other words."""
    found = list(lines)
    for name, pattern in _REASONS:
        found = [pattern.sub(name, each) for each in found]
    return found
