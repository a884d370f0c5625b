"""A query from a topic into an index, as a process of its own that a test kills.

Arguments: bootstrap servers, topic, the index's folder, checkpoint folder.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from kafkaesque.spark.java import ensure_java
from kafkaesque.spark.logs.parse import good_lines, parse_lines, topic_lines


def main() -> None:
    bootstrap_servers, topic, folder, checkpoint = sys.argv[1:]
    ensure_java()
    spark = (
        SparkSession.builder.master("local[2,3]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    table = (
        spark.readStream.format("kafkaesque")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "300")
        .load()
    )
    writer = good_lines(parse_lines(topic_lines(table))).writeStream.format("kafkaesque-index")
    query = writer.option("path", folder).option("checkpointLocation", checkpoint).start()
    query.awaitTermination()


if __name__ == "__main__":
    main()
