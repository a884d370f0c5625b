"""Topics with a codec of their own: librdkafka and kafka-python write to them, and read them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer
from kafka import KafkaConsumer, KafkaProducer

from kafkaesque.model.batch import scan_batches
from kafkaesque.model.compression import Codec
from tests.clients.cluster import KafkaesqueCluster
from tests.clients.kafka_helpers import Sent, TopicMaker, consume_all, produce
from tests.waiting import DEADLINE_S, eventually

NAMES = {"uncompressed": "none", "gzip": "gzip", "snappy": "snappy", "lz4": "lz4", "zstd": "zstd"}
COUNT = 60
HEADERS = [("größe", b"1"), ("nothing", None)]
#: Compaction comes soon, and closes a segment with the record that comes this long after its first.
QUICK = {"log.cleaner.backoff.ms": "100"}


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaesqueCluster]:
    directory = tmp_path_factory.mktemp("one")
    with KafkaesqueCluster(brokers=1, directory=directory, options=QUICK) as cluster:
        yield cluster


def codecs(cluster: KafkaesqueCluster, topic: str) -> set[Codec]:
    """Return how the batches of partition 0 are stored, the ends of transactions aside."""
    home = cluster.brokers[0].log_path.parent / "data" / f"{topic}-0"
    data = b"".join(Path(path).read_bytes() for path in sorted(home.glob("*.log")))
    return {batch.codec for batch in scan_batches(data).batches if not batch.is_control}


def value_of(number: int) -> bytes:
    return b"%d says nothing new " % number * 20


@pytest.mark.parametrize("name", NAMES)
def test_both_clients_read_what_both_have_written_with_every_codec(
    one: KafkaesqueCluster, name: str
) -> None:
    servers = one.bootstrap_servers
    topic = TopicMaker(servers)("packed", partitions=1, replication=1, compression_type=name)
    sent = [
        Sent(
            key=b"%d" % number, value=value_of(number), headers=HEADERS, timestamp_ms=1000 + number
        )
        for number in range(COUNT)
    ]
    for codec in NAMES.values():
        produce(servers, topic, sent, compression_type=codec, enable_idempotence=True)
        given = None if codec == "none" else codec
        producer = KafkaProducer(bootstrap_servers=servers, compression_type=given)
        with closing(producer):
            for record in sent:
                producer.send(
                    topic,
                    key=record.key,
                    value=record.value,
                    headers=[("größe", b"1")],
                    timestamp_ms=record.timestamp_ms,
                )
            producer.flush(DEADLINE_S)
    wanted = [(s.key, s.value, s.timestamp_ms) for s in sent] * (2 * len(NAMES))
    read = consume_all(servers, topic, check_crcs=True)
    assert [(m.key(), m.value(), m.timestamp()[1]) for m in read] == wanted
    assert [m.offset() for m in read] == list(range(len(wanted)))
    assert read[0].headers() == HEADERS
    found: list[tuple[bytes | None, bytes | None, int]] = []
    with closing(
        KafkaConsumer(topic, bootstrap_servers=servers, auto_offset_reset="earliest")
    ) as consumer:

        def is_read() -> bool:
            for records in consumer.poll(timeout_ms=50).values():
                found.extend((r.key, r.value, r.timestamp) for r in records)
            return len(found) == len(wanted)

        eventually(is_read, "all records")
    assert found == wanted
    assert codecs(one, topic) == {Codec["NONE" if name == "uncompressed" else name.upper()]}


def test_transactions_are_what_they_were(one: KafkaesqueCluster) -> None:
    servers = one.bootstrap_servers
    topic = TopicMaker(servers)("packed", partitions=1, replication=1, compression_type="zstd")
    producer = Producer(
        {"bootstrap.servers": servers, "transactional.id": topic, "compression.type": "gzip"}
    )
    producer.init_transactions(DEADLINE_S)
    for number, ends in enumerate([producer.commit_transaction, producer.abort_transaction] * 3):
        producer.begin_transaction()
        for _ in range(COUNT):
            producer.produce(topic, value_of(number))
        producer.flush(DEADLINE_S)
        ends(DEADLINE_S)
    read = consume_all(servers, topic, isolation_level="read_committed")
    assert [m.value() for m in read] == [value_of(n) for n in (0, 2, 4) for _ in range(COUNT)]
    assert codecs(one, topic) == {Codec.ZSTD}


def test_a_compacted_topic_keeps_its_codec(one: KafkaesqueCluster) -> None:
    servers = one.bootstrap_servers
    topic = TopicMaker(servers)(
        "packed",
        partitions=1,
        replication=1,
        compression_type="lz4",
        cleanup_policy="compact",
        segment_ms="50",
        min_cleanable_dirty_ratio="0",
    )
    for round_ in range(4):
        sent = [Sent(key=b"%d" % key, value=value_of(round_)) for key in range(COUNT)]
        produce(servers, topic, sent, compression_type="none")

    def is_compacted() -> bool:
        # What is new closes the segment before it.
        produce(servers, topic, [Sent(key=b"last", value=b"")])
        values = {m.value() for m in consume_all(servers, topic) if m.key() != b"last"}
        return values == {value_of(3)}

    eventually(is_compacted, "old values are gone")
    assert codecs(one, topic) == {Codec.LZ4}
