"""Options of groups of the new kind."""

from dataclasses import dataclass
from enum import Enum

from kafkaesque.model.errors import ConfigError

_INT32_MAX = 2**31 - 1
ASSIGNORS = ("uniform", "range")


class MigrationPolicy(Enum):
    """Which way groups with members may change their kind."""

    DISABLED = "disabled"
    #: From classic to the new kind.
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerTimes:
    """What one group goes by: the coordinator's own times, or what was set for the group."""

    #: consumer.session.timeout.ms
    session_timeout_ms: int
    #: consumer.heartbeat.interval.ms
    heartbeat_interval_ms: int
    #: consumer.assignment.interval.ms
    assignment_interval_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig:
    """Options of one coordinator; Apache Kafka's option name is given where it has one.

    Raises:
        ConfigError: a value is out of range, or two contradict each other.
    """

    #: group.consumer.session.timeout.ms
    session_timeout_ms: int = 45_000
    #: group.consumer.heartbeat.interval.ms
    heartbeat_interval_ms: int = 5_000
    #: group.consumer.max.size
    members_max: int = 10_000
    #: group.consumer.assignors; the first one is taken where members do not ask for one.
    assignors: tuple[str, ...] = ASSIGNORS
    #: group.consumer.migration.policy
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    #: Names and expression of one member.
    subscription_bytes_max: int = 1024 * 1024
    #: Topic names that members of one group subscribe to; what many have in common counts once. A
    #: target takes time in proportion to them.
    different_topics_max: int = 200_000
    #: Expressions that they subscribe by; each is matched against all topics when those change.
    different_expressions_max: int = 1_000
    #: Rebalance timeout where a member has never said one.
    rebalance_timeout_ms: int = 300_000

    @property
    def times(self) -> ConsumerTimes:
        """What holds for groups for which nothing else was set."""
        return ConsumerTimes(
            session_timeout_ms=self.session_timeout_ms,
            heartbeat_interval_ms=self.heartbeat_interval_ms,
        )

    def __post_init__(self) -> None:
        for name in (
            "session_timeout_ms",
            "heartbeat_interval_ms",
            "members_max",
            "subscription_bytes_max",
            "different_topics_max",
            "different_expressions_max",
            "rebalance_timeout_ms",
        ):
            if not 1 <= getattr(self, name) <= _INT32_MAX:
                raise ConfigError(f"{name}={getattr(self, name)} must be from 1 up to 2^31-1")
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                f"heartbeat_interval_ms={self.heartbeat_interval_ms} must be below "
                f"session_timeout_ms={self.session_timeout_ms}"
            )
        unknown = [each for each in self.assignors if each not in ASSIGNORS]
        if unknown or not self.assignors:
            raise ConfigError(f"assignors={self.assignors} must be some of {ASSIGNORS}")
