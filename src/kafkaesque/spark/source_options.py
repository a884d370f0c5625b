"""What a source reads: which topics, from where to where, in which pieces."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkaesque.spark.cluster import ClusterOptions
from kafkaesque.spark.cluster_options import parse_cluster
from kafkaesque.spark.errors import WrongOption
from kafkaesque.spark.offsets import (
    EARLIEST,
    LATEST,
    NUMBER_MAX,
    Offsets,
    Partition,
    parse_offsets,
    parse_partitions,
)
from kafkaesque.spark.options import OptionReader, first_set
from kafkaesque.spark.options_file import with_options_file
from kafkaesque.spark.where import EVERYTHING, Where, parse_where

#: In the order of Spark's own Kafka source.
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
#: Partitions that a query may be cut into.
PARTITIONS_MAX = 1_000_000
FETCH_BYTES = 4 << 20
#: What a task of a micro-batch takes over of a next partition's offsets: a task takes tens of
#: milliseconds by itself.
_TASK_OFFSETS = 1000
_FETCH_BYTES_MAX = 1 << 28
_TRIGGER_DELAY_MS = 900_000

#: Spark's own source takes these for its Java consumers, and the last is a sink's, whose file of
#: options a source may share; here they change nothing.
_OF_NO_CONSEQUENCE = (
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "transactionalIdPrefix",
)
_NAMES = (
    "assign",
    "subscribe",
    "subscribePattern",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "columns",
    "failOnDataLoss",
    "groupIdPrefix",
    "includeHeaders",
    "maxBytesPerTrigger",
    "maxOffsetsPerTrigger",
    "maxRecordsPerPartition",
    "maxTriggerDelay",
    "minBytesPerTrigger",
    "minOffsetsPerTrigger",
    "minPartitions",
    "where",
    *_OF_NO_CONSEQUENCE,
)
_ENDS = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where reading begins or ends; exactly one field is set, the first where none is."""

    #: LATEST or EARLIEST, of every partition.
    everywhere: int = EARLIEST
    #: An offset, LATEST or EARLIEST for each partition.
    offsets: Offsets = field(default_factory=dict)
    #: The first record at or after a time, for each partition.
    timestamps: Offsets = field(default_factory=dict)
    #: The same for all partitions.
    timestamp: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """All that a user can say about a source."""

    cluster: ClusterOptions
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: frozenset[Partition] = frozenset()
    starting: Position
    ending: Position
    #: Whether a time after the last record means its end, and is no error.
    is_late_start_latest: bool = False
    columns: tuple[str, ...] = COLUMNS[:-1]
    #: Which records of the topics are in the table.
    where: Where = EVERYTHING
    fails_on_data_loss: bool = True
    is_read_committed: bool = True
    group_id: str | None = None
    partitions_min: int | None = None
    partition_records_max: int | None = None
    trigger_offsets_max: int | None = None
    trigger_offsets_min: int | None = None
    #: Bytes as brokers keep them; see `waiting_bytes`.
    trigger_bytes_max: int | None = None
    trigger_bytes_min: int | None = None
    trigger_delay_ms_max: int = _TRIGGER_DELAY_MS
    fetch_bytes: int = FETCH_BYTES
    fetch_wait_ms: int = 500

    @property
    def task_offsets(self) -> int:
        """How many offsets of several partitions one task of a micro-batch reads."""
        is_cut = self.partitions_min is not None or self.partition_records_max is not None
        return 0 if is_cut else _TASK_OFFSETS

    @property
    def limits_bytes(self) -> bool:
        """Whether a micro-batch depends on how many bytes wait."""
        return self.trigger_bytes_max is not None or self.trigger_bytes_min is not None

    @property
    def is_start_moving(self) -> bool:
        """Whether a query begins at another offset when it begins again: at the latest."""
        start = self.starting
        return (
            start == Position(everywhere=LATEST)
            or LATEST in start.offsets.values()
            or (self.is_late_start_latest and bool(start.timestamps or start.timestamp is not None))
        )


def parse_source(given: Mapping[str, str], *, is_stream: bool) -> SourceOptions:
    """Return the options of a source.

    Raises:
        WrongOption: one is unknown, missing or wrong.
    """
    options = OptionReader(with_options_file(given))
    _refuse_names_of_tables(options)
    options.refuse_unknown(_NAMES)
    topics, pattern, assigned = _subscription(options)
    offsets_min, offsets_max = _per_trigger(options, "Offsets")
    bytes_min, bytes_max = _per_trigger(options, "Bytes")
    isolation = ("read_committed", "read_uncommitted")
    return SourceOptions(
        cluster=parse_cluster(options),
        topics=topics,
        pattern=pattern,
        assigned=assigned,
        starting=_starting(options, is_stream),
        ending=_ending(options, is_stream),
        is_late_start_latest=options.choice(
            "startingOffsetsByTimestampStrategy", ("error", "latest"), "error"
        )
        == "latest",
        columns=_columns(options),
        where=_where(options, is_stream),
        fails_on_data_loss=options.flag("failOnDataLoss", default=True),
        is_read_committed=options.choice("kafka.isolation.level", isolation, isolation[0])
        == isolation[0],
        group_id=_group_id(options),
        partitions_min=options.maybe_number("minPartitions", least=1, most=PARTITIONS_MAX),
        partition_records_max=options.maybe_number(
            "maxRecordsPerPartition", least=1, most=NUMBER_MAX
        ),
        trigger_offsets_max=offsets_max,
        trigger_offsets_min=offsets_min,
        trigger_bytes_max=bytes_max,
        trigger_bytes_min=bytes_min,
        trigger_delay_ms_max=options.duration_ms("maxTriggerDelay", _TRIGGER_DELAY_MS),
        fetch_bytes=options.number(
            "kafka.max.partition.fetch.bytes", least=1, most=_FETCH_BYTES_MAX, default=FETCH_BYTES
        ),
        fetch_wait_ms=options.number("kafka.fetch.max.wait.ms", least=0, most=30_000, default=500),
    )


def _refuse_names_of_tables(options: OptionReader) -> None:
    """Refuse what Spark adds to the options where it is told of files or of a catalog's table."""
    if options.has("provider"):
        raise WrongOption(
            "a catalog keeps no tables of topics, as CREATE TABLE … USING kafkaesque would have it:"
            " CREATE TEMPORARY VIEW … USING kafkaesque OPTIONS (…) names one for a session"
        )
    if options.has("path"):
        raise WrongOption(
            "topics are named by the option subscribe, not by a path such as that of load(…)"
        )


def _subscription(
    options: OptionReader,
) -> tuple[tuple[str, ...], str | None, frozenset[Partition]]:
    names = [each for each in ("assign", "subscribe", "subscribePattern") if options.has(each)]
    if len(names) != 1:
        raise WrongOption(
            "one of the options subscribe, subscribePattern and assign says what to read;"
            f" {'none' if not names else ' and '.join(names)} is set"
        )
    text = options.required(names[0])
    if names[0] == "subscribe":
        return options.words("subscribe", text), None, frozenset()
    if names[0] == "assign":
        return (), None, parse_partitions("assign", text)
    try:
        re.compile(text)
    except re.error as error:
        raise WrongOption(
            f"the option subscribePattern is no regular expression: {error}"
        ) from None
    return (), text, frozenset()


def _starting(options: OptionReader, is_stream: bool) -> Position:
    default = Position(everywhere=LATEST if is_stream else EARLIEST)
    found = first_set(
        options,
        {
            "startingTimestamp": lambda text: _timestamp(options, "startingTimestamp"),
            "startingOffsetsByTimestamp": lambda text: Position(
                timestamps=_offsets("startingOffsetsByTimestamp", text, least=0)
            ),
            "startingOffsets": lambda text: _words_or_offsets("startingOffsets", text, EARLIEST),
        },
        default,
    )
    if not is_stream and (found.everywhere == LATEST or LATEST in found.offsets.values()):
        raise WrongOption("the option startingOffsets of a batch query cannot be the latest")
    return found


def _ending(options: OptionReader, is_stream: bool) -> Position:
    for name in _ENDS if is_stream else ():
        if options.has(name):
            raise WrongOption(f"the option {name} is for batch queries: a stream has no end")
    found = first_set(
        options,
        {
            "endingTimestamp": lambda text: _timestamp(options, "endingTimestamp"),
            "endingOffsetsByTimestamp": lambda text: Position(
                timestamps=_offsets("endingOffsetsByTimestamp", text, least=0)
            ),
            "endingOffsets": lambda text: _words_or_offsets("endingOffsets", text, LATEST),
        },
        Position(everywhere=LATEST),
    )
    if found == Position(everywhere=EARLIEST):
        raise WrongOption("the option endingOffsets cannot be the earliest")
    return found


def _timestamp(options: OptionReader, name: str) -> Position:
    return Position(timestamp=options.maybe_number(name, least=0, most=NUMBER_MAX))


def _words_or_offsets(option: str, text: str, least: int) -> Position:
    word = text.strip().lower()
    if word in ("latest", "earliest"):
        return Position(everywhere=LATEST if word == "latest" else EARLIEST)
    return Position(offsets=_offsets(option, text, least=least))


def _offsets(option: str, text: str, *, least: int) -> Offsets:
    offsets = parse_offsets(option, text, least=least)
    if not offsets:
        raise WrongOption(f"the option {option} names no partition")
    return offsets


def _columns(options: OptionReader) -> tuple[str, ...]:
    has_headers = options.flag("includeHeaders", default=False)
    text = options.text("columns")
    if text is None:
        return COLUMNS if has_headers else COLUMNS[:-1]
    names = {name.lower(): name for name in COLUMNS}
    wanted = [*options.words("columns", text), *(["headers"] if has_headers else [])]
    for name in wanted:
        if name.lower() not in names:
            raise WrongOption(f"the option columns names {name!r}; there are {', '.join(COLUMNS)}")
    return tuple(dict.fromkeys(names[name.lower()] for name in wanted))


def _where(options: OptionReader, is_stream: bool) -> Where:
    text = options.text("where")
    if text is None:
        return EVERYTHING
    if is_stream:
        raise WrongOption(
            "the option where is for batch queries: filter a stream by its method where"
        )
    return parse_where(text)


def _group_id(options: OptionReader) -> str | None:
    """Return the group that shows a query's progress: the user names it, or its beginning."""
    group_id = options.text("kafka.group.id")
    prefix = options.text("groupIdPrefix")
    if group_id is not None or prefix is None:
        return group_id
    for name in ("subscribe", "subscribePattern", "assign"):
        text = options.text(name)
        if text is not None:
            return f"{prefix}-{'-'.join(re.findall(r'[A-Za-z0-9._-]+', text))}"
    return prefix


def _per_trigger(options: OptionReader, what: str) -> tuple[int | None, int | None]:
    """Return the least and the most of a micro-batch."""
    names = (f"min{what}PerTrigger", f"max{what}PerTrigger")
    least, most = (options.maybe_number(name, least=1, most=NUMBER_MAX) for name in names)
    if least is not None and most is not None and least > most:
        raise WrongOption(f"the option {names[0]} ({least}) is more than {names[1]} ({most})")
    return least, most
