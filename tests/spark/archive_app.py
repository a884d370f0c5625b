"""A query from topics to a table, as a process of its own that dies beside its commit.

Arguments: bootstrap servers, topics, table, checkpoint folder, number of the micro-batch at whose
commit it dies, `before` or `after`.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from kafkaesque.spark.lakehouse.data_source import LakehouseDataSource
from kafkaesque.spark.lakehouse.sink import StreamWriter
from tests.spark.query_app import read_topics, start_spark


class DyingWriter(StreamWriter):
    """Takes driver, JVM and workers with it."""

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        batch, when = int(os.environ["DIES_AT"]), os.environ["DIES"]
        if batchId == batch and when == "before":
            _die()
        super().commit(messages, batchId)
        if batchId == batch:
            _die()


def _die() -> None:
    os.killpg(int(os.environ["DIES_GROUP"]), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


class DyingLakehouse(LakehouseDataSource):
    @classmethod
    def name(cls) -> str:
        return "dying-lakehouse"

    def streamWriter(self, schema: Any, overwrite: bool) -> StreamWriter:  # noqa: N802
        return DyingWriter(*self._plan(schema))


def main() -> None:
    bootstrap_servers, topics, table, checkpoint, batch, when = sys.argv[1:]
    # Spark's Python processes are a group of their own, and have the environment of this one.
    os.environ |= {"DIES_AT": batch, "DIES": when, "DIES_GROUP": str(os.getpgid(0))}
    spark = start_spark()
    # Workers find the class by this module's name, and it is main here.
    import tests.spark.archive_app as here

    spark.dataSource.register(here.DyingLakehouse)
    rows = read_topics(spark, bootstrap_servers, topics, rows_max=100, includeHeaders="true")
    query = (
        rows.writeStream.format("dying-lakehouse")
        .option("path", table)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
