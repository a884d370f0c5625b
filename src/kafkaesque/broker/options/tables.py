"""Every topic and broker option that is honoured; any other name is refused.

Names, types and defaults are Apache Kafka's where Kafka has the option.
"""

from dataclasses import replace

from kafkaesque.broker.options.absent import absent_broker_option, absent_topic_option
from kafkaesque.broker.options.audit import AUDIT_OPTIONS
from kafkaesque.broker.options.cleaner import BROKER_CLEANER_OPTIONS, TOPIC_CLEANER_OPTIONS
from kafkaesque.broker.options.compression import TOPIC_COMPRESSION_OPTIONS
from kafkaesque.broker.options.encryption import (
    BROKER_ENCRYPTION_OPTIONS,
    TOPIC_ENCRYPTION_OPTIONS,
)
from kafkaesque.broker.options.kafka import KAFKA_OPTIONS
from kafkaesque.broker.options.log import BROKER_UNIT_OPTIONS, TOPIC_LOG_OPTIONS, UNITS
from kafkaesque.broker.options.nats import TOPIC_NATS_OPTIONS
from kafkaesque.broker.options.queues import QUEUES_MAX
from kafkaesque.broker.options.replication import (
    BROKER_REPLICATION_OPTIONS,
    TOPIC_REPLICATION_OPTIONS,
)
from kafkaesque.broker.options.schemas import TOPIC_SCHEMA_OPTIONS
from kafkaesque.model.options import INT32_MAX, INT64_MAX, Option, OptionTable, OptionType, Order

BOOLEAN = OptionType.BOOLEAN
DOUBLE = OptionType.DOUBLE
INT = OptionType.INT
LONG = OptionType.LONG
LIST = OptionType.LIST
STRING = OptionType.STRING

#: A topic option: share groups may write there what they give up.
DEAD_LETTERS_ALLOWED = "errors.deadletterqueue.group.enable"

DAY_MS = 24 * 60 * 60 * 1000

#: What is above its bound would be refused or cut off later, by whom it was not set.
TOPIC_ORDERS = (Order(low="min.compaction.lag.ms", high="max.compaction.lag.ms"),)
_CONSUMER = "group.consumer"
BROKER_ORDERS = (
    Order(low="group.min.session.timeout.ms", high="group.max.session.timeout.ms"),
    *(
        order
        for name in ("session.timeout.ms", "heartbeat.interval.ms")
        for order in (
            Order(low=f"{_CONSUMER}.min.{name}", high=f"{_CONSUMER}.max.{name}"),
            Order(low=f"{_CONSUMER}.min.{name}", high=f"{_CONSUMER}.{name}"),
            Order(low=f"{_CONSUMER}.{name}", high=f"{_CONSUMER}.max.{name}"),
        )
    ),
    Order(
        low=f"{_CONSUMER}.heartbeat.interval.ms",
        high=f"{_CONSUMER}.session.timeout.ms",
        is_strict=True,
    ),
    Order(low="log.cleaner.min.compaction.lag.ms", high="log.cleaner.max.compaction.lag.ms"),
)

TOPIC_OPTIONS = OptionTable(
    "topic",
    [
        Option(
            name="cleanup.policy",
            type=LIST,
            default="delete",
            choices=("delete", "compact"),
            may_be_empty=True,
            broker_name="log.cleanup.policy",
            doc="What happens to old records: whole segments are deleted, or only the last record "
            "of each key is kept, or both; empty: nothing.",
        ),
        *TOPIC_COMPRESSION_OPTIONS,
        Option(
            name="index.interval.bytes",
            type=INT,
            default=4096,
            minimum=0,
            maximum=INT32_MAX,
            broker_name="log.index.interval.bytes",
            doc="An index entry is made each time this many bytes were appended.",
        ),
        Option(
            name="max.message.bytes",
            type=INT,
            default=1_048_588,
            minimum=0,
            maximum=INT32_MAX,
            broker_name="message.max.bytes",
            doc="The largest record batch that is accepted.",
        ),
        Option(
            name="message.timestamp.type",
            type=STRING,
            default="CreateTime",
            choices=("CreateTime", "LogAppendTime"),
            broker_name="log.message.timestamp.type",
            doc="Whether a record's timestamp is the producer's or the time of the append.",
        ),
        Option(
            name="min.insync.replicas",
            type=INT,
            default=1,
            minimum=1,
            maximum=INT32_MAX,
            broker_name="min.insync.replicas",
            doc="With acks=all a write is refused when fewer replicas are in sync, and committed "
            "when the majority and at least this many have it.",
        ),
        Option(
            name=DEAD_LETTERS_ALLOWED,
            type=BOOLEAN,
            default=False,
            doc="Whether share groups may write here what they give up (KIP-1191).",
        ),
        Option(
            name="retention.bytes",
            type=LONG,
            default=-1,
            minimum=-INT64_MAX - 1,
            maximum=INT64_MAX,
            broker_name="log.retention.bytes",
            doc="Old segments are deleted while a partition is larger; below 0 is without limit.",
        ),
        Option(
            name="retention.ms",
            type=LONG,
            default=7 * DAY_MS,
            minimum=-1,
            maximum=INT64_MAX,
            broker_name="log.retention.ms",
            broker_synonyms=("log.retention.minutes", "log.retention.hours"),
            doc="Segments whose newest record is older are deleted; -1 is without limit.",
        ),
        Option(
            name="segment.bytes",
            type=INT,
            default=1024**3,
            minimum=1024**2,
            maximum=INT32_MAX,
            broker_name="log.segment.bytes",
            doc="A segment file is closed, and a new one begun, at this size.",
        ),
        Option(
            name="segment.ms",
            type=LONG,
            default=7 * DAY_MS,
            minimum=1,
            maximum=INT64_MAX,
            broker_name="log.roll.ms",
            broker_synonyms=("log.roll.hours",),
            doc="A segment file is closed at this age even if it is small.",
        ),
        Option(
            name="unclean.leader.election.enable",
            type=BOOLEAN,
            default=False,
            broker_name="unclean.leader.election.enable",
            doc="true: if too few replicas are left to be sure of every committed record, the "
            "partition continues with what they have; false: it waits for its other replicas.",
        ),
        Option(
            name="write.caching",
            type=BOOLEAN,
            default=False,
            broker_name="log.write.caching",
            doc="true: a write is acknowledged from the page cache, before it is synced, and may "
            "be lost if a majority of the machines loses power at once. If the end of a "
            "transaction is lost and its records are kept, read-committed consumers wait at "
            "its first record until it is aborted, though it may have been committed "
            "(kafkaesque txn producers TOPIC:PARTITION --open, then txn abort).",
        ),
        *TOPIC_ENCRYPTION_OPTIONS,
        *TOPIC_CLEANER_OPTIONS,
        *TOPIC_LOG_OPTIONS,
        *TOPIC_REPLICATION_OPTIONS,
        *TOPIC_SCHEMA_OPTIONS,
        *TOPIC_NATS_OPTIONS,
    ],
    absent_topic_option,
    TOPIC_ORDERS,
)


def _of_broker(option: Option, name: str) -> Option:
    """Return the broker option that gives a topic option its default."""
    made = replace(
        option,
        name=name,
        broker_name=None,
        broker_synonyms=(),
        is_unset=name in UNITS,
        doc=f"Default of the topic option {option.name}. {option.doc}",
    )
    # As in Kafka: what a topic may have and a broker may not.
    return replace(made, minimum=1, also=-1) if name == "log.retention.ms" else made


BROKER_OPTIONS = OptionTable(
    "broker",
    [
        *AUDIT_OPTIONS,
        *BROKER_ENCRYPTION_OPTIONS,
        Option(
            name="auto.create.topics.enable",
            type=BOOLEAN,
            default=True,
            doc="Whether a topic is created when a client asks for it.",
        ),
        Option(
            name="auto.leader.rebalance.enable",
            type=BOOLEAN,
            default=True,
            doc="Whether leadership goes back to each partition's preferred replica by itself.",
        ),
        Option(
            name="leader.imbalance.check.interval.seconds",
            type=LONG,
            default=300,
            minimum=1,
            maximum=INT32_MAX,
            doc="How often partitions that are not led by their preferred replica are looked for.",
        ),
        Option(
            name="connections.max.idle.ms",
            type=LONG,
            default=600_000,
            minimum=-1,
            maximum=INT64_MAX,
            dynamic=False,
            doc="A Kafka client that has sent no request and read no response for this long is "
            "disconnected; -1 is never.",
        ),
        Option(
            name="max.connections",
            type=INT,
            default=INT32_MAX,
            minimum=1,
            maximum=INT32_MAX,
            doc="Connections of clients to one broker, at all of its ports together; one more is "
            "closed at once. Those to the admin port count, and are not refused. 20,000 to a port "
            "is the most in any case, and less where the system allows fewer open files.",
        ),
        Option(
            name="max.connections.per.ip",
            type=INT,
            default=INT32_MAX,
            minimum=1,
            maximum=INT32_MAX,
            doc="Connections of clients from one address to one broker, at all of its ports "
            "together; one more is closed at once. Those to the admin port count, and are not "
            "refused.",
        ),
        Option(
            name="max.connections.per.user",
            type=INT,
            default=INT32_MAX,
            minimum=1,
            maximum=INT32_MAX,
            doc="Connections of one user to one broker, at all of its ports together; one more is "
            "closed at once. A client that is not authenticated is the user ANONYMOUS.",
        ),
        Option(
            name="connections.max.reauth.ms",
            type=LONG,
            default=0,
            minimum=0,
            maximum=INT64_MAX,
            dynamic=False,
            doc="A client that has logged in is told to do so again within this time (KIP-368), "
            "or is cut off. 0: as long as its credential is valid.",
        ),
        Option(
            name="default.replication.factor",
            type=INT,
            default=3,
            minimum=1,
            maximum=32767,
            doc="Replicas of a topic that is created without a number of replicas; fewer if there "
            "are fewer brokers.",
        ),
        Option(
            name="num.partitions",
            type=INT,
            default=1,
            minimum=1,
            maximum=100_000,
            doc="Partitions of a topic that is created without a number of partitions.",
        ),
        Option(
            name="offsets.topic.num.partitions",
            type=INT,
            default=50,
            minimum=1,
            maximum=1000,
            doc="Partitions of the topic that holds committed offsets, when it is created.",
        ),
        Option(
            name="offsets.topic.replication.factor",
            type=INT,
            default=3,
            minimum=1,
            maximum=32767,
            doc="Replicas of that topic; fewer when there are fewer brokers.",
        ),
        Option(
            name="offsets.topic.segment.bytes",
            type=INT,
            default=100 * 1024**2,
            minimum=1024**2,
            maximum=INT32_MAX,
            doc="The size of that topic's segment files, when it is created.",
        ),
        Option(
            name="offsets.retention.minutes",
            type=INT,
            default=10080,
            minimum=1,
            maximum=INT32_MAX,
            dynamic=False,
            doc="Committed offsets of a group without members are kept this long.",
        ),
        Option(
            name="offset.metadata.max.bytes",
            type=INT,
            default=4096,
            minimum=0,
            maximum=INT32_MAX,
            dynamic=False,
            doc="The longest text that may be committed with an offset.",
        ),
        Option(
            name="group.initial.rebalance.delay.ms",
            type=INT,
            default=3000,
            minimum=0,
            maximum=INT32_MAX,
            dynamic=False,
            doc="How long a new group of the classic protocol waits for more members before its "
            "first rebalance. `kafkaesque up` sets 0, as the configuration that Apache Kafka ships "
            "for trying it does.",
        ),
        Option(
            name="group.max.size",
            type=INT,
            default=10_000,
            minimum=1,
            maximum=INT32_MAX,
            dynamic=False,
            doc="Members that one group may have.",
        ),
        Option(
            name="group.min.session.timeout.ms",
            type=INT,
            default=6000,
            minimum=1,
            maximum=INT32_MAX,
            dynamic=False,
            doc="The shortest session timeout that a member may ask for.",
        ),
        Option(
            name="group.max.session.timeout.ms",
            type=INT,
            default=1_800_000,
            minimum=1,
            maximum=INT32_MAX,
            dynamic=False,
            doc="The longest session timeout that a member may ask for.",
        ),
        Option(
            name="group.consumer.session.timeout.ms",
            type=INT,
            default=45_000,
            minimum=1,
            maximum=INT32_MAX,
            dynamic=False,
            doc="A consumer of the new protocol is removed from its group after this long without "
            "a heartbeat.",
        ),
        Option(
            name="group.consumer.min.session.timeout.ms",
            type=INT,
            default=45_000,
            minimum=1,
            maximum=INT32_MAX,
            dynamic=False,
            doc="The shortest that this session timeout can be.",
        ),
        Option(
            name="group.consumer.max.session.timeout.ms",
            type=INT,
            default=60_000,
            minimum=1,
            maximum=INT32_MAX,
            dynamic=False,
            doc="The longest that this session timeout can be.",
        ),
        Option(
            name="group.consumer.heartbeat.interval.ms",
            type=INT,
            default=5000,
            minimum=1,
            maximum=INT32_MAX,
            dynamic=False,
            doc="How often consumers of the new protocol are told to send heartbeats.",
        ),
        Option(
            name="group.consumer.min.heartbeat.interval.ms",
            type=INT,
            default=5000,
            minimum=1,
            maximum=INT32_MAX,
            dynamic=False,
            doc="The shortest that this interval can be.",
        ),
        Option(
            name="group.consumer.max.heartbeat.interval.ms",
            type=INT,
            default=15_000,
            minimum=1,
            maximum=INT32_MAX,
            dynamic=False,
            doc="The longest that this interval can be.",
        ),
        Option(
            name="group.consumer.max.size",
            type=INT,
            default=10_000,
            minimum=1,
            maximum=INT32_MAX,
            dynamic=False,
            doc="Members that one group of the new protocol may have.",
        ),
        Option(
            name="group.consumer.assignors",
            type=LIST,
            default="uniform,range",
            choices=("uniform", "range"),
            dynamic=False,
            doc="How the coordinator may assign partitions; the first one is used if the members "
            "do not ask for one.",
        ),
        Option(
            name="group.consumer.migration.policy",
            type=STRING,
            default="bidirectional",
            choices=("disabled", "upgrade", "downgrade", "bidirectional"),
            dynamic=False,
            doc="Which way groups with members may change between the classic protocol and the "
            "new one.",
        ),
        Option(
            name="user.queues.max",
            type=INT,
            default=20_000,
            minimum=1,
            maximum=QUEUES_MAX,
            doc="Queues that one user may have made, so that nobody takes all that a cluster can "
            "have. It does not count where nobody logs in.",
        ),
        Option(
            name="broker.session.timeout.ms",
            type=INT,
            default=9_000,
            minimum=100,
            maximum=INT32_MAX,
            doc="A partition that has lost the majority of its replicas, and has been without a "
            "leader for this long, is re-formed from the surviving replicas. A lost broker "
            "stays in the metadata that clients get for this long; it leads nothing, and "
            "DescribeCluster does not list it as alive.",
        ),
        Option(
            name="replica.lag.time.max.ms",
            type=LONG,
            default=30_000,
            minimum=100,
            maximum=INT64_MAX,
            dynamic=False,
            doc="A replica that has not been caught up for this long is not in sync.",
        ),
        Option(
            name="producer.id.expiration.ms",
            type=INT,
            default=DAY_MS,
            minimum=1,
            maximum=INT32_MAX,
            dynamic=False,
            doc="A producer id that has written nothing for this long is forgotten.",
        ),
        Option(
            name="transaction.state.log.num.partitions",
            type=INT,
            default=50,
            minimum=1,
            maximum=1000,
            doc="Partitions of the topic that holds transactions, when it is created.",
        ),
        Option(
            name="transaction.state.log.replication.factor",
            type=INT,
            default=3,
            minimum=1,
            maximum=32767,
            doc="Replicas of that topic; fewer when there are fewer brokers.",
        ),
        Option(
            name="transaction.state.log.segment.bytes",
            type=INT,
            default=100 * 1024**2,
            minimum=1024**2,
            maximum=INT32_MAX,
            doc="The size of that topic's segment files, when it is created.",
        ),
        Option(
            name="transaction.max.timeout.ms",
            type=INT,
            default=900_000,
            minimum=1,
            maximum=INT32_MAX,
            dynamic=False,
            doc="The longest time that a producer may ask for, for one transaction.",
        ),
        Option(
            name="transactional.id.expiration.ms",
            type=INT,
            default=7 * DAY_MS,
            minimum=1,
            maximum=INT32_MAX,
            dynamic=False,
            doc="A transactional id that was not used for this long is forgotten.",
        ),
        Option(
            name="transaction.remove.expired.transaction.cleanup.interval.ms",
            type=INT,
            default=3_600_000,
            minimum=1,
            maximum=INT32_MAX,
            dynamic=False,
            doc="How often such ids are looked for.",
        ),
        Option(
            name="log.retention.check.interval.ms",
            type=LONG,
            default=300_000,
            minimum=1,
            maximum=INT64_MAX,
            doc="How often old segments are looked for.",
        ),
        Option(
            name="log.scrub.interval.ms",
            type=LONG,
            default=DAY_MS,
            minimum=0,
            maximum=INT64_MAX,
            doc="How often all closed segments are read and compared with their checksums, so that "
            "a damaged copy is known before it is needed; 0: never.",
        ),
        Option(
            name="log.scrub.io.max.bytes.per.second",
            type=DOUBLE,
            default=float(8 * 1024**2),
            minimum=1,
            doc="Bytes that are read for this per second, on average.",
        ),
        *BROKER_CLEANER_OPTIONS,
        *BROKER_REPLICATION_OPTIONS,
        *(
            _of_broker(option, option.broker_name)
            for option in TOPIC_OPTIONS
            if option.broker_name is not None
        ),
        *BROKER_UNIT_OPTIONS,
        *KAFKA_OPTIONS,
    ],
    absent_broker_option,
    BROKER_ORDERS,
)
