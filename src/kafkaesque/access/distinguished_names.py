"""Distinguished names of certificates, read and written as RFC 2253 has them."""

import re
from collections.abc import Sequence
from typing import Final

from kafkaesque.env.certificate import SHORT_NAMES

#: Attribute and value, in the order in which the certificate has them: the most general first.
Name = Sequence[tuple[str, str]]

_ESCAPED: Final = frozenset(',+"\\<>;\0')
_HEX_ESCAPE: Final = re.compile(r"\\([0-9A-F]{2})")


def write_name(name: Name) -> str:
    """Return the name as Java writes it, the most particular attribute first."""
    return unescape_hex(write_unambiguous(name))


def write_unambiguous(name: Name) -> str:
    """Return the name with what is escaped as `\\2C` and the like, for patterns to look at.

    As `\\,` a comma within a value would be taken for the end of it by almost every pattern, and
    whoever may choose a common name could so choose the attributes after it.
    """
    return ",".join(
        f"{SHORT_NAMES.get(kind, kind)}={_escape(value)}" for kind, value in reversed(name)
    )


def unescape_hex(text: str) -> str:
    """Return a part of such a name as Java writes it."""
    return _HEX_ESCAPE.sub(lambda found: "\\" + chr(int(found[1], 16)), text)


def common_names(name: Name) -> tuple[str, ...]:
    """Return the values of the attribute CN."""
    return tuple(value for kind, value in name if SHORT_NAMES.get(kind, kind).upper() == "CN")


def _escape(value: str) -> str:
    last = len(value) - 1
    return "".join(
        f"\\{ord(each):02X}" if _is_special(each, at, last) else each
        for at, each in enumerate(value)
    )


def _is_special(each: str, at: int, last: int) -> bool:
    return each in _ESCAPED or (each == "#" and at == 0) or (each == " " and at in (0, last))
