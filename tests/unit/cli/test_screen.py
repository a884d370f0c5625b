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


def drawn(monkeypatch: pytest.MonkeyPatch, table: Table, columns: int) -> list[str]:
    """Return the lines of a table on a terminal of that width."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "dumb")
    Screen().show(table, None)
    return [line.rstrip() for line in terminal.getvalue().splitlines()]


BROKERS = ("BROKER", "ADDRESS", "CONTROLLER", "STATE", "LEADS", "VERSION", "DISK-FREE")


def test_a_terminal_of_80_columns_has_room_for_a_broker_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [(2, "127.0.0.1:19092", "no", "not ready", 112, "0.1.0.dev0", "83.1 GB (31%)")]
    lines = drawn(monkeypatch, Table(columns=BROKERS, rows=rows), 80)
    assert lines[-1].split() == [*"2 127.0.0.1:19092 no not ready 112 0.1.0.dev0".split(), "83.1",
                                 "GB", "(31%)"]  # fmt: skip


def test_words_are_never_broken_however_narrow_the_terminal_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address = "kafka-1.eu-central-1.compute.internal:19092"
    rows = [(1, address, "yes", "up", 28, "0.1.0.dev0", "83.1 GB (31%)")]
    for columns in (20, 40, 80):
        text = "\n".join(drawn(monkeypatch, Table(columns=BROKERS, rows=rows), columns))
        assert address in text
        assert "0.1.0.dev0" in text
    sentence = Table(columns=("OPTION", "MEANING"), rows=[("retention.ms", "how long " * 20)])
    assert all(len(line) <= 80 for line in drawn(monkeypatch, sentence, 80))
