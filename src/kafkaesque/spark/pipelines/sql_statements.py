"""The statements of Spark Declarative Pipelines in SQL, taken apart as far as running them needs.

Spark's own parser has checked them before (`check_graph`); here only the head of each statement is
told from its query, and what lies between is kept as it is written.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from kafkaesque.spark.pipelines.errors import WrongProject

STREAMING_TABLE, MATERIALIZED_VIEW, TEMPORARY_VIEW = (
    "streaming table",
    "materialized view",
    "temporary view",
)

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*|/\*.*?\*/)
    | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    | (?P<word>`(?:[^`]|``)*`|\w+)
    | (?P<symbol>.)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlDataset:
    """A table or view; without a query, flows of their own write it."""

    kind: str
    name: str
    #: `(…)` with the columns, where they are given.
    columns: str
    #: What else `CREATE TABLE` takes: `USING …`, `PARTITIONED BY (…)` and so on.
    clauses: str
    query: str | None

    @property
    def plain_name(self) -> str:
        return plain(self.name)

    @property
    def provider(self) -> str | None:
        """The format, where it is given."""
        words = [token.text for token in _tokens(self.clauses)]
        for position, word in enumerate(words[:-1]):
            if word.upper() == "USING":
                return words[position + 1]
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlFlow:
    """A flow into a table that is defined elsewhere."""

    name: str
    target: str
    query: str

    @property
    def plain_name(self) -> str:
        return plain(self.name)

    @property
    def plain_target(self) -> str:
        return plain(self.target)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlCommand:
    """What is run as it is, before flows: SET and USE."""

    text: str


Statement = SqlDataset | SqlFlow | SqlCommand


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    start: int
    end: int
    #: How many parentheses are open.
    depth: int


def plain(name: str) -> str:
    """Return a name without the quotes of SQL."""
    return name.replace("`", "")


def read_statements(text: str) -> list[Statement]:
    """Return the statements of a file that are known here, and leave out the others."""
    found = []
    for statement in _split(text):
        with contextlib.suppress(WrongProject):
            found.append(_parse(statement, ""))
    return found


def parse_statements(text: str, where: str) -> list[Statement]:
    """Return the statements of a file.

    Raises:
        WrongProject: one is of a kind that only triggered runs know.
    """
    return [_parse(statement, where) for statement in _split(text)]


def _tokens(text: str) -> Iterator[_Token]:
    depth = 0
    for found in _TOKEN.finditer(text):
        if found.lastgroup == "space":
            continue
        if found[0] == ")":
            depth -= 1
        yield _Token(found[0], found.start(), found.end(), depth)
        if found[0] == "(":
            depth += 1


def _split(text: str) -> list[str]:
    found, start = [], 0
    tokens = list(_tokens(text))
    ends = [token.start for token in tokens if token.text == ";"]
    for end in [*ends, len(text)]:
        statement = text[start:end]
        if any(True for _ in _tokens(statement)):
            found.append(statement.strip())
        start = end + 1
    return found


def _parse(text: str, where: str) -> Statement:
    tokens = list(_tokens(text))
    words = [token.text.upper() for token in tokens]
    if words[0] in ("SET", "USE"):
        return SqlCommand(text=text)
    if words[0] == "CREATE":
        after = 3 if words[1:3] == ["OR", "REPLACE"] else 1
        for kind, head in (
            (STREAMING_TABLE, ["STREAMING", "TABLE"]),
            (MATERIALIZED_VIEW, ["MATERIALIZED", "VIEW"]),
            (TEMPORARY_VIEW, ["TEMPORARY", "VIEW"]),
        ):
            if words[after : after + 2] == head and "FLOW" not in words:
                return _dataset(kind, text, tokens, after + 2)
        if words[1] == "FLOW" and "INSERT" in words:
            return _flow(text, tokens, words)
    raise WrongProject(
        f"{where}: continuous runs do not support `{' '.join(words[:4])} …`",
        "run it without --continuous",
    )


def _name_at(tokens: list[_Token], position: int) -> tuple[str, int]:
    """Return the name that begins there, with dots, and the position after it."""
    end = position + 1
    while end + 1 < len(tokens) and tokens[end].text == ".":
        end += 2
    return "".join(token.text for token in tokens[position:end]), end


def _dataset(kind: str, text: str, tokens: list[_Token], position: int) -> SqlDataset:
    if [token.text.upper() for token in tokens[position : position + 3]] == ["IF", "NOT", "EXISTS"]:
        position += 3
    name, position = _name_at(tokens, position)
    start = tokens[position - 1].end
    query, end = None, len(text)
    for token in tokens[position:]:
        if token.depth == 0 and token.text.upper() == "AS":
            query, end = text[token.end :].strip(), token.start
            break
    columns = ""
    if position < len(tokens) and tokens[position].text == "(":
        closing = next(t for t in tokens[position:] if t.text == ")" and t.depth == 0)
        columns, start = text[tokens[position].start : closing.end], closing.end
    clauses = text[start:end].strip()
    return SqlDataset(kind=kind, name=name, columns=columns, clauses=clauses, query=query)


def _flow(text: str, tokens: list[_Token], words: list[str]) -> SqlFlow:
    name, _ = _name_at(tokens, 2)
    position = words.index("INTO") + 1
    if words[position] == "TABLE":
        position += 1
    target, position = _name_at(tokens, position)
    if words[position : position + 2] == ["BY", "NAME"]:
        position += 2
    return SqlFlow(name=name, target=target, query=text[tokens[position].start :].strip())
