"""A batch query from topic to topic on another master, as a process of its own.

Arguments: bootstrap servers, source topic, sink topic, Spark's master.
"""

from __future__ import annotations

import sys

from tests.spark.query_app import start_spark


def main() -> None:
    bootstrap_servers, source, sink, master = sys.argv[1:]
    spark = start_spark(master)
    table = spark.read.format("kafkaesque").option("subscribe", source)
    rows = table.option("kafka.bootstrap.servers", bootstrap_servers).load()
    copies = rows.selectExpr("key", "concat('copy of ', cast(value AS string)) AS value")
    writer = copies.write.format("kafkaesque").option("topic", sink).mode("append")
    writer.option("kafka.bootstrap.servers", bootstrap_servers).save()
    spark.stop()


if __name__ == "__main__":
    main()
