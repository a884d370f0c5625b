"""Every topic option of Apache Kafka 4, and its broker options: taken with its ranges, or refused.

The names, defaults and ranges are Kafka's own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkaesque.broker.options.tables import BROKER_OPTIONS
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.compression import Codec
from kafkaesque.model.errors import ConfigError
from kafkaesque.model.records import Record
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kafkaesque.protocols.kafka.messages.delete_topics_request import (
    DeleteTopicsRequest,
    DeleteTopicState,
)
from tests.unit.gateway_kafka.live import LiveCluster
from tests.unit.gateway_kafka.test_compression_type import send, wanting
from tests.unit.gateway_kafka.test_configs import (
    BROKER,
    FROM_ALL_BROKERS,
    FROM_BROKER,
    FROM_FILE,
    FROM_NOWHERE,
    FROM_TOPIC,
    SET,
    TOPIC,
    change,
    describe,
    value_of,
)

INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1
HOUR_MS = 3_600_000

#: Kafka's default, another value that it takes, and some that it does not.
TOPIC_OPTIONS = {
    "cleanup.policy": ("delete", "compact,delete", ["keep"]),
    "compression.gzip.level": ("-1", "9", ["0", "10"]),
    "compression.lz4.level": ("9", "17", ["0", "18"]),
    "compression.type": ("producer", "zstd", ["none"]),
    "compression.zstd.level": ("3", "-131072", ["23"]),
    "delete.retention.ms": ("86400000", "0", ["-1"]),
    "file.delete.delay.ms": ("60000", "0", ["-1"]),
    "flush.messages": (str(LONG_MAX), "1", ["0"]),
    "flush.ms": (str(LONG_MAX), "0", ["-1", "soon"]),
    "follower.replication.throttled.replicas": ("", "*", []),
    "index.interval.bytes": ("4096", "0", ["-1"]),
    "leader.replication.throttled.replicas": ("", "0:1", []),
    "local.retention.bytes": ("-2", "5", ["-3"]),
    "local.retention.ms": ("-2", "5", ["-3"]),
    "max.compaction.lag.ms": (str(LONG_MAX), "1", ["0"]),
    "max.message.bytes": ("1048588", "0", ["-1"]),
    "message.timestamp.after.max.ms": ("3600000", "0", ["-1"]),
    "message.timestamp.before.max.ms": (str(LONG_MAX), "0", ["-1"]),
    "message.timestamp.type": ("CreateTime", "LogAppendTime", ["Never"]),
    "min.cleanable.dirty.ratio": ("0.5", "1.0", ["1.1"]),
    "min.compaction.lag.ms": ("0", "5", ["-1"]),
    "min.insync.replicas": ("1", "2", ["0"]),
    "preallocate": ("false", "true", ["maybe"]),
    "remote.copy.lag.bytes": ("0", "-1", ["-2"]),
    "remote.copy.lag.ms": ("0", "-1", ["-2"]),
    "remote.log.copy.disable": ("false", "false", ["true"]),
    "remote.log.delete.on.disable": ("false", "false", ["true"]),
    "remote.storage.enable": ("false", "false", ["true"]),
    "retention.bytes": ("-1", "-5", ["much"]),
    "retention.ms": ("604800000", "0", ["-2"]),
    "segment.bytes": ("1073741824", "1048576", ["1048575"]),
    "segment.index.bytes": ("10485760", "4", ["3"]),
    "segment.jitter.ms": ("0", "5", ["-1"]),
    "segment.ms": ("604800000", "1", ["0"]),
    "unclean.leader.election.enable": ("false", "true", ["perhaps"]),
}

#: What cannot be changed while a broker runs stands behind.
BROKER_DEFAULTS = {
    "background.threads": "10",
    "compression.type": "producer",
    "log.cleaner.io.buffer.size": "524288",
    "log.cleaner.threads": "1",
    "log.cleanup.policy": "delete",
    "log.flush.interval.messages": str(LONG_MAX),
    "log.index.interval.bytes": "4096",
    "log.index.size.max.bytes": "10485760",
    "log.message.timestamp.after.max.ms": "3600000",
    "log.preallocate": "false",
    "log.segment.bytes": "1073741824",
    "log.segment.delete.delay.ms": "60000",
    "num.io.threads": "8",
    "num.network.threads": "3",
    "num.recovery.threads.per.data.dir": "2",
    "num.replica.fetchers": "1",
}
FIXED_DEFAULTS = {
    "controlled.shutdown.enable": "true",
    "controller.quorum.election.timeout.ms": "1000",
    "delete.topic.enable": "true",
    "fetch.max.bytes": "57671680",
    "group.coordinator.threads": "4",
    "log.retention.hours": "168",
    "log.roll.hours": "168",
    "max.incremental.fetch.session.cache.slots": "1000",
    "metrics.num.samples": "2",
    "offsets.load.buffer.size": "5242880",
    "queued.max.requests": "500",
    "quota.window.num": "11",
    "replica.fetch.max.bytes": "1048576",
    "request.timeout.ms": "30000",
    "socket.request.max.bytes": "104857600",
    "transaction.state.log.min.isr": "2",
}


def create(live: LiveCluster, **configs: str) -> tuple[int, str | None]:
    """Creates a topic with options, underscores for dots, and returns code and message."""
    found = [CreatableTopicConfig(name, value) for name, value in configs.items()]
    (result,) = live.ask(CreateTopicsRequest([CreatableTopic("tuned", 1, 1, configs=found)])).topics
    return result.error_code, result.error_message


@pytest.mark.parametrize("name", TOPIC_OPTIONS)
def test_a_topic_option_is_taken_with_kafkas_default_and_range(
    live: LiveCluster, name: str
) -> None:
    default, other, wrong = TOPIC_OPTIONS[name]
    for value in wrong:
        code, said = create(live, **{name: value})
        assert (code, name in (said or "")) == (ErrorCode.INVALID_CONFIG, True)
    assert create(live, **{name: other}) == (0, None)
    assert value_of(live, TOPIC, "tuned", name) == (other, FROM_TOPIC)
    for value in wrong:
        assert change(live, TOPIC, "tuned", (name, SET, value)).error_code == 40
    assert change(live, TOPIC, "tuned", (name, SET, default)).error_code == 0
    assert change(live, TOPIC, "tuned", (name, 1, None)).error_code == 0
    assert value_of(live, TOPIC, "tuned", name) == (default, FROM_NOWHERE)


def test_a_topic_may_have_no_policy_at_all(live: LiveCluster) -> None:
    assert create(live, **{"cleanup.policy": ""}) == (0, None)
    assert value_of(live, TOPIC, "tuned", "cleanup.policy") == ("", FROM_TOPIC)
    live.wait(lambda: len(live.broker.partitions) == 1, "it is open")
    config = live.partition("tuned").config
    assert not {"delete", "compact"} & set(config.cleanup_policy)


@pytest.mark.parametrize("name", ["remote.storage.enable", "remote.log.copy.disable"])
def test_tiered_storage_is_refused_with_the_reason(live: LiveCluster, name: str) -> None:
    code, said = create(live, **{name: "true"})
    assert code == ErrorCode.INVALID_CONFIG
    assert said == f"{name} = 'true' is not allowed: it must be false (there is no tiered storage)"


@pytest.mark.parametrize("name", BROKER_DEFAULTS)
def test_what_a_broker_takes_at_work(live: LiveCluster, name: str) -> None:
    default = BROKER_DEFAULTS[name]
    assert value_of(live, BROKER, "1", name) == (default, FROM_NOWHERE)
    for node, source in (("", FROM_ALL_BROKERS), ("1", FROM_BROKER)):
        assert change(live, BROKER, node, (name, SET, default)).error_code == 0
        assert value_of(live, BROKER, "1", name) == (default, source)
    assert change(live, BROKER, "1", (name, SET, "-77")).error_code == ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize("name", FIXED_DEFAULTS)
def test_what_a_broker_takes_from_its_file(live: LiveCluster, name: str) -> None:
    (config,) = describe(live, BROKER, "1", name).configs
    assert (config.value, config.config_source) == (FIXED_DEFAULTS[name], FROM_NOWHERE)
    assert config.read_only
    BROKER_OPTIONS.get(name).parse(FIXED_DEFAULTS[name])


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("authorizer.class.name", "org.example.Authorizer"),
        ("create.topic.policy.class.name", "org.example.Policy"),
        ("max.connections.per.ip.overrides", "10.0.0.1:5"),
        ("quota.window.num", "12"),
        ("remote.log.storage.system.enable", "true"),
        ("security.inter.broker.protocol", "SSL"),
        ("transaction.partition.verification.enable", "false"),
    ],
)
def test_what_would_promise_what_is_not_there_is_refused_with_the_reason(
    name: str, wrong: str
) -> None:
    option = BROKER_OPTIONS.get(name)
    assert option.parse(option.default) == option.default
    with pytest.raises(ConfigError, match=r"\(.+\)$"):
        option.parse(wrong)


# -- where the broker is


def test_what_the_file_says_of_a_broker_is_shown_and_read_only(live: LiveCluster) -> None:
    config = live.broker.config
    address = f"PLAINTEXT://{config.kafka_address}"
    expected = {
        "node.id": "1",
        "broker.id": "1",
        "broker.rack": None,
        "process.roles": "broker,controller",
        "listeners": address,
        "advertised.listeners": address,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT",
        "log.dirs": config.data_dir,
        "log.dir": config.data_dir,
        "metadata.log.dir": config.data_dir,
    }
    shown = {each.name: each for each in describe(live, BROKER, "1", synonyms=True).configs}
    for name, value in expected.items():
        found = shown[name]
        assert (found.value, found.read_only) == (value, True)
        assert [s.source for s in found.synonyms] == ([] if value is None else [FROM_FILE])
        assert change(live, BROKER, "1", (name, SET, "7")).error_code == ErrorCode.INVALID_CONFIG


# -- options in other units


@pytest.fixture
def hours(tmp_path: Path) -> Iterator[LiveCluster]:
    """One broker whose file sets times in other units than milliseconds."""
    options = {
        "log.retention.hours": 5,
        "log.retention.minutes": 7,
        "log.roll.hours": 2,
        "log.roll.jitter.hours": 1,
        "log.flush.scheduler.interval.ms": 9,
        "delete.topic.enable": False,
        "socket.request.max.bytes": 5000,
    }
    cluster = LiveCluster(tmp_path, options=options)
    yield cluster
    cluster.close()


def test_times_in_other_units_count_where_no_milliseconds_are_set(hours: LiveCluster) -> None:
    live = hours
    live.create_topic("orders", configs={})
    config = live.partition("orders").config
    assert config.retention_ms == 7 * 60_000
    assert (config.segment_ms, config.segment_jitter_ms) == (2 * HOUR_MS, HOUR_MS)
    assert value_of(live, TOPIC, "orders", "retention.ms") == ("420000", FROM_FILE)
    assert value_of(live, TOPIC, "orders", "flush.ms") == ("9", FROM_FILE)
    assert value_of(live, BROKER, "1", "log.retention.ms") == (None, FROM_NOWHERE)
    assert value_of(live, BROKER, "1", "log.retention.hours") == ("5", FROM_FILE)
    (found,) = describe(live, TOPIC, "orders", "retention.ms", synonyms=True).configs
    assert [(s.name, s.value, s.source) for s in found.synonyms] == [
        ("log.retention.minutes", "7", FROM_FILE),
        ("log.retention.hours", "5", FROM_FILE),
        ("log.retention.hours", "168", FROM_NOWHERE),
    ]
    change(live, BROKER, "", ("log.retention.ms", SET, "99"))
    live.wait(lambda: live.partition("orders").config.retention_ms == 99, "it is heard of")
    assert value_of(live, TOPIC, "orders", "retention.ms") == ("99", FROM_ALL_BROKERS)
    assert value_of(live, BROKER, "1", "log.retention.ms") == ("99", FROM_ALL_BROKERS)


def test_a_broker_that_deletes_no_topics_says_so(hours: LiveCluster) -> None:
    hours.create_topic("orders", configs={})
    (result,) = hours.ask(DeleteTopicsRequest([DeleteTopicState("orders")], (), 5000)).responses
    assert result.error_code == ErrorCode.TOPIC_DELETION_DISABLED
    assert "orders" in hours.broker.state.topics


def test_a_request_that_is_too_long_ends_the_connection(hours: LiveCluster) -> None:
    hours.create_topic("orders", configs={})
    with pytest.raises((EOFError, ConnectionError)):
        send(hours, "orders", encode_batch([Record(0, 0, None, bytes(6000), ())]))


# -- times of records


def at(offset_ms: int, codec: Codec = Codec.NONE, size: int = 10) -> bytearray:
    """Returns a batch of three records of which the second is so far from now."""
    now_ms = int(time.time() * 1000)
    records = [
        Record(number, now_ms + (offset_ms if number == 1 else 0), None, bytes(size), ())
        for number in range(3)
    ]
    return encode_batch(records, BatchOptions(codec=codec))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("size", [10, 200_000])
def test_records_too_far_from_now_are_refused(live: LiveCluster, codec: Codec, size: int) -> None:
    configs = wanting(message_timestamp_before_max_ms="60000")
    live.create_topic("tuned", configs=configs)
    for offset_ms, code in (
        (-50_000, 0),
        (-70_000, ErrorCode.INVALID_TIMESTAMP),
        (HOUR_MS - 50_000, 0),
        (HOUR_MS + 50_000, ErrorCode.INVALID_TIMESTAMP),
    ):
        assert send(live, "tuned", at(offset_ms, codec, size)).error_code == code
    # A record without a time is of none.
    nameless = encode_batch([Record(0, -1, None, b"", ())])
    assert send(live, "tuned", nameless).error_code == 0
    assert (
        change(live, TOPIC, "tuned", ("message.timestamp.after.max.ms", SET, "5")).error_code == 0
    )
    live.wait(lambda: live.partition("tuned").config.timestamp_after_max_ms == 5, "it is heard of")
    assert send(live, "tuned", at(60_000)).error_code == ErrorCode.INVALID_TIMESTAMP


def test_what_the_broker_gives_times_may_say_any(live: LiveCluster) -> None:
    live.create_topic(
        "tuned",
        configs=wanting(
            message_timestamp_type="LogAppendTime", message_timestamp_before_max_ms="1"
        ),
    )
    for offset_ms in (-HOUR_MS, 2 * HOUR_MS):
        assert send(live, "tuned", at(offset_ms)).error_code == 0


def test_partitions_close_their_segments_at_times_of_their_own(live: LiveCluster) -> None:
    live.create_topic("tuned", 8, configs=wanting(segment_ms="1000000", segment_jitter_ms="900000"))
    ages = {live.partition("tuned", index).log.segments.segment_ms_max for index in range(8)}
    assert len(ages) > 4
    assert all(100_000 <= age <= 1_000_000 for age in ages)
