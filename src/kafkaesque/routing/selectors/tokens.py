"""Cuts a selector into tokens."""

import re
from enum import Enum
from typing import NamedTuple

from kafkaesque.routing.errors import BadSelector

#: Characters of a selector.
SELECTOR_LENGTH_MAX = 8192
#: Steps of a path into a body.
PATH_STEPS_MAX = 32

_INT64_MAX = 2**63 - 1


class Kind(Enum):
    """What a token is."""

    KEYWORD = "keyword"
    NAME = "name"
    STRING = "string"
    NUMBER = "number"
    PATH = "path"
    SIGN = "sign"
    END = "end of the selector"


#: Members of objects, and positions in arrays.
Steps = tuple[str | int, ...]


class Token(NamedTuple):
    """A word of a selector; `value` is what it stands for."""

    kind: Kind
    value: str | int | float | Steps
    position: int


KEYWORDS = frozenset("AND OR NOT BETWEEN IN LIKE ESCAPE IS NULL TRUE FALSE".split())

# None of these can be matched in more than one way, so none takes more than linear time.
_NAME = r"[^\W\d][\w$]*|\$[\w$]*"
_QUOTED = r'"(?:[^"]|"")*"'
_TOKEN = re.compile(
    rf"""
    (?P<blank>\s+)
  | (?P<path>\$(?=[.\[]))
  | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)(?P<suffix>[lLfFdD]?)(?![\w$])
  | (?P<name>{_NAME})
  | (?P<quoted>{_QUOTED})
  | (?P<string>'(?:[^']|'')*')
  | (?P<sign><>|<=|>=|[=<>(),+\-*/.])
    """,
    re.VERBOSE,
)
_STEP = re.compile(
    rf"""\.(?P<name>{_NAME}|{_QUOTED}) | \[\s*(?:(?P<at>\d{{1,9}})|(?P<quoted>{_QUOTED}))\s*\]""",
    re.VERBOSE,
)


def read_tokens(text: str) -> list[Token]:
    """Return the tokens of a selector, with one of the kind END behind the last.

    Raises:
        BadSelector: it is too long, or holds what is no token.
    """
    if len(text) > SELECTOR_LENGTH_MAX:
        raise BadSelector(f"a selector has at most {SELECTOR_LENGTH_MAX} characters", len(text))
    tokens = []
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise _no_token(text, position)
        if found["path"] is not None:
            steps, end = _read_steps(text, found.end())
            tokens.append(Token(Kind.PATH, steps, position))
        else:
            if found["blank"] is None:
                tokens.append(_token(found, position))
            end = found.end()
        position = end
    tokens.append(Token(Kind.END, "", len(text)))
    return tokens


def _token(found: re.Match[str], position: int) -> Token:
    if (name := found["name"]) is not None:
        if name.upper() in KEYWORDS:
            return Token(Kind.KEYWORD, name.upper(), position)
        return Token(Kind.NAME, name, position)
    if (quoted := found["quoted"]) is not None:
        return Token(Kind.NAME, quoted[1:-1].replace('""', '"'), position)
    if (string := found["string"]) is not None:
        return Token(Kind.STRING, string[1:-1].replace("''", "'"), position)
    if (number := found["number"]) is not None:
        return Token(Kind.NUMBER, _read_number(number, found["suffix"], position), position)
    return Token(Kind.SIGN, found["sign"], position)


def _read_number(text: str, suffix: str, position: int) -> int | float:
    if text.isdecimal() and suffix in ("", "l", "L"):
        # Bounded before it is converted, which takes time quadratic in the digits.
        if len(text.lstrip("0")) > 19 or int(text) > _INT64_MAX:
            raise BadSelector("the number is above 2^63-1", position)
        return int(text)
    if suffix in ("l", "L") and suffix:
        raise BadSelector("a number that ends with L is a whole one", position)
    value = float(text)
    if value == float("inf"):
        raise BadSelector("the number is too large", position)
    return value


def _read_steps(text: str, position: int) -> tuple[Steps, int]:
    """Return the steps of a path, and where it ends."""
    steps: list[str | int] = []
    while text[position : position + 1] in (".", "["):
        found = _STEP.match(text, position)
        if found is None:
            raise BadSelector('a path goes on with .name, [number] or ["name"]', position)
        if len(steps) == PATH_STEPS_MAX:
            raise BadSelector(f"a path has at most {PATH_STEPS_MAX} steps", position)
        name = found["name"] if found["name"] is not None else found["quoted"]
        if name is None:
            steps.append(int(found["at"]))
        elif name.startswith('"'):
            steps.append(name[1:-1].replace('""', '"'))
        else:
            steps.append(name)
        position = found.end()
    return tuple(steps), position


def _no_token(text: str, position: int) -> BadSelector:
    sign = text[position]
    if sign in ("'", '"'):
        return BadSelector(f"the text that begins with {sign} does not end", position)
    if sign.isdecimal():
        return BadSelector("a name does not begin with a digit", position)
    return BadSelector(f"{sign!r} has no meaning here", position)
