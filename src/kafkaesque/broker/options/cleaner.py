"""The options of compaction, topics' and brokers': see `kafkaesque.broker.options.tables`."""

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
        doc="A compacted partition is cleaned when this share of its closed segments is new since "
        "the last run.",
    ),
    Option(
        name="delete.retention.ms",
        type=OptionType.LONG,
        default=DAY_MS,
        minimum=0,
        maximum=INT64_MAX,
        broker_name="log.cleaner.delete.retention.ms",
        doc="How long compaction keeps tombstones (records without a value) and transaction "
        "markers, so that consumers see them; longer if a replica does not have them yet.",
    ),
    Option(
        name="min.compaction.lag.ms",
        type=OptionType.LONG,
        default=0,
        minimum=0,
        maximum=INT64_MAX,
        broker_name="log.cleaner.min.compaction.lag.ms",
        doc="Records that are younger than this are not compacted.",
    ),
    Option(
        name="max.compaction.lag.ms",
        type=OptionType.LONG,
        default=INT64_MAX,
        minimum=1,
        maximum=INT64_MAX,
        broker_name="log.cleaner.max.compaction.lag.ms",
        doc="Records that have waited for compaction for this long are compacted, however few they "
        "are; the active segment is closed at this age.",
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
        doc="Memory for the keys of one run of compaction; a partition with more keys takes "
        "several runs.",
    ),
)

__all__ = ["BROKER_CLEANER_OPTIONS", "TOPIC_CLEANER_OPTIONS"]
