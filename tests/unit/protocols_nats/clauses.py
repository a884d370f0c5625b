"""The table in `clauses.txt`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CONNECT = re.compile(r"(?:^|(?<=\\n)|(?<=\}))C(\{[^}]*\})")
_LETTERS = re.compile(r"\$(\d+)")


@dataclass(frozen=True, kw_only=True)
class Row:
    """What is sent and said on one connection."""

    what: str
    sent: bytes
    answer: bytes
    closes: bool
    #: Whether more has to come before anything is said.
    waits: bool
    number: int

    def __str__(self) -> str:
        return f"line {self.number}: {self.what}"


def connect(**options: Any) -> bytes:
    """A CONNECT of a client that is neither verbose nor pedantic, unless it says so."""
    full = {"verbose": False, "pedantic": False, **options}
    return b"CONNECT " + json.dumps(full).encode() + b"\r\n"


def _bytes(text: str) -> bytes:
    text = _CONNECT.sub(lambda found: connect(**json.loads(found[1])).decode(), text)
    text = _LETTERS.sub(lambda found: "a" * int(found[1]), text)
    return text.encode().decode("unicode_escape").encode("latin-1")


def _read() -> list[Row]:
    rows = []
    text = Path(__file__).with_suffix(".txt").read_text()
    for number, line in enumerate(text.splitlines(), start=1):
        if not line or line[0] == "#":
            continue
        cells = [cell.strip(" ") for cell in line.split("|")]
        what, sent, answer, end = cells
        assert end in ("", "closes", "waits"), line
        row = Row(
            what=what,
            sent=_bytes(sent),
            answer=_bytes(answer),
            closes=end == "closes",
            waits=end == "waits",
            number=number,
        )
        rows.append(row)
    return rows


ROWS = _read()
