"""Rules applied to tables of the source: what can be converted goes on, what cannot is kept aside.

Each message becomes one message, to the topic of its rule or to that of bad records, so that one
query with one sink has both.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from kafkaesque.spark.conversion.fields import Compiler
from kafkaesque.spark.conversion.forms import read_form, written_form
from kafkaesque.spark.conversion.rules import Canonical, Form, Rule, Rules
from kafkaesque.spark.payloads import BAD_REASON, PAYLOAD

#: A message that is larger is kept aside, and only so much of a bad one is kept: with all that is
#: told of it, it has to fit into what brokers take (`max.message.bytes`).
VALUE_BYTES_MAX = 900_000
#: The columns of the source that are needed.
COLUMNS = "key,value,topic,partition,offset,timestamp"
_MADE, _REASON, _WRITTEN = "__made", "__reason", "__written"


def to_canonical(table: DataFrame, rule: Rule, rules: Rules, bad_topic: str) -> DataFrame:
    """Return the messages of a producer in their canonical form, as JSON."""
    canonical = rule.canonical
    form = canonical_form(canonical)
    return _converted(table, rule, rules, rule.form, form, canonical.topic, bad_topic)


def to_consumer(table: DataFrame, rule: Rule, rules: Rules, bad_topic: str) -> DataFrame:
    """Return messages in their canonical form in a consumer's."""
    form = canonical_form(rule.canonical)
    return _converted(table, rule, rules, form, rule.form, rule.topics[0], bad_topic)


def canonical_form(canonical: Canonical) -> Form:
    """Return how canonical messages are written down: as JSON objects."""
    return Form(kind="json", schema=canonical.schema)


def _converted(
    table: DataFrame,
    rule: Rule,
    rules: Rules,
    source: Form,
    target: Form,
    topic: str,
    bad_topic: str,
) -> DataFrame:
    is_producer = topic == rule.canonical.topic
    required = rule.canonical.required if is_producer else ()
    compiler = Compiler(f.col(PAYLOAD), source.schema, rules.salt)
    found = read_form(table, source)
    reason = f.coalesce(
        f.col(BAD_REASON),
        f.when(f.col(PAYLOAD).isNull(), "there is no value"),
        compiler.reason(rule.fields, target.schema, required),
    )
    found = found.withColumn(_REASON, reason)
    made = compiler.struct(rule.fields, target.schema)
    found = found.withColumn(_MADE, f.when(f.col(_REASON).isNull(), made))
    found = found.withColumn("__key", _key(rule, is_producer))
    found = found.withColumn(_WRITTEN, written_form(f.col(_MADE), target))
    found = found.withColumn(_REASON, f.coalesce(f.col(_REASON), _unwritten()))
    return _messages(found, rule, topic, bad_topic)


def _key(rule: Rule, is_producer: bool) -> Any:
    path = rule.canonical.key if is_producer else rule.key
    if path is None:
        return f.col("key")
    found = f.col(_MADE if is_producer else PAYLOAD)
    for name in path.split("."):
        found = found.getField(name)
    return found.cast("string").cast("binary")


def _unwritten() -> Any:
    """Return why what was converted cannot be written, or null."""
    size = f.length(f.col(_WRITTEN).getField("value"))
    too_large = f.concat(
        f.lit("what it is converted to has "),
        size.cast("string"),
        f.lit(f" bytes, more than {VALUE_BYTES_MAX}"),
    )
    return f.coalesce(
        f.col(_WRITTEN).getField(BAD_REASON), f.when(size > VALUE_BYTES_MAX, too_large)
    )


def _messages(found: DataFrame, rule: Rule, topic: str, bad_topic: str) -> DataFrame:
    is_bad = f.col(_REASON).isNotNull()
    original = f.col("value")
    is_cut = f.length(original) > VALUE_BYTES_MAX
    kept = f.when(is_cut, f.substring(original, 1, VALUE_BYTES_MAX)).otherwise(original)
    told = {
        "rule": f.lit(rule.title),
        "topic": f.col("topic"),
        "partition": f.col("partition").cast("string"),
        "offset": f.col("offset").cast("string"),
        "reason": f.col(_REASON),
        "bytes": f.when(is_bad & is_cut, f.length(original).cast("string")),
    }
    headers = f.array(
        *(
            f.struct(f.lit(name).alias("key"), column.cast("binary").alias("value"))
            for name, column in told.items()
        )
    )
    return found.select(
        f.when(is_bad, f.lit(bad_topic)).otherwise(f.lit(topic)).alias("topic"),
        f.when(is_bad, f.col("key")).otherwise(f.col("__key")).alias("key"),
        f.when(is_bad, kept).otherwise(f.col(_WRITTEN).getField("value")).alias("value"),
        f.filter(headers, lambda each: each["value"].isNotNull()).alias("headers"),
    )
