"""RabbitMQ's permissions are regular expressions; rules have names and prefixes: both ways.

What rules can say is taken: `.*`, nothing, and names and prefixes, alone or in a group, such as
`^(orders|bills\\..*)$`. Patterns of RabbitMQ fit anywhere in a name: so each begins with `^`.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from kafkaesque.admin.rabbitmq.errors import ApiRefused

ALL: Final = ".*"
NONE: Final = "^$"
_ALL_WORDS: Final = frozenset((".*", "^.*", "^.*$", ".*$", "^"))
_NONE_WORDS: Final = frozenset(("", NONE, "$^"))
LENGTH_MAX: Final = 10_000
TERMS_MAX: Final = 100
#: A group of all, with what is behind it: escaped letters count for nothing.
_GROUP: Final = re.compile(r"\^\((?:\?:)?((?:[^()\\]|\\.)*)\)(\$|\.\*\$?)?", re.DOTALL)
_SPECIAL: Final = frozenset("^$.*+?()[]{}|")


class Term(NamedTuple):
    """A name, or what names begin with."""

    text: str
    is_prefix: bool


def read_pattern(pattern: str) -> list[Term]:
    """Return which names a pattern is for; an empty prefix is for all.

    Raises:
        ApiRefused: rules cannot say it.
    """
    if pattern in _NONE_WORDS:
        return []
    if pattern in _ALL_WORDS:
        return [Term("", True)]
    if len(pattern) > LENGTH_MAX:
        raise ApiRefused(400, f"a pattern has at most {LENGTH_MAX} characters")
    group = _GROUP.fullmatch(pattern)
    if group is not None:
        ending = group[2] or ""
        parts = [part + ending for part in _alternatives(group[1])]
    else:
        parts = []
        for part in _alternatives(pattern):
            if not part.startswith("^"):
                raise _unsupported(pattern)
            parts.append(part[1:])
    if len(parts) > TERMS_MAX:
        raise ApiRefused(400, f"a pattern has at most {TERMS_MAX} names")
    return list(dict.fromkeys(_read_term(part, pattern) for part in parts))


def _alternatives(text: str) -> list[str]:
    """Return what stands between bars that are not escaped."""
    parts = [""]
    escaped = False
    for letter in text:
        if letter == "|" and not escaped:
            parts.append("")
        else:
            parts[-1] += letter
        escaped = not escaped and letter == "\\"
    return parts


def _read_term(part: str, pattern: str) -> Term:
    """Return what one name says that ends with `$`, with `.*`, with both, or as a prefix does."""
    is_prefix = True
    if _ends_with(part, "$"):
        part, is_prefix = part[:-1], False
    if _ends_with(part, ALL):
        part, is_prefix = part.removesuffix(ALL), True
    text: list[str] = []
    escaped = False
    for letter in part:
        if escaped:
            if letter.isalnum():
                raise _unsupported(pattern)
            text.append(letter)
        elif letter in _SPECIAL:
            raise _unsupported(pattern)
        elif letter != "\\":
            text.append(letter)
        escaped = not escaped and letter == "\\"
    if escaped or not (text or is_prefix):
        raise _unsupported(pattern)
    return Term("".join(text), is_prefix)


def _ends_with(part: str, ending: str) -> bool:
    """Tell whether it ends so, and the ending is not escaped."""
    before = part.removesuffix(ending)
    backslashes = len(before) - len(before.rstrip("\\"))
    return before != part and backslashes % 2 == 0


def _unsupported(pattern: str) -> ApiRefused:
    return ApiRefused(
        400,
        f"{pattern[:200]!r} is no pattern that rules can say: write .*, ^$, or names and prefixes "
        "such as ^(orders|bills\\..*)$, or use kafkaesque rule",
    )


def write_pattern(terms: Sequence[Term]) -> str:
    """Return a pattern that is for these names."""
    if any(each.is_prefix and not each.text for each in terms):
        return ALL
    parts = sorted({_escape(each.text) + (ALL if each.is_prefix else "") for each in terms})
    if not parts:
        return NONE
    return f"^{parts[0]}$" if len(parts) == 1 else f"^({'|'.join(parts)})$"


def _escape(text: str) -> str:
    return "".join(f"\\{each}" if each in _SPECIAL or each == "\\" else each for each in text)
