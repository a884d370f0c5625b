"""The query that is killed: source, a transformation in Python, a shuffle, the sink.

Arguments: Spark's master, bootstrap servers, source topic, sink topic, the sink's guarantee,
checkpoint folder. A query that fails is started again in the same driver, as a continuous pipeline
does it, and the driver ends when that is of no use; each failure is one line on standard output.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bench.spark_chaos.transformation import transform
from kafkaesque.spark.java import ensure_java

FAILED = "query failed:"
OUTPUT_PARTITIONS = 3
RESTART_S = 0.5
#: In a row, each soon after its start. Where Spark's Python process that looks for formats is
#: killed, the driver finds none for good: another one has to begin.
FAILURES_MAX = 5
LONG_S = 10.0
REASON_CHARS = 1500


def transformed(batches: Iterator[Any]) -> Iterator[Any]:
    """Transform record batches of one column `value`."""
    import pyarrow

    for batch in batches:
        made = [each for value in batch["value"].to_pylist() for each in transform(value)]
        keys = [each.split()[0] for each in made]
        yield pyarrow.RecordBatch.from_pydict({"key": keys, "value": made})


def start(
    spark: SparkSession, servers: str, source: str, sink: str, guarantee: str, checkpoint: str
) -> Any:
    """Start the query."""
    rows: DataFrame = (
        spark.readStream.format("kafkaesque")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .load()
    )
    made = rows.select("value").mapInArrow(transformed, "key binary, value binary")
    return (
        made.repartition(OUTPUT_PARTITIONS, "key")
        .writeStream.format("kafkaesque")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", sink)
        .option("deliveryGuarantee", guarantee)
        .option("checkpointLocation", checkpoint)
        .start()
    )


def main() -> None:
    """Run until somebody ends it, or queries fail again and again."""
    master, *arguments = sys.argv[1:]
    ensure_java()
    spark = (
        SparkSession.builder.master(master)
        .appName("chaos")
        .config("spark.executor.memory", "512m")
        .config("spark.executor.cores", "1")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    failures = 0
    while failures < FAILURES_MAX:
        began = time.monotonic()
        try:
            start(spark, *arguments).awaitTermination()
        except Exception as error:
            print(f"{FAILED} {' '.join(str(error).split())[:REASON_CHARS]}", flush=True)
        failures = 1 if time.monotonic() - began > LONG_S else failures + 1
        time.sleep(RESTART_S)
    sys.exit(1)


if __name__ == "__main__":
    main()
