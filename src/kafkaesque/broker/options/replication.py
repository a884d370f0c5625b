"""The options of replicas that get their copies: see `kafkaesque.broker.options.tables`."""

from typing import Final

from kafkaesque.model.options import INT64_MAX, Option, OptionType

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
#: Such a rate is no limit; Kafka's default.
UNLIMITED: Final = INT64_MAX

_LISTED: Final = (
    "Replicas to throttle, as partition:broker, or * for all. Accepted for Kafka's tools, without "
    "effect: a rate applies to every replica that is being copied, listed or not."
)

TOPIC_REPLICATION_OPTIONS = tuple(
    Option(name=name, type=OptionType.LIST, default="", doc=_LISTED)
    for name in (
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
    )
)

SELECTOR: Final = "replica.selector.class"
LEADER_SELECTOR: Final = "org.apache.kafka.common.replica.LeaderSelector"
RACK_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

BROKER_REPLICATION_OPTIONS = (
    Option(
        name=SELECTOR,
        type=OptionType.STRING,
        default=LEADER_SELECTOR,
        choices=(LEADER_SELECTOR, RACK_SELECTOR),
        doc="Which replicas serve consumers: leaders only, or, for consumers with client.rack, "
        "in-sync replicas in that rack. The values are Kafka's class names; no Java is loaded.",
    ),
    Option(
        name=LEADER_RATE,
        type=OptionType.LONG,
        default=UNLIMITED,
        minimum=1,
        maximum=INT64_MAX,
        doc="Bytes per second that this broker sends to replicas that are being copied: those that "
        "are moved, and those that are rebuilt after a loss.",
    ),
    Option(
        name=FOLLOWER_RATE,
        type=OptionType.LONG,
        default=UNLIMITED,
        minimum=1,
        maximum=INT64_MAX,
        doc="Bytes per second that this broker receives for replicas that are being copied; "
        "leaders that send at the same time share it evenly.",
    ),
    Option(
        name="replica.alter.log.dirs.io.max.bytes.per.second",
        type=OptionType.LONG,
        default=UNLIMITED,
        minimum=1,
        maximum=INT64_MAX,
        doc="Accepted for Kafka's tools, which reset it after a move. It has no effect: a broker "
        "has one data directory, and moves nothing within it.",
    ),
)
