"""What the person sees while it runs: events as they happen, and two bars on a terminal."""

import sys
import time
from typing import Any

from kafkaesque.cli.terminal import takes_escapes

REFRESH_S = 0.1
PLAIN_REFRESH_S = 2.0


class Show:
    """A context: bars on a terminal, a line now and then elsewhere."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._began = time.monotonic()
        self._shown_at = 0.0
        self._display: Any = None
        self._tasks: list[Any] = []
        self._last = ""

    def __enter__(self) -> "Show":
        if takes_escapes(sys.stdout):
            from rich import progress

            columns = (
                progress.TextColumn("{task.description:<12}"),
                progress.BarColumn(),
                progress.MofNCompleteColumn(),
            )
            self._display = progress.Progress(*columns)
            self._tasks = [
                self._display.add_task(what, total=self._total)
                for what in ("published", "consumed", "checked")
            ]
            self._display.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._display is not None:
            self._display.stop()

    def event(self, sentence: str) -> None:
        """Say what happened, with the time since the beginning."""
        line = f"{time.monotonic() - self._began:6.2f} s  {sentence}"
        if self._display is not None:
            self._display.console.print(line, markup=False, highlight=False)
        else:
            print(line, flush=True)

    def progress(self, published: int, consumed: int, checked: int = 0) -> None:
        """Tell how far it is; cheap to call often."""
        now = time.monotonic()
        is_bar = self._display is not None
        if now - self._shown_at < (REFRESH_S if is_bar else PLAIN_REFRESH_S):
            return
        self._shown_at = now
        if is_bar:
            for task, count in zip(self._tasks, (published, consumed, checked), strict=True):
                self._display.update(task, completed=min(count, self._total))
            return
        words = f"{published:,} published, {consumed:,} consumed"
        words += f", {checked:,} checked" if checked else ""
        if words != self._last:
            self._last = words
            self.event(f"{words} of {self._total:,}")
