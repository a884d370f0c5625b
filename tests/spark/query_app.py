"""What the queries that tests run as processes of their own have in common."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from kafkaesque.spark.java import ensure_java

LOCAL = "local[2,3]"


def start_spark(master: str = LOCAL) -> SparkSession:
    """Return a session of this process, or of another master; tasks are tried three times."""
    ensure_java()
    spark = (
        SparkSession.builder.master(master)
        .config("spark.executor.memory", "512m")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def read_topics(
    spark: SparkSession, bootstrap_servers: str, topics: str, *, rows_max: int, **options: str
) -> Any:
    """Return topics as a stream, from their beginnings, with so many records in a micro-batch."""
    return (
        spark.readStream.format("kafkaesque")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", topics)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(rows_max))
        .options(**options)
        .load()
    )
