"""What each client writes, with each codec, every other client reads: keys, headers and nulls."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafka import KafkaConsumer, KafkaProducer

from tests.clients.kafka_helpers import CODECS, Sent, TopicMaker, consume, produce, unique
from tests.clients.node_client import missing, run_node
from tests.waiting import DEADLINE_S, eventually


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Plain:
    """A record as every client can give it: text, or nothing."""

    key: str
    value: str | None
    headers: tuple[tuple[str, str], ...]


Producing = Callable[[str, str, str, Sequence[Plain]], None]
Consuming = Callable[[str, str, int], list[Plain]]


def records_of(client: str) -> list[Plain]:
    headers = (("client", client), ("größe", "1"))
    some = [
        Plain(key=f"{client}-{i}", value=f"{client} says {i} " * 10, headers=headers)
        for i in range(40)
    ]
    return [*some, Plain(key=f"{client}-gone", value=None, headers=())]


def plain(key: Any, value: Any, headers: Any) -> Plain:
    return Plain(
        key=key.decode(),
        value=None if value is None else value.decode(),
        headers=tuple((name, each.decode()) for name, each in headers or ()),
    )


def encoded(record: Plain) -> tuple[bytes, bytes | None, list[tuple[str, bytes]]]:
    value = None if record.value is None else record.value.encode()
    return record.key.encode(), value, [(name, each.encode()) for name, each in record.headers]


def confluent_produce(servers: str, topic: str, codec: str, records: Sequence[Plain]) -> None:
    sent = []
    for record in records:
        key, value, headers = encoded(record)
        sent.append(Sent(key=key, value=value, headers=headers))
    produce(servers, topic, sent, compression_type=codec, linger_ms=50)


def confluent_consume(servers: str, topic: str, count: int) -> list[Plain]:
    messages = consume(servers, topic, count)
    return [plain(each.key(), each.value(), each.headers()) for each in messages]


def aiokafka_produce(servers: str, topic: str, codec: str, records: Sequence[Plain]) -> None:
    async def work() -> None:
        compression = None if codec == "none" else codec
        producer = AIOKafkaProducer(
            bootstrap_servers=servers, compression_type=compression, linger_ms=50, acks="all"
        )
        await producer.start()
        try:
            waiting = []
            for record in records:
                key, value, headers = encoded(record)
                waiting.append(await producer.send(topic, value, key=key, headers=headers))
            await asyncio.gather(*waiting)
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(work(), DEADLINE_S))


def aiokafka_consume(servers: str, topic: str, count: int) -> list[Plain]:
    async def work() -> list[Plain]:
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=servers, auto_offset_reset="earliest", group_id=None
        )
        await consumer.start()
        try:
            messages = [await consumer.getone() for _ in range(count)]
        finally:
            await consumer.stop()
        return [plain(each.key, each.value, each.headers) for each in messages]

    return asyncio.run(asyncio.wait_for(work(), DEADLINE_S))


def kafka_python_produce(servers: str, topic: str, codec: str, records: Sequence[Plain]) -> None:
    compression = None if codec == "none" else codec
    options = {"compression_type": compression, "linger_ms": 50}
    with closing(KafkaProducer(bootstrap_servers=servers.split(","), **options)) as producer:
        futures = []
        for record in records:
            key, value, headers = encoded(record)
            futures.append(producer.send(topic, value, key=key, headers=headers))
        for future in futures:
            future.get(DEADLINE_S)


def kafka_python_consume(servers: str, topic: str, count: int) -> list[Plain]:
    options = {"bootstrap_servers": servers.split(","), "auto_offset_reset": "earliest"}
    found: list[Plain] = []
    with closing(KafkaConsumer(topic, **options)) as consumer:

        def is_done() -> bool:
            for batch in consumer.poll(timeout_ms=100).values():
                found.extend(plain(each.key, each.value, each.headers) for each in batch)
            return len(found) >= count

        eventually(is_done, f"{count} records")
    return found


def kcat(*arguments: str, text: str = "") -> str:
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not installed")
    done = subprocess.run(
        ["kcat", *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def kcat_produce(servers: str, topic: str, codec: str, records: Sequence[Plain]) -> None:
    base = ("-P", "-b", servers, "-t", topic, "-z", codec, "-K", "\t", "-Z")
    for headers in ((), *{record.headers for record in records if record.headers}):
        options = [option for name, value in headers for option in ("-H", f"{name}={value}")]
        lines = [f"{each.key}\t{each.value or ''}" for each in records if each.headers == headers]
        kcat(*base, *options, text="".join(f"{line}\n" for line in lines))


def kcat_consume(servers: str, topic: str, count: int) -> list[Plain]:
    printed = kcat("-C", "-b", servers, "-t", topic, "-q", "-J", "-c", str(count))
    found = []
    for line in printed.splitlines():
        record = json.loads(line)
        flat = record.get("headers", [])
        pairs = tuple(zip(flat[::2], flat[1::2], strict=True))
        found.append(Plain(key=record["key"], value=record["payload"], headers=pairs))
    return found


def kafkajs_produce(servers: str, topic: str, codec: str, records: Sequence[Plain]) -> None:
    if missing():
        pytest.skip(missing())
    messages = [
        {"key": each.key, "value": each.value, "headers": dict(each.headers)} for each in records
    ]
    run_node("produce", servers, topic=topic, codec=codec, messages=messages)


def kafkajs_consume(servers: str, topic: str, count: int) -> list[Plain]:
    if missing():
        pytest.skip(missing())
    given = {"group": unique("group"), "count": count, "options": {"maxWaitTimeInMs": 100}}
    found = run_node("consume", servers, topic=topic, **given)
    return [
        Plain(
            key=each["key"],
            value=each["value"],
            headers=tuple((name, value) for name, value in each["headers"]),
        )
        for each in found
    ]


PRODUCING: dict[str, Producing] = {
    "confluent": confluent_produce,
    "aiokafka": aiokafka_produce,
    "kafka-python": kafka_python_produce,
    "kcat": kcat_produce,
    "kafkajs": kafkajs_produce,
}
CONSUMING: dict[str, Consuming] = {
    "confluent": confluent_consume,
    "aiokafka": aiokafka_consume,
    "kafka-python": kafka_python_consume,
    "kcat": kcat_consume,
    "kafkajs": kafkajs_consume,
}


# Not kafkajs with lz4: it brings no such codec, and the only one for it in JavaScript writes frames
# of linked blocks, which Apache Kafka refuses as well.
@pytest.mark.parametrize(
    ("client", "codec"),
    [
        (client, codec)
        for client in PRODUCING
        for codec in CODECS
        if (client, codec) != ("kafkajs", "lz4")
    ],
)
def test_librdkafka_reads_what_each_client_writes(
    bootstrap_servers: str, make_topic: TopicMaker, client: str, codec: str
) -> None:
    topic = make_topic("written", partitions=2)
    records = records_of(client)
    PRODUCING[client](bootstrap_servers, topic, codec, records)
    found = confluent_consume(bootstrap_servers, topic, len(records))
    assert sorted(found, key=repr) == sorted(records, key=repr)


@pytest.mark.parametrize("client", list(CONSUMING))
def test_each_client_reads_what_librdkafka_writes_with_every_codec(
    bootstrap_servers: str, make_topic: TopicMaker, client: str
) -> None:
    topic = make_topic("read", partitions=2)
    expected = []
    for codec in CODECS:
        records = records_of(codec)
        confluent_produce(bootstrap_servers, topic, codec, records)
        expected += records
    found = CONSUMING[client](bootstrap_servers, topic, len(expected))
    assert sorted(found, key=repr) == sorted(expected, key=repr)
