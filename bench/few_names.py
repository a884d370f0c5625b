"""How long a new consumer of one subject waits for its messages, in a stream with many subjects.

    .venv/bin/python -m bench.few_names [messages] [subjects]

One broker, a stream of 2,000,000 messages of 100 bytes with 10,000 subjects in segments of 16 MiB,
and nats-py. Its batches have 20 messages each, about as those of many publishers. A consumer that
wants one subject is made and pulls all its messages, which it acknowledges. The first one finds no
index of the segments' names; the next ones, each of another subject, come when all closed segments
have one; the last filter has a wildcard. Before them, one of all subjects pulls a message: for it
the gateway makes its view of the stream, which the others find there.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from nats.js.client import JetStreamContext

from tests.clients.nats_cluster import NatsCluster
from tests.waiting import eventually

MESSAGES = 2_000_000
SUBJECTS = 10_000
SEGMENT_BYTES = 16 * 1024 * 1024
BATCH_MESSAGES = 20
PAYLOAD = b"x" * 100
STREAM = "WIDE"
PATIENCE_S = 600


def subject_of(number: int) -> str:
    """Return one of the subjects."""
    return f"wide.{number // 100}.{number % 100}"


def fill(servers: str, messages: int, subjects: int) -> None:
    """Write the stream's topic."""
    options = {"segment.bytes": str(SEGMENT_BYTES)}
    topic = NewTopic(STREAM, num_partitions=1, replication_factor=1, config=options)
    admin = AdminClient({"bootstrap.servers": servers})
    for made in admin.create_topics([topic]).values():
        made.result()
    producer = Producer(
        {"bootstrap.servers": servers, "linger.ms": 20, "batch.num.messages": BATCH_MESSAGES}
    )
    for number in range(messages):
        while True:
            try:
                producer.produce(STREAM, key=subject_of(number % subjects), value=PAYLOAD)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


async def consume(stream: JetStreamContext, subject: str, expected: int) -> dict[str, Any]:
    """Make a consumer; return how long it takes until it has its first message, and all."""
    began, first, got = time.perf_counter(), 0.0, 0
    name = subject.replace(".", "-").replace("*", "all")
    pull = await stream.pull_subscribe(subject, name, stream=STREAM)
    while got < expected:
        for each in await pull.fetch(min(expected - got, 500), timeout=PATIENCE_S):
            got += 1
            first = first or time.perf_counter() - began
            await each.ack()
    return {"first_s": first, "all_s": time.perf_counter() - began, "messages": got}


async def measure(cluster: NatsCluster, directory: Path, messages: int, subjects: int) -> None:
    """Print a line for each consumer."""
    async with cluster.connected() as client:
        stream = client.jetstream(timeout=PATIENCE_S)
        await stream.add_stream(name=STREAM, subjects=["wide.*.*", "other.*.*"])
        tell("everything", await consume(stream, "wide.*.*", 1))
        each = messages // subjects
        tell("no index", await consume(stream, "wide.7.1", each))
        await asyncio.to_thread(wait_for_indexes, directory)
        for subject in ("wide.7.2", "wide.7.3"):
            tell(f"indexes, {subject}", await consume(stream, subject, each))
        await stream.publish("other.7.4", b"")
        tell("indexes, *.7.4", await consume(stream, "*.7.4", each + 1))


def wait_for_indexes(directory: Path) -> None:
    """Wait until every closed segment has one, and print what they take."""
    began = time.perf_counter()

    def sizes(suffix: str) -> list[int]:
        return [file.stat().st_size for file in directory.glob(f"**/{STREAM}-0/*{suffix}")]

    eventually(lambda: len(sizes(".keys")) == len(sizes(".log")) - 1, "indexes", seconds=PATIENCE_S)
    indexes, log = sizes(".keys"), sizes(".log")
    print(
        f"{len(indexes)} indexes were there {time.perf_counter() - began:.2f} s later:"
        f" {sum(indexes) / 1e6:,.1f} MB beside a log of {sum(log) / 1e6:,.1f} MB"
    )


def tell(what: str, found: dict[str, Any]) -> None:
    """Print what came of a consumer."""
    print(
        f"{what:20} first message after {found['first_s']:6.2f} s,"
        f" all {found['messages']} after {found['all_s']:6.2f} s"
    )


def main() -> None:
    """Run."""
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else MESSAGES
    subjects = int(sys.argv[2]) if len(sys.argv) > 2 else SUBJECTS
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        with NatsCluster(1, directory) as cluster:
            began = time.perf_counter()
            fill(cluster.bootstrap_servers, messages, subjects)
            print(f"{messages:,} messages, written in {time.perf_counter() - began:.0f} s")
            asyncio.run(measure(cluster, directory, messages, subjects))


if __name__ == "__main__":
    main()
