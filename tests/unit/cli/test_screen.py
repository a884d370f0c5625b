"""Output: tab-separated off a terminal, drawn on one, JSON when asked."""

from __future__ import annotations

import io
import json
import sys

import pytest

from kafkaesque.cli.screen import Screen, Table

TABLE = Table(title="some", columns=("NAME", "COUNT"), rows=[("a\tb\nc", 1), (None, 22), ("", 3)])


class Terminal(io.StringIO):
    """Standard output that people look at."""

    def isatty(self) -> bool:
        return True


def test_off_a_terminal_a_row_is_a_line_of_cells_between_tabs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Screen().show([TABLE, Table(columns=("X",), rows=[])], None)
    assert capsys.readouterr().out == "# some\nNAME\tCOUNT\na b c\t1\n-\t22\n-\t3\n\nX\n"


def test_json_is_one_line_of_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    Screen(json=True).show(TABLE, {"ä": [1, None]})
    output = capsys.readouterr().out
    assert output == '{"ä": [1, null]}\n'
    assert json.loads(output) == {"ä": [1, None]}


def test_on_a_terminal_the_table_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    Screen().show(Table(columns=("NAME",), rows=[("[bold]x[/bold]",)]), None)
    drawn = terminal.getvalue()
    assert "[bold]x[/bold]" in drawn
    assert "─" in drawn
    assert "\t" not in drawn


def test_progress_is_shown_to_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, expected in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        with Screen().progress("counting", 10) as bar:
            bar.advance(4)
        assert ("counting" in stream.getvalue()) is expected
    hidden = Terminal()
    monkeypatch.setattr(sys, "stderr", hidden)
    with Screen().progress("counting", 10, is_hidden=True) as bar:
        bar.advance(4)
    assert hidden.getvalue() == ""
