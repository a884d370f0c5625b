"""What a command prints: tables and words for people, tab-separated lines or JSON for programs."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from kafkaesque.cli.terminal import takes_escapes
from kafkaesque.model.counted import counted as counted

#: No line of a table is longer.
WIDTH_MAX = 10_000

Cell = str | int | float | None


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
        self._has_styles = takes_escapes(sys.stdout)

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
            _print_rich(table, has_styles=self._has_styles)
            return
        if table.title:
            sys.stdout.write(f"# {table.title}\n")
        for row in (table.columns, *table.rows):
            sys.stdout.write("\t".join(map(_plain, row)) + "\n")

    @contextmanager
    def progress(
        self, what: str, total: int | None, *, is_bytes: bool = False, is_hidden: bool = False
    ) -> Iterator[Progress]:
        """Show a bar while the block runs, if standard error can draw one and it is not hidden."""
        if is_hidden or not takes_escapes(sys.stderr):
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


def size_text(size_bytes: float) -> str:
    """Return a number of bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if size_bytes < 1_000:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1_000
    return f"{size_bytes:.1f} TB"


def _plain(cell: Cell) -> str:
    """Return a cell that never breaks the line or the column that it stands in."""
    if cell is None or cell == "":
        return "-"
    return str(cell).replace("\t", " ").replace("\n", " ")


def _print_rich(table: Table, *, has_styles: bool) -> None:
    from rich import box
    from rich.console import Console, ConsoleDimensions
    from rich.table import Table as RichTable

    drawn = RichTable(
        title=table.title or None,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )
    for position, column in enumerate(table.columns):
        cells = [row[position] for row in table.rows]
        numeric = bool(cells) and all(
            each is None or isinstance(each, int | float) for each in cells
        )
        # A name or an address is one word, to be read and copied whole; sentences may be folded.
        is_word = not any(" " in str(each) for each in cells)
        drawn.add_column(column.lower(), justify="right" if numeric else "left", no_wrap=is_word)
    for row in table.rows:
        drawn.add_row(*("-" if cell is None or cell == "" else str(cell) for cell in row))
    console = Console(markup=False, highlight=False, color_system="auto" if has_styles else None)
    # Where the words have no room beside one another, the terminal breaks the lines.
    least = console.measure(drawn, options=console.options.update(width=WIDTH_MAX)).minimum
    console.size = ConsoleDimensions(max(console.width, least), console.height)
    console.print(drawn)
