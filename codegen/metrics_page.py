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
    QUEUES_ASKED_MAX,
    QUEUES_MAX,
    SECTIONS,
    TOPICS_MAX,
    Section,
)
from kafkaesque.model.histogram import LATENCY_BOUNDS_S  # noqa: E402

HEAD = f"""\
<!-- Written by codegen/metrics_page.py from src/kafkaesque/admin/metric_table.py: never edit. -->

# Metrics and health

Every broker serves metrics and health checks over HTTP on its admin port:

```
$ curl -s http://127.0.0.1:8080/health/ready
ready
$ curl -s 'http://127.0.0.1:8080/metrics?topic=greetings' | grep high_watermark
# HELP kafkaesque_partition_high_watermark The offset after the last committed record.
# TYPE kafkaesque_partition_high_watermark gauge
kafkaesque_partition_high_watermark{{topic="greetings",partition="0"}} 0
kafkaesque_partition_high_watermark{{topic="greetings",partition="1"}} 0
kafkaesque_partition_high_watermark{{topic="greetings",partition="2"}} 1
```

The same port serves the [admin API](admin-api.md) and the [console](console.md).

The port is 8080; in a local cluster, broker 2 has 8081, and so on. Set `admin.port` in the
broker's file to another port, or to 0 for none. The port listens on the broker's `host`, which is
127.0.0.1 by default.

## Alerts to begin with

| expression | meaning |
|---|---|
| `kafkaesque_leaderless_partitions > 0` | partitions can be neither written nor read |
| `kafkaesque_under_min_isr_partitions > 0` | `acks=all` is refused |
| `kafkaesque_under_replicated_partitions > 0` for five minutes | replicas do not catch up |
| `kafkaesque_disk_free_bytes / kafkaesque_disk_total_bytes < 0.15` | a disk fills up |
| `kafkaesque_broker_failed > 0` | a broker has stopped using its disk after an error |
| `kafkaesque_group_lag_messages`, for your important groups | consumers fall behind |
| `kafkaesque_queue_oldest_seconds`, for your important queues | consumers fall behind, \
or fail at a message |
| `increase(kafkaesque_queues_dead_letters_total[10m]) > 0` | consumers give messages up |

[monitoring/alerts.yml](monitoring/alerts.yml) has these and more as rules of Prometheus, and
[monitoring/dashboard.json](monitoring/dashboard.json) is a dashboard for Grafana, with a panel for
each metric below. Both are made of the table of metrics. Give the job that scrapes brokers the name
`kafkaesque`:

```
scrape_configs:
  - job_name: kafkaesque
    static_configs:
      - targets: [127.0.0.1:8080, 127.0.0.1:8081, 127.0.0.1:8082]
rule_files: [alerts.yml]
```

[operations.md](operations.md) says what to do about each. In a rolling restart, wait for
`kafkaesque cluster wait --in-sync` before you restart the next broker; it also checks
`/health/ready` of all brokers.

## Paths

| path | answer |
|---|---|
| `/metrics` | the metrics below, in Prometheus's text format |
| `/metrics?topic=orders` | also the partitions of this topic; up to {TOPICS_MAX} topics in one \
request |
| `/metrics?queue=mails` | also this queue, if it is led here; up to \
{QUEUES_ASKED_MAX} queues, those of another virtual host with `&vhost=NAME` |
| `/health/live` | 200, or 503 if only a restart of the broker helps |
| `/health/ready` | 200, or 503 with one line for each reason: not registered, turned away by \
other brokers, a controller that has lost its disk, metadata not caught up, no controller known, \
own partitions still recovering or damaged, stopping |
| `/brokers` | JSON: all registered brokers, their ports, and whether this broker is \
in contact with them |
| `/controllers` | JSON: the controllers as this broker knows them, which of them leads, and \
whether this broker is a controller that has lost its vote together with its disk |
| `/offline-replicas` | JSON: copies that this broker cannot read, or only in part: what is \
wrong, in which file, and what helps; and copies that it is replacing from other brokers |
| `/members` | JSON: what this broker knows of the others from gossip |
| `/recoveries` | JSON: partitions that lost their majority and were recovered, or are being \
recovered; `?topic=orders` selects a topic |

## About the numbers

- Counters start at 0 when a broker starts; those of single queues when the queue is made, and
  they go on with the queue's next leader.
- Histograms of times are in seconds, with buckets from
  {LATENCY_BOUNDS_S[0] * 1000:g} ms to {LATENCY_BOUNDS_S[-1]:g} s.
- The number of label values is bounded, whatever clients do. Groups: only the {GROUPS_MAX} that
  are furthest behind. Queues: only the {QUEUES_MAX} led by a broker that have the oldest
  messages, and requested ones. Partitions: only those of requested topics, at most
  {PARTITIONS_MAX:,} of each topic. Clients are never labels.
- A queue is counted by the leader of its log. Sum over brokers for the whole cluster. Share groups
  are not counted as queues.
- Metrics are cheap: counting costs a few additions per request. Values that depend on all
  partitions are computed only for a request, in small steps between other work.
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
