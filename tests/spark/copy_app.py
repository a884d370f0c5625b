"""A query from topic to topic, as a process of its own that a test kills: source, copy, sink.

Arguments: bootstrap servers, source topic, sink topic, checkpoint folder, Spark's master if it is
not this process.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from kafkaesque.spark.java import ensure_java


def main() -> None:
    bootstrap_servers, source, sink, checkpoint, *master = sys.argv[1:]
    ensure_java()
    spark = (
        SparkSession.builder.master(*(master or ["local[2,3]"]))
        .config("spark.executor.memory", "512m")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    table = (
        spark.readStream.format("kafkaesque")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "300")
        .load()
    )
    query = (
        table.selectExpr("key", "concat('copy of ', cast(value AS string)) AS value")
        .writeStream.format("kafkaesque")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("topic", sink)
        .option("checkpointLocation", checkpoint)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
