"""Writes a Grafana dashboard and Prometheus's alert rules from the table of metrics."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DIRECTORY = ROOT / "docs" / "monitoring"
sys.path.insert(0, str(ROOT / "src"))

from kafkaesque.admin.metric_table import SECTIONS, Kind, Metric  # noqa: E402

#: These are asked for by name, and in no answer otherwise.
BY_NAME = ("topic", "queue")
NAME = re.compile(r"(?:kafkaesque|process)_[a-z_]+")
#: Panels beside one another, in Grafana's 24 columns.
WIDTH, HEIGHT, COLUMNS = 8, 7, 24


@dataclass(frozen=True)
class Alert:
    """One rule."""

    name: str
    expression: str
    #: How long it has to hold.
    wait: str
    severity: str
    summary: str
    #: What to type, or the paragraph of docs/operations.md.
    action: str


ALERTS = (
    Alert(
        "PartitionsWithoutLeader",
        "max(kafkaesque_leaderless_partitions) > 0",
        "1m",
        "critical",
        "{{ $value }} partitions can be neither written nor read",
        "kafkaesque doctor",
    ),
    Alert(
        "TooFewInSync",
        "sum(kafkaesque_under_min_isr_partitions) > 0",
        "1m",
        "critical",
        "{{ $value }} partitions refuse acks=all",
        "kafkaesque doctor",
    ),
    Alert(
        "UnderReplicated",
        "sum(kafkaesque_under_replicated_partitions) > 0",
        "5m",
        "warning",
        "{{ $value }} partitions have replicas that do not catch up",
        "kafkaesque doctor",
    ),
    Alert(
        "DiskFills",
        "kafkaesque_disk_free_bytes / kafkaesque_disk_total_bytes < 0.15",
        "5m",
        "warning",
        "a disk of {{ $labels.instance }} has {{ $value | humanizePercentage }} left",
        "free space on its volume, or shorten retention",
    ),
    Alert(
        "AppendsRefused",
        "kafkaesque_appends_refused > 0",
        "0m",
        "critical",
        "{{ $labels.instance }} takes no records: its disk has too little space",
        "free space on its volume, or shorten retention",
    ),
    Alert(
        "BrokerFailed",
        "kafkaesque_broker_failed > 0",
        "0m",
        "critical",
        "{{ $labels.instance }} has stopped using its disk after an error",
        "repair or replace the disk, then start the broker again",
    ),
    Alert(
        "BrokerDown",
        'up{job="kafkaesque"} == 0',
        "1m",
        "critical",
        "{{ $labels.instance }} does not answer",
        "kafkaesque cluster status",
    ),
    Alert(
        "BrokerNotReady",
        "kafkaesque_broker_ready == 0",
        "5m",
        "warning",
        "{{ $labels.instance }} is not ready",
        "curl its /health/ready",
    ),
    Alert(
        "ReplicasDamaged",
        "sum(kafkaesque_damaged_replicas) > 0",
        "0m",
        "critical",
        "{{ $value }} replicas cannot be read",
        "kafkaesque doctor",
    ),
    Alert(
        "TransactionHangs",
        "max(kafkaesque_transaction_oldest_seconds) > 900",
        "0m",
        "warning",
        "a transaction has been open for {{ $value | humanizeDuration }}",
        "kafkaesque txn list --state Ongoing --open-for 900",
    ),
    Alert(
        "GroupFallsBehind",
        "min_over_time(kafkaesque_group_lag_messages[15m]) > 10000",
        "0m",
        "warning",
        "the group {{ $labels.group }} is {{ $value }} messages behind",
        "kafkaesque why group NAME",
    ),
    Alert(
        "DeadLetters",
        "sum(increase(kafkaesque_queues_dead_letters_total[10m])) > 0",
        "0m",
        "warning",
        "consumers of queues give messages up",
        "kafkaesque queue list",
    ),
    Alert(
        "LoopLags",
        "histogram_quantile(0.99, sum by (instance, le) "
        "(rate(kafkaesque_loop_lag_seconds_bucket[5m]))) > 0.5",
        "10m",
        "warning",
        "{{ $labels.instance }} is overloaded: it looks at what has come {{ $value }} s late",
        "kafkaesque top",
    ),
)


def check_names(expression: str) -> None:
    """Stops where an expression names a metric, or a part of one, that does not exist."""
    known = set()
    for section in SECTIONS:
        for metric in section.metrics:
            known.add(metric.name)
            if metric.kind is Kind.HISTOGRAM:
                known |= {f"{metric.name}_{part}" for part in ("bucket", "sum", "count")}
    for name in NAME.findall(expression):
        if name not in known:
            raise SystemExit(f"codegen/boards.py: there is no metric {name}, as in {expression}")


def alerts_source() -> str:
    """Returns the rules, in YAML."""
    lines = [
        "# Written by codegen/boards.py from src/kafkaesque/admin/metric_table.py: never edit.",
        "groups:",
        "  - name: kafkaesque",
        "    rules:",
    ]
    for each in ALERTS:
        check_names(each.expression)
        lines += [
            f"      - alert: {each.name}",
            f"        expr: {json.dumps(each.expression)}",
            f"        for: {each.wait}",
            "        labels:",
            f"          severity: {each.severity}",
            "        annotations:",
            f"          summary: {json.dumps(each.summary)}",
            f"          action: {json.dumps(each.action)}",
        ]
    return "\n".join(lines) + "\n"


def _expressions(metric: Metric) -> list[tuple[str, str]]:
    """Returns what a metric's panel shows, with the names of the lines."""
    name = metric.name
    labels = ("instance", *metric.labels) if "instance" not in metric.labels else metric.labels
    by = ", ".join(labels)
    legend = " ".join(f"{{{{{each}}}}}" for each in labels)
    chosen = "{" + 'instance=~"$instance"' + "}"
    if metric.kind is Kind.COUNTER:
        return [(f"sum by ({by}) (rate({name}{chosen}[$__rate_interval]))", legend)]
    if metric.kind is Kind.GAUGE:
        return [(f"{name}{chosen}", legend)]
    return [
        (
            f"histogram_quantile({part}, sum by ({by}, le) "
            f"(rate({name}_bucket{chosen}[$__rate_interval])))",
            f"{legend} p{str(part)[2:]:0<2}",
        )
        for part in (0.5, 0.99)
    ]


def _unit(metric: Metric) -> str:
    base = metric.name.removesuffix("_total")
    if base.endswith("_seconds"):
        return "s"
    if base.endswith("_bytes") or "_bytes_" in base:
        return "Bps" if metric.kind is Kind.COUNTER else "bytes"
    return "ops" if metric.kind is Kind.COUNTER else "short"


def _panel(metric: Metric, number: int, x: int, y: int) -> dict[str, Any]:
    targets = []
    for place, (expression, legend) in enumerate(_expressions(metric)):
        check_names(expression)
        targets.append({"expr": expression, "legendFormat": legend, "refId": chr(ord("A") + place)})
    title = metric.name.removeprefix("kafkaesque_").removesuffix("_total").replace("_", " ")
    return {
        "id": number,
        "type": "timeseries",
        "title": title,
        "description": metric.doc,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "fieldConfig": {"defaults": {"unit": _unit(metric), "min": 0}, "overrides": []},
        "gridPos": {"h": HEIGHT, "w": WIDTH, "x": x, "y": y},
        "targets": targets,
    }


def _is_shown(metric: Metric) -> bool:
    """Tells whether every answer has it: single topics and queues are asked for by name."""
    return not metric.name.endswith("_info") and not set(BY_NAME) & set(metric.labels)


def dashboard_source() -> str:
    """Returns the dashboard, to be imported."""
    panels: list[dict[str, Any]] = []
    y = 0
    for section in SECTIONS:
        shown = [each for each in section.metrics if _is_shown(each)]
        if not shown:
            continue
        row = {
            "id": len(panels) + 1,
            "type": "row",
            "title": section.title,
            "collapsed": False,
            "gridPos": {"h": 1, "w": COLUMNS, "x": 0, "y": y},
            "panels": [],
        }
        panels.append(row)
        y += 1
        for place, metric in enumerate(shown):
            x = place % (COLUMNS // WIDTH) * WIDTH
            line = y + place // (COLUMNS // WIDTH) * HEIGHT
            panels.append(_panel(metric, len(panels) + 1, x, line))
        y += -(-len(shown) // (COLUMNS // WIDTH)) * HEIGHT
    variables = [
        {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Source"},
        {
            "name": "instance",
            "type": "query",
            "label": "Broker",
            "datasource": {"type": "prometheus", "uid": "${datasource}"},
            "query": "label_values(kafkaesque_broker_info, instance)",
            "includeAll": True,
            "multi": True,
            "refresh": 2,
            "current": {"text": "All", "value": "$__all"},
        },
    ]
    board = {
        "title": "Kafkaesque",
        "uid": "kafkaesque",
        "tags": ["kafkaesque"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": variables},
        "panels": panels,
    }
    return json.dumps(board, indent=1) + "\n"


FILES = {
    DIRECTORY / "alerts.yml": alerts_source,
    DIRECTORY / "dashboard.json": dashboard_source,
}
