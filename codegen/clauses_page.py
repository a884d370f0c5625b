"""Writes `docs/clauses.md` from the tables of clauses beside the protocols' tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "clauses.md"
TESTS = "tests/unit"
HEAD = """\
<!-- Written by codegen/clauses_page.py from tests/unit/*/clauses.txt: never edit. -->

# What MQTT, STOMP, NATS and JetStream demand, and which test shows it

Each row is a clause, and a test that sends bytes and compares the bytes that come back. The tests'
tables say which bytes: `codec` rows send to the protocol's own part, and are sent again cut at
every byte; `broker` rows go to a simulated broker, some with several clients. The number is the
line of the table.

Not every sentence of the specifications has a row. The rows are those by which clients and brokers
are known to differ, and every way in which bytes can be wrong.
"""


class Table(NamedTuple):
    """One file of clauses."""

    folder: str
    word: str

    @property
    def path(self) -> str:
        """Its place in the repository."""
        return f"{TESTS}/{self.folder}/clauses.txt"

    def lines(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the lines that are rows: number and cells."""
        text = (ROOT / self.path).read_text("utf-8")
        for number, line in enumerate(text.splitlines(), start=1):
            if line and line[0] not in "#[":
                yield number, [cell.strip() for cell in line.split("|")]


class Row(NamedTuple):
    """A row of the page."""

    clause: str
    versions: str
    what: str
    answer: str
    test: str


MQTT = (Table("protocols_mqtt", "codec"), Table("gateway_mqtt", "broker"))
STOMP = (Table("protocols_stomp", "codec"), Table("gateway_stomp", "broker"))
NATS = (Table("protocols_nats", "codec and broker"),)
JETSTREAM = (Table("gateway_nats", "broker"),)


def page_source() -> str:
    """Return the page."""
    return "".join((HEAD, *_mqtt(), *_stomp(), *_nats(), *_jetstream()))


def _mqtt() -> Iterator[str]:
    yield from _head("MQTT 3.1.1 and 5.0", MQTT)
    yield "\nClauses have the numbers of 5.0, unless they say otherwise.\n\n"
    rows: dict[tuple[str, str], Row] = {}
    for table in MQTT:
        for number, cells in table.lines():
            clause, versions, what = cells[:3]
            answer = _mqtt_answer(cells[4:]) if table.word == "codec" else "as it says"
            row = Row(clause, versions, what, answer, f"{table.word} {number}")
            before = rows.get((clause, what))
            if before is not None:
                row = row._replace(
                    versions=f"{before.versions} {versions}",
                    answer=answer if before.answer == answer else f"{before.answer}; {answer}",
                    test=f"{before.test}, {number}",
                )
            rows[clause, what] = row
    shown = (row._replace(versions=_versions(row.versions)) for row in rows.values())
    yield from _rows("clause", sorted(shown, key=_by_clause))


def _mqtt_answer(cells: list[str]) -> str:
    answer, closes = [*cells, "", ""][:2]
    if closes:
        reason, _, silent = closes.partition(", ")
        return f"the end: {reason.lower().replace('_', ' ')}{', silent' if silent else ''}"
    return "an answer" if answer else "nothing"


def _versions(text: str) -> str:
    return ", ".join(name for sign, name in (("3", "3.1.1"), ("5", "5.0")) if sign in text.split())


def _by_clause(row: Row) -> tuple[list[int], str]:
    number = row.clause.partition(" ")[0].replace("-", ".")
    return [int(each) for each in number.split(".")], row.clause


def _stomp() -> Iterator[str]:
    yield from _head("STOMP 1.0, 1.1 and 1.2", STOMP)
    yield "\nSTOMP numbers no clauses: a row has the heading of its section.\n\n"
    rows = []
    for table in STOMP:
        for number, cells in table.lines():
            section, _, what = cells[1].partition(": ")
            versions = ", ".join(cells[0].split())
            # Behind the message of an ERROR may stand the id of a receipt.
            error = re.sub(r", \d+$", "", "".join(cells[4:]))
            answer = f"ERROR: {error}" if error else _code(cells[3]) or "nothing"
            rows.append(Row(section, versions, what, answer, f"{table.word} {number}"))
    yield from _rows("section", sorted(rows, key=lambda row: row.clause.lower()))


def _nats() -> Iterator[str]:
    yield from _head("NATS", NATS)
    yield (
        "\nNATS has no specification. Every row goes to nats-server, too"
        " (`tests/clients/test_nats_server.py`).\n\n"
    )
    (table,) = NATS
    yield "| what | answer | test |\n|---|---|---|\n"
    for number, (what, _, answer, end) in table.lines():
        shown = " ".join(each for each in (_code(answer), end) if each) or "nothing"
        yield f"| {_escaped(what)} | {shown} | {number} |\n"


def _jetstream() -> Iterator[str]:
    yield from _head("JetStream", JETSTREAM)
    yield (
        "\nEvery row goes to nats-server, too (`tests/clients/test_nats_server_clauses.py`); one"
        " with words in the fourth column has to be answered otherwise there. The"
        " head of the table's file says how to read an answer.\n\n"
    )
    (table,) = JETSTREAM
    headings = {
        number: line.removeprefix("# ").lower()
        for number, line in enumerate((ROOT / table.path).read_text("utf-8").splitlines(), start=1)
        if line.startswith("# ")
    }
    yield "| of | what | answer | nats-server | test |\n|---|---|---|---|---|\n"
    for number, (what, steps, *differs) in table.lines():
        heading = headings[max(each for each in headings if each < number)]
        # Behind the last thing that was sent.
        found = re.split(r"(?:^|; )(?:>>?|made|sub|unsub|ms) [^;]*", steps)
        answers = [each.strip("; ") for each in found if each.strip("; ")]
        shown = _code(answers[-1].removeprefix("< ")) if answers else "nothing"
        said = _escaped(" ".join(differs))
        yield f"| {heading} | {_escaped(what)} | {shown} | {said} | {number} |\n"


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _escaped(text: str) -> str:
    """Return a text that Markdown shows as it is."""
    return "".join(f"\\{each}" if each in "*_<>$#" else each for each in text)


def _head(title: str, tables: tuple[Table, ...]) -> Iterator[str]:
    yield f"\n## {title}\n\n"
    for table in tables:
        count = sum(1 for _ in table.lines())
        yield f"- {table.word}: {count} rows in `{table.path}`\n"


def _rows(first: str, rows: list[Row]) -> Iterator[str]:
    yield f"| {first} | version | what | answer | test |\n|---|---|---|---|---|\n"
    for row in rows:
        what = _escaped(row.what)
        yield f"| {row.clause} | {row.versions} | {what} | {row.answer} | {row.test} |\n"
