"""The dashboard and the alert rules speak of metrics that there are, with labels that they have."""

import json
import re
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from kafkaesque.admin.metric_table import SECTIONS, Kind
from tests.documentation.local_cluster import BROKERS, PORTS
from tests.documentation.table import blocks_run_by, this_file

MONITORING = Path(__file__).parents[3] / "docs" / "monitoring"
METRICS = {each.name: each for section in SECTIONS for each in section.metrics}
NAME = re.compile(r"(?:kafkaesque|process)_[a-z_]+")
BY = re.compile(r"sum by \(([^)]*)\)")
#: Prometheus gives these to each.
OWN_LABELS = {"instance", "job", "le"}


def metric_of(name: str) -> str:
    """Return the metric that a series belongs to."""
    for suffix in ("_bucket", "_sum", "_count"):
        base = name.removesuffix(suffix)
        if base in METRICS and METRICS[base].kind is Kind.HISTOGRAM:
            return base
    return name


def check(expression: str) -> None:
    names = NAME.findall(expression)
    for name in names:
        metric = METRICS[metric_of(name)]
        assert (metric.kind is Kind.HISTOGRAM) == (metric_of(name) != name), expression
        if metric.kind is Kind.COUNTER:
            assert "rate(" in expression or "increase(" in expression, expression
    labels = OWN_LABELS | {label for name in names for label in METRICS[metric_of(name)].labels}
    for found in BY.findall(expression):
        assert {each.strip() for each in found.split(",")} <= labels, expression


def test_panels_show_each_metric_that_every_answer_has() -> None:
    board = json.loads((MONITORING / "dashboard.json").read_text())
    panels = [each for each in board["panels"] if each["type"] == "timeseries"]
    shown = set()
    for panel in panels:
        for target in panel["targets"]:
            check(target["expr"])
            shown |= {metric_of(name) for name in NAME.findall(target["expr"])}
    by_name = {name for name, each in METRICS.items() if {"topic", "queue"} & set(each.labels)} | {
        "kafkaesque_broker_info"
    }
    assert shown == METRICS.keys() - by_name
    assert len({each["id"] for each in board["panels"]}) == len(board["panels"])
    places = [(each["gridPos"]["x"], each["gridPos"]["y"]) for each in panels]
    assert len(set(places)) == len(places)


def test_alerts_speak_of_labels_that_are_there() -> None:
    text = (MONITORING / "alerts.yml").read_text()
    rules = text.split("      - alert: ")[1:]
    assert len(rules) >= 10
    for rule in rules:
        expression = json.loads(re.findall(r"^ +expr: (.*)$", rule, re.MULTILINE)[0])
        check(expression)
        is_sum = re.match(r"(sum|max)\(", expression) is not None
        labels = OWN_LABELS if not is_sum else set()
        for name in NAME.findall(expression):
            labels = labels | ({*METRICS[metric_of(name)].labels} if not is_sum else set())
        assert set(re.findall(r"\$labels\.(\w+)", rule)) <= labels, rule


def test_prometheus_is_told_of_the_rules_and_of_the_admin_ports_of_up() -> None:
    (block,) = blocks_run_by(this_file(__file__), "docs/metrics.md")
    (job,) = re.findall(r"job_name: (\w+)", block.content)
    assert f'job=\\"{job}\\"' in (MONITORING / "alerts.yml").read_text()
    (targets,) = re.findall(r"targets: \[(.*)\]", block.content)
    assert targets.split(", ") == [f"127.0.0.1:{PORTS['admin'] + each}" for each in range(BROKERS)]
    (rules,) = re.findall(r"rule_files: \[(.*)\]", block.content)
    assert (MONITORING / rules).is_file()


def lost(before: Any, after: Any, where: str = "") -> list[str]:
    """Return what of a document is not in another one, or is something else there."""
    match before, after:
        case dict(), dict():
            gone = [f"{where}.{name}" for name in before.keys() - after.keys()]
            kept = before.keys() & after.keys()
            return gone + [
                each for name in kept for each in lost(before[name], after[name], f"{where}.{name}")
            ]
        case list(), list() if len(before) == len(after):
            return [
                each
                for number, both in enumerate(zip(before, after, strict=True))
                for each in lost(*both, f"{where}[{number}]")
            ]
        case _:
            return [] if before == after else [where]


def read_by_grafana(board: dict[str, Any]) -> dict[str, Any]:
    """Return a dashboard as Grafana's own types have it: without what they do not know."""
    register_default_plugins()
    found: dict[str, Any] = json.loads(JSONEncoder().encode(Dashboard.from_json(board)))
    return found


def test_grafana_knows_all_that_the_dashboard_says() -> None:
    board = json.loads((MONITORING / "dashboard.json").read_text())
    assert lost(board, read_by_grafana(board)) == []
    panel = next(each for each in board["panels"] if each["type"] == "timeseries")
    panel["gridPoz"] = panel["gridPos"]
    panel["fieldConfig"]["defaults"]["unti"] = "s"
    panel["targets"][0]["exrp"] = "up"
    misspelt = sorted(each.rpartition(".")[2] for each in lost(board, read_by_grafana(board)))
    assert misspelt == ["exrp", "gridPoz", "unti"]
