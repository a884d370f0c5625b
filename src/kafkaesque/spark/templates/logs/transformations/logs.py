"""Lines of topics and files into an index that is searched; those that are none, into a topic."""

import socket
from collections.abc import Callable
from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from kafkaesque.spark.logs.parse import bad_lines, good_lines, parse_lines, topic_lines

spark = SparkSession.active()
brokers = {
    "kafka.bootstrap.servers": spark.conf.get("kafkaesque.bootstrap.servers"),
    "optionsFile": spark.conf.get("kafkaesque.options.file"),
}
topics = spark.conf.get("kafkaesque.logs.topics")
files = spark.conf.get("kafkaesque.logs.files")
time_zone = spark.conf.get("kafkaesque.logs.time.zone")
host = spark.conf.get("kafkaesque.logs.host") or socket.gethostname()
index = Path(spark.conf.get("kafkaesque.logs.index")).absolute()
patterns = ",".join(str(Path(each.strip()).absolute()) for each in files.split(",") if each.strip())

dp.create_sink(
    "index",
    format="kafkaesque-index",
    options={
        "path": str(index),
        "retentionDays": spark.conf.get("kafkaesque.logs.retention.days"),
    },
)
dp.create_sink(
    "aside",
    format="kafkaesque",
    options={
        **brokers,
        "topic": spark.conf.get("kafkaesque.logs.aside.topic"),
    },
)


def lines_of_topics() -> DataFrame:
    """Return the lines that are sent to the topics."""
    messages = (
        spark.readStream.format("kafkaesque")
        .options(**brokers)
        .option("subscribe", topics)
        .option("startingOffsets", "earliest")
        .load()
    )
    return topic_lines(messages)


def lines_of_files() -> DataFrame:
    """Return the lines that are written to the files."""
    return spark.readStream.format("kafkaesque-lines").option("path", patterns).load()


def add_flows(name: str, lines: Callable[[], DataFrame]) -> None:
    """Add what is done with the lines of one source: each is indexed, or kept aside."""

    def parsed() -> DataFrame:
        return parse_lines(lines(), time_zone=time_zone, host=host)

    @dp.append_flow(target="index", name=f"{name}_to_index")
    def to_index() -> DataFrame:
        return good_lines(parsed())

    @dp.append_flow(target="aside", name=f"{name}_aside")
    def aside() -> DataFrame:
        return bad_lines(parsed())


if topics:
    add_flows("topics", lines_of_topics)
if patterns:
    add_flows("files", lines_of_files)
