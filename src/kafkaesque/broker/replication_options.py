"""The options of replicas that get their copies: see `kafkaesque.broker.options`."""

from typing import Final

from kafkaesque.model.options import INT64_MAX, Option, OptionType

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
#: Such a rate is no limit; Kafka's default.
UNLIMITED: Final = INT64_MAX

_LISTED: Final = (
    "Replicas whose copies are throttled, as partition:broker, or * for all. Taken for Kafka's "
    "tools: a rate that is set holds for every copy that is made, listed or not."
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
        doc="Who serves consumers: the leaders, or for those that name a rack (client.rack) "
        "replicas in it that are in sync. Kafka's names; nothing of Java is loaded.",
    ),
    Option(
        name=LEADER_RATE,
        type=OptionType.LONG,
        default=UNLIMITED,
        minimum=1,
        maximum=INT64_MAX,
        doc="Bytes per second that this broker sends to replicas that get their copies: those that "
        "are moved, and those that were lost.",
    ),
    Option(
        name=FOLLOWER_RATE,
        type=OptionType.LONG,
        default=UNLIMITED,
        minimum=1,
        maximum=INT64_MAX,
        doc="Bytes per second that this broker is sent for copies that it gets; leaders that send "
        "at the same time share it evenly.",
    ),
    Option(
        name="replica.alter.log.dirs.io.max.bytes.per.second",
        type=OptionType.LONG,
        default=UNLIMITED,
        minimum=1,
        maximum=INT64_MAX,
        doc="Taken for Kafka's tools, which set it back when a move is done: a broker has one "
        "directory, and moves nothing within itself.",
    ),
)
