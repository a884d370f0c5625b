"""The format `kafkaesque`, as Spark sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.sql.datasource import DataSource

from kafkaesque.spark.errors import WrongOption
from kafkaesque.spark.options import OptionReader
from kafkaesque.spark.options_file import with_options_file
from kafkaesque.spark.refused_reader import refusing_when_asked
from kafkaesque.spark.sink_options import SinkOptions, check_columns, parse_sink
from kafkaesque.spark.source import BatchReader, StreamReader
from kafkaesque.spark.source_options import SourceOptions, parse_source
from kafkaesque.spark.tables import SPARK_SCHEMA
from kafkaesque.spark.trigger_limits import TriggerLimits
from kafkaesque.spark.where import parse_where

if TYPE_CHECKING:
    # Half of the time that loading this package takes in each of Spark's Python processes, of which
    # only those that write need it.
    from kafkaesque.spark.sink import BatchWriter, StreamWriter

#: Spark's way to send records along with a plan is private; it was tried in these.
_PREFETCHING_SPARK = "4.3."


class KafkaesqueDataSource(DataSource):
    """Topics as tables and streams; options and schema are those of Spark's Kafka source."""

    @classmethod
    def name(cls) -> str:
        return "kafkaesque"

    def schema(self) -> str:
        """Return the columns that the options leave; checks all options on the way."""
        options = parse_source(_without_batch_options(self.options), is_stream=True)
        condition = OptionReader(with_options_file(self.options)).text("where")
        if condition is not None:
            parse_where(condition)
        return ", ".join(SPARK_SCHEMA[name] for name in options.columns)

    def reader(self, schema: Any) -> BatchReader:
        options = parse_source(self.options, is_stream=False)
        _require_columns(schema, options.columns)
        return BatchReader(options)

    @refusing_when_asked
    def streamReader(self, schema: Any) -> StreamReader:  # noqa: N802 - Spark's name
        """Return the reader of a stream."""
        options = parse_source(self.options, is_stream=True)
        _require_columns(schema, options.columns)
        if not _may_prefetch(options):
            return StreamReader(options)
        from kafkaesque.spark.prefetching_reader import PrefetchingReader

        return PrefetchingReader(options)

    def writer(self, schema: Any, overwrite: bool) -> BatchWriter:
        from kafkaesque.spark.sink import BatchWriter

        if overwrite:
            raise WrongOption("a topic cannot be overwritten, only appended to: use mode append")
        return BatchWriter(self._sink(schema))

    def streamWriter(self, schema: Any, overwrite: bool) -> StreamWriter:  # noqa: N802
        """Return the writer of a stream; in the mode `complete`, too, rows are appended."""
        from kafkaesque.spark.sink import StreamWriter

        return StreamWriter(self._sink(schema))

    def _sink(self, schema: Any) -> SinkOptions:
        options = parse_sink(self.options)
        columns = [(field.name, field.dataType.simpleString()) for field in schema.fields]
        check_columns(columns, options)
        return options


def _may_prefetch(options: SourceOptions) -> bool:
    """Whether a stream's small micro-batches are read where they are planned.

    Not where micro-batches are limited: Spark's progress report tells how much more waits, and
    does not ask a reader of that kind.
    """
    is_known = pyspark.__version__.startswith(_PREFETCHING_SPARK)
    return is_known and options.task_offsets > 0 and not TriggerLimits(options).has_any


def _without_batch_options(options: Any) -> dict[str, str]:
    """Return the options without those that only batch queries have."""
    return {
        name: value
        for name, value in dict(options).items()
        if name.lower() != "where" and not name.lower().startswith("ending")
    }


def _require_columns(schema: Any, columns: tuple[str, ...]) -> None:
    found = tuple((field.name, field.dataType.simpleString()) for field in schema.fields)
    wanted = tuple((name, _type_of(name)) for name in columns)
    if found != wanted:
        raise WrongOption(
            f"the schema has the columns {_listed(found)}, and the source gives"
            f" {_listed(wanted)}: leave the schema out, and name columns by the option columns"
        )


def _type_of(name: str) -> str:
    """Return a column's type as Spark writes it shortly."""
    _, _, words = SPARK_SCHEMA[name].partition(" ")
    return words.replace(" ", "").lower()


def _listed(columns: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(" ".join(column) for column in columns)
