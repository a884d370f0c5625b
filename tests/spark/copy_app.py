"""A query from topic to topic, as a process of its own that a test kills: source, copy, sink.

Arguments: bootstrap servers, source topic, sink topic, checkpoint folder, Spark's master if it is
not this process.
"""

from __future__ import annotations

import sys

from tests.spark.query_app import read_topics, start_spark


def main() -> None:
    bootstrap_servers, source, sink, checkpoint, *master = sys.argv[1:]
    table = read_topics(start_spark(*master), bootstrap_servers, source, rows_max=300)
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
