"""Backfills: rows of a table go back to a topic, as they were, once.

A backfill is a streaming query over the table that ends where the table ended when it began. It
goes through each partition in the order of its offsets, and its checkpoint and the transactions of
the sink make it exactly once however often it is killed. Its folder lies beside the table's files,
named after what was asked for: the same request goes on where it was, and when it has been done it
does nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kafkaesque.spark.errors import WrongOption
from kafkaesque.spark.lakehouse.commit_log import sync
from kafkaesque.spark.lakehouse.options import parse_source
from kafkaesque.spark.lakehouse.source import check_streamable, spark_schema_json
from kafkaesque.spark.lakehouse.staging import check_written_as

#: Names with `_` in front are not taken for data by readers of Delta Lake tables.
FOLDER = "_backfills"
_REQUEST = "request.json"
_SENT = ("key", "value", "headers", "timestamp", "partition")


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill:
    """What was asked for; what is the same in all of this is the same backfill."""

    path: str
    topic: str
    to_topic: str
    #: Of the cluster that is written to, so that another one is another backfill.
    cluster_id: str
    version: int | None = None
    as_of: str | None = None
    start: str | None = None
    end: str | None = None
    #: A record goes to the partition that it was in; without it to its key's.
    keeps_partitions: bool = True

    def default_name(self) -> str:
        """Return a name that no other request has."""
        return hashlib.sha256(self._words().encode()).hexdigest()[:12]

    def _words(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    def source_options(self) -> dict[str, str]:
        """Return the options of the format `lakehouse`."""
        named = {
            "path": self.path,
            "topics": self.topic,
            "versionAsOf": None if self.version is None else str(self.version),
            "timestampAsOf": self.as_of,
            "startingTimestamp": self.start,
            "endingTimestamp": self.end,
        }
        return {name: value for name, value in named.items() if value is not None}

    def folder(self, name: str) -> Path:
        """Return where the progress of the backfill of this name is kept."""
        return Path(self.path, FOLDER, check_written_as(name))

    def claim(self, name: str) -> Path:
        """Make this the backfill of this name, and return its folder.

        Raises:
            WrongOption: the name is another backfill's.
        """
        folder = self.folder(name)
        folder.mkdir(parents=True, exist_ok=True)
        request = folder / _REQUEST
        if not request.exists():
            new = folder / f"{_REQUEST}.{os.getpid()}"
            new.write_text(self._words())
            sync(new)
            try:
                os.link(new, request)
            except FileExistsError:
                pass
            finally:
                new.unlink()
            sync(folder)
        if request.read_text() != self._words():
            raise WrongOption(
                f"another backfill of this table has the name {name} ({request} has its request);"
                " give this one another name"
            )
        return folder


def start_backfill(
    spark: Any,
    request: Backfill,
    *,
    name: str,
    bootstrap_servers: str,
    offsets_max: int,
) -> Any:
    """Start the backfill, or go on with it; return its query, which ends by itself.

    Raises:
        WrongOption: the table has no such rows, or the name is another backfill's.
    """
    options = {**request.source_options(), "maxOffsetsPerTrigger": str(offsets_max)}
    fields = spark_schema_json(parse_source(options, is_stream=True))
    check_streamable(fields)
    there = {each["name"] for each in fields}
    columns = [each for each in _SENT if each in there]
    if not request.keeps_partitions:
        columns.remove("partition")
    rows = spark.readStream.format("lakehouse").options(**options).load().select(*columns)
    writer = rows.writeStream.format("kafkaesque").option("topic", request.to_topic)
    if "timestamp" in columns:
        writer = writer.option("keepTimestamps", "true")
    folder = request.claim(name)
    return (
        writer.option("kafka.bootstrap.servers", bootstrap_servers)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .queryName(f"backfill-{name}")
        .trigger(availableNow=True)
        .start()
    )
