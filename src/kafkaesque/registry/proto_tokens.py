"""The words of a `.proto` file (Protocol Buffers language specification, "Lexical elements")."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from kafkaesque.registry.errors import InvalidSchema

TOKENS_MAX: Final = 200_000

_TOKEN: Final = re.compile(
    r"(?P<space>\s+|//[^\n]*|/\*.*?\*/)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<number>0[xX][0-9a-fA-F]+|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<text>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')"
    r"|(?P<sign>[{}\[\]()<>;:,=.+-])",
    re.DOTALL,
)


class Token(NamedTuple):
    """A word, and where it stands."""

    kind: str
    text: str
    line: int


def read_tokens(text: str) -> Iterator[Token]:
    """Return the words of a file.

    Raises:
        InvalidSchema: there is something that is no word.
    """
    at, line, count = 0, 1, 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise InvalidSchema(f"line {line}: {text[at : at + 10]!r} is not understood")
        kind = found.lastgroup or ""
        if kind != "space":
            count += 1
            if count > TOKENS_MAX:
                raise InvalidSchema(f"it has more than {TOKENS_MAX} words")
            yield Token(kind, found.group(), line)
        line += found.group().count("\n")
        at = found.end()
    yield Token("end", "", line)


class Tokens:
    """Words, taken one after the other."""

    __slots__ = ("_all", "_at")

    def __init__(self, text: str) -> None:
        self._all = list(read_tokens(text))
        self._at = 0

    @property
    def next(self) -> Token:
        """The word that comes."""
        return self._all[self._at]

    def take(self) -> str:
        """Take the word that comes."""
        token = self._all[self._at]
        if token.kind == "end":
            raise self.wrong("something")
        self._at += 1
        return token.text

    def maybe(self, text: str) -> bool:
        """Take a word if it is this one."""
        if self.next.text != text or self.next.kind == "text":
            return False
        self._at += 1
        return True

    def expect(self, text: str) -> None:
        """Take a word that has to be this one."""
        if not self.maybe(text):
            raise self.wrong(repr(text))

    def name(self) -> str:
        """Take a name without dots."""
        if self.next.kind != "name":
            raise self.wrong("a name")
        return self.take()

    def full_name(self) -> str:
        """Take a name with dots, which may begin with one."""
        parts = "." if self.maybe(".") else ""
        parts += self.name()
        while self.maybe("."):
            parts += "." + self.name()
        return parts

    def integer(self) -> int:
        """Take a whole number."""
        sign = -1 if self.maybe("-") else 1
        token = self.next
        try:
            if token.kind != "number":
                raise ValueError
            is_octal = token.text.startswith("0") and token.text.isdigit() and len(token.text) > 1
            value = int(token.text, 8 if is_octal else 0)
        except ValueError:
            raise self.wrong("a whole number") from None
        self.take()
        return sign * value

    def string(self) -> str:
        """Take a text in quotes; several behind one another are one."""
        if self.next.kind != "text":
            raise self.wrong("a text in quotes")
        parts = []
        while self.next.kind == "text":
            parts.append(_unescape(self.take()[1:-1]))
        return "".join(parts)

    def wrong(self, wanted: str) -> InvalidSchema:
        """Return what is told of a word that does not belong there."""
        found = self.next.text or "the end"
        return InvalidSchema(f"line {self.next.line}: {wanted} is expected, not {found!r}")


_ESCAPE: Final = re.compile(r"\\([abfnrtv\\'\"?]|x[0-9a-fA-F]{1,2}|[0-7]{1,3})")
_NAMED: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def _unescape(text: str) -> str:
    def plain(found: re.Match[str]) -> str:
        code = found.group(1)
        if code[0] == "x":
            return chr(int(code[1:], 16))
        return chr(int(code, 8)) if code[0].isdigit() else _NAMED.get(code, code)

    return _ESCAPE.sub(plain, text)
