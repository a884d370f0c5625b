"""The table: which check stands where, what stands there without it, and which tests must fail."""

from __future__ import annotations

import ast
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
CHECKS: Final = Path(__file__).parent / "checks"
#: Of `docs/security-tests.md`; 0 stands for the rows about each listener, before the first one.
GROUPS: Final = range(21)
_TEST: Final = re.compile(r"(tests/[\w/]+\.py)::(test_\w+)(\[.*\])?")


class RowRefused(Exception):
    """A row that says nothing: its check is not there, or there more than once, or its test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One check, and how it is taken out."""

    group: int
    #: What is checked, for people.
    check: str
    #: Below `src/kafkaesque`.
    file: str
    #: The check; it occurs once in the file.
    text: str
    #: What stands there without it; empty: nothing.
    instead: str
    #: As pytest names them; each must fail without the check.
    tests: tuple[str, ...]

    @property
    def test_files(self) -> tuple[str, ...]:
        """The files of its tests."""
        return tuple(dict.fromkeys(each.partition("::")[0] for each in self.tests))

    def without(self, source: str) -> str:
        """Return the file's text without the check.

        Raises:
            RowRefused: the check does not occur exactly once, or what is left is not Python.
        """
        count = source.count(self.text)
        if count != 1:
            raise RowRefused(f"{self}: its text occurs {count} times in {self.file}")
        changed = source.replace(self.text, self.instead)
        try:
            ast.parse(changed)
        except SyntaxError as error:
            raise RowRefused(f"{self}: {self.file} is not Python without it: {error}") from None
        return changed

    def __str__(self) -> str:
        return f"{self.group} {self.check}"


def read_rows(folder: Path = CHECKS) -> list[Row]:
    """Return all rows, by group.

    Raises:
        RowRefused: a row lacks something, or has what there is not.
    """
    rows = [
        _read_row(each, path)
        for path in sorted(folder.glob("*.toml"))
        for each in tomllib.loads(path.read_text("utf-8"))["row"]
    ]
    return sorted(rows, key=lambda row: row.group)


def _read_row(given: dict[str, Any], path: Path) -> Row:
    try:
        row = Row(**{"instead": "", **given, "tests": tuple(given["tests"])})
    except (TypeError, KeyError) as error:
        raise RowRefused(f"a row of {path.name} is none: {error}: {given}") from None
    if row.group not in GROUPS or not row.tests or not row.text:
        raise RowRefused(f"a row of {path.name} has no such group, no test or no text: {row}")
    return row


def check_row(row: Row, root: Path = ROOT) -> None:
    """See whether a row fits the code and the tests that there are.

    Raises:
        RowRefused: it does not.
    """
    row.without((root / "src" / "kafkaesque" / row.file).read_text("utf-8"))
    for each in row.tests:
        found = _TEST.fullmatch(each)
        path = root / found[1] if found else None
        if not found or path is None or not path.exists():
            raise RowRefused(f"{row}: {each} is no test")
        if f"def {found[2]}(" not in path.read_text("utf-8"):
            raise RowRefused(f"{row}: there is no test {each}")
