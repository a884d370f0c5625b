"""Compares what a page shows with what was printed, as far as the same is printed each time."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: What differs from run to run, and what stands for it.
VARIABLE = (
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?Z?", "TIME"),
    (r"\b\d{4}-\d\d-\d\d\b", "DATE"),
    (r'(?<="timestamp_ms": )\d+', "TIME"),
    (r"\b\d+(\.\d+)? (s|ms|min|h)\b", "DURATION"),
    (r"\b[0-9a-f]{12,}\b", "ID"),
)
_GAP = re.compile(r"\t| {2,}")


def plain(text: str, variable: Iterable[tuple[str, str]] = ()) -> list[str]:
    """Return the lines, with one blank for a tab or the blanks of a column, and no variable part.

    A terminal shows tables with blanks, a pipe with tabs; both show the same cells.
    """
    for pattern, word in (*variable, *VARIABLE):
        text = re.sub(pattern, word, text)
    lines = [_GAP.sub(" ", each).strip() for each in text.splitlines()]
    return [each for each in lines if each]


def fits(shown: str, printed: str, variable: Iterable[tuple[str, str]] = ()) -> bool:
    """Return whether a command that printed this is shown as such.

    `...` as a line, or `…` or `...` within one, stand for what the page leaves out.
    """
    variable = tuple(variable)
    parts = []
    for line in plain(shown, variable):
        if line == "...":
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(".*".join(re.escape(each) for each in re.split(r"\.\.\.|…", line)) + r"\n")
    found = "".join(f"{each}\n" for each in plain(printed, variable))
    return re.fullmatch("".join(parts), found) is not None


def missing(shown: str, printed: str, variable: Iterable[tuple[str, str]] = ()) -> list[str]:
    """Return the lines that are shown and not printed, or not in this order.

    Others may be printed between them.
    """
    variable = tuple(variable)
    left = iter(plain(printed, variable))
    return [each for each in plain(shown, variable) if each != "..." and each not in left]
