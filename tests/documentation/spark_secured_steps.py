"""What a reader does beside typing what the pages on Spark say of a secured cluster."""

from __future__ import annotations

from tests.documentation.reader import Step

_CONFIGURED = """
sed -i '/^configuration:/,$d' {0}/spark-pipeline.yml
cat configuration.yml >> {0}/spark-pipeline.yml
"""
_SHOUT = """

dp.create_sink(
    "shouted",
    format="kafkaesque",
    options={**brokers, "topic": "app-greetings.upper", "transactionalIdPrefix": "app-"},
)


@dp.append_flow(target="shouted", name="shout")
def shout():
    return greetings.selectExpr("upper(CAST(value AS STRING)) AS value")
"""
_FLOWS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()
"""
#: A stream of the page begins at the topic's end.
_RUN = """
kafkaesque pipeline run ./{0}
kafkaesque publish app-greetings {0}
kafkaesque pipeline status ./{0} --json | grep -E '"lag_now": ?1\\b'
kafkaesque pipeline run ./{0}
kafkaesque consume app-greetings.upper --from-beginning --until-end | grep -i {0}
"""
#: All settings but the one that Spark would hide.
_ELSEWHERE = (
    _FLOWS
    + """
import os

names = (
    "bootstrap.servers",
    "security.protocol",
    "ssl.truststore.type",
    "ssl.truststore.location",
    "sasl.mechanism",
)
brokers = {f"kafka.{name}": spark.conf.get(f"kafkaesque.{name}") for name in names}
brokers["kafka.sasl.jaas.config"] = os.environ["KAFKA_JAAS"]
greetings = (
    spark.readStream.format("kafkaesque")
    .options(**brokers)
    .option("subscribe", "app-greetings")
    .load()
)
"""
    + _SHOUT
)
_MADE_ELSEWHERE = f"""
unset KAFKAESQUE_SPARK_OPTIONS
export KAFKA_JAAS=$(python -c '
import json
print(json.load(open("secured/clients/app_spark.json"))["kafka.sasl.jaas.config"])')
cat > elsewhere/transformations/greetings.py <<'END'
{_ELSEWHERE}
END
"""
_SPARK = """
from pyspark.sql import SparkSession

from kafkaesque.spark.start import prepare_spark

prepare_spark()
spark = SparkSession.builder.master("local[2]").getOrCreate()
"""
_COPY = (
    _SPARK
    + """
BLOCK
(query,) = spark.streams.active
query.processAllAvailable()
rows = spark.createDataFrame([("UA1545",)], "value STRING").write.format("kafkaesque")
rows.mode("append").options(optionsFile=secured, topic="app-flights").save()
query.processAllAvailable()
query.stop()
"""
)
#: With another file of the same options.
_COPIED = f"""
python - <<'END' 2> errors.log || (cat errors.log; false)
{_SPARK}
copied = spark.read.format("kafkaesque").option("optionsFile", "options.json")
rows = copied.option("subscribe", "app-flights.copied").load().collect()
assert [bytes(row.value) for row in rows] == [b"UA1545"], rows
END
"""

#: By page, and by how the block begins.
SECURED_STEPS: dict[str, dict[str, Step]] = {
    "docs/pipelines.md": {
        "$ . secured/clients/app.env": Step(is_excerpt=True),
        "configuration:\n  kafkaesque.bootstrap.servers: ${env": Step(
            before="kafkaesque pipeline init ./again",
            file="configuration.yml",
            check=_CONFIGURED.format("again"),
        ),
        "brokers = {": Step(
            file="again/transformations/greetings.py",
            around=f"{_FLOWS}BLOCK{_SHOUT}",
            check=_RUN.format("again"),
        ),
        "configuration:\n  kafkaesque.bootstrap.servers: broker-1": Step(
            before="kafkaesque pipeline init ./elsewhere",
            file="configuration.yml",
            check=_CONFIGURED.format("elsewhere") + _MADE_ELSEWHERE + _RUN.format("elsewhere"),
        ),
    },
    "docs/spark.md": {
        "secured = ": Step(
            before="""
. secured/clients/app.env
for topic in app-flights app-flights.copied; do kafkaesque topic create $topic; done
""",
            around=_COPY,
        ),
        '{\n  "kafka.bootstrap': Step(file="options.json", check=_COPIED),
    },
}
