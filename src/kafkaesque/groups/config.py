"""The coordinator's options and bounds."""

from dataclasses import dataclass, fields

from kafkaesque.groups.consumer.config import ConsumerConfig
from kafkaesque.model.errors import ConfigError

_INT32_MAX = 2**31 - 1
_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Options of one coordinator; Apache Kafka's option name is given where it has one.

    Raises:
        ConfigError: a value is out of range, or two contradict each other.
    """

    #: group.min.session.timeout.ms
    session_timeout_ms_min: int = 6_000
    #: group.max.session.timeout.ms
    session_timeout_ms_max: int = 30 * _MINUTE_MS
    #: group.max.size
    group_members_max: int = 10_000
    #: group.initial.rebalance.delay.ms
    initial_rebalance_delay_ms: int = 3_000
    #: A member that has no id to send heartbeats with is given up after this.
    new_member_join_timeout_ms: int = 5 * _MINUTE_MS
    #: offset.metadata.max.bytes, counted in UTF-16 code units as Apache Kafka does
    offset_metadata_length_max: int = 4_096
    #: offsets.retention.minutes
    offsets_retention_ms: int = 7 * 24 * 60 * _MINUTE_MS
    #: offsets.retention.check.interval.ms
    offsets_retention_check_interval_ms: int = 10 * _MINUTE_MS
    #: offsets.commit.timeout.ms
    write_timeout_ms: int = 5_000

    #: Groups in one partition of the offsets topic.
    groups_max: int = 100_000
    #: Ids that were given out (KIP-394) and not yet joined with, per group.
    pending_members_max: int = 10_000
    #: Protocols that one member may offer.
    member_protocols_max: int = 64
    #: Sum of one member's protocol names and metadata.
    member_metadata_bytes_max: int = 1024 * 1024
    #: What the members of one group say of what they want, in all: protocol names and metadata, or
    #: topic names and expressions.
    group_subscriptions_bytes_max: int = 64 * 1024 * 1024
    #: A name (group, member, instance, client) in UTF-8; a record's string ends at 32,767.
    name_bytes_max: int = 16_000
    #: Partitions for which one group may have committed offsets.
    offsets_per_group_max: int = 200_000
    #: Writes that are on their way to the log; one more is refused.
    writes_in_flight_max: int = 10_000
    #: Records that one write carries at most, where it may be cut into several.
    records_per_write_max: int = 1_000
    #: Such a write is cut before a record with which its records' bytes would exceed this.
    write_bytes_max: int = 512 * 1024

    #: Of groups whose partitions the coordinator assigns.
    consumer: ConsumerConfig = ConsumerConfig()

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, ConsumerConfig):
                continue
            lowest = 0 if field.name == "initial_rebalance_delay_ms" else 1
            if not lowest <= value <= (2**53 if field.name.endswith("_ms") else _INT32_MAX):
                raise ConfigError(f"{field.name}={value} must be from {lowest} up to 2^31-1")
        if self.session_timeout_ms_min > self.session_timeout_ms_max:
            raise ConfigError(
                f"session_timeout_ms_min={self.session_timeout_ms_min} is above "
                f"session_timeout_ms_max={self.session_timeout_ms_max}"
            )
        member_bytes_max = max(self.member_metadata_bytes_max, self.consumer.subscription_bytes_max)
        if self.group_subscriptions_bytes_max < member_bytes_max:
            raise ConfigError(
                f"group_subscriptions_bytes_max={self.group_subscriptions_bytes_max} must be at "
                f"least what one member may say, {member_bytes_max}"
            )
        if self.name_bytes_max * 2 + 1 > 32_767:
            raise ConfigError(
                f"name_bytes_max={self.name_bytes_max} must be at most 16383: a member id is made "
                "of two names and must fit into a record's string"
            )
        if self.offset_metadata_length_max * 3 > 32_767:
            raise ConfigError(
                f"offset_metadata_length_max={self.offset_metadata_length_max} must be at most "
                "10922 to fit into a record's string"
            )
