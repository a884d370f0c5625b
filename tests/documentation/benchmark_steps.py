"""What a reader of docs/performance.md types, and what the test types: the same, of less.

A benchmark without a size of its own is run as it is. Each takes seconds, or a minute.
"""

from __future__ import annotations

from typing import Final

_QUICK: Final = "--peer none --quick --seconds 0.3"

#: By how a command begins; the longest that fits counts.
SMALLER: Final = {
    "scripts/bench": f"scripts/bench {_QUICK} --only startup",
    "scripts/bench --quick": f"scripts/bench {_QUICK} --only requests",
    "scripts/bench --only latency": f"scripts/bench --only latency {_QUICK}",
    "scripts/bench --only transactions": f"scripts/bench --only transactions {_QUICK}",
    "scripts/bench --before ../checkout --only throughput": (
        "scripts/bench --before . --only requests --quick --rounds 1 --seconds 0.3"
    ),
    "scripts/bench --before ../checkout --only memory": (
        "scripts/bench --before . --only memory --quick --rounds 1 --seconds 0.3"
    ),
    ".venv/bin/python -m bench.syncs": ".venv/bin/python -m bench.syncs",
    ".venv/bin/python -m bench.records": ".venv/bin/python -m bench.records",
    ".venv/bin/python -m bench.decisions": ".venv/bin/python -m bench.decisions",
    ".venv/bin/python -m bench.name_index": ".venv/bin/python -m bench.name_index 2000 200",
    ".venv/bin/python -m bench.retained_names": ".venv/bin/python -m bench.retained_names 20000",
    ".venv/bin/python -m bench.few_names": ".venv/bin/python -m bench.few_names 20000 1000",
    ".venv/bin/python -m bench.bindings": ".venv/bin/python -m bench.bindings 2000",
    ".venv/bin/python -m bench.amqp": (
        ".venv/bin/python -m bench.amqp --side ours --only one --seconds 1"
    ),
    ".venv/bin/python -m bench.amqp --brokers 3": (
        ".venv/bin/python -m bench.amqp --brokers 3 --side ours --only one --seconds 1"
    ),
    ".venv/bin/python -m bench.amqp_codec": ".venv/bin/python -m bench.amqp_codec 640",
    ".venv/bin/python -m bench.tls": (
        ".venv/bin/python -m bench.tls --rounds 1 --megabytes 5 --requests 100 --connections 20"
    ),
    ".venv/bin/python -m bench.secured": (
        ".venv/bin/python -m bench.secured --rounds 1 --records 2000 --singles 20 --requests 50"
        " --connections 10"
    ),
    ".venv/bin/python -m bench.sealed": (
        ".venv/bin/python -m bench.sealed --rounds 1 --megabytes 2 --sizes 1000"
    ),
    ".venv/bin/python -m bench.many_rules": (
        ".venv/bin/python -m bench.many_rules --rules 100 --users 20 --requests 100 --starts 1"
    ),
    ".venv/bin/python -m bench.half_open": (
        ".venv/bin/python -m bench.half_open --count 100 --requests 200 --connections 20"
    ),
    ".venv/bin/python -m bench.queue_wire": ".venv/bin/python -m bench.queue_wire --seconds 1",
    ".venv/bin/python -m bench.sqs": ".venv/bin/python -m bench.sqs --rounds 1 --seconds 0.3",
    ".venv/bin/python -m bench.light": (
        ".venv/bin/python -m bench.light --alone --rounds 1 --seconds 0.3"
        " --only mqtt-1 --only nats-fan --only stomp-queue"
    ),
    ".venv/bin/python -m bench.group_pauses": ".venv/bin/python -m bench.group_pauses 1",
    ".venv/bin/python -m bench.poison_key": (
        ".venv/bin/python -m bench.poison_key --turns 1 --messages 500 --consumers 8"
    ),
    ".venv/bin/python -m bench.idle_queues": (
        ".venv/bin/python -m bench.idle_queues --queues 20 --polls 20 --seconds 1"
    ),
    ".venv/bin/python -m bench.waiting_queue": (
        ".venv/bin/python -m bench.waiting_queue --messages 2000 --behind 2000"
    ),
    ".venv/bin/python -m bench.queue_restart": (
        ".venv/bin/python -m bench.queue_restart --queues 3 --messages 20 --starts 1"
    ),
    ".venv/bin/python -m bench.session_resume": (
        ".venv/bin/python -m bench.session_resume --messages 500 --runs 1"
    ),
    ".venv/bin/python -m bench.search": ".venv/bin/python -m bench.search",
    ".venv/bin/python -m bench.cold_search": (
        ".venv/bin/python -m bench.cold_search --gigabytes 0.01 --seconds 1"
    ),
    ".venv/bin/python -m bench.rolling_restart": (
        ".venv/bin/python -m bench.rolling_restart --rate 100"
    ),
    ".venv/bin/python -m bench.partitions": (
        ".venv/bin/python -m bench.partitions --counts 1 --seconds 1"
    ),
    ".venv/bin/python -m bench.compaction": ".venv/bin/python -m bench.compaction 4",
    ".venv/bin/python -m bench.compaction_beside": (
        ".venv/bin/python -m bench.compaction_beside 4 1"
    ),
    "scripts/test-console --figures": "scripts/test-console --figures 100 5",
    "scripts/bench-spark": ("scripts/bench-spark --peer none --only source --rounds 1 --rows 2000"),
}
