"""The format `lakehouse`, as Spark sees it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from kafkaesque.spark.errors import WrongOption
from kafkaesque.spark.refused_reader import refusing_when_asked

if TYPE_CHECKING:
    # Spark loads this module in each of its Python processes that looks for a format.
    from kafkaesque.spark.lakehouse.layout import Layout
    from kafkaesque.spark.lakehouse.options import SinkOptions, SourceOptions
    from kafkaesque.spark.lakehouse.sink import BatchWriter, StreamWriter
    from kafkaesque.spark.lakehouse.source import BatchReader, StreamReader


class LakehouseDataSource(DataSource):
    """Delta Lake tables: archived topics, written exactly once and read as of any time."""

    @classmethod
    def name(cls) -> str:
        return "lakehouse"

    def schema(self) -> StructType:
        """Return the table's columns, or those of them that are asked for."""
        from kafkaesque.spark.lakehouse.source import spark_schema_json, wanted_columns

        options = self._source_options(is_stream=None)
        fields = spark_schema_json(options)
        by_name = {each["name"]: each for each in fields}
        wanted = [by_name[name] for name in wanted_columns(options, fields)]
        return StructType.fromJson({"type": "struct", "fields": wanted})

    def reader(self, schema: Any) -> BatchReader:
        from kafkaesque.spark.lakehouse.source import BatchReader

        options = self._source_options(is_stream=False)
        return BatchReader(options, _columns(schema, options))

    @refusing_when_asked
    def streamReader(self, schema: Any) -> StreamReader:  # noqa: N802 - Spark's name
        """Return the reader of a stream."""
        from kafkaesque.spark.lakehouse.source import (
            StreamReader,
            check_streamable,
            spark_schema_json,
        )

        options = self._source_options(is_stream=True)
        check_streamable(spark_schema_json(options))
        return StreamReader(options, _columns(schema, options))

    def writer(self, schema: Any, overwrite: bool) -> BatchWriter:
        from kafkaesque.spark.lakehouse.sink import BatchWriter

        if overwrite:
            raise WrongOption("a table cannot be overwritten, only appended to: use mode append")
        return BatchWriter(*self._plan(schema))

    def streamWriter(self, schema: Any, overwrite: bool) -> StreamWriter:  # noqa: N802
        """Return the writer of a stream."""
        from kafkaesque.spark.lakehouse.sink import StreamWriter

        return StreamWriter(*self._plan(schema))

    def _plan(self, schema: Any) -> tuple[SinkOptions, Layout]:
        from kafkaesque.spark.lakehouse.layout import plan_layout
        from kafkaesque.spark.lakehouse.options import parse_sink
        from kafkaesque.spark.lakehouse.staging import arrow_schema
        from kafkaesque.spark.lakehouse.table import maybe_open, partition_columns

        options = parse_sink(self.options)
        table = maybe_open(options.table.path)
        partition_by = options.partition_by
        if partition_by is None and table is not None:
            partition_by = partition_columns(table)
        layout = plan_layout(schema.json(), partition_by)
        arrow_schema(layout)
        return options, layout

    def _source_options(self, *, is_stream: bool | None) -> SourceOptions:
        from kafkaesque.spark.lakehouse.options import parse_source

        return parse_source(self.options, is_stream=is_stream)


def _columns(schema: Any, options: SourceOptions) -> tuple[str, ...]:
    from kafkaesque.spark.lakehouse.source import spark_schema_json, wanted_columns

    fields = spark_schema_json(options)
    wanted = wanted_columns(options, fields)
    by_name = {each["name"]: each for each in fields}
    given = json.loads(schema.json())["fields"]
    if [(each["name"], each["type"]) for each in given] != [
        (name, by_name[name]["type"]) for name in wanted
    ]:
        raise WrongOption(
            f"the schema has the columns {', '.join(schema.fieldNames())}, and the table gives"
            f" {', '.join(wanted)}: leave the schema out, and name columns by the option columns"
        )
    return wanted
