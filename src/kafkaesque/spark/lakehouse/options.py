"""The options of the format `lakehouse`, checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from kafkaesque.spark.errors import WrongOption
from kafkaesque.spark.lakehouse.publishing import TableOptions
from kafkaesque.spark.lakehouse.selection import Selection
from kafkaesque.spark.lakehouse.staging import check_written_as
from kafkaesque.spark.lakehouse.table import table_path
from kafkaesque.spark.offsets import NUMBER_MAX, Offsets, parse_offsets
from kafkaesque.spark.options import OptionReader

FILE_BYTES = 128 << 20
_FILE_BYTES_MAX = 16 << 30
_COMPACT_EVERY = 100
_OFFSETS_MAX = 200_000
_TASK_BYTES = 64 << 20
_HISTORY_MS = 30 * 86_400_000
_OF_SPARK = ("checkpointLocation", "queryName")
_SINK_NAMES = (
    "allowOverlap",
    "compactEvery",
    "historyRetention",
    "mergeSchema",
    "partitionBy",
    "path",
    "targetFileSize",
    "txnAppId",
    "txnVersion",
    *_OF_SPARK,
)
_BATCH_NAMES = ("maxBytesPerTask",)
_STREAM_NAMES = ("maxOffsetsPerTrigger", "startingOffsets")
_SOURCE_NAMES = (
    "columns",
    "endingTimestamp",
    "path",
    "startingTimestamp",
    "timestampAsOf",
    "topics",
    "versionAsOf",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """All that a user can say about writing a table."""

    table: TableOptions
    #: None: the table's own, or by topic and date.
    partition_by: tuple[str, ...] | None = None
    #: Micro-batches after which small files are joined; 0 never.
    compact_every: int = _COMPACT_EVERY
    file_bytes: int = FILE_BYTES
    #: Rows that are written once under this name and number, however often they are written.
    written_as: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """All that a user can say about reading a table."""

    path: str
    version: int | None = None
    as_of_ms: int | None = None
    #: None: all of the table's.
    columns: tuple[str, ...] | None = None
    selection: Selection = field(default_factory=Selection)
    task_bytes: int = _TASK_BYTES
    #: Of a micro-batch.
    offsets_max: int = _OFFSETS_MAX
    starts: Offsets | None = None


def parse_sink(given: Mapping[str, str]) -> SinkOptions:
    """Return the options of a sink.

    Raises:
        WrongOption: one is unknown, missing or wrong.
    """
    options = OptionReader(given)
    options.refuse_unknown(_SINK_NAMES)
    partition_by = options.text("partitionBy")
    return SinkOptions(
        table=TableOptions(
            path=table_path(options.required("path")),
            may_add_columns=options.flag("mergeSchema", default=False),
            may_overlap=options.flag("allowOverlap", default=False),
            history_ms=options.duration_ms("historyRetention", _HISTORY_MS),
        ),
        partition_by=None if partition_by is None else _names(options, partition_by),
        compact_every=options.number(
            "compactEvery", least=0, most=1_000_000, default=_COMPACT_EVERY
        ),
        file_bytes=options.number(
            "targetFileSize", least=1, most=_FILE_BYTES_MAX, default=FILE_BYTES
        ),
        written_as=_written_as(options),
    )


def _names(options: OptionReader, text: str) -> tuple[str, ...]:
    return options.words("partitionBy", text) if text.strip() else ()


def _written_as(options: OptionReader) -> tuple[str, int] | None:
    number = options.maybe_number("txnVersion", least=0, most=NUMBER_MAX)
    if number is None and not options.has("txnAppId"):
        return None
    if number is None or not options.has("txnAppId"):
        raise WrongOption("the options txnAppId and txnVersion are set together or not at all")
    return check_written_as(options.required("txnAppId")), number


def parse_source(given: Mapping[str, str], *, is_stream: bool | None) -> SourceOptions:
    """Return the options of a source; None where it is not yet known of which kind.

    Raises:
        WrongOption: one is unknown, missing or wrong.
    """
    options = OptionReader(given)
    of_kind = {True: _STREAM_NAMES, False: _BATCH_NAMES, None: (*_STREAM_NAMES, *_BATCH_NAMES)}
    options.refuse_unknown((*_SOURCE_NAMES, *of_kind[is_stream]))
    version = options.maybe_number("versionAsOf", least=0, most=NUMBER_MAX)
    as_of_ms = _time_ms(options, "timestampAsOf")
    if version is not None and as_of_ms is not None:
        raise WrongOption("the options versionAsOf and timestampAsOf exclude each other")
    columns = options.text("columns")
    starts = options.text("startingOffsets")
    return SourceOptions(
        path=table_path(options.required("path")),
        version=version,
        as_of_ms=as_of_ms,
        columns=None if columns is None else options.words("columns", columns),
        selection=_selection(options),
        task_bytes=options.number(
            "maxBytesPerTask", least=1, most=_FILE_BYTES_MAX, default=_TASK_BYTES
        ),
        offsets_max=options.number(
            "maxOffsetsPerTrigger", least=1, most=NUMBER_MAX, default=_OFFSETS_MAX
        ),
        starts=None if starts in (None, "earliest") else parse_offsets_from(starts),
    )


def parse_offsets_from(text: str | None) -> Offsets:
    """Return the offsets of the option startingOffsets."""
    return parse_offsets("startingOffsets", text or "", least=0)


def _selection(options: OptionReader) -> Selection:
    start = _time_ms(options, "startingTimestamp")
    end = _time_ms(options, "endingTimestamp")
    selection = Selection().with_times(start, end)
    topics = options.text("topics")
    if topics is not None:
        selection = selection.with_values("topic", options.words("topics", topics))
    return selection


def _time_ms(options: OptionReader, name: str) -> int | None:
    text = options.text(name)
    return None if text is None else parse_time_ms(f"the option {name}", text)


def parse_time_ms(what: str, text: str) -> int:
    """Return a time in milliseconds since 1970; without a zone it is UTC.

    Raises:
        WrongOption: it is no time.
    """
    text = text.strip()
    if text.isdecimal() and len(text) > 4:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise WrongOption(
            f"{what} is a time such as 2024-05-01T12:00:00Z, or milliseconds since 1970,"
            f" not {text!r}"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
