"""Spark with a cluster of `kafkaesque up --secure`, by the file of options that it makes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.test_up_secure import SecureUp
from tests.spark.pipelines.commands import Project, run_command

TOPIC, FORBIDDEN = "app-flights", "salaries"
COPIED, REFUSED = "app-flights.copied", "app-flights.refused"
HEARD, SHOUTED = "app-greetings", "app-greetings.upper"
ROWS = 300


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureUp]:
    data = tmp_path_factory.mktemp("secure") / "data"
    found = SecureUp(data, "--secure", brokers=1)
    try:
        found.event("ready")
        for topic in (TOPIC, COPIED, REFUSED, HEARD, SHOUTED):
            assert found.command("app", "topic", "create", topic, "-p", "3").returncode == 0
        assert found.command("admin", "topic", "create", FORBIDDEN).returncode == 0
        assert found.command("admin", "publish", FORBIDDEN, "one").returncode == 0
        yield found
    finally:
        found.close()


@pytest.fixture(scope="module")
def file(up: SecureUp) -> str:
    return str(up.client("app_spark.json"))


def values(spark: Any, file: str, topic: str) -> Counter[bytes]:
    source = spark.read.format("kafkaesque").option("optionsFile", file)
    return Counter(bytes(row.value) for row in source.option("subscribe", topic).load().collect())


def copy(spark: Any, file: str, checkpoint: Path, sink: str, **more: str) -> None:
    """Write what a topic has to another one, exactly once."""
    reader = spark.readStream.format("kafkaesque").option("optionsFile", file)
    table = reader.options(subscribe=TOPIC, startingOffsets="earliest").load()
    writer = table.select("key", "value").writeStream.format("kafkaesque")
    writer = writer.options(optionsFile=file, topic=sink, checkpointLocation=str(checkpoint))
    writer.options(**more).trigger(availableNow=True).start().awaitTermination()


def test_spark_reads_and_writes_exactly_once_by_its_file(
    up: SecureUp, spark: Any, file: str, tmp_path: Path
) -> None:
    rows = spark.range(ROWS).selectExpr("cast(id AS string) AS key", "cast(id AS string) AS value")
    writer = rows.write.format("kafkaesque").mode("append").option("optionsFile", file)
    writer.option("topic", TOPIC).save()
    sent = Counter(b"%d" % number for number in range(ROWS))
    assert values(spark, file, TOPIC) == sent
    checkpoint = tmp_path / "checkpoint"
    copy(spark, file, checkpoint, COPIED)
    # As after a kill of the driver: the micro-batch comes again, and its marker is found.
    for path in (checkpoint / "commits").iterdir():
        path.unlink()
    copy(spark, file, checkpoint, COPIED)
    assert values(spark, file, COPIED) == sent
    password = (up.data / "app.password").read_bytes().strip()
    kept = [path.read_bytes() for path in checkpoint.rglob("*") if path.is_file()]
    assert kept
    assert not any(password in each for each in kept)


def test_names_without_the_prefix_are_refused(spark: Any, file: str, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=FORBIDDEN):
        values(spark, file, FORBIDDEN)
    with pytest.raises(Exception, match=r"(?i)transactional.?id.*authoriz|not authorized"):
        copy(spark, file, tmp_path / "refused", REFUSED, transactionalIdPrefix="")
    assert not values(spark, file, REFUSED)


def test_a_pipeline_has_its_credentials_from_the_file(
    up: SecureUp, spark: Any, file: str, tmp_path: Path
) -> None:
    project = Project.make(tmp_path / "project", up.bootstrap, HEARD, SHOUTED)
    assert up.command("app", "publish", HEARD, "hello").returncode == 0
    # Spark itself is told nothing but where the file is.
    project.settings["kafkaesque.options.file"] = file
    assert project.run()["shout"]["rows_in"] == 1
    assert values(spark, file, SHOUTED) == Counter([b"HELLO"])
    assert up.command("app", "publish", HEARD, "again").returncode == 0
    words = ("pipeline", "status", str(project.folder), "--json")
    # As `. app.env` has it.
    told = run_command(*words, environment={"KAFKAESQUE_SPARK_OPTIONS": file})
    assert told.returncode != 0  # The project's address is another one.
    spec = project.folder / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("127.0.0.1:9092", up.bootstrap))
    told = run_command(*words, environment={"KAFKAESQUE_SPARK_OPTIONS": file})
    assert told.returncode == 0, told.stderr
    (flow,) = json.loads(told.stdout)["flows"]
    assert flow["lag_now"] == 1
    password = (up.data / "app.password").read_bytes().strip()
    kept = [path for path in project.folder.rglob("*") if path.is_file()]
    assert not [path for path in kept if password in path.read_bytes()]
    # A file that is gone ends a run before Spark does anything.
    gone = project.call("dry-run", f"--conf=kafkaesque.options.file={file}.gone")
    assert gone.returncode != 0
    assert "app_spark.json.gone" in gone.stderr
