"""What several of the client tests need: unique names, topics, plain producing and reading."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, TopicMetadata

from bench.processes import ask_metadata
from tests.waiting import DEADLINE_S, eventually

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
POLL_S = 0.1
METADATA_TIMEOUT_S = 10.0


def unique(prefix: str) -> str:
    """Return a name for a topic or group that nobody else has."""
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def admin_client(bootstrap_servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap_servers})


def describe_topic(admin: AdminClient, topic: str) -> TopicMetadata:
    """Return what the cluster says of a topic.

    librdkafka now and then never answers a request that is under way while a broker goes (one
    stood still for 300 s): after some seconds it is asked again.
    """
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            return admin.list_topics(topic, timeout=METADATA_TIMEOUT_S).topics[topic]
        except KafkaException:
            if time.monotonic() > deadline:
                raise


def error_of(call: Callable[[], object]) -> KafkaError:
    """Return the Kafka error that the call raises; fails when it raises none."""
    try:
        result = call()
    except KafkaException as raised:
        error = raised.args[0]
        assert isinstance(error, KafkaError)
        return error
    raise AssertionError(f"no error, but {result!r}")


class TopicMaker:
    """Creates topics of unique names; returns once each broker knows leaders for all partitions."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._admin = admin_client(bootstrap_servers)
        self._servers = bootstrap_servers

    def __call__(
        self, prefix: str = "topic", *, partitions: int = 3, replication: int = 3, **options: str
    ) -> str:
        """Create a topic; options are Kafka's, with _ for the dots of their names."""
        name = unique(prefix)
        # Kept for ever, as many tests give their records times that lie years back.
        named = {key.replace("_", "."): value for key, value in options.items()}
        config = {"retention.ms": "-1", **named}
        topic = NewTopic(name, partitions, replication, config=config)
        self._admin.create_topics([topic], request_timeout=DEADLINE_S)[name].result()
        await_leaders(self._servers, name, partitions)
        return name


def await_leaders(bootstrap_servers: str, topic: str, partitions: int) -> None:
    """Wait until each broker knows leaders for all partitions."""
    for server in bootstrap_servers.split(","):
        port = int(server.rpartition(":")[2])
        eventually(partial(_has_leaders, port, topic, partitions), f"leaders for {topic}")


def _has_leaders(port: int, topic: str, partitions: int) -> bool:
    leaders = ask_metadata(port, [topic], DEADLINE_S).leaders.values()
    return len(leaders) == partitions and all(leader >= 0 for leader in leaders)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A record to produce."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] | None = None
    timestamp_ms: int = 0
    partition: int = -1


def produce(
    bootstrap_servers: str, topic: str, records: Iterable[Sent | bytes], **options: Any
) -> list[Message]:
    """Produce with librdkafka and return the delivery reports, in their order.

    Options are librdkafka's, with _ for the dots of their names.

    Raises:
        KafkaException: a record was not delivered; it holds the error of the first such record.
    """
    reports: list[Message] = []
    failed: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is None:
            reports.append(message)
        else:
            failed.append(error)

    producer = Producer(_configuration(bootstrap_servers, options))
    for each in records:
        record = each if isinstance(each, Sent) else Sent(value=each)
        arguments: dict[str, Any] = {"partition": record.partition}
        if record.timestamp_ms:
            arguments["timestamp"] = record.timestamp_ms
        producer.produce(
            topic,
            value=record.value,
            key=record.key,
            headers=None if record.headers is None else list(record.headers),
            on_delivery=on_delivery,
            **arguments,
        )
        producer.poll(0)
    remaining = producer.flush(DEADLINE_S)
    if failed:
        raise KafkaException(failed[0])
    assert remaining == 0, f"{remaining} records without a delivery report"
    return reports


def partitions_of(consumer: Consumer, topic: str) -> list[int]:
    metadata = consumer.list_topics(topic, timeout=DEADLINE_S).topics[topic]
    return sorted(metadata.partitions)


def consume(
    bootstrap_servers: str, topic: str, count: int, *, at_rest_s: float = 0.0, **options: Any
) -> list[Message]:
    """Read all partitions of the topic from the beginning, without a group, until `count` records.

    With `at_rest_s`, reads on for that long, so that records too many are seen as well.
    """
    defaults = {"group.id": unique("reader"), "enable.auto.commit": False}
    consumer = Consumer({**defaults, **_configuration(bootstrap_servers, options)})
    try:
        partitions = partitions_of(consumer, topic)
        consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in partitions])
        messages = read(consumer, count)
        if at_rest_s:
            messages += read_for(consumer, at_rest_s)
        return messages
    finally:
        consumer.close()


def consume_all(bootstrap_servers: str, topic: str, **options: Any) -> list[Message]:
    """Read all partitions of the topic, without a group, from the beginning to their ends."""
    defaults = {"group.id": unique("reader"), "enable.auto.commit": False}
    # The end is told by a fetch that waited in vain.
    told = {"enable.partition.eof": True, "fetch.wait.max.ms": 50}
    consumer = Consumer({**defaults, **told, **_configuration(bootstrap_servers, options)})
    messages: list[Message] = []
    ended: set[int | None] = set()
    try:
        partitions = partitions_of(consumer, topic)
        consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in partitions])

        def is_read() -> bool:
            for message in consumer.consume(1000, POLL_S):
                error = message.error()
                if error is None:
                    messages.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
                elif error.fatal() or not error.retriable():
                    raise KafkaException(error)
            return len(ended) == len(partitions)

        eventually(is_read, f"the end of {topic}")
        return messages
    finally:
        consumer.close()


def read(consumer: Consumer, count: int, *, seconds: float = DEADLINE_S) -> list[Message]:
    """Poll a consumer until it has given `count` messages; any error fails."""
    messages: list[Message] = []
    deadline = time.monotonic() + seconds
    while len(messages) < count:
        if time.monotonic() > deadline:
            raise AssertionError(f"{len(messages)} of {count} messages in {seconds:.0f} s")
        messages += checked(consumer.consume(count - len(messages), POLL_S))
    return messages


def read_for(consumer: Consumer, seconds: float) -> list[Message]:
    """Poll a consumer for a time and return what it has given; any error fails."""
    messages: list[Message] = []
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        messages += checked(consumer.consume(500, POLL_S))
    return messages


def checked(messages: Iterable[Message]) -> list[Message]:
    """Return the messages; raises the error that stands in place of one."""
    result = list(messages)
    for message in result:
        error = message.error()
        if error is not None:
            raise KafkaException(error)
    return result


def _configuration(bootstrap_servers: str, options: dict[str, Any]) -> dict[str, Any]:
    named = {key.replace("_", "."): value for key, value in options.items()}
    return {"bootstrap.servers": bootstrap_servers, **named}


_DOOMED_MEMBER = """
import json, sys
from confluent_kafka import Consumer
consumer = Consumer(json.loads(sys.argv[1]))
consumer.subscribe([sys.argv[2]])
while True:
    consumer.poll(0.1)
    if consumer.assignment():
        print("assigned", flush=True)
"""


@contextmanager
def doomed_member(topic: str, config: Mapping[str, object]) -> Iterator[None]:
    """A consumer in a process of its own, which is killed at the end; it has had something."""
    arguments = [sys.executable, "-c", _DOOMED_MEMBER, json.dumps(dict(config)), topic]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as process:
        try:
            yield
            assert process.stdout is not None
            assert process.stdout.readline() == b"assigned\n"
        finally:
            process.send_signal(signal.SIGKILL)
