"""A project's flows as Structured Streaming can start them, made of what its files define."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.pipelines.output import MaterializedView, Sink, StreamingTable, TemporaryView
from pyspark.sql.types import StructType

from kafkaesque.spark.pipelines.definitions import Definitions
from kafkaesque.spark.pipelines.errors import RunFailed, WrongProject
from kafkaesque.spark.pipelines.project import Project
from kafkaesque.spark.pipelines.sentences import failure, sentence_of
from kafkaesque.spark.pipelines.sql_statements import (
    MATERIALIZED_VIEW,
    STREAMING_TABLE,
    TEMPORARY_VIEW,
    SqlCommand,
    SqlDataset,
    SqlFlow,
    parse_statements,
)

SINK = "sink"
_NOT_THERE = "TABLE_OR_VIEW_NOT_FOUND"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """Something that flows write."""

    name: str
    kind: str
    #: `(…)`; empty where the flow's columns are the table's.
    columns: str = ""
    clauses: str = ""
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphFlow:
    """A query and what it writes."""

    name: str
    target: Dataset
    query: Callable[[], Any]
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyFlow:
    """A flow whose inputs and target are there."""

    flow: GraphFlow
    #: As Spark Declarative Pipelines calls it.
    name: str
    #: The parts of its target's full name, as its checkpoints have them.
    target: tuple[str, ...]
    table: Any


def collect(spark: Any, project: Project, found: Definitions) -> list[GraphFlow]:
    """Return the flows of a project.

    Raises:
        WrongProject: one is of a kind that only triggered runs know.
    """
    if found.auto_cdc_flows:
        raise WrongProject(
            f"flow {found.auto_cdc_flows[0].name}: continuous runs do not support Auto CDC",
            "run it without --continuous",
        )
    datasets = {project.full_name(output.name): _dataset(output) for output in found.outputs}
    flows: list[tuple[str, str, Callable[[], Any], Mapping[str, str]]] = [
        (flow.name, flow.target, flow.func, flow.spark_conf) for flow in found.flows
    ]
    for file, text in found.sql:
        for statement in parse_statements(text, str(file)):
            if isinstance(statement, SqlCommand):
                spark.sql(statement.text)
            elif isinstance(statement, SqlFlow):
                query = _sql(spark, statement.query)
                flows.append((statement.plain_name, statement.plain_target, query, {}))
            else:
                dataset = _sql_dataset(statement)
                datasets[project.full_name(dataset.name)] = dataset
                if statement.query is not None:
                    query = _sql(spark, statement.query)
                    flows.append((dataset.name, dataset.name, query, {}))
    return [
        GraphFlow(
            name=name,
            target=datasets[project.full_name(target)],
            query=query,
            settings=settings,
        )
        for name, target, query, settings in flows
    ]


def prepare(spark: Any, flows: Sequence[GraphFlow]) -> list[ReadyFlow]:
    """Make the views and tables that are missing, and return the flows in the order of their needs.

    Raises:
        RunFailed: a flow's query cannot be resolved, or does not fit the table that is there.
    """
    ready: list[ReadyFlow] = []
    waiting = list(flows)
    while waiting:
        later: list[GraphFlow] = []
        why: Exception | None = None
        for flow in waiting:
            try:
                table = flow.query()
                schema = table.schema
            except Exception as error:
                if _NOT_THERE not in str(error) or len(waiting) == 1:
                    raise failure(f"flow {flow.name}", error) from None
                later.append(flow)
                why = error
                continue
            ready += _make(spark, flow, table, schema)
        if len(later) == len(waiting) and why is not None:
            raise failure(f"flow {later[-1].name}", why)
        waiting = later
    return ready


def _make(spark: Any, flow: GraphFlow, table: Any, schema: Any) -> list[ReadyFlow]:
    target = flow.target
    if target.kind == TEMPORARY_VIEW:
        table.createOrReplaceTempView(target.name)
        return []
    if target.kind == SINK:
        return [ReadyFlow(flow=flow, name=flow.name, target=(target.name,), table=table)]
    parts = _full_name(spark, target.name)
    _make_table(spark, target, parts, schema)
    name = ".".join(parts) if flow.name == target.name else flow.name
    return [ReadyFlow(flow=flow, name=name, target=parts, table=table)]


def quoted(parts: Sequence[str]) -> str:
    """Return a name as SQL takes it."""
    return ".".join("`{}`".format(part.replace("`", "``")) for part in parts)


def _make_table(spark: Any, target: Dataset, parts: Sequence[str], schema: Any) -> None:
    name = quoted(parts)
    if spark.catalog.tableExists(name):
        there = {column.lower() for column in spark.table(name).columns}
        missing = [column for column in schema.names if column.lower() not in there]
        if not missing:
            return
        if target.kind == STREAMING_TABLE:
            raise RunFailed(
                f"table {target.name} has no column {missing[0]}, which its flow gives",
                "run it once without --continuous: that adds it",
            )
        spark.sql(f"DROP TABLE {name}")
    columns = target.columns or f"({_nullable(schema).toDDL()})"
    try:
        spark.sql(f"CREATE TABLE {name} {columns} {target.clauses}")
    except Exception as error:
        raise RunFailed(f"table {target.name} cannot be made: {sentence_of(error)}") from None


def _nullable(schema: Any) -> Any:
    """Return the schema with nothing that must not be null, as tables of pipelines have it."""

    def loosen(found: dict[str, Any]) -> dict[str, Any]:
        names = ("nullable", "containsNull", "valueContainsNull")
        return {name: True if name in names else value for name, value in found.items()}

    return StructType.fromJson(json.loads(schema.json(), object_hook=loosen))


def _full_name(spark: Any, name: str) -> tuple[str, ...]:
    parts = tuple(name.split("."))
    if len(parts) == 1:
        return (spark.catalog.currentCatalog(), spark.catalog.currentDatabase(), *parts)
    return (spark.catalog.currentCatalog(), *parts) if len(parts) == 2 else parts


def _dataset(output: Any) -> Dataset:
    if isinstance(output, Sink):
        return Dataset(name=output.name, kind=SINK, format=output.format, options=output.options)
    if isinstance(output, TemporaryView):
        return Dataset(name=output.name, kind=TEMPORARY_VIEW)
    if not isinstance(output, StreamingTable | MaterializedView):
        raise WrongProject(f"continuous runs do not support what {output.name} is")
    schema = output.schema
    if isinstance(schema, StructType):
        schema = schema.toDDL()
    return Dataset(
        name=output.name,
        kind=STREAMING_TABLE if isinstance(output, StreamingTable) else MATERIALIZED_VIEW,
        columns=f"({schema})" if schema else "",
        clauses=" ".join(_clauses(output)),
        format=output.format,
    )


def _clauses(output: Any) -> list[str]:
    found = []
    if output.format:
        found.append(f"USING {output.format}")
    if output.partition_cols:
        found.append(f"PARTITIONED BY ({', '.join(quoted([c]) for c in output.partition_cols)})")
    if output.cluster_by:
        found.append(f"CLUSTER BY ({', '.join(quoted([c]) for c in output.cluster_by)})")
    if output.comment:
        found.append(f"COMMENT {_text(output.comment)}")
    if output.table_properties:
        pairs = [f"{_text(k)} = {_text(v)}" for k, v in output.table_properties.items()]
        found.append(f"TBLPROPERTIES ({', '.join(pairs)})")
    return found


def _sql_dataset(statement: SqlDataset) -> Dataset:
    return Dataset(
        name=statement.plain_name,
        kind=statement.kind,
        columns=statement.columns,
        clauses=statement.clauses,
        format=statement.provider,
    )


def _sql(spark: Any, query: str) -> Callable[[], Any]:
    return lambda: spark.sql(query)


def _text(value: str) -> str:
    return "'{}'".format(value.replace("\\", "\\\\").replace("'", "\\'"))
