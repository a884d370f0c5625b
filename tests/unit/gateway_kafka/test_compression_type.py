"""Topics that want a codec of their own: what is stored of what producers send."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kafkaesque.model.batch import BatchHeader, scan_batches
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.compression import Codec
from kafkaesque.model.ids import TopicPartition
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages import incremental_alter_configs_request as changing
from kafkaesque.protocols.kafka.messages.init_producer_id_request import InitProducerIdRequest
from kafkaesque.protocols.kafka.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.unit.gateway_kafka.live import KEPT, LiveCluster
from tests.unit.gateway_kafka.test_configs import BROKER, SET, TOPIC, change

NAMES = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
RECORDS = [
    Record(number, 1_000 + number, b"key %d" % number, b"value " * 50, (("of", b"%d" % number),))
    for number in range(5)
]


def wanting(**options: str) -> dict[str, str]:
    return {**KEPT, **{key.replace("_", "."): value for key, value in options.items()}}


def send(live: LiveCluster, topic: str, batch: bytes | bytearray, *, acks: int = -1) -> Any:
    """Send a batch to partition 0 and return the answer for it."""
    data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(0, batch)])]
    answer = live.ask(ProduceRequest(None, acks, 5000, data), 9)
    return answer.responses[0].partition_responses[0]


def stored(live: LiveCluster, topic: str) -> tuple[bytes, list[BatchHeader]]:
    """Return what the partition's segments hold."""
    home = Path(live.broker.config.data_dir) / f"{topic}-0"
    data = b"".join(path.read_bytes() for path in sorted(home.glob("*.log")))
    return data, scan_batches(data, walk=True).batches


@pytest.mark.parametrize("sent", list(Codec))
@pytest.mark.parametrize("name", NAMES)
def test_what_is_stored_has_the_topics_codec(live: LiveCluster, name: str, sent: Codec) -> None:
    live.create_topic("packed", configs=wanting(compression_type=name))
    options = BatchOptions(codec=sent, producer_id=17, producer_epoch=2, base_sequence=0)
    batch = encode_batch(RECORDS, options)
    answer = send(live, "packed", batch)
    assert (answer.error_code, answer.base_offset) == (0, 0)
    data, (header,) = stored(live, "packed")
    assert header.codec is NAMES[name]
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (17, 2, 0)
    assert header.max_timestamp_ms == 1_004
    assert decode_batch(data, 1 << 20, at=header.at) == RECORDS
    if sent is NAMES[name]:
        # From the checksum on it is the producer's own.
        assert data[17:] == batch[17:]


def test_sequences_go_on_and_what_comes_twice_is_known(live: LiveCluster) -> None:
    live.create_topic("packed", configs=wanting(compression_type="zstd"))
    made = live.ask(InitProducerIdRequest(None, 1000, -1, -1), 4)
    batches = [
        encode_batch(
            RECORDS,
            BatchOptions(
                codec=codec,
                producer_id=made.producer_id,
                producer_epoch=0,
                base_sequence=place * len(RECORDS),
            ),
        )
        for place, codec in enumerate((Codec.GZIP, Codec.ZSTD, Codec.NONE))
    ]
    assert [send(live, "packed", batch).base_offset for batch in batches] == [0, 5, 10]
    assert [send(live, "packed", batch).base_offset for batch in batches] == [0, 5, 10]
    assert live.partition("packed").high_watermark == 15
    late = BatchOptions(producer_id=made.producer_id, producer_epoch=0, base_sequence=99)
    code = send(live, "packed", encode_batch(RECORDS, late)).error_code
    assert code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    _, headers = stored(live, "packed")
    assert [(each.base_offset, each.codec) for each in headers] == [
        (0, Codec.ZSTD),
        (5, Codec.ZSTD),
        (10, Codec.ZSTD),
    ]


def test_what_the_broker_gives_times_keeps_them(live: LiveCluster) -> None:
    configs = wanting(compression_type="lz4", message_timestamp_type="LogAppendTime")
    live.create_topic("packed", configs=configs)
    answer = send(live, "packed", encode_batch(RECORDS))
    data, (header,) = stored(live, "packed")
    assert header.is_append_time
    assert header.max_timestamp_ms == answer.log_append_time_ms > 1_004
    assert header.codec is Codec.LZ4
    assert len(decode_batch(data, 1 << 20, at=header.at)) == 5


def test_a_batch_is_measured_as_it_is_stored(live: LiveCluster) -> None:
    configs = wanting(compression_type="uncompressed", max_message_bytes="10000")
    live.create_topic("packed", configs=configs)
    batch = encode_batch([Record(0, 0, None, bytes(20_000), ())], BatchOptions(codec=Codec.GZIP))
    answer = send(live, "packed", batch)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.MESSAGE_TOO_LARGE, -1)
    assert send(live, "packed", encode_batch(RECORDS)).base_offset == 0


def test_a_bomb_is_refused(live: LiveCluster) -> None:
    configs = wanting(compression_type="uncompressed", max_message_bytes="200000000")
    live.create_topic("packed", configs=configs)
    bomb = encode_batch([Record(0, 0, None, bytes(70_000_000), ())], BatchOptions(codec=Codec.ZSTD))
    assert send(live, "packed", bomb).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_compacted_topic_needs_keys(live: LiveCluster) -> None:
    configs = wanting(compression_type="gzip", cleanup_policy="compact")
    live.create_topic("packed", configs=configs)
    nameless = encode_batch([Record(0, 0, None, b"value", ())])
    assert send(live, "packed", nameless).error_code == ErrorCode.INVALID_RECORD
    assert send(live, "packed", encode_batch(RECORDS)).error_code == 0
    assert [each.codec for each in stored(live, "packed")[1]] == [Codec.GZIP]


def test_the_level_is_the_topics(live: LiveCluster) -> None:
    words = b" ".join(b"%d" % (number * number % 997) for number in range(20_000))
    batch = encode_batch([Record(0, 0, None, words, ())])
    sizes = {}
    for codec, levels in {"gzip": "19", "lz4": "93", "zstd": ("-50", "19")}.items():
        for level in levels:
            topic = f"packed-{codec}{level}"
            option = {f"compression.{codec}.level": level}
            live.create_topic(topic, configs=wanting(compression_type=codec) | option)
            assert send(live, topic, batch).error_code == 0
            sizes[codec, level] = len(stored(live, topic)[0])
    assert sizes["gzip", "9"] < sizes["gzip", "1"]
    assert sizes["lz4", "3"] < sizes["lz4", "9"]
    assert sizes["zstd", "19"] < sizes["zstd", "-50"]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("compression.type", "none"),
        ("compression.gzip.level", "0"),
        ("compression.gzip.level", "10"),
        ("compression.gzip.level", "-2"),
        ("compression.lz4.level", "0"),
        ("compression.lz4.level", "18"),
        ("compression.zstd.level", "23"),
        ("compression.zstd.level", "-131073"),
    ],
)
def test_what_kafka_refuses_is_refused(live: LiveCluster, name: str, wrong: str) -> None:
    live.create_topic("packed")
    for kind, whose in ((TOPIC, "packed"), (BROKER, "1")):
        result = change(live, kind, whose, (name, SET, wrong))
        assert result.error_code == ErrorCode.INVALID_CONFIG
        assert name in result.error_message


def test_a_brokers_codec_holds_for_topics_that_name_none_and_not_for_its_own(
    live: LiveCluster,
) -> None:
    live.create_topic("packed")
    assert change(live, BROKER, "", ("compression.type", SET, "snappy")).error_code == 0
    live.wait(lambda: live.partition("packed").config.compression is not None, "it is heard of")
    assert send(live, "packed", encode_batch(RECORDS)).error_code == 0
    assert [each.codec for each in stored(live, "packed")[1]] == [Codec.SNAPPY]
    # Makes the transactions' topic, and writes to it.
    made = live.ask_until(
        InitProducerIdRequest("mine", 1000, -1, -1), lambda answer: answer.error_code == 0, 4
    )
    assert made.producer_id >= 0


def test_what_is_forwarded_keeps_its_order(live: LiveCluster) -> None:
    live.create_topic("packed", configs=wanting(compression_type="zstd"))
    # The first ones take longer than those after them.
    values = [bytes([number]) * (900_000 if number < 2 else 1) for number in range(8)]
    done: list[object] = []
    for value in values:
        batch = bytes(encode_batch([Record(0, 0, None, value, ())]))
        live.broker.forwarder.produce(
            TopicPartition("packed", 0), batch, -1, 5000, done.append, lambda: True
        )
    live.wait(lambda: len(done) == len(values), "they are answered")
    data, headers = stored(live, "packed")
    found = [decode_batch(data, 1 << 20, at=each.at)[0].value for each in headers]
    assert found == values
    assert {each.codec for each in headers} == {Codec.ZSTD}


def test_a_codec_that_changes_meanwhile_is_the_one_that_counts(
    live: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.create_topic("packed", configs=wanting(compression_type="zstd"))
    checks = live.broker.batch_checks
    run = checks.run
    held: list[Any] = []
    monkeypatch.setattr(checks, "run", lambda check, on_done: held.append((check, on_done)))
    done: list[object] = []
    batch = bytes(encode_batch(RECORDS))
    where = TopicPartition("packed", 0)
    live.broker.forwarder.produce(where, batch, -1, 5000, done.append, lambda: True)
    live.wait(lambda: len(held) == 1, "it waits")
    resource = changing.AlterConfigsResource(
        TOPIC, "packed", [changing.AlterableConfig("compression.type", SET, "producer")]
    )
    live.ask(changing.IncrementalAlterConfigsRequest([resource]))
    live.wait(lambda: live.partition("packed").config.compression is None, "it is heard of")
    run(*held.pop())
    live.wait(lambda: len(done) == 1, "it is answered")
    assert [each.codec for each in stored(live, "packed")[1]] == [Codec.NONE]
    live.loop.run_until_complete(asyncio.sleep(0))
