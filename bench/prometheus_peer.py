"""Prometheus and our metrics: `scripts/peers --prometheus`.

Debian's Prometheus loads docs/monitoring/alerts.yml as it stands and scrapes a cluster of three
brokers. Then every expression of the rules and of the dashboard is asked for: none may be an error,
and each panel whose metric every answer has must show something. At the end a broker is killed: the
alert for it has to be pending, and no other critical one before. Grafana is not in Debian: its
dashboard is checked by what its panels ask Prometheus for.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from confluent_kafka import Consumer, Producer

from kafkaesque.cli.broker_ports import unused_ports
from tests.clients.cluster import KafkaesqueCluster
from tests.waiting import eventually

MONITORING = Path(__file__).resolve().parents[1] / "docs" / "monitoring"
BROKERS = 3
#: Panels that show nothing here, and why.
SILENT = {
    "produce errors": "nothing was refused",
    "fetch errors": "nothing was refused",
    "audit events": "nobody logs in",
    "logins open": "nobody logs in",
    "rules age seconds": "nobody logs in",
    "trace spans": "nothing is traced",
    "trace spans lost": "nothing is traced",
    "trace batches skipped": "nothing is traced",
}
#: Two scrapes at least are needed for a rate.
SCRAPE_S, SEEN_S = 1, 30
CONFIG = """\
global: {{scrape_interval: {scrape_s}s, evaluation_interval: {scrape_s}s}}
scrape_configs:
  - job_name: kafkaesque
    static_configs:
      - targets: [{targets}]
rule_files: ["{rules}"]
"""


class Prometheus:
    """One process of Prometheus."""

    def __init__(self, port: int) -> None:
        self._root = f"http://127.0.0.1:{port}"

    def is_ready(self) -> bool:
        """Whether it answers."""
        try:
            with urlopen(f"{self._root}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def ask(self, path: str, **query: str) -> Any:
        """Return the data of an answer; an expression that is none raises HTTPError."""
        with urlopen(f"{self._root}/api/v1/{path}?{urlencode(query)}", timeout=30) as answer:
            return json.load(answer)["data"]

    def values(self, expression: str) -> list[Any]:
        """Return what an expression is now."""
        return list(self.ask("query", query=expression)["result"])

    def alerts(self) -> dict[str, str]:
        """Return the states of alerts that are pending or firing."""
        return {each["labels"]["alertname"]: each["state"] for each in self.ask("alerts")["alerts"]}


@contextmanager
def prometheus(directory: Path, targets: list[str]) -> Iterator[Prometheus]:
    """Run Prometheus over these brokers."""
    (port,) = unused_ports(1)
    config = directory / "prometheus.yml"
    config.write_text(
        CONFIG.format(
            scrape_s=SCRAPE_S, targets=", ".join(targets), rules=MONITORING / "alerts.yml"
        )
    )
    command = [
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={directory / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    ]
    with subprocess.Popen(command) as process:
        try:
            found = Prometheus(port)
            eventually(found.is_ready, "Prometheus answers")
            yield found
        finally:
            process.terminate()


def panels() -> Iterator[tuple[str, str]]:
    """Yield the title and the expression of each panel of the dashboard."""
    board = json.loads((MONITORING / "dashboard.json").read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], _without_variables(target["expr"])


def _without_variables(expression: str) -> str:
    """Return an expression as Grafana sends it when nothing is chosen."""
    return (
        expression.replace("$__rate_interval", "10s")
        .replace("$__interval", "10s")
        .replace("$instance", ".*")
        .replace("$job", ".*")
    )


def check(faults: list[str]) -> None:
    """Compare what Prometheus says with what it has to; say what is wrong."""
    ports = unused_ports(BROKERS)

    def section(number: int) -> str:
        return f'\n[[listener]]\nprotocol = "admin"\nport = {ports[number - 1]}\n'

    with (
        tempfile.TemporaryDirectory() as folder,
        KafkaesqueCluster(BROKERS, directory=Path(folder), sections=section) as cluster,
        prometheus(Path(folder), [f"127.0.0.1:{port}" for port in ports]) as server,
    ):
        servers: dict[str, str | int | float | bool] = {
            "bootstrap.servers": cluster.bootstrap_servers,
            # A broker is killed beneath them: what they say of it is no finding.
            "log_level": 0,
        }
        producer = Producer(servers)
        consumer = Consumer({**servers, "group.id": "readers", "auto.offset.reset": "earliest"})
        consumer.subscribe(["greetings"])
        until = time.monotonic() + SEEN_S
        while time.monotonic() < until:
            producer.produce("greetings", b"hello")
            producer.poll(0.05)
            consumer.poll(0)
        producer.flush(30)
        consumer.close()
        ups = [each["value"][1] for each in server.values('up{job="kafkaesque"}')]
        if ups != ["1"] * BROKERS:
            faults.append(f"brokers are scraped: {ups}")
        asked = 0
        for title, expression in panels():
            asked += 1
            if not server.values(expression) and title not in SILENT:
                faults.append(f"panel {title!r} shows nothing: {expression}")
        rules = [each for group in server.ask("rules")["groups"] for each in group["rules"]]
        faults += [
            f"alert {each['name']}: {each.get('lastError')}"
            for each in rules
            if each["health"] != "ok"
        ]
        before = server.alerts()
        cluster.brokers[-1].kill()
        eventually(lambda: "BrokerDown" in server.alerts(), "the alert for a dead broker")
        after = server.alerts()
        print(f"{asked} panels, {len(rules)} rules; before: {before}; a broker killed: {after}")
        faults += [f"{name} before anything was wrong" for name in before]


def main() -> int:
    """Run it; return how the process ends."""
    if shutil.which("prometheus") is None:
        print("install Debian's package prometheus first", file=sys.stderr)
        return 2
    done = subprocess.run(
        ["promtool", "check", "rules", str(MONITORING / "alerts.yml")],
        capture_output=True,
        text=True,
        check=False,
    )
    faults = [] if done.returncode == 0 else [done.stdout + done.stderr]
    check(faults)
    for each in faults:
        print(each, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
