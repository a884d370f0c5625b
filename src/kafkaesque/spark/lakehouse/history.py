"""What has happened to a table, commit by commit, for people and programs."""

from __future__ import annotations

from dataclasses import dataclass

from kafkaesque.spark.lakehouse.commit_log import CommitInfo, read_commit_info, versions
from kafkaesque.spark.lakehouse.table import BATCH, KIND, OFFSETS, QUERY, ROWS, open_table
from kafkaesque.spark.offsets import OffsetsJson


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A version of a table, and how it came about."""

    version: int
    timestamp_ms: int
    kind: str
    #: That were appended; None where none were, or nobody has counted them.
    rows: int | None
    query: str | None
    batch: int | None
    #: How far each topic's partition was archived; None where the commit does not say it.
    offsets: OffsetsJson | None


def read_history(path: str, limit: int) -> list[Snapshot]:
    """Return the newest versions, the newest first, as far as the log keeps them.

    Raises:
        WrongOption: there is no table. TableError: its log cannot be read.
    """
    open_table(path)
    infos = (read_commit_info(path, number) for number in reversed(versions(path)[-limit:]))
    return [_snapshot(each) for each in infos if each is not None]


def _snapshot(info: CommitInfo) -> Snapshot:
    words = info.words
    return Snapshot(
        version=info.version,
        timestamp_ms=info.timestamp_ms,
        kind=words.get(KIND) or info.operation.lower(),
        rows=words.get(ROWS),
        query=words.get(QUERY),
        batch=words.get(BATCH),
        offsets=words.get(OFFSETS),
    )
