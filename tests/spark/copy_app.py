"""A query from topic to topic, as a process of its own that a test kills: source, copy, sink.

Arguments: bootstrap servers, source topic, sink topic, checkpoint folder; then, where they are not
this process and 300, the master of Spark and how many records a micro-batch has at most.
"""

from __future__ import annotations

import sys

from tests.spark.query_app import LOCAL, read_topics, start_spark

DEFAULTS = (LOCAL, "300")


def main() -> None:
    bootstrap_servers, source, sink, checkpoint, *others = sys.argv[1:]
    master, rows_max = (*others, *DEFAULTS[len(others) :])
    table = read_topics(start_spark(master), bootstrap_servers, source, rows_max=int(rows_max))
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
