"""Lines as rows: what is in them, what follows from it, and why some are none.

All of it is column expressions of Spark; a line costs three regular expressions or four.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from kafkaesque.spark.logs.formats import FIELDS, FORMATS, SEVERITIES, Format

#: A longer line is kept aside.
LINE_BYTES_MAX = 64 << 10
#: Of a line that is kept aside, so that it fits into a message with all that is told of it.
ASIDE_BYTES_MAX = 900_000
#: The columns of lines, where they come from and when.
LINE_COLUMNS = ("line", "source", "partition", "position", "arrived", "sender")
#: The columns of rows for the index.
INDEX_COLUMNS = (
    *("time", "host", "kind", "severity", "status", "program"),
    *("source", "partition", "position", "line", "fields"),
)
_PRIORITY_MAX = 191
_SEPARATOR = "\x1e"
_FORMAT, _TEXT, _PARTS, _REASON, _AT = "__format", "__text", "__parts", "__reason", "__at"
#: Severities of lines that have none, by words in them; what has no such word is `info`.
_WORDS = (
    (2, r"(?i)\b(?:panic|fatal|critical)\b"),
    (3, r"(?i)\b(?:error|errors|failed|failure|segfault)\b"),
    (4, r"(?i)\b(?:warn|warning)\b"),
)
_INFO, _NOTICE, _WARNING, _ERROR = 6, 5, 4, 3
_NOTABLE = ("install", "upgrade", "remove", "purge", "disappear")
#: What a row tells of its line beyond the columns that all lines share.
_DETAILS = tuple(name for name in FIELDS if name not in ("time", "host", "program", "status"))


def topic_lines(table: DataFrame) -> DataFrame:
    """Return lines of a table of the source `kafkaesque`: values are lines, keys who sent them."""
    key = f.col("key").cast("string")
    return table.select(
        f.col("value").alias("line"),
        f.col("topic").alias("source"),
        f.col("partition"),
        f.col("offset").alias("position"),
        f.col("timestamp").alias("arrived"),
        f.when(f.is_valid_utf8(key), key).alias("sender"),
    )


def parse_lines(lines: DataFrame, *, time_zone: str = "UTC", host: str = "") -> DataFrame:
    """Return the lines with all that is known of them, and a reason where they cannot be read.

    `lines` has LINE_COLUMNS. Times without a zone are in `time_zone`; what names no
    host is of its sender, or else of `host`. Divide the result by `good_lines` and `bad_lines`.
    """
    text = f.regexp_replace(f.col("line").cast("string"), r"[\r\n]+\z", "")
    found = lines.withColumn(_TEXT, f.when(_is_text(), text))
    found = found.withColumn(_FORMAT, _format()).withColumn(_PARTS, _parts())
    found = found.withColumn(_AT, _time(time_zone))
    fields = f.to_json(f.struct(*(_field(name).alias(name) for name in _DETAILS)))
    own_host = f.nullif(_field("host"), f.lit("-"))
    return found.select(
        *LINE_COLUMNS,
        _reason().alias(_REASON),
        f.coalesce(f.col(_AT), f.when(_field("time") == "-", f.col("arrived"))).alias("time"),
        f.coalesce(own_host, f.nullif(f.col("sender"), f.lit("")), f.lit(host)).alias("host"),
        _kind().alias("kind"),
        _severity().alias("severity"),
        _field("status").try_cast("int").alias("status"),
        f.nullif(_field("program"), f.lit("-")).alias("program"),
        f.col(_TEXT).alias("text"),
        fields.alias("fields"),
    )


def good_lines(parsed: DataFrame) -> DataFrame:
    """Return the lines that could be read, as the index takes them."""
    columns = {"line": f.col("text").alias("line")}
    return parsed.where(f.col(_REASON).isNull()).select(
        *(columns.get(name, f.col(name)) for name in INDEX_COLUMNS)
    )


def bad_lines(parsed: DataFrame) -> DataFrame:
    """Return the other lines as messages: their bytes, and as headers where from and why.

    Of more than ASIDE_BYTES_MAX bytes the first are kept; the header `bytes` says how many there
    were.
    """
    told = {
        "reason": f.col(_REASON),
        "source": f.col("source"),
        "partition": f.col("partition").cast("string"),
        "position": f.col("position").cast("string"),
        "bytes": f.when(_is_cut(), f.length("line").cast("string")),
    }
    headers = f.array(*(_header(name, value) for name, value in told.items()))
    return parsed.where(f.col(_REASON).isNotNull()).select(
        f.col("sender").alias("key"),
        f.when(_is_cut(), f.substring("line", 1, ASIDE_BYTES_MAX))
        .otherwise(f.col("line"))
        .alias("value"),
        f.filter(headers, lambda each: each["value"].isNotNull()).alias("headers"),
    )


def _first_of(cases: list[tuple[Any, Any]]) -> Any:
    """Return the value of the first case that holds, or null."""
    (condition, value), *others = cases
    found = f.when(condition, value)
    for condition, value in others:
        found = found.when(condition, value)
    return found


def _header(name: str, value: Any) -> Any:
    return f.struct(f.lit(name).alias("key"), value.cast("binary").alias("value"))


def _is_cut() -> Any:
    return f.length("line") > ASIDE_BYTES_MAX


def _is_text() -> Any:
    is_short = f.length("line") <= LINE_BYTES_MAX
    return is_short & f.is_valid_utf8(f.col("line").cast("string"))


def _field(name: str) -> Any:
    """Return a field of the line, or null where it has none."""
    return f.nullif(f.get(_PARTS, f.lit(FIELDS.index(name))), f.lit(""))


def _format() -> Any:
    """Return the name of the first format that lines with such a beginning have."""
    return _first_of([(f.col(_TEXT).rlike(each.beginning), each.name) for each in FORMATS])


def _parts() -> Any:
    """Return all FIELDS of a line; or itself alone, where it is not as its format wants it."""
    text = f.translate(f.col(_TEXT), _SEPARATOR, " ")

    def divided(each: Format) -> Any:
        joined = f.regexp_replace(text, each.pattern, each.replacement(_SEPARATOR))
        return f.split(joined, _SEPARATOR, -1)

    return _first_of([(f.col(_FORMAT) == each.name, divided(each)) for each in FORMATS])


def _kind() -> Any:
    return _first_of([(f.col(_FORMAT) == each.name, each.kind) for each in FORMATS])


def _time(time_zone: str) -> Any:
    """Return when it happened, or null where there is no such time."""
    time = _field("time")
    local = f.try_to_timestamp(f.concat(time, f.lit(" +0000")), f.lit("yyyy-MM-dd HH:mm:ss Z"))
    return (
        f.when(f.col(_FORMAT) == "web", f.try_to_timestamp(time, f.lit("dd/MMM/yyyy:HH:mm:ss Z")))
        .when(f.col(_FORMAT) == "dpkg", f.to_utc_timestamp(local, time_zone))
        .when(time.rlike(r"^\d"), time.try_cast("timestamp"))
        .otherwise(_time_without_year(time, time_zone))
    )


def _time_without_year(time: Any, time_zone: str) -> Any:
    """Return the latest such time that is at most a day after the line's arrival."""
    limit = f.col("arrived") + f.expr("INTERVAL 1 DAY")
    day = f.regexp_replace(time, "  ", " ")

    def of_year(years: int) -> Any:
        year = (f.year("arrived") + years).cast("string")
        text = f.concat_ws(" ", year, day, f.lit("+0000"))
        local = f.try_to_timestamp(text, f.lit("yyyy MMM d HH:mm:ss Z"))
        found = f.to_utc_timestamp(local, time_zone)
        return f.when(found <= limit, found)

    return f.coalesce(of_year(1), of_year(0), of_year(-1))


def _severity() -> Any:
    status, priority = _field("status").try_cast("int"), _field("priority").try_cast("int")
    by_words = _first_of([(_field("message").rlike(words), number) for number, words in _WORDS])
    web = f.when(status >= 500, _ERROR).when(status >= 400, _WARNING).otherwise(_INFO)
    dpkg = f.when(_field("action").isin(*_NOTABLE), _NOTICE).otherwise(_INFO)
    return (
        f.when(f.col(_FORMAT) == "web", web)
        .when(f.col(_FORMAT) == "dpkg", dpkg)
        .when(priority.isNotNull(), priority % len(SEVERITIES))
        .otherwise(by_words.otherwise(_INFO))
    )


def _reason() -> Any:
    size, priority = f.length("line"), _field("priority").try_cast("int")
    begun = f.concat(
        f.lit("it begins like a line of "),
        _first_of([(f.col(_FORMAT) == each.name, each.title) for each in FORMATS]),
        f.lit(" and does not go on like one"),
    )
    return (
        f.when(f.coalesce(size, f.lit(0)) == 0, "the line is empty")
        .when(
            size > LINE_BYTES_MAX,
            f.concat(f.lit("the line has "), size, f.lit(f" bytes, more than {LINE_BYTES_MAX}")),
        )
        .when(f.col(_TEXT).isNull(), "the line is not UTF-8")
        .when(f.col(_TEXT) == "", "the line is empty")
        .when(
            f.col(_FORMAT).isNull(),
            "it does not begin like a line of a web server, of syslog or of dpkg",
        )
        .when(f.size(_PARTS) < len(FIELDS), begun)
        .when(
            priority > _PRIORITY_MAX,
            f.concat(f.lit("its priority is "), priority, f.lit(f", more than {_PRIORITY_MAX}")),
        )
        .when(
            f.col(_AT).isNull() & (_field("time") != "-"),
            f.concat(f.lit("there is no such time: "), _field("time")),
        )
    )
