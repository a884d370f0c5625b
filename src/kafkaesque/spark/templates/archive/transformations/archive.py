"""Topics into a Delta Lake table: every message once, as it was, found again by topic and time."""

from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()
brokers = {
    "kafka.bootstrap.servers": spark.conf.get("kafkaesque.bootstrap.servers"),
    "optionsFile": spark.conf.get("kafkaesque.options.file"),
}
topics = spark.conf.get("kafkaesque.archive.topics")
table = Path(spark.conf.get("kafkaesque.archive.table")).absolute()

dp.create_sink(
    "archive",
    format="lakehouse",
    options={
        "path": str(table),
        "partitionBy": "topic,date",
        "compactEvery": spark.conf.get("kafkaesque.archive.compact.every"),
        "historyRetention": spark.conf.get("kafkaesque.archive.history.retention"),
    },
)


@dp.append_flow(target="archive", name="messages_to_archive")
def messages_to_archive() -> DataFrame:
    """Read what is new, with all that a message has."""
    return (
        spark.readStream.format("kafkaesque")
        .options(**brokers)
        .option("subscribe", topics)
        .option("startingOffsets", spark.conf.get("kafkaesque.archive.starting.offsets"))
        .option("maxOffsetsPerTrigger", spark.conf.get("kafkaesque.archive.records.per.batch"))
        .option("kafka.group.id", spark.conf.get("kafkaesque.archive.group"))
        .option("includeHeaders", "true")
        .load()
    )
