"""Writes `docs/metrics.md` from the table of metrics."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "metrics.md"
sys.path.insert(0, str(ROOT / "src"))

from kafkaesque.admin.metric_table import (  # noqa: E402
    GROUPS_MAX,
    PARTITIONS_MAX,
    SECTIONS,
    TOPICS_MAX,
    Section,
)
from kafkaesque.model.histogram import LATENCY_BOUNDS_S  # noqa: E402

HEAD = f"""\
<!-- Written by codegen/metrics_page.py from src/kafkaesque/admin/metric_table.py: never edit. -->

# Metrics and health

Every broker answers HTTP on its admin port: 8080, and in a local cluster one more for each broker
after the first; `admin.port` in the broker's file sets it, and 0 is none. It listens where the
broker does, which is 127.0.0.1 unless `host` says otherwise.

| path | what it says |
|---|---|
| `/metrics` | all below, in Prometheus's text format |
| `/metrics?topic=orders` | the partitions of this topic as well; up to {TOPICS_MAX} topics |
| `/health/live` | 200, or 503 when only a restart of the broker helps |
| `/health/ready` | 200, or 503 with one line for each reason why not: not registered, turned \
away by other brokers, a controller that has lost its disk, metadata not caught up, no controller \
known, partitions of its own still recovering or damaged, stopping |
| `/brokers` | all brokers that are registered, where their ports are, and whether this one \
hears of them, as JSON |
| `/controllers` | the brokers that are controllers, as this one knows them, and which of them \
leads, as JSON; and whether it is one that has lost its disk, and with that its vote |
| `/offline-replicas` | copies that this broker cannot read, or not all of: what is wrong, in \
which file, and what helps; and those that it makes anew from others, as JSON |
| `/members` | what the broker knows of the others by gossip, as JSON |
| `/recoveries` | partitions that are being formed anew or ever were, as JSON; \
`?topic=orders`: of this topic |

A rolling restart waits until `kafkaesque cluster wait --in-sync` lets it go on to the next broker,
and that waits for `/health/ready` of all of them. What to do about what is found stands in
[operations.md](operations.md).

Counters begin at 0 with each start of a broker. Times in histograms are in seconds, in buckets from
{LATENCY_BOUNDS_S[0] * 1000:g} ms to {LATENCY_BOUNDS_S[-1]:g} s. Labels take few values, whatever
clients do: groups are the {GROUPS_MAX} that are furthest behind, partitions appear only for topics
that were asked for (at most {PARTITIONS_MAX:,} of each), clients never. Counting is a few additions
per request; what has to be looked up in all partitions is looked up when somebody asks, a part in
each turn of the event loop.

Alerts to begin with: `kafkaesque_leaderless_partitions > 0`, `kafkaesque_under_min_isr_partitions >
0`, `kafkaesque_under_replicated_partitions > 0` for five minutes, `kafkaesque_disk_free_bytes /
kafkaesque_disk_total_bytes < 0.15`, `kafkaesque_broker_failed > 0`, and
`kafkaesque_group_lag_messages` of the groups that matter to you.
"""


def _section_lines(section: Section) -> list[str]:
    lines = [
        "",
        f"## {section.title}",
        "",
        "| name | type | labels | meaning |",
        "|---|---|---|---|",
    ]
    for metric in section.metrics:
        labels = ", ".join(f"`{each}`" for each in metric.labels)
        lines.append(f"| `{metric.name}` | {metric.kind.value} | {labels} | {metric.doc} |")
    return lines


def page_source() -> str:
    """Returns the whole page."""
    lines = [HEAD.rstrip("\n")]
    for section in SECTIONS:
        lines += _section_lines(section)
    return "\n".join(lines) + "\n"
