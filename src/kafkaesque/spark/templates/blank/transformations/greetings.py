"""From topic to topic: every message in capitals, exactly once."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, upper

spark = SparkSession.active()
brokers = {
    "kafka.bootstrap.servers": spark.conf.get("kafkaesque.bootstrap.servers"),
    "optionsFile": spark.conf.get("kafkaesque.options.file"),
}
source_topic = spark.conf.get("kafkaesque.source.topic")
sink_topic = spark.conf.get("kafkaesque.sink.topic")

dp.create_sink(
    "shouted",
    format="kafkaesque",
    options={**brokers, "topic": sink_topic},
)


@dp.append_flow(target="shouted", name="shout")
def shout() -> DataFrame:
    """Read the messages that are new and write them in capitals."""
    greetings = (
        spark.readStream.format("kafkaesque")
        .options(**brokers)
        .option("subscribe", source_topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    return greetings.select("key", upper(col("value").cast("string")).alias("value"))
