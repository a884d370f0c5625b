"""An index of lines: one SQLite database, written in transactions and searched meanwhile.

The directory has `index.db` and, while a query writes, `staging/`. Lines are found by their words
through SQLite's full-text search (FTS5), and by time, host, severity, kind and status.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafkaesque.spark.errors import ConnectorError
from kafkaesque.spark.logs.search_words import to_match

FILE_NAME = "index.db"
#: Of one line in the index, in this order; `time` in microseconds since 1970, UTC.
COLUMNS = (
    *("time", "host", "kind", "severity", "status", "program"),
    *("source", "partition", "position", "line", "fields"),
)
#: The most lines that a search returns.
LIMIT_MAX = 100_000
_APPLICATION_ID, _VERSION = 0x6B716C67, 1
#: How long a writer waits for another, such as one that removes old lines.
_BUSY_S = 60.0
_CACHE_KIB = 64 << 10
_REMOVED_AT_ONCE = 20_000
_SCHEMA = f"""
CREATE TABLE lines (
    id INTEGER PRIMARY KEY,
    time INTEGER NOT NULL, host TEXT NOT NULL, kind TEXT NOT NULL, severity INTEGER NOT NULL,
    status INTEGER, program TEXT,
    source TEXT NOT NULL, partition INTEGER, position INTEGER NOT NULL,
    line TEXT NOT NULL, fields TEXT NOT NULL
);
CREATE INDEX lines_by_time ON lines (time);
CREATE VIRTUAL TABLE words USING fts5 (line, host, content='lines', content_rowid='id');
CREATE TABLE published (query TEXT PRIMARY KEY, batch INTEGER NOT NULL) WITHOUT ROWID;
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {_VERSION};
"""
_INSERT = f"INSERT INTO lines ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"
_PUBLISHED = "SELECT batch FROM published WHERE query = ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What is looked for: all that is said has to hold."""

    #: Words, "phrases in quotes", beginnings* and -words that are not to be there.
    words: str = ""
    #: In microseconds since 1970: from then on, and before then.
    since: int | None = None
    until: int | None = None
    host: str | None = None
    #: This one or a worse one: 0 is the worst, 7 the least.
    severity: int | None = None
    kind: str | None = None
    #: The first digit of a web server's answer: 5 for 500 to 599.
    status_class: int | None = None
    #: So many, the latest.
    limit: int = 50


class LineIndex:
    """The index in a directory; made there if it is to be written and is not there.

    Raises:
        ConnectorError: it is not there, is none, or is of a later version.
    """

    def __init__(self, folder: Path, *, writes: bool = False) -> None:
        self._path = folder / FILE_NAME
        if writes:
            folder.mkdir(parents=True, exist_ok=True)
        elif not self._path.is_file():
            raise ConnectorError(
                f"there is no index in {folder}: it is made when the first lines are written"
            )
        mode = "rwc" if writes else "rw"
        uri = f"{self._path.absolute().as_uri()}?mode={mode}"
        self._db = sqlite3.connect(uri, uri=True, timeout=_BUSY_S, isolation_level=None)
        try:
            self._open(writes)
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise ConnectorError(f"{self._path} is no index of lines: {error}") from None
        except ConnectorError:
            self._db.close()
            raise

    def __enter__(self) -> LineIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def publish(self, query: str, batch: int, tables: Iterable[Any]) -> int | None:
        """Add a micro-batch's lines in one transaction, or None if it has been added before.

        `tables` are Arrow record batches of COLUMNS. When it returns a number, so many lines are
        found from now on, and are on disk.
        """
        with self._transaction():
            found = self._db.execute(_PUBLISHED, (query,)).fetchone()
            if found is not None and found[0] >= batch:
                return None
            ((first,),) = self._db.execute("SELECT coalesce(max(id), 0) FROM lines")
            for table in tables:
                columns = [table.column(name).to_pylist() for name in COLUMNS]
                self._db.executemany(_INSERT, zip(*columns, strict=True))
            self._db.execute(
                "INSERT INTO words (rowid, line, host)"
                " SELECT id, line, host FROM lines WHERE id > ?",
                (first,),
            )
            self._db.execute(
                "INSERT INTO published VALUES (?, ?)"
                " ON CONFLICT (query) DO UPDATE SET batch = excluded.batch",
                (query, batch),
            )
            ((last,),) = self._db.execute("SELECT coalesce(max(id), 0) FROM lines")
        return int(last - first)

    def search(self, wanted: Search) -> list[dict[str, Any]]:
        """Return the latest lines that are looked for, the last one last, as dicts of COLUMNS.

        Raises:
            ConnectorError: the words cannot be looked for.
        """
        conditions, values = _conditions(wanted)
        tables = "lines"
        if wanted.words.strip():
            tables = "words JOIN lines ON lines.id = words.rowid"
            conditions.insert(0, "words MATCH ?")
            values.insert(0, to_match(wanted.words))
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        names = ", ".join(f"lines.{name}" for name in COLUMNS)
        text = f"SELECT {names} FROM {tables}{where} ORDER BY time DESC, id DESC LIMIT ?"
        rows = self._db.execute(text, (*values, min(wanted.limit, LIMIT_MAX))).fetchall()
        return [dict(zip(COLUMNS, row, strict=True)) for row in reversed(rows)]

    def count(self) -> int:
        """Return how many lines there are."""
        ((count,),) = self._db.execute("SELECT count(*) FROM lines")
        return int(count)

    def remove_before(self, time: int) -> int:
        """Remove lines that are older, some at a time, and return how many there were."""
        removed = 0
        while True:
            with self._transaction():
                chosen = "SELECT id FROM lines WHERE time < ? ORDER BY time LIMIT ?"
                ids = self._db.execute(chosen, (time, _REMOVED_AT_ONCE)).fetchall()
                self._db.executemany(
                    "INSERT INTO words (words, rowid, line, host)"
                    " SELECT 'delete', id, line, host FROM lines WHERE id = ?",
                    ids,
                )
                self._db.executemany("DELETE FROM lines WHERE id = ?", ids)
            removed += len(ids)
            if len(ids) < _REMOVED_AT_ONCE:
                return removed

    def check(self) -> None:
        """Compare lines and words.

        Raises:
            ConnectorError: they are not of one another.
        """
        try:
            self._db.execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)")
        except sqlite3.DatabaseError as error:
            raise ConnectorError(f"{self._path}: lines and words differ: {error}") from None

    def _open(self, writes: bool) -> None:
        self._db.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        if writes:
            self._db.execute("PRAGMA journal_mode = WAL")
            # What is published is to outlive a power cut: the checkpoint says that it is there.
            self._db.execute("PRAGMA synchronous = FULL")
            with self._transaction():
                ((tables,),) = self._db.execute("SELECT count(*) FROM sqlite_master")
                if not tables:
                    for statement in filter(str.strip, _SCHEMA.split(";\n")):
                        self._db.execute(statement)
        else:
            self._db.execute("PRAGMA query_only = ON")
        ((application,),) = self._db.execute("PRAGMA application_id")
        ((version,),) = self._db.execute("PRAGMA user_version")
        if (application, version) != (_APPLICATION_ID, _VERSION):
            raise ConnectorError(
                f"{self._path} is no index of lines of version {_VERSION}: write into another"
                " directory"
            )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")


def _conditions(wanted: Search) -> tuple[list[str], list[Any]]:
    status = wanted.status_class
    found = [
        ("time >= ?", wanted.since),
        ("time < ?", wanted.until),
        ("lines.host = ?", wanted.host),
        ("severity <= ?", wanted.severity),
        ("kind = ?", wanted.kind),
        ("status / 100 = ?", status),
    ]
    told = [(condition, value) for condition, value in found if value is not None]
    return [condition for condition, _ in told], [value for _, value in told]
