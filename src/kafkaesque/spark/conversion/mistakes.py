"""Mistakes in rules: one sentence each, with the file, the rule and the field."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkaesque.spark.conversion.rules import WrongRules

#: More are counted, not told.
_TOLD_MAX = 50


@dataclass(slots=True)
class Mistakes:
    """What is wrong, in the order in which it was found."""

    found: list[str] = field(default_factory=list)

    def raise_if_any(self) -> None:
        """Raise WrongRules with all sentences.

        Raises:
            WrongRules: there is at least one.
        """
        if not self.found:
            return
        told = self.found[:_TOLD_MAX]
        if len(told) < len(self.found):
            told.append(f"and {len(self.found) - len(told)} more")
        raise WrongRules("the conversion rules cannot be used:\n" + "\n".join(told))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a mistake would be."""

    mistakes: Mistakes
    file: str
    field: str = ""

    def at(self, name: str) -> Place:
        """Return the place of a field within this one."""
        return Place(self.mistakes, self.file, f"{self.field}.{name}" if self.field else name)

    @property
    def _words(self) -> str:
        return f"{self.file}: field {self.field}: " if self.field else f"{self.file}: "

    @property
    def has_mistake(self) -> bool:
        """Whether a mistake is noted here."""
        return any(each.startswith(self._words) for each in self.mistakes.found)

    def wrong(self, sentence: str) -> None:
        """Note a mistake."""
        self.mistakes.found.append(f"{self._words}{sentence}")

    def only(self, table: Mapping[str, Any], names: Iterable[str], what: str) -> None:
        """Note each name in a table that there is not."""
        known = sorted(names)
        for name in table:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
                self.wrong(f"there is no {what} {name!r}; {hint}")

    def text(self, table: Mapping[str, Any], name: str, *, needed: bool = False) -> str | None:
        """Return a text of a table."""
        found = table.get(name)
        if found is None and not needed:
            return None
        if isinstance(found, str) and found:
            return found
        given = "and is missing" if found is None else f"not {found!r}"
        self.wrong(f"{name} is a text, {given}")
        return None

    def number(self, table: Mapping[str, Any], name: str, least: int, most: int) -> int | None:
        """Return a whole number of a table; it has to be there."""
        found = table.get(name)
        if isinstance(found, int) and not isinstance(found, bool) and least <= found <= most:
            return found
        given = "and is missing" if found is None else f"not {found!r}"
        self.wrong(f"{name} is a whole number from {least} to {most}, {given}")
        return None

    def table(self, table: Mapping[str, Any], name: str) -> dict[str, Any]:
        """Return a table within a table; it has to be there."""
        found = table.get(name)
        if isinstance(found, dict) and found:
            return found
        self.wrong(f"[{name}] is a table with at least one line, and is missing")
        return {}
