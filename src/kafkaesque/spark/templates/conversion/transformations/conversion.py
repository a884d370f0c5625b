"""Messages of every producer into the canonical form, and from there into every consumer's."""

from collections.abc import Callable
from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from kafkaesque.spark.conversion.convert import COLUMNS, to_canonical, to_consumer
from kafkaesque.spark.conversion.load import load_rules
from kafkaesque.spark.conversion.rules import Rule

spark = SparkSession.active()
brokers = {
    "kafka.bootstrap.servers": spark.conf.get("kafkaesque.bootstrap.servers"),
    "optionsFile": spark.conf.get("kafkaesque.options.file"),
}
bad_topic = spark.conf.get("kafkaesque.conversion.bad.topic")
rules = load_rules(
    Path(spark.conf.get("kafkaesque.conversion.rules")),
    salt=spark.conf.get("kafkaesque.conversion.salt"),
    topic_prefix=spark.conf.get("kafkaesque.conversion.topic.prefix"),
    session_time_zone=spark.conf.get("spark.sql.session.timeZone"),
)

# Each row names its topic: what is converted goes on, what cannot be is kept in the bad topic.
dp.create_sink("topics", format="kafkaesque", options=brokers)


def messages(topics: tuple[str, ...], group: str) -> DataFrame:
    """Return the messages of some topics; the group's lag says how far the conversion is behind."""
    return (
        spark.readStream.format("kafkaesque")
        .options(**brokers)
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", "earliest")
        .option("columns", COLUMNS)
        .option("kafka.group.id", group)
        .load()
    )


def add_flow(name: str, converted: Callable[[], DataFrame]) -> None:
    """Add the flow of one rule."""

    @dp.append_flow(target="topics", name=name)
    def flow() -> DataFrame:
        return converted()


def add_producer(rule: Rule) -> None:
    """Add the way of a producer's messages to the canonical form."""
    name = f"from_{rule.name}"
    add_flow(name, lambda: to_canonical(messages(rule.topics, name), rule, rules, bad_topic))


def add_consumer(rule: Rule) -> None:
    """Add the way of canonical messages to a consumer's form."""
    name = f"to_{rule.name}"
    source = (rule.canonical.topic,)
    add_flow(name, lambda: to_consumer(messages(source, name), rule, rules, bad_topic))


for producer in rules.producers:
    add_producer(producer)
for consumer in rules.consumers:
    add_consumer(consumer)
