"""`kafkaesque archive`, as somebody uses it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kafkaesque.cli.app import app
from tests.spark.table_helpers import DAY_US, NOON_US, content, expected, rows, stage, write


def run(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["archive", *words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of two micro-batches from two days, and a file of an attempt that failed."""
    table = tmp_path / "table"
    stage(table, [rows(0, 5)], ("query", 0), task=7)
    write(table, [rows(0, 5), rows(0, 3, partition=1)], 0)
    write(table, [rows(5, 5), rows(10, 2, time_us=NOON_US + DAY_US)], 1)
    return table


def test_history_and_offsets(table: Path) -> None:
    code, output, _ = run("history", str(table))
    assert code == 0
    lines = [line.split("\t") for line in output.splitlines()]
    assert lines[0] == ["VERSION", "TIME", "COMMIT", "ROWS", "ARCHIVED-UNTIL"]
    assert [line[0:1] + line[2:] for line in lines[1:]] == [
        ["2", "append", "7", "flights 0:12 1:3"],
        ["1", "append", "8", "flights 0:5 1:3"],
        ["0", "create", "-", "-"],
    ]
    newest = json.loads(run("history", str(table), "--json", "--limit", "1")[1])
    assert newest[0]["offsets"] == {"flights": {"0": 12, "1": 3}}
    assert (newest[0]["query"], newest[0]["batch"]) == ("query", 1)
    assert json.loads(run("offsets", str(table))[1]) == {"flights": {"0": 12, "1": 3}}
    before = run("offsets", str(table), "--version", "1")
    assert json.loads(before[1]) == {"flights": {"0": 5, "1": 3}}
    assert json.loads(run("offsets", str(table), "--at", "P0D")[1])["flights"]["0"] == 12


def test_compact_vacuum_and_expire(table: Path) -> None:
    assert run("compact", str(table))[1] == "joined 2 files to 1\n"
    assert run("compact", str(table))[1] == "joined 0 files to 0\n"
    code, output, _ = run("vacuum", str(table), "--dry-run")
    assert code == 0
    assert output.startswith("would remove 1 file, ")
    assert output.endswith("0 of old versions, 1 of failed attempts, 0 of unknown origin\n")
    removed = json.loads(run("vacuum", str(table), "--keep-since", "P0D", "--json")[1])
    assert (len(removed["old"]), len(removed["dead"])) == (2, 1)
    assert content(table) == expected(0, 12) + expected(0, 3, partition=1)
    assert run("expire", str(table), "--before", "2024-05-02T00:00:00Z")[1] == (
        "took 13 rows in 1 file out of the table\n"
    )
    assert content(table) == expected(10, 2)


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["history", "/nowhere"], 2, "there is no table at /nowhere"),
        (["offsets", "TABLE", "--version", "9"], 2, "its log has the versions 0 to 2"),
        (["offsets", "TABLE", "--version", "1", "--at", "P1D"], 2, "--version or --at, not both"),
        (["offsets", "TABLE", "--at", "P1D"], 2, "has no version of"),
        (["expire", "TABLE", "--before", "soon"], 2, "neither an offset nor a time"),
        (["backfill", "TABLE", "--topic", "a", "--to", "b", "-b", "127.0.0.1:9"], 3, "no broker"),
    ],
    ids=["table", "version", "both", "time", "word", "brokers"],
)
def test_what_is_wrong_is_told_in_a_sentence(
    table: Path, words: list[str], code: int, sentence: str
) -> None:
    found, output, errors = run(*[str(table) if word == "TABLE" else word for word in words])
    assert (found, output) == (code, "")
    assert sentence in errors
    assert "Traceback" not in errors
