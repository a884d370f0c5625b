"""How a run of a pipeline is shown: a table that changes on a terminal, lines anywhere else."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from kafkaesque.cli.screen import Cell, Table
from kafkaesque.cli.terminal import takes_escapes
from kafkaesque.spark.pipelines.flow_progress import FlowProgress

#: Off a terminal a flow has at most one line in so long, its changes of state aside.
LINE_S = 10.0
COLUMNS = ("FLOW", "STATE", "BATCHES", "ROWS-IN", "ROWS-OUT", "LAG", "BATCH-MS")


class Display(Protocol):
    """Where the progress of a run goes."""

    def note(self, sentence: str) -> None: ...

    def on_flow(self, flow: FlowProgress, *, has_batch: bool) -> None: ...


def flow_table(flows: list[dict[str, Any]], title: str = "", lag: str = "lag") -> Table:
    """Return the flows of a run as a table; `lag` names the field that is shown as their lag."""
    names = ("name", "state", "batches", "rows_in", "rows_out", lag, "batch_ms")
    columns = [lag.upper().replace("_", "-") if name == "LAG" else name for name in COLUMNS]
    rows: list[list[Cell]] = [[flow[name] for name in names] for flow in flows]
    return Table(title=title, columns=columns, rows=rows)


@contextmanager
def displayed() -> Iterator[Display]:
    """Show progress on standard error while the block runs."""
    if not takes_escapes(sys.stderr):
        yield Lines()
        return
    with _live_table() as display:
        yield display


class Lines:
    """One line for each change of a state, and one now and then for what is processed."""

    def __init__(self) -> None:
        self._told: dict[str, float] = {}

    def note(self, sentence: str) -> None:
        sys.stderr.write(f"{sentence}\n")
        sys.stderr.flush()

    def on_flow(self, flow: FlowProgress, *, has_batch: bool) -> None:
        if has_batch:
            if time.monotonic() - self._told.get(flow.name, -LINE_S) < LINE_S:
                return
            self._told[flow.name] = time.monotonic()
        self.note(f"{time.strftime('%H:%M:%S')} {flow_line(flow)}")


def flow_line(flow: FlowProgress) -> str:
    """Return what is known of a flow as words in one line."""
    words = [f"{flow.name}: {flow.state}"]
    if flow.batches:
        noun = "batch" if flow.batches == 1 else "batches"
        words.append(f"{flow.batches} {noun}, the last in {flow.batch_ms} ms")
    if flow.rows_in is not None:
        words.append(f"{flow.rows_in} rows in")
    if flow.rows_out is not None:
        words.append(f"{flow.rows_out} rows out")
    if flow.lag is not None:
        words.append(f"lag {flow.lag}")
    if flow.error:
        words.append(flow.error)
    return ", ".join(words)


@contextmanager
def _live_table() -> Iterator[Display]:
    from rich import box
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table as RichTable

    flows: dict[str, FlowProgress] = {}

    def drawn() -> RichTable:
        table = RichTable(box=box.SIMPLE_HEAD)
        for position, name in enumerate(COLUMNS):
            table.add_column(name.lower(), justify="left" if position < 2 else "right")
        for row in flow_table([flow.as_document() for flow in flows.values()]).rows:
            table.add_row(*("-" if cell is None else str(cell) for cell in row))
        return table

    console = Console(stderr=True, markup=False, highlight=False)
    with Live(drawn(), console=console, transient=True, refresh_per_second=4) as live:

        class LiveTable:
            def note(self, sentence: str) -> None:
                live.console.print(sentence)

            def on_flow(self, flow: FlowProgress, *, has_batch: bool) -> None:
                flows[flow.name] = flow
                live.update(drawn())
                if flow.error:
                    live.console.print(f"{flow.name}: {flow.error}")

        yield LiveTable()
