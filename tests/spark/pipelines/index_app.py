"""A query from a topic into an index, as a process of its own that a test kills.

Arguments: bootstrap servers, topic, the index's folder, checkpoint folder.
"""

from __future__ import annotations

import sys

from kafkaesque.spark.logs.parse import good_lines, parse_lines, topic_lines
from tests.spark.query_app import read_topics, start_spark


def main() -> None:
    bootstrap_servers, topic, folder, checkpoint = sys.argv[1:]
    table = read_topics(start_spark(), bootstrap_servers, topic, rows_max=300)
    writer = good_lines(parse_lines(topic_lines(table))).writeStream.format("kafkaesque-index")
    query = writer.option("path", folder).option("checkpointLocation", checkpoint).start()
    query.awaitTermination()


if __name__ == "__main__":
    main()
