"""The options of compaction, topics' and brokers': see `kafkaesque.broker.options`."""

from kafkaesque.model.options import INT64_MAX, Option, OptionType

DAY_MS = 24 * 60 * 60 * 1000
#: Kafka's way to say "without limit" for a rate.
WITHOUT_LIMIT = 1.7976931348623157e308

TOPIC_CLEANER_OPTIONS = (
    Option(
        name="min.cleanable.dirty.ratio",
        type=OptionType.DOUBLE,
        default=0.5,
        minimum=0,
        maximum=1,
        broker_name="log.cleaner.min.cleanable.ratio",
        doc="A compacted partition is cleaned when so much of its closed segments is new since the "
        "last time.",
    ),
    Option(
        name="delete.retention.ms",
        type=OptionType.LONG,
        default=DAY_MS,
        minimum=0,
        maximum=INT64_MAX,
        broker_name="log.cleaner.delete.retention.ms",
        doc="How long compaction leaves records without a value, and the ends of transactions, for "
        "readers to see them; for longer where a replica has yet to get them.",
    ),
    Option(
        name="min.compaction.lag.ms",
        type=OptionType.LONG,
        default=0,
        minimum=0,
        maximum=INT64_MAX,
        broker_name="log.cleaner.min.compaction.lag.ms",
        doc="Compaction leaves records alone that are younger.",
    ),
    Option(
        name="max.compaction.lag.ms",
        type=OptionType.LONG,
        default=INT64_MAX,
        minimum=1,
        maximum=INT64_MAX,
        broker_name="log.cleaner.max.compaction.lag.ms",
        doc="What has waited for compaction for longer is compacted, however little it is; the "
        "segment file that is written is closed at this age.",
    ),
)

BROKER_CLEANER_OPTIONS = (
    Option(
        name="log.cleaner.enable",
        type=OptionType.BOOLEAN,
        default=True,
        doc="Whether compacted topics are compacted; without it they keep everything.",
    ),
    Option(
        name="log.cleaner.backoff.ms",
        type=OptionType.LONG,
        default=15_000,
        minimum=0,
        maximum=INT64_MAX,
        doc="How long compaction rests when no partition needs it.",
    ),
    Option(
        name="log.cleaner.io.max.bytes.per.second",
        type=OptionType.DOUBLE,
        default=WITHOUT_LIMIT,
        minimum=1,
        doc="Bytes that compaction reads and writes per second, on average.",
    ),
    Option(
        name="log.cleaner.dedupe.buffer.size",
        type=OptionType.LONG,
        default=128 * 1024**2,
        minimum=1024**2,
        maximum=INT64_MAX,
        doc="Memory for the keys that one run of compaction can tell apart; what has more of them "
        "takes several runs.",
    ),
)

__all__ = ["BROKER_CLEANER_OPTIONS", "TOPIC_CLEANER_OPTIONS"]
