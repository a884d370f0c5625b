"""The transformations of a project, read into a graph of Spark Declarative Pipelines."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.pipelines.add_pipeline_analysis_context import add_pipeline_analysis_context
from pyspark.pipelines.block_session_mutations import block_session_mutations
from pyspark.pipelines.graph_element_registry import graph_element_registration_context
from pyspark.pipelines.output import Sink
from pyspark.pipelines.spark_connect_graph_element_registry import (
    SparkConnectGraphElementRegistry,
)
from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph

from kafkaesque.spark.pipelines.project import Project
from kafkaesque.spark.pipelines.sentences import definition_failure

FORMAT = "kafkaesque"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRead:
    """Topics that a flow reads."""

    flow: str
    options: Mapping[str, str]
    is_stream: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicWrite:
    """A topic that a sink writes, or several that the rows name."""

    sink: str
    options: Mapping[str, str]


@dataclass(slots=True)
class Definitions:
    """What the files of a project define, beside what the server has of it."""

    outputs: list[Any] = field(default_factory=list)
    flows: list[Any] = field(default_factory=list)
    auto_cdc_flows: list[Any] = field(default_factory=list)
    #: Each file of SQL with its text.
    sql: list[tuple[Path, str]] = field(default_factory=list)
    reads: list[TopicRead] = field(default_factory=list)
    writes: list[TopicWrite] = field(default_factory=list)


class NotingRegistry(SparkConnectGraphElementRegistry):
    """Registers on the server, and notes what is registered."""

    def __init__(self, spark: Any, graph_id: str) -> None:
        super().__init__(spark, graph_id)
        self._connect = spark.client
        self.found = Definitions()

    def register_output(self, output: Any) -> None:
        super().register_output(output)
        self.found.outputs.append(output)
        if isinstance(output, Sink) and output.format == FORMAT:
            write = TopicWrite(sink=output.name, options=dict(output.options))
            self.found.writes.append(write)

    def register_flow(self, flow: Any) -> None:
        tables: list[Any] = []

        def noted() -> Any:
            tables.append(flow.func())
            return tables[-1]

        super().register_flow(replace(flow, func=noted))
        self.found.flows.append(flow)
        for table in tables:
            self.found.reads += reads_of(flow.name, table._plan.plan(self._connect))

    def register_auto_cdc_flow(self, flow: Any) -> None:
        super().register_auto_cdc_flow(flow)
        self.found.auto_cdc_flows.append(flow)

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        super().register_sql(sql_text, file_path)
        self.found.sql.append((file_path, sql_text))


def define(spark: Any, project: Project, settings: Mapping[str, str]) -> tuple[str, Definitions]:
    """Make a graph of the project's transformations on the server; returns its id, and them.

    Raises:
        WrongProject: a file cannot be read as what it should be; says which, and where in it.
    """
    graph_id = create_dataflow_graph(
        spark,
        default_catalog=project.catalog,
        default_database=project.database,
        sql_conf=dict(settings),
    )
    registry = NotingRegistry(spark, graph_id)
    with graph_element_registration_context(registry):
        for file in project.sources:
            try:
                if file.suffix == ".py":
                    _run_file(spark, graph_id, file)
                else:
                    registry.register_sql(file.read_text("utf-8"), file.relative_to(project.folder))
            except (Exception, SystemExit) as error:
                raise definition_failure(file, project.folder, error) from None
    return graph_id, registry.found


@contextlib.contextmanager
def working_in(folder: Path) -> Iterator[None]:
    """Read paths in transformations as relative to the project."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _run_file(spark: Any, graph_id: str, file: Path) -> None:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    module.__dict__["spark"] = spark
    with (
        add_pipeline_analysis_context(spark=spark, dataflow_graph_id=graph_id, flow_name=None),
        block_session_mutations(),
    ):
        spec.loader.exec_module(module)


def reads_of(flow: str, message: Any) -> list[TopicRead]:
    """Return each reading of topics in a flow's plan, however deep it is."""
    if message.DESCRIPTOR.name == "Read" and message.data_source.format == FORMAT:
        options = dict(message.data_source.options)
        return [TopicRead(flow=flow, options=options, is_stream=message.is_streaming)]
    found: list[TopicRead] = []
    for kind, value in message.ListFields():
        if kind.message_type is None or kind.message_type.GetOptions().map_entry:
            continue
        # A repeated field is a sequence of messages, any other one message.
        for each in [value] if hasattr(value, "ListFields") else value:
            found += reads_of(flow, each)
    return found
