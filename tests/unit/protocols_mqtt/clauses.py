"""The table in `clauses.txt`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kafkaesque.protocols.mqtt.packets import Version
from kafkaesque.protocols.mqtt.reasons import ReasonCode

_VERSIONS = {"3": Version.V3_1_1, "5": Version.V5}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One clause in one version."""

    clause: str
    version: Version
    what: str
    sent: bytes
    answer: bytes
    closes: ReasonCode | None
    is_silent: bool
    #: The line of the file.
    number: int

    def __str__(self) -> str:
        return f"line {self.number}: {self.clause} {self.what} ({self.version.name})"


def _bytes(text: str) -> bytes:
    raw = b""
    for word in text.split():
        piece, _, count = word.partition("*")
        raw += bytes.fromhex(piece) * int(count or 1)
    return raw


def _read() -> dict[str, list[Row]]:
    rows: dict[str, list[Row]] = {}
    section = ""
    text = Path(__file__).with_suffix(".txt").read_text()
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("["):
            section = line.strip("[]")
        if not line or line[0] in "#[":
            continue
        cells = [cell.strip() for cell in line.split("|")]
        clause, versions, what, sent, answer, closes = cells + [""] * (6 - len(cells))
        reason, _, silent = closes.partition(", ")
        assert silent in ("", "silent")
        for version in versions.split():
            row = Row(
                clause=clause,
                version=_VERSIONS[version],
                what=what,
                sent=_bytes(sent),
                answer=_bytes(answer),
                closes=ReasonCode[reason] if reason else None,
                is_silent=bool(silent),
                number=number,
            )
            rows.setdefault(section, []).append(row)
    return rows


ROWS = _read()
