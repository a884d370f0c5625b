"""What Spark's file tables (Parquet and the like) do not bear, refused before rows are lost.

Such a table has one list of micro-batches by their numbers. A second query that writes it has
numbers of its own: those that are in the list already are taken for done, and their rows are left
out without a word. (Tried with Spark 4.3: declarative pipelines run two such flows, and lose rows.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyspark.pipelines.output import StreamingTable

from kafkaesque.spark.pipelines.checkpoints import flows_with_checkpoints
from kafkaesque.spark.pipelines.definitions import Definitions
from kafkaesque.spark.pipelines.errors import WrongProject
from kafkaesque.spark.pipelines.project import Project
from kafkaesque.spark.pipelines.sql_statements import (
    STREAMING_TABLE,
    SqlDataset,
    SqlFlow,
    read_statements,
)

Name = tuple[str, ...]
Formats = Mapping[Name, str]
_FILES = ("parquet", "orc", "json", "csv", "text", "avro")
_DEFAULT = "parquet"


def check_file_tables(
    found: Definitions, project: Project, default_format: str, made_anew: Iterable[str] | None
) -> None:
    """Refuse tables that would lose rows; `made_anew` are those of a full refresh, None for all.

    Raises:
        WrongProject: several flows write one, or another flow than before does.
    """
    formats, flows = _tables(found, project)
    anew = None if made_anew is None else {project.full_name(each) for each in made_anew}
    for full_name, names in flows.items():
        kind = (formats.get(full_name, "") or default_format or _DEFAULT).lower()
        if full_name not in formats or kind not in _FILES:
            continue
        table = full_name[-1]
        if len(names) > 1:
            raise WrongProject(
                f"table {table} is written by the flows {', '.join(names)}: a {kind} table of"
                " Spark loses rows of all but one",
                "one flow that reads the union of them, or a table for each",
            )
        if anew is None or full_name in anew:
            continue
        before = flows_with_checkpoints(project.storage, full_name)
        if before and names[0] not in before:
            raise WrongProject(
                f"table {table} was written by the flow {', '.join(sorted(before))}, and now by"
                f" {names[0]}: a {kind} table of Spark would leave out the new one's first rows",
                f"keep the flow's name, or rebuild the table: run --full-refresh {table}",
            )


def _tables(found: Definitions, project: Project) -> tuple[Formats, Mapping[Name, Sequence[str]]]:
    """Return the format of each streaming table, empty for the default, and the flows into it."""
    full_name = project.full_name
    formats = {
        full_name(output.name): output.format or ""
        for output in found.outputs
        if isinstance(output, StreamingTable)
    }
    flows: dict[Name, list[str]] = {}
    for flow in found.flows:
        flows.setdefault(full_name(flow.target), []).append(flow.name.split(".")[-1])
    for _, text in found.sql:
        for statement in read_statements(text):
            if isinstance(statement, SqlFlow):
                flows.setdefault(full_name(statement.plain_target), []).append(statement.plain_name)
            elif isinstance(statement, SqlDataset) and statement.kind == STREAMING_TABLE:
                name = full_name(statement.plain_name)
                formats[name] = statement.provider or ""
                if statement.query is not None:
                    flows.setdefault(name, []).append(statement.plain_name.split(".")[-1])
    return formats, flows
