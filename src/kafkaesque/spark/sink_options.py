"""What a sink writes, where to, and how surely."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafkaesque.model.compression import Codec
from kafkaesque.spark.cluster import ClusterOptions
from kafkaesque.spark.cluster_options import parse_cluster
from kafkaesque.spark.errors import WrongOption
from kafkaesque.spark.offsets import NUMBER_MAX
from kafkaesque.spark.options import OptionReader
from kafkaesque.spark.options_file import with_options_file

BATCH_BYTES = 256 << 10
_BATCH_BYTES_MAX = 1 << 28
_TIMEOUT_MS_MAX = 900_000
#: Longer than a task takes; whoever comes after a task that died ends its transaction at once.
_TIMEOUT_MS = 600_000
_EXACTLY_ONCE = "exactly-once"
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_PREFIX_MAX = 100
_PREFIX = re.compile(rf"[a-zA-Z0-9._-]{{0,{_PREFIX_MAX}}}")
_CODECS = {codec.name.lower(): codec for codec in Codec}

#: What Spark itself puts among a sink's options.
_OF_SPARK = ("checkpointLocation", "path", "queryName")
_NAMES = (
    "deliveryGuarantee",
    "includeHeaders",
    "keepTimestamps",
    "topic",
    "transactionalIdPrefix",
    "txnAppId",
    "txnVersion",
    "kafka.batch.size",
    "kafka.compression.type",
    "kafka.transaction.timeout.ms",
    *_OF_SPARK,
)
_TYPES = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
    "timestamp": ("timestamp",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """All that a user can say about a sink."""

    cluster: ClusterOptions
    #: None: the column `topic` says it, row by row.
    topic: str | None = None
    is_exactly_once: bool = True
    codec: Codec = Codec.NONE
    #: A record's time is that of the column `timestamp`, not that of the writing.
    keeps_timestamps: bool = False
    #: A table that is written once under this name and number, however often it is written.
    written_as: tuple[str, int] | None = None
    #: Of a batch before compression.
    batch_bytes: int = BATCH_BYTES
    transaction_timeout_ms: int = _TIMEOUT_MS
    #: Of transactional ids, and of the groups that keep their markers.
    id_prefix: str = ""


def parse_sink(given: Mapping[str, str]) -> SinkOptions:
    """Return the options of a sink.

    Raises:
        WrongOption: one is unknown, missing or wrong.
    """
    options = OptionReader(with_options_file(given))
    options.refuse_unknown(_NAMES)
    options.flag("includeHeaders", default=False)
    guarantee = options.choice("deliveryGuarantee", (_EXACTLY_ONCE, "at-least-once"), _EXACTLY_ONCE)
    return SinkOptions(
        cluster=parse_cluster(options),
        topic=_topic(options),
        written_as=_written_as(options),
        is_exactly_once=guarantee == _EXACTLY_ONCE,
        keeps_timestamps=options.flag("keepTimestamps", default=False),
        id_prefix=_id_prefix(options),
        codec=_CODECS[options.choice("kafka.compression.type", _CODECS, "none")],
        batch_bytes=options.number(
            "kafka.batch.size", least=1, most=_BATCH_BYTES_MAX, default=BATCH_BYTES
        ),
        transaction_timeout_ms=options.number(
            "kafka.transaction.timeout.ms", least=1000, most=_TIMEOUT_MS_MAX, default=_TIMEOUT_MS
        ),
    )


def _id_prefix(options: OptionReader) -> str:
    prefix = options.text("transactionalIdPrefix") or ""
    if not _PREFIX.fullmatch(prefix):
        raise WrongOption(
            f"the option transactionalIdPrefix is at most {_PREFIX_MAX} letters, digits, '.', '_' "
            f"and '-', not {prefix!r}"
        )
    return prefix


def _topic(options: OptionReader) -> str | None:
    topic = options.text("topic")
    if topic is None:
        return None
    if topic in (".", "..") or not _TOPIC.fullmatch(topic):
        raise WrongOption(
            f"the option topic is the name of a topic, which is 1 to 249 letters, digits, '.', '_'"
            f" and '-', not {topic!r}; without it the column topic says it"
        )
    return topic


def _written_as(options: OptionReader) -> tuple[str, int] | None:
    number = options.maybe_number("txnVersion", least=0, most=NUMBER_MAX)
    if number is None and not options.has("txnAppId"):
        return None
    if number is None or not options.has("txnAppId"):
        raise WrongOption("the options txnAppId and txnVersion are set together or not at all")
    return options.required("txnAppId"), number


def check_columns(columns: Sequence[tuple[str, str]], options: SinkOptions) -> None:
    """Accept a table of these columns and types, named as Spark does; others are ignored.

    Raises:
        WrongOption: what is needed is missing, or of another type.
    """
    found = {name.lower(): kind for name, kind in columns}
    for name, kinds in _TYPES.items():
        if name == "timestamp" and not options.keeps_timestamps:
            continue
        if name in found and found[name] not in kinds:
            raise WrongOption(
                f"the column {name} has the type {found[name]}; it has to be {' or '.join(kinds)}"
            )
    if "value" not in found:
        raise WrongOption(f"there is no column value among {', '.join(found)}")
    if options.keeps_timestamps and "timestamp" not in found:
        raise WrongOption("keepTimestamps is set, and there is no column timestamp")
    if options.topic is None and "topic" not in found:
        raise WrongOption("there is neither the option topic nor a column topic")
