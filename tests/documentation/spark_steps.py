"""What a reader does beside typing the pages on Spark and pipelines, at an open cluster."""

from __future__ import annotations

from tests.documentation.reader import Step

_APP = "python -m kafkaesque.cli.app"
#: On a terminal, until a flow is shown as running.
_CONTINUOUS = {
    "kafkaesque pipeline run ./greetings --continuous": (
        'TERM=xterm python "$CHECKOUT/tests/documentation/ctrl_c.py" running --'
        f" {_APP} pipeline run ./greetings --continuous"
    )
}
_GREETINGS = """
for topic in greetings greetings.upper; do kafkaesque topic create $topic --partitions 3; done
kafkaesque publish greetings hello
"""
_SHOUTED = "kafkaesque consume greetings.upper --from-beginning --max 1 | grep HELLO"
_AMOUNTS = """
kafkaesque topic create orders --partitions 1
kafkaesque publish orders 3 4
kafkaesque pipeline run ./amounts
python - <<'END'
from pathlib import Path

import pyarrow.parquet

files = Path("amounts/storage/warehouse/total").glob("*.parquet")
rows = [row for each in files for row in pyarrow.parquet.read_table(each).to_pylist()]
assert rows == [{"total": 7}], rows
END
"""
_SPARK = """
from pyspark.sql import SparkSession

from kafkaesque.spark.start import prepare_spark

prepare_spark()
spark = SparkSession.builder.master("local[2]").getOrCreate()
brokers = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
"""
_LATE = (
    _SPARK
    + """
rows = spark.range(600).selectExpr(
    "CAST(id AS STRING) AS value", "CAST(id % 3 AS INT) AS partition"
)
rows.write.format("kafkaesque").mode("append").options(**brokers, topic="flights").save()
BLOCK
whole = spark.read.format("kafkaesque").options(**brokers, subscribe="flights").load()
wanted = whole.where("partition IN (0, 2) AND offset >= 100")
found, wanted = (
    {(row.partition, row.offset) for row in each.select("partition", "offset").collect()}
    for each in (late, wanted)
)
assert len(found) > 100 and found == wanted, (found, wanted)
"""
)
_PAYLOADS = (
    _SPARK
    + r"""
values = [(b'\0\0\0\0\7{"carrier": "UA", "delay": 5}',), (b"late",)]
rows = spark.createDataFrame(values, "value BINARY")
rows.write.format("kafkaesque").mode("append").options(**brokers, topic="flights").save()
table = spark.read.format("kafkaesque").options(**brokers, subscribe="flights").load()
BLOCK
assert [tuple(row) for row in good.collect()] == [("UA", 5)]
assert [bytes(row.value) for row in bad.select("value").collect()] == [b"late"]
"""
)
#: A table of messages of 1 May 2024, and of later ones, to its version 7.
_ARCHIVE = (
    _SPARK
    + """
path = "travelled"
for number in range(7):
    day = "2024-05-01" if number < 3 else "2024-06-01"
    rows = spark.sql(
        f"SELECT 'events' AS topic, 0 AS partition, BIGINT({number}) AS offset,"
        f" TIMESTAMP '{day} 09:00:00Z' AS timestamp, CAST('x' AS BINARY) AS value"
    )
    rows.write.format("lakehouse").mode("append").save(path)
BLOCK
counts = [each.count() for each in (by_version, as_it_was, of_a_day)]
assert counts == [7, 7, 3], counts
"""
)
#: Of its rules, two are changed so that they have mistakes.
_MISTAKES = """
sed -i 's/, unit = "ms"//' rules/producers/app.toml
sed -i 's/mask = "redact"/mask = "blur"/' rules/consumers/support.toml
"""

#: The template's data have an end, too.
_ONE_MORE_FLIGHT = """
kafkaesque consume delays --from-beginning --until-end | wc -l > before
sed -n '1{s/^0,/later,/; s/2013-01-01/2013-12-31/; p}' data/flights.csv |
    kafkaesque publish flights
"""
#: The pages have dates of their time.
_LATER = "2099-01-01T00:00:00Z"
_LAST_NUMBER = ((r"(?m)(?<=\s)\d+$", "N"),)
_EXCERPT = Step(is_excerpt=True)

#: By page, and by how the block begins.
SPARK_STEPS: dict[str, dict[str, Step]] = {
    "docs/cli.md": {
        "kafkaesque pipeline init": Step(
            before=_GREETINGS,
            instead={
                **_CONTINUOUS,
                "kafkaesque spark up --workers 2 --cores 1 --memory 1g": (
                    f"{_APP} spark up --workers 2 --cores 1 --memory 1g --port 7077 > spark.log &\n"
                    "until grep -q spark:// spark.log; do kill -0 $!; done"
                ),
            },
            replaced={"127.0.0.1:19092": "127.0.0.1:9092"},
            after=f"kill $!; wait $!\n{_SHOUTED}",
        ),
    },
    "docs/pipelines.md": {
        "FLOW   STATE": Step(is_excerpt=True, variable=_LAST_NUMBER),
        "kafkaesque pipeline run ./greetings --continuous": Step(
            instead=_CONTINUOUS, check="kafkaesque pipeline status ./greetings | grep stopped"
        ),
        "spark-pipeline.yml ": Step(listed="greetings"),
        "from pyspark import pipelines": Step(
            before="kafkaesque pipeline init ./amounts; rm amounts/transformations/*",
            file="amounts/transformations/orders.py",
        ),
        "CREATE STREAMING TABLE": Step(file="amounts/transformations/amounts.sql", check=_AMOUNTS),
        "storage/_checkpoints/": Step(listed="amounts"),
        "error: flow shout": Step(
            before="kafkaesque topic delete greetings --yes",
            printed_by="kafkaesque pipeline dry-run ./greetings",
        ),
    },
    "docs/pipelines/archive.md": {
        "VERSION  TIME": Step(is_excerpt=True, variable=((r"events \d.*", "events N"),)),
        "by_version = ": Step(around=_ARCHIVE, replaced={"2024-05-01T12:00:00Z": _LATER}),
        "kafkaesque topic create events.again": Step(
            replaced={"2027-06-01": _LATER},
            check="kafkaesque consume events.again --from-beginning --max 2 | grep world",
        ),
        "backfill 392ee069bf7b": _EXCERPT,
    },
    "docs/pipelines/conversion.md": {
        '{"id":"A-1001"': _EXCERPT,
        "rules/": Step(listed="orders"),
        "# producers/shop.toml": Step(
            file="orders/rules/producers/shop.toml", check="kafkaesque pipeline dry-run"
        ),
        "error: transformations/conversion.py": Step(
            before=_MISTAKES, printed_by="kafkaesque pipeline dry-run"
        ),
    },
    "docs/pipelines/flights.md": {
        # Of three partitions any may come first.
        '{"carrier":"9E"': Step(
            printed_by="kafkaesque consume delays --from-beginning --until-end", is_excerpt=True
        ),
        "end of data": Step(
            before=_ONE_MORE_FLIGHT,
            file="delays/end.csv",
            check="""
kafkaesque publish flights --file end.csv
kafkaesque pipeline run
test $(kafkaesque consume delays --from-beginning --until-end | wc -l) -gt $(cat before)
""",
        ),
    },
    "docs/pipelines/logs.md": {"2026-03-02T06:30:01": _EXCERPT},
    "docs/spark.md": {
        "late = (": Step(
            before="kafkaesque topic create flights --partitions 3",
            around=_LATE,
            after="kafkaesque topic delete flights --yes",
        ),
        "from kafkaesque.spark.payloads": Step(
            before="kafkaesque topic create flights", around=_PAYLOADS
        ),
    },
}
