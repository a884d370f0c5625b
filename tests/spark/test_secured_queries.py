"""Spark's queries over TLS and SASL: tables, streams, and both guarantees of the sink."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkaesque.cli.exit_codes import UNREACHABLE
from tests.clients.cluster import KafkaesqueCluster
from tests.clients.kafka_helpers import TopicMaker, unique
from tests.spark.pipelines.commands import Project, run_command
from tests.spark.secured_cluster import (
    ADVERTISED,
    PASSWORD,
    USERS,
    advertised_cluster,
    named,
    relayed,
    sasl,
    trusting,
)
from tests.spark.secured_relay import Certificates, Relay

MECHANISM = "SCRAM-SHA-512"
ROWS = 300

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaesqueCluster]:
    with advertised_cluster(tmp_path_factory.mktemp("secured"), brokers=3) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def topics(brokers: KafkaesqueCluster) -> list[str]:
    """Return topics of three partitions, made before clients have to say who they are."""
    with relayed(brokers) as relays:
        make = TopicMaker(",".join(relay.address for relay in relays))
        return [make(f"secured-{number}", partitions=3) for number in range(5)]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"), ADVERTISED)


@pytest.fixture
def relays(brokers: KafkaesqueCluster, certificates: Certificates) -> Iterator[list[Relay]]:
    tls = certificates.server_context()
    with relayed(brokers, tls=tls, users=USERS, mechanism=MECHANISM) as found:
        yield found


@pytest.fixture
def options(relays: list[Relay], certificates: Certificates) -> dict[str, str]:
    """Return the options that all ends have."""
    given = {**trusting(certificates), **sasl(MECHANISM), "security_protocol": "SASL_SSL"}
    given["default_api_timeout_ms"] = "60000"
    return {"kafka.bootstrap.servers": relays[0].address, **named(given)}


def table(spark: Any, options: dict[str, str], topic: str) -> Any:
    return spark.read.format("kafkaesque").options(**options).option("subscribe", topic).load()


def copy(spark: Any, options: dict[str, str], source: str, sink: str, checkpoint: Path) -> Any:
    """Write what is available of a topic to another one, exactly once, and return the query."""
    reader = spark.readStream.format("kafkaesque").options(**options).option("subscribe", source)
    table = reader.option("startingOffsets", "earliest").load().select("key", "value")
    writer = table.writeStream.format("kafkaesque").options(**options).option("topic", sink)
    writer = writer.option("checkpointLocation", str(checkpoint)).queryName(unique("copy"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def values(spark: Any, options: dict[str, str], topic: str) -> Counter[bytes]:
    """Return what those who read committed records find in a topic."""
    rows = table(spark, options, topic).select("value").collect()
    return Counter(bytes(row.value) for row in rows)


def test_tables_and_streams_are_written_and_read_and_nothing_secret_is_kept(
    spark: Any,
    relays: list[Relay],
    options: dict[str, str],
    topics: list[str],
    tmp_path: Path,
) -> None:
    rows = spark.range(ROWS).selectExpr("cast(id AS string) AS key", "cast(id AS string) AS value")
    sent = Counter(b"%d" % number for number in range(ROWS))
    for topic, guarantee in zip(topics, ("exactly-once", "at-least-once"), strict=False):
        writer = rows.write.format("kafkaesque").mode("append").options(**options)
        writer.options(topic=topic, deliveryGuarantee=guarantee).save()
        assert values(spark, options, topic) == sent
    checkpoint = tmp_path / "checkpoint"
    query = copy(spark, options, topics[0], topics[2], checkpoint)
    assert values(spark, options, topics[2]) == sent
    # As after a kill of the driver: the micro-batch comes again, and its marker is found.
    for path in (checkpoint / "commits").iterdir():
        path.unlink()
    copy(spark, options, topics[0], topics[2], checkpoint)
    assert values(spark, options, topics[2]) == sent
    # Brokers that lead, and those that coordinate, were asked by nobody who had not shown that.
    assert all(relay.continued for relay in relays)
    kept = [path.read_bytes() for path in checkpoint.rglob("*") if path.is_file()]
    assert kept
    assert not any(PASSWORD.encode() in each for each in kept)
    reports = json.dumps([json.loads(each.json) for each in query.recentProgress])
    plan = table(spark, options, topics[0])._jdf.queryExecution().toString()
    assert PASSWORD not in reports + plan


def test_a_password_that_is_wrong_ends_a_query_with_a_sentence(
    spark: Any, options: dict[str, str], topics: list[str], tmp_path: Path
) -> None:
    wrong = options | named(sasl(MECHANISM, f"not-the-{PASSWORD}"))
    wrong["kafka.security.protocol"] = "SASL_SSL"
    with pytest.raises(Exception, match="does not accept user name and password of 'ann'") as read:
        table(spark, wrong, topics[0]).collect()
    with pytest.raises(Exception, match="does not accept user name and password of 'ann'") as run:
        copy(spark, wrong, topics[0], topics[2], tmp_path)
    assert PASSWORD not in str(read.value) + str(run.value)


SECURED = """
import os

settings = ("security.protocol", "ssl.truststore.type", "ssl.truststore.location", "sasl.mechanism")
secured = {f"kafka.{name}": spark.conf.get(f"kafkaesque.{name}") for name in settings}
secured["kafka.sasl.jaas.config"] = os.environ["JAAS_OF_ANN"]
"""


def secure(project: Project, options: dict[str, str]) -> None:
    """Let a project's flows and settings have options; what is secret is in the environment."""
    text = project.flows_file.read_text()
    session = "spark = SparkSession.active()\n"
    text = text.replace(session, f"{session}{SECURED}")
    text = text.replace('.option("subscribe"', '.options(**secured).option("subscribe"')
    project.flows_file.write_text(text.replace("options={", "options=secured | {"))
    settings = {
        name.replace("kafka.", "kafkaesque.", 1): value
        for name, value in options.items()
        if name.startswith(("kafka.security.", "kafka.ssl.", "kafka.sasl."))
    }
    settings["kafkaesque.sasl.jaas.config"] = "${env:JAAS_OF_ANN}"
    spec = project.folder / "spark-pipeline.yml"
    text = spec.read_text().replace("127.0.0.1:9092", options["kafka.bootstrap.servers"])
    spec.write_text(text + "".join(f"  {name}: {value}\n" for name, value in settings.items()))


def test_the_status_of_a_pipeline_has_its_lag_and_its_files_have_no_password(
    spark: Any,
    options: dict[str, str],
    topics: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    servers = options["kafka.bootstrap.servers"]
    project = Project.make(tmp_path / "project", servers, topics[3], topics[4])
    secure(project, options)
    monkeypatch.setenv("JAAS_OF_ANN", options["kafka.sasl.jaas.config"])
    rows = spark.range(20).selectExpr("cast(id AS string) AS value")
    writer = rows.write.format("kafkaesque").options(**options).mode("append")
    # Without transactions, whose ends have offsets, too.
    writer = writer.options(topic=topics[3], deliveryGuarantee="at-least-once")
    writer.save()
    assert project.run()["shout"]["rows_in"] == 20
    writer.save()
    (flow,) = project.status()["flows"]
    assert flow["lag_now"] == 20
    kept = [path for path in (project.folder / "storage").rglob("*") if path.is_file()]
    assert not [path for path in kept if PASSWORD.encode() in path.read_bytes()]
    # Whoever does not have what it takes is told so.
    spec = project.folder / "spark-pipeline.yml"
    spec.write_text("\n".join(line for line in spec.read_text().split("\n") if "sasl" not in line))
    told = run_command("pipeline", "status", str(project.folder))
    assert told.returncode == UNREACHABLE
    assert "kafka.sasl.mechanism" in told.stderr
    assert PASSWORD not in told.stdout + told.stderr
