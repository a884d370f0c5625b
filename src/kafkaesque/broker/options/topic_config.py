"""A topic's options as typed values: its own, else the broker's defaults, else Kafka's."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from kafkaesque.broker.options.encryption import ENCRYPTION, NONE
from kafkaesque.broker.options.schemas import VALIDATION
from kafkaesque.broker.options.tables import TOPIC_OPTIONS
from kafkaesque.model.compression import Codec
from kafkaesque.model.errors import ConfigError
from kafkaesque.model.options import OptionValue
from kafkaesque.model.recompression import Compression

#: By their names in `compression.type`; those with levels name the option that has it.
_CODECS = {
    "uncompressed": (Codec.NONE, None),
    "gzip": (Codec.GZIP, "compression.gzip.level"),
    "snappy": (Codec.SNAPPY, None),
    "lz4": (Codec.LZ4, "compression.lz4.level"),
    "zstd": (Codec.ZSTD, "compression.zstd.level"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """What a partition has to know of its topic's options."""

    cleanup_policy: tuple[str, ...]
    #: None where batches stay as producers compress them.
    compression: Compression | None
    index_interval_bytes: int
    max_message_bytes: int
    append_time: bool
    min_insync_replicas: int
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    unclean_leader_election: bool
    write_caching: bool
    #: What has to name a registered schema.
    schema_validation: str
    #: Whether batches are sealed before they are written.
    is_encrypted: bool
    min_cleanable_dirty_ratio: float
    delete_retention_ms: int
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int

    @property
    def is_compacted(self) -> bool:
        """Whether only the last record of each key is kept."""
        return "compact" in self.cleanup_policy

    def segment_ms_max(self, seed: int = 0) -> int:
        """Return the age at which a segment is closed; the seed says how much of the jitter counts.

        One that is to be compacted has to be closed first.
        """
        jitter_ms = min(self.segment_jitter_ms, self.segment_ms - 1)
        age_ms = self.segment_ms - (seed % (jitter_ms + 1))
        return min(age_ms, self.max_compaction_lag_ms) if self.is_compacted else age_ms


def resolve_option(
    name: str, configs: Mapping[str, str], broker_option: Mapping[str, OptionValue]
) -> tuple[OptionValue, str]:
    """Return an option's value in force and where it is from: "topic", "broker" or "default".

    What is stored and no longer allowed does not hold.
    """
    option = TOPIC_OPTIONS.get(name)
    if name in configs:
        with suppress(ConfigError):
            return option.parse(configs[name]), "topic"
    if option.broker_name is not None and option.broker_name in broker_option:
        value = broker_option[option.broker_name]
        return value, "default" if value == option.default else "broker"
    return option.default, "default"


def make_topic_config(
    configs: Mapping[str, str], broker_option: Mapping[str, OptionValue]
) -> TopicConfig:
    """Return the typed options."""

    def value(name: str) -> OptionValue:
        return resolve_option(name, configs, broker_option)[0]

    def number(name: str) -> int:
        return int(value(name))

    return TopicConfig(
        cleanup_policy=tuple(word.strip() for word in str(value("cleanup.policy")).split(",")),
        compression=_compression(value),
        index_interval_bytes=number("index.interval.bytes"),
        max_message_bytes=number("max.message.bytes"),
        append_time=value("message.timestamp.type") == "LogAppendTime",
        min_insync_replicas=number("min.insync.replicas"),
        retention_bytes=number("retention.bytes"),
        retention_ms=number("retention.ms"),
        segment_bytes=number("segment.bytes"),
        segment_ms=number("segment.ms"),
        segment_jitter_ms=number("segment.jitter.ms"),
        timestamp_before_max_ms=number("message.timestamp.before.max.ms"),
        timestamp_after_max_ms=number("message.timestamp.after.max.ms"),
        unclean_leader_election=bool(value("unclean.leader.election.enable")),
        write_caching=bool(value("write.caching")),
        schema_validation=str(value(VALIDATION)),
        is_encrypted=value(ENCRYPTION) != NONE,
        min_cleanable_dirty_ratio=float(value("min.cleanable.dirty.ratio")),
        delete_retention_ms=number("delete.retention.ms"),
        min_compaction_lag_ms=number("min.compaction.lag.ms"),
        max_compaction_lag_ms=number("max.compaction.lag.ms"),
    )


def _compression(value: Callable[[str], OptionValue]) -> Compression | None:
    name = str(value("compression.type"))
    if name == "producer":
        return None
    codec, level_option = _CODECS[name]
    return Compression(codec, None if level_option is None else int(value(level_option)))
