"""What a command prints: tables and words for people, tab-separated lines or JSON for programs."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

Cell = str | int | float | None


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, which takes an s for more than one or none."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under named columns."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str = ""


class Progress(Protocol):
    """Something long that goes on."""

    def advance(self, count: int = 1) -> None: ...


class Screen:
    """Standard output as one command uses it; notes and progress go to standard error."""

    def __init__(self, *, json: bool = False) -> None:
        self.is_json = json
        self.is_terminal = sys.stdout.isatty()

    def show(self, tables: Table | Sequence[Table], document: object) -> None:
        """Print the tables, or the document where JSON is asked for."""
        if self.is_json:
            self.show_json(document)
            return
        for number, table in enumerate([tables] if isinstance(tables, Table) else tables):
            if number:
                sys.stdout.write("\n")
            self._show_table(table)

    def show_json(self, document: object) -> None:
        sys.stdout.write(json.dumps(document, ensure_ascii=False) + "\n")
        sys.stdout.flush()

    def done(self, sentence: str, document: object) -> None:
        """Print what was done."""
        if self.is_json:
            self.show_json(document)
        else:
            sys.stdout.write(sentence + "\n")

    def note(self, sentence: str) -> None:
        """Say something beside the output."""
        sys.stderr.write(sentence + "\n")
        sys.stderr.flush()

    def _show_table(self, table: Table) -> None:
        if self.is_terminal:
            _print_rich(table)
            return
        if table.title:
            sys.stdout.write(f"# {table.title}\n")
        for row in (table.columns, *table.rows):
            sys.stdout.write("\t".join(map(_plain, row)) + "\n")

    @contextmanager
    def progress(
        self, what: str, total: int | None, *, is_bytes: bool = False, is_hidden: bool = False
    ) -> Iterator[Progress]:
        """Show a bar while the block runs, if standard error is a terminal and it is not hidden."""
        if is_hidden or not sys.stderr.isatty():
            yield NoProgress()
        else:
            with _rich_progress(what, total, is_bytes) as bar:
                yield bar


class NoProgress:
    """Progress that nobody watches."""

    def advance(self, count: int = 1) -> None:
        """Do nothing."""


@contextmanager
def _rich_progress(what: str, total: int | None, is_bytes: bool) -> Iterator[Progress]:
    from rich import progress as rich
    from rich.console import Console

    class Bar:
        def advance(self, count: int = 1) -> None:
            display.advance(task, count)

    amount: rich.ProgressColumn = rich.DownloadColumn() if is_bytes else rich.MofNCompleteColumn()
    words = rich.TextColumn("{task.description}", markup=False)
    columns = (words, rich.BarColumn(), amount, rich.TimeRemainingColumn())
    with rich.Progress(*columns, console=Console(stderr=True), transient=True) as display:
        task = display.add_task(what, total=total)
        yield Bar()


def _plain(cell: Cell) -> str:
    """Return a cell that never breaks the line or the column that it stands in."""
    if cell is None or cell == "":
        return "-"
    return str(cell).replace("\t", " ").replace("\n", " ")


def _print_rich(table: Table) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable

    drawn = RichTable(title=table.title or None, title_justify="left", box=box.SIMPLE_HEAD)
    for position, column in enumerate(table.columns):
        numeric = bool(table.rows) and all(
            row[position] is None or isinstance(row[position], int | float) for row in table.rows
        )
        drawn.add_column(column.lower(), justify="right" if numeric else "left", overflow="fold")
    for row in table.rows:
        drawn.add_row(*("-" if cell is None or cell == "" else str(cell) for cell in row))
    Console(markup=False, highlight=False).print(drawn)
