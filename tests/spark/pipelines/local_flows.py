"""Runs the flows of a project in this process's Spark, each as a query of its own."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.pipelines.graph_element_registry import (
    GraphElementRegistry,
    graph_element_registration_context,
)

from kafkaesque.spark.pipelines.project import load_project


class _Noting(GraphElementRegistry):
    """Keeps what a project defines."""

    def __init__(self) -> None:
        self.sinks: dict[str, Any] = {}
        self.flows: list[Any] = []

    def register_output(self, output: Any) -> None:
        self.sinks[output.name] = output

    def register_flow(self, flow: Any) -> None:
        self.flows.append(flow)

    def register_auto_cdc_flow(self, flow: Any) -> None:
        raise NotImplementedError

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        raise NotImplementedError


def run_flows(spark: Any, project: Path, settings: Mapping[str, str]) -> None:
    """Let every flow process what is available now, one after another."""
    found = _define(spark, project, settings)
    for flow in found.flows:
        sink = found.sinks[flow.target]
        writer = flow.func().writeStream.format(sink.format).options(**sink.options)
        checkpoint = project / "storage" / "_checkpoints" / flow.target / flow.name
        writer = writer.option("checkpointLocation", str(checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()


def _define(spark: Any, project: Path, settings: Mapping[str, str]) -> _Noting:
    for name, value in load_project(project, settings).settings.items():
        if name.startswith("kafkaesque."):
            spark.conf.set(name, value)
    registry = _Noting()
    with contextlib.chdir(project), graph_element_registration_context(registry):
        for path in sorted(project.glob("transformations/*.py")):
            found = importlib.util.spec_from_file_location(path.stem, path)
            assert found is not None
            assert found.loader is not None
            found.loader.exec_module(importlib.util.module_from_spec(found))
    return registry
