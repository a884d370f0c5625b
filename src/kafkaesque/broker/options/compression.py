"""The options of compression: see `kafkaesque.broker.options.tables`."""

from kafkaesque.model.options import Option, OptionType

TOPIC_COMPRESSION_OPTIONS = (
    Option(
        name="compression.type",
        type=OptionType.STRING,
        default="producer",
        choices=("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
        broker_name="compression.type",
        doc="producer: batches stay as producers compress them. Otherwise the leader compresses, "
        "or decompresses, those that come in any other way, which takes time on its threads.",
    ),
    Option(
        name="compression.gzip.level",
        type=OptionType.INT,
        default=-1,
        minimum=1,
        maximum=9,
        also=-1,
        broker_name="compression.gzip.level",
        doc="How hard gzip tries; -1 is 6. For what the broker compresses.",
    ),
    Option(
        name="compression.lz4.level",
        type=OptionType.INT,
        default=9,
        minimum=1,
        maximum=17,
        broker_name="compression.lz4.level",
        doc="How hard lz4 tries; 9 is the fast compressor, as in Kafka, and any other number a "
        "level of the high one.",
    ),
    Option(
        name="compression.zstd.level",
        type=OptionType.INT,
        default=3,
        minimum=-131_072,
        maximum=22,
        broker_name="compression.zstd.level",
        doc="How hard zstd tries.",
    ),
)
