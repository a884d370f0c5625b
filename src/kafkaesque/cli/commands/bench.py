"""`kafkaesque bench`: the project's benchmark in a checkout, or a short measurement anywhere."""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import kafkaesque
from kafkaesque.cli.arguments import JsonOption, new_app, wrong_usage
from kafkaesque.cli.exit_codes import TIMED_OUT
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.screen import Screen, Table, counted

if TYPE_CHECKING:
    from kafkaesque.cli.kafka import Connection

TOPIC = "kafkaesque-bench"
BATCH_MAX = 10_000
POLL_S = 0.2
QUEUE_WAIT_S = 0.01
START_TIMEOUT_S = 30.0
MEASURE_TIMEOUT_S = 300.0

app = new_app(no_args_is_help=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """How fast something went."""

    what: str
    messages: int
    seconds: float
    message_bytes: int

    @property
    def messages_per_s(self) -> float:
        return self.messages / self.seconds

    @property
    def megabytes_per_s(self) -> float:
        return self.messages_per_s * self.message_bytes / 1e6


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def bench(
    context: typer.Context,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-server",
            "-b",
            metavar="HOST:PORT,...",
            help="Measure this cluster, briefly.",
        ),
    ] = None,
    messages: Annotated[int, typer.Option(min=1000, help="How many.")] = 200_000,
    size: Annotated[int, typer.Option(min=1, help="Bytes of each.")] = 1024,
    partitions: Annotated[int, typer.Option(min=1)] = 6,
    acks: Annotated[str, typer.Option(help="0, 1 or all.")] = "all",
    json: JsonOption = False,
) -> None:
    """Measure throughput.

    In a checkout, and without --bootstrap-server, this runs scripts/bench with all further
    arguments. Elsewhere it starts one broker and measures it briefly.

    \b
    Example:
      kafkaesque bench --quick
      kafkaesque bench --bootstrap-server 127.0.0.1:9092 --size 100
    """
    checkout = Path(kafkaesque.__file__).parents[2]
    if bootstrap is None and (checkout / "bench" / "run.py").exists():
        words = [*context.args, *(["--json", "bench.json"] if json else [])]
        os.chdir(checkout)
        os.execv(sys.executable, [sys.executable, "-m", "bench.run", *words])
    if context.args:
        raise wrong_usage(f"{context.args[0]} is no option here", "kafkaesque bench --help")
    with _cluster(bootstrap) as servers:
        figures = _measure(servers, messages, size, partitions, acks)
    rows = [
        (each.what, each.messages, f"{each.messages_per_s:,.0f}", f"{each.megabytes_per_s:,.1f}")
        for each in figures
    ]
    columns = ("WHAT", "MESSAGES", "PER-SECOND", "MB/S")
    Screen(json=json).show(
        Table(columns=columns, rows=rows),
        [{**asdict(each), "messages_per_s": each.messages_per_s} for each in figures],
    )


@contextmanager
def _cluster(bootstrap: str | None) -> Iterator[str]:
    """Yield the cluster that is named, or one broker of our own that is gone afterwards."""
    if bootstrap is not None:
        yield bootstrap
        return
    from kafkaesque.cli.broker_ports import free_ports
    from kafkaesque.cli.local_cluster import LocalCluster

    with tempfile.TemporaryDirectory(prefix="kafkaesque-bench-") as directory:
        cluster = LocalCluster(Path(directory), free_ports(1))
        cluster.prepare()
        cluster.start()
        try:
            cluster.events.get(timeout=START_TIMEOUT_S)
            yield cluster.bootstrap_servers
        finally:
            cluster.close()


def _measure(servers: str, messages: int, size: int, partitions: int, acks: str) -> list[Figure]:
    from confluent_kafka.admin import NewTopic

    from kafkaesque.cli.kafka import Connection, result_of
    from kafkaesque.cli.missing_rules import on_topic

    connection = Connection(servers)
    admin = connection.admin()
    topic = f"{TOPIC}-{os.getpid()}"
    request = admin.create_topics([NewTopic(topic, partitions)])[topic]
    result_of(request, f"topic {topic}", on_topic("create", topic))
    try:
        published_s = _publish(connection, topic, messages, size, acks)
        consumed_s = _consume(connection, topic, partitions, messages)
    finally:
        request = admin.delete_topics([topic])[topic]
        result_of(request, f"topic {topic}", on_topic("delete", topic))
    return [
        Figure(
            what=f"publish, acks={acks}", messages=messages, seconds=published_s, message_bytes=size
        ),
        Figure(what="consume", messages=messages, seconds=consumed_s, message_bytes=size),
    ]


def _publish(connection: "Connection", topic: str, messages: int, size: int, acks: str) -> float:
    producer = connection.producer(
        {"acks": acks, "linger.ms": 5, "delivery.report.only.error": True}
    )
    payload = os.urandom(size)
    began = time.monotonic()
    for _ in range(messages):
        while True:
            try:
                producer.produce(topic, payload)
                break
            except BufferError:
                producer.poll(QUEUE_WAIT_S)
    if producer.flush(MEASURE_TIMEOUT_S):
        raise CommandFailed("not all messages were acknowledged", exit_code=TIMED_OUT)
    return time.monotonic() - began


def _consume(connection: "Connection", topic: str, partitions: int, messages: int) -> float:
    from confluent_kafka import TopicPartition

    consumer = connection.consumer({"group.id": TOPIC, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    began, count = time.monotonic(), 0
    try:
        while count < messages:
            found = consumer.consume(BATCH_MAX, POLL_S)
            count += sum(message.error() is None for message in found)
            if time.monotonic() - began > MEASURE_TIMEOUT_S:
                raise CommandFailed(
                    f"only {counted(count, 'message')} came back", exit_code=TIMED_OUT
                )
    finally:
        consumer.close()
    return time.monotonic() - began
