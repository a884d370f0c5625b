"""What may be sent to where the output goes: escape codes are for terminals that take them."""

import os
from typing import TextIO

#: Terminals without cursor and colours, as they name themselves.
_DUMB = ("dumb", "unknown")


def takes_escapes(stream: TextIO) -> bool:
    """Tell whether escape codes mean something there, and the user has not refused them.

    `NO_COLOR` (no-color.org) refuses them, with whatever value but none.
    """
    is_dumb = os.environ.get("TERM", "").lower() in _DUMB
    return stream.isatty() and not is_dumb and not os.environ.get("NO_COLOR")
