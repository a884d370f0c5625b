"""The index: what is published is found, once; by words, time, host, severity, kind, status."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafkaesque.spark.errors import ConnectorError
from kafkaesque.spark.logs.index import COLUMNS, FILE_NAME, LineIndex, Search
from kafkaesque.spark.logs.search_words import to_match


def table(*lines: str, **columns: Any) -> Any:
    """Return lines whose times are their numbers; other columns are as given, or of little use."""
    rows = len(lines)
    defaults = dict.fromkeys(COLUMNS, [None] * rows) | {
        "time": list(range(rows)),
        "host": ["h"] * rows,
        "kind": ["syslog"] * rows,
        "severity": [6] * rows,
        "source": ["t"] * rows,
        "position": list(range(rows)),
        "line": list(lines),
        "fields": ["{}"] * rows,
    }
    found = defaults | columns
    return pa.RecordBatch.from_pydict({name: found[name] for name in COLUMNS})


def found(index: LineIndex, words: str = "", **wanted: Any) -> list[str]:
    return [line["line"] for line in index.search(Search(words=words, **wanted))]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "index"


def test_a_micro_batch_is_added_once(folder: Path) -> None:
    with LineIndex(folder, writes=True) as index:
        assert index.publish("q", 0, [table("one"), table("two")]) == 2
        assert index.publish("q", 0, [table("one"), table("two")]) is None
        assert index.publish("other", 0, [table("three")]) == 1
        assert index.publish("q", 1, [table("four")]) == 1
        assert index.publish("q", 0, [table("zombie")]) is None
        assert sorted(found(index)) == ["four", "one", "three", "two"]
        index.check()


def test_a_micro_batch_that_fails_leaves_nothing(folder: Path) -> None:
    def tables() -> Any:
        yield table("one")
        raise OSError("staged lines cannot be read")

    with LineIndex(folder, writes=True) as index:
        with pytest.raises(OSError, match="staged"):
            index.publish("q", 0, tables())
        assert (index.count(), found(index, "one")) == (0, [])
        assert index.publish("q", 0, [table("one")]) == 1
        assert found(index, "one") == ["one"]


def test_words(folder: Path) -> None:
    lines = [
        "status installed libc6:amd64 2.36-9",
        "Failed password for root from 10.0.0.1 port 22",
        "accepted password for Bob",
        "GET /a/b.html?x=1 200",
    ]
    with LineIndex(folder, writes=True) as index:
        index.publish("q", 0, [table(*lines)])
        assert found(index, "libc6:amd64") == lines[:1]
        assert found(index, "10.0.0.1") == lines[1:2]
        assert found(index, "10.0.0.2") == []
        assert found(index, "PASSWORD -root") == lines[2:3]
        assert found(index, '"password for"') == lines[1:3]
        assert found(index, "pass*") == lines[1:3]
        assert found(index, "pass") == []
        assert found(index, "/a/b.html") == lines[3:]
        assert found(index, 'AND "') == []
        with pytest.raises(ConnectorError, match="no word to be looked for in '-root'"):
            found(index, "-root")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b*", '"a" AND "b"*'),
        ('-x "p q" y', '("p q" AND "y") NOT ("x")'),
        ('a"b', '"a" AND "b"'),
        ("NEAR(a)", '"NEAR(a)"'),
    ],
    ids=["beginning", "without", "quote", "operator"],
)
def test_what_is_typed_is_no_expression_of_fts5(text: str, expected: str) -> None:
    assert to_match(text) == expected


def test_filters(folder: Path) -> None:
    lines = table(
        *("a one", "b one", "c one", "d two"),
        host=["web1", "web1", "db1", "db1"],
        severity=[3, 6, 4, 3],
        kind=["web", "web", "syslog", "dpkg"],
        status=[502, 200, None, None],
    )
    with LineIndex(folder, writes=True) as index:
        index.publish("q", 0, [lines])
        assert found(index, host="web1") == ["a one", "b one"]
        assert found(index, severity=4) == ["a one", "c one", "d two"]
        assert found(index, "one", severity=3) == ["a one"]
        assert found(index, since=1, until=3) == ["b one", "c one"]
        assert found(index, kind="dpkg") == ["d two"]
        assert found(index, status_class=5) == ["a one"]
        assert found(index, limit=2) == ["c one", "d two"]
        assert found(index, "db1 one") == ["c one"]


def test_it_is_searched_while_it_is_written(folder: Path) -> None:
    with LineIndex(folder, writes=True) as writer:
        writer.publish("q", 0, [table("one")])
        seen = []

        def tables() -> Any:
            yield table("two")
            with LineIndex(folder) as reader:
                seen.append(found(reader))

        writer.publish("q", 1, tables())
        with LineIndex(folder) as reader:
            assert (seen, found(reader)) == ([["one"]], ["one", "two"])


def test_old_lines_are_removed_with_their_words(folder: Path) -> None:
    with LineIndex(folder, writes=True) as index:
        index.publish("q", 0, [table("old one", "old two", "new three")])
        assert index.remove_before(2) == 2
        assert (found(index), found(index, "old")) == (["new three"], [])
        index.check()
        assert index.publish("q", 0, [table("old one")]) is None


def test_what_is_no_index_is_said(folder: Path) -> None:
    with pytest.raises(ConnectorError, match="there is no index in"):
        LineIndex(folder)
    folder.mkdir()
    (folder / FILE_NAME).write_bytes(b"x" * 4096)
    with pytest.raises(ConnectorError, match="is no index of lines"):
        LineIndex(folder)
    (folder / FILE_NAME).unlink()
    other = sqlite3.connect(folder / FILE_NAME)
    other.execute("CREATE TABLE t (x)")
    other.close()
    with pytest.raises(ConnectorError, match="no index of lines of version 1"):
        LineIndex(folder, writes=True)
