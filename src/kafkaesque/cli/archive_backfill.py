"""Runs a backfill: a Spark of its own, one query, and what it has sent."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafkaesque.cli.arguments import wrong_usage
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.kafka import Connection
from kafkaesque.cli.offset_words import parse_time_ms
from kafkaesque.cli.screen import Screen

if TYPE_CHECKING:
    from kafkaesque.spark.lakehouse.backfill import Backfill


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillWords:
    """What the command line says."""

    table: str
    topic: str
    to_topic: str
    start: str
    end: str
    version: int | None
    at: str
    by_key: bool
    name: str
    batch_offsets: int
    master: str


@dataclass(frozen=True, slots=True)
class Sent:
    """What this run went through: also what the run before it was killed in the midst of."""

    name: str
    rows: int


def run_backfill(words: BackfillWords, bootstrap: str, screen: Screen) -> Sent:
    """Run a backfill to its end.

    Raises:
        CommandFailed: it cannot be meant like that, or the query failed.
    """
    from kafkaesque.spark.lakehouse.backfill import start_backfill
    from kafkaesque.spark.start import prepare_spark

    request = _request(words, bootstrap)
    name = words.name or request.default_name()
    screen.note(f"backfill {name}: {words.topic} of {words.table} to {words.to_topic}")
    prepare_spark()
    spark = _session(words.master)
    try:
        query = start_backfill(
            spark,
            request,
            name=name,
            bootstrap_servers=bootstrap,
            offsets_max=words.batch_offsets,
        )
        return Sent(name, _wait(query, screen))
    finally:
        spark.stop()


def _request(words: BackfillWords, bootstrap: str) -> "Backfill":
    from kafkaesque.spark.lakehouse.backfill import Backfill
    from kafkaesque.spark.lakehouse.table import open_table

    if words.at and words.version is not None:
        raise wrong_usage("give --version or --at, not both")
    open_table(words.table, words.version)
    connection = Connection(bootstrap)
    metadata = connection.metadata(connection.admin(), words.to_topic)
    found = metadata.topics.get(words.to_topic)
    if found is None or found.error is not None:
        raise CommandFailed(
            f"topic {words.to_topic} does not exist",
            hint=f"kafkaesque topic create {words.to_topic} --partitions N",
        )
    return Backfill(
        path=words.table,
        topic=words.topic,
        to_topic=words.to_topic,
        cluster_id=str(metadata.cluster_id),
        version=words.version,
        as_of=_time("--at", words.at),
        start=_time("--from", words.start),
        end=_time("--until", words.end),
        keeps_partitions=not words.by_key,
    )


def _time(option: str, word: str) -> str | None:
    """Return milliseconds since 1970, that are the same when the command is run again."""
    if word[:1] in ("P", "p"):
        raise wrong_usage(
            f"{option} {word} means another time at each run, so each run would be another"
            " backfill",
            f"{option} 2024-05-01T12:00:00Z",
        )
    return str(parse_time_ms(word)) if word else None


def _session(master: str) -> Any:
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master(master)
        .appName("kafkaesque archive backfill")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _wait(query: Any, screen: Screen) -> int:
    from pyspark.errors import StreamingQueryException

    rows: dict[int, int] = {}
    with screen.progress("records", None) as bar:
        while True:
            failure: StreamingQueryException | None = None
            try:
                is_done = query.awaitTermination(1)
            except StreamingQueryException as error:
                failure, is_done = error, True
            for each in query.recentProgress:
                batch, count = int(each["batchId"]), int(each["numInputRows"])
                bar.advance(count - rows.get(batch, 0))
                rows[batch] = max(count, rows.get(batch, 0))
            if failure is not None:
                raise CommandFailed(
                    _sentence(str(failure)), hint="the same command continues where this one ended"
                )
            if is_done:
                return sum(rows.values())


def _sentence(text: str) -> str:
    """Return the last line of ours in what Spark says."""
    found = [
        line.partition(": ")[2]
        for line in text.splitlines()
        if line.strip().startswith("kafkaesque.") and ": " in line
    ]
    return found[-1] if found else text.partition("\n")[0]
