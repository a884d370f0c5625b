"""librdkafka (confluent-kafka) as a producer: codecs, acks, idempotence, sizes, nulls, times."""

from __future__ import annotations

import time
from functools import partial

import pytest
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    Message,
    Producer,
)
from confluent_kafka.admin import ConfigResource

from tests.clients.kafka_helpers import (
    CODECS,
    Sent,
    TopicMaker,
    admin_client,
    consume,
    error_of,
    produce,
    unique,
)
from tests.waiting import DEADLINE_S, eventually

# The broker's default for message.max.bytes, and how far one record of V value bytes, without key
# and headers, makes a batch larger than V when V is just under a mebibyte: 61 bytes of batch
# header, and 11 for the record (lengths of 3, 1 and 3 bytes; attributes, two deltas, headers).
MESSAGE_BYTES_MAX = 1_048_588
OVERHEAD_BYTES = 72


@pytest.mark.parametrize("codec", CODECS)
def test_each_codec_brings_every_record_in_order(
    bootstrap_servers: str, make_topic: TopicMaker, codec: str
) -> None:
    topic = make_topic("codec")
    sent = [Sent(key=b"k%d" % (i % 7), value=b"value %d " % i * 20) for i in range(1000)]
    produce(bootstrap_servers, topic, sent, compression_type=codec, linger_ms=20)
    received = consume(bootstrap_servers, topic, len(sent))
    for key in {record.key for record in sent}:
        expected = [record.value for record in sent if record.key == key]
        assert [each.value() for each in received if each.key() == key] == expected


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_each_acks_setting_delivers(
    bootstrap_servers: str, make_topic: TopicMaker, acks: str
) -> None:
    topic = make_topic("acks", partitions=1)
    values = [b"%d" % i for i in range(300)]
    reports = produce(bootstrap_servers, topic, values, acks=acks, linger_ms=1)
    assert len(reports) == 300
    if acks != "0":
        assert [report.offset() for report in reports] == list(range(300))
    assert [each.value() for each in consume(bootstrap_servers, topic, 300)] == values


def test_min_insync_replicas_asks_for_no_more_than_there_are(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    # Kafka takes the smaller of min.insync.replicas and the number of replicas.
    topic = make_topic("min-isr", partitions=1, replication=1, min_insync_replicas="2")
    produce(bootstrap_servers, topic, [b"x"], acks="all", retries=0)
    assert len(consume(bootstrap_servers, topic, 1, at_rest_s=0.3)) == 1


def test_an_idempotent_producer_writes_once_and_in_order(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic = make_topic("idempotent", partitions=1)
    values = [b"%d" % i for i in range(5000)]
    options = {"enable_idempotence": True, "linger_ms": 0, "batch_num_messages": 50}
    reports = produce(bootstrap_servers, topic, values, **options)
    assert [report.offset() for report in reports] == list(range(5000))
    received = consume(bootstrap_servers, topic, 5000, at_rest_s=0.3)
    assert [each.value() for each in received] == values


def test_idempotent_producers_do_not_disturb_each_other(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic = make_topic("idempotent-many", partitions=2)
    options = {"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "linger.ms": 1}
    producers = [Producer(options) for _ in range(4)]
    for i in range(200):
        for number, producer in enumerate(producers):
            producer.produce(topic, key=b"p%d" % number, value=b"%d" % i)
            producer.poll(0)
    for producer in producers:
        assert producer.flush(DEADLINE_S) == 0
    received = consume(bootstrap_servers, topic, 800, at_rest_s=0.3)
    assert len(received) == 800
    for number in range(4):
        values = [each.value() for each in received if each.key() == b"p%d" % number]
        assert values == [b"%d" % i for i in range(200)]


@pytest.mark.parametrize("compacted", [False, True])
def test_nulls_and_empty_bytes_stay_what_they_are(
    bootstrap_servers: str, make_topic: TopicMaker, compacted: bool
) -> None:
    policy = "compact" if compacted else "delete"
    topic = make_topic("nulls", partitions=1, cleanup_policy=policy)
    pairs: list[tuple[bytes | None, bytes | None]] = [(b"k", b"v"), (b"k", None), (b"", b"")]
    if not compacted:
        pairs += [(None, None), (None, b"v"), (None, b"")]
    produce(bootstrap_servers, topic, [Sent(key=key, value=value) for key, value in pairs])
    received = consume(bootstrap_servers, topic, len(pairs))
    assert [(each.key(), each.value()) for each in received] == pairs


def test_a_compacted_topic_refuses_a_record_without_key(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic = make_topic("compacted", partitions=1, cleanup_policy="compact")
    error = error_of(lambda: produce(bootstrap_servers, topic, [b"no key"]))
    assert error.code() == KafkaError.INVALID_RECORD


def test_headers_keep_order_repetition_and_null(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic = make_topic("headers", partitions=1)
    headers = [("trace", b"1"), ("empty", b""), ("trace", b"2"), ("null", None), ("ключ", b"\xff")]
    many = [(f"h{i}", b"%d" % i) for i in range(200)]
    produce(
        bootstrap_servers,
        topic,
        [Sent(value=b"some", headers=headers), Sent(value=b"none"), Sent(value=b"m", headers=many)],
    )
    some, none, lots = consume(bootstrap_servers, topic, 3)
    assert some.headers() == headers
    assert none.headers() is None
    assert lots.headers() == many


def test_a_batch_of_exactly_the_limit_passes_and_one_byte_more_does_not(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic = make_topic("limit", partitions=1)
    largest = b"x" * (MESSAGE_BYTES_MAX - OVERHEAD_BYTES)
    options = {"message_max_bytes": 5_000_000}
    produce(bootstrap_servers, topic, [largest], **options)
    error = error_of(lambda: produce(bootstrap_servers, topic, [largest + b"x"], **options))
    assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE
    produce(bootstrap_servers, topic, [b"after"], **options)
    received = consume(bootstrap_servers, topic, 2)
    assert [len(each.value() or b"") for each in received] == [len(largest), 5]


def test_max_message_bytes_of_a_topic_raises_and_lowers_the_limit(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    options = {"message_max_bytes": 10_000_000}
    roomy = make_topic("roomy", partitions=1, max_message_bytes="6000000")
    big = bytes(range(256)) * 20_000
    produce(bootstrap_servers, roomy, [big, b"small"], **options)
    # A consumer that asks for less than one batch gets that batch all the same.
    received = consume(bootstrap_servers, roomy, 2, max_partition_fetch_bytes=1000)
    assert [each.value() for each in received] == [big, b"small"]
    narrow = make_topic("narrow", partitions=1, max_message_bytes="2000")
    produce(bootstrap_servers, narrow, [b"x" * 1800])
    error = error_of(lambda: produce(bootstrap_servers, narrow, [b"x" * 2000]))
    assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_create_time_is_the_producers(bootstrap_servers: str, make_topic: TopicMaker) -> None:
    topic = make_topic("create-time", partitions=1)
    times = [1_600_000_000_000, 1_600_000_005_000, 1_500_000_000_001]
    produce(bootstrap_servers, topic, [Sent(value=b"x", timestamp_ms=each) for each in times])
    received = consume(bootstrap_servers, topic, 3)
    assert [each.timestamp() for each in received] == [(TIMESTAMP_CREATE_TIME, t) for t in times]


def test_log_append_time_is_the_brokers(bootstrap_servers: str, make_topic: TopicMaker) -> None:
    topic = make_topic("append-time", partitions=1, message_timestamp_type="LogAppendTime")
    before_ms = time.time_ns() // 1_000_000
    produce(bootstrap_servers, topic, [Sent(value=b"x", timestamp_ms=1_600_000_000_000)] * 3)
    after_ms = time.time_ns() // 1_000_000
    for each in consume(bootstrap_servers, topic, 3):
        kind, timestamp_ms = each.timestamp()
        assert kind == TIMESTAMP_LOG_APPEND_TIME
        assert before_ms <= timestamp_ms <= after_ms


def test_the_chosen_partition_is_the_one_written(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic = make_topic("partition", partitions=4)
    sent = [Sent(value=b"%d" % i, partition=i % 4) for i in range(40)]
    produce(bootstrap_servers, topic, sent)
    for each in consume(bootstrap_servers, topic, 40):
        assert int(each.value() or b"") % 4 == each.partition()
        assert int(each.value() or b"") // 4 == each.offset()


def test_offsets_of_a_partition_have_no_gaps_over_many_requests(
    bootstrap_servers: str, make_topic: TopicMaker
) -> None:
    topic = make_topic("gaps", partitions=2)
    for codec in CODECS:
        produce(bootstrap_servers, topic, [b"x"] * 100, compression_type=codec, linger_ms=0)
    received = consume(bootstrap_servers, topic, 500)
    for partition in range(2):
        offsets = [each.offset() for each in received if each.partition() == partition]
        assert offsets == list(range(len(offsets)))


def test_auto_creation_of_a_topic_follows_the_brokers_switch(bootstrap_servers: str) -> None:
    admin = admin_client(bootstrap_servers)
    node = str(min(admin.list_topics(timeout=DEADLINE_S).brokers))
    resource = ConfigResource(ConfigResource.Type.BROKER, node)
    configuration = admin.describe_configs([resource])[resource].result()
    is_on = configuration["auto.create.topics.enable"].value == "true"
    topic = unique("auto")
    if is_on:
        produce(bootstrap_servers, topic, [b"x"])
        assert len(consume(bootstrap_servers, topic, 1)) == 1
    else:
        options = {"message_timeout_ms": 4000, "topic_metadata_propagation_max_ms": 500}
        error = error_of(lambda: produce(bootstrap_servers, topic, [b"x"], **options))
        # librdkafka names the broker's "unknown topic or partition" in a way of its own.
        assert error.code() in (KafkaError._UNKNOWN_TOPIC, KafkaError._MSG_TIMED_OUT)
        assert topic not in admin.list_topics(timeout=DEADLINE_S).topics


def test_a_consumer_does_not_create_the_topic_it_asks_for(bootstrap_servers: str) -> None:
    topic = unique("never")
    options = {"bootstrap.servers": bootstrap_servers, "group.id": unique("group")}
    consumer = Consumer({**options, "allow.auto.create.topics": False})
    errors: list[KafkaError] = []

    def has_said_so() -> bool:
        message = consumer.poll(0.1)
        error = None if message is None else message.error()
        if error is not None:
            errors.append(error)
        return bool(errors)

    try:
        consumer.subscribe([topic])
        eventually(has_said_so, "an error for the unknown topic")
        assert errors[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        assert topic not in consumer.list_topics(timeout=DEADLINE_S).topics
    finally:
        consumer.close()


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_only_the_records_at_fault_are_told_so(
    bootstrap_servers: str, make_topic: TopicMaker, codec: str
) -> None:
    topic = make_topic("keyless", partitions=1, cleanup_policy="compact")
    options = {"bootstrap.servers": bootstrap_servers, "compression.type": codec}
    # One batch: nothing is sent before all is there; `flush` would not wait for that.
    producer = Producer({**options, "linger.ms": 500, "enable.idempotence": False})
    producer.list_topics(topic, timeout=DEADLINE_S)
    outcomes: dict[int, KafkaError | None] = {}

    def note(number: int, error: KafkaError | None, _: Message) -> None:
        outcomes[number] = error

    for number in range(100):
        producer.produce(
            topic,
            key=None if number % 10 == 3 else b"k",
            value=b"v",
            on_delivery=partial(note, number),
        )
    eventually(lambda: producer.poll(0.1) >= 0 and len(outcomes) == 100, "every record's outcome")
    codes = {number: error and error.code() for number, error in outcomes.items()}
    assert codes == {
        number: KafkaError.INVALID_RECORD
        if number % 10 == 3
        else KafkaError._INVALID_DIFFERENT_RECORD
        for number in range(100)
    }
