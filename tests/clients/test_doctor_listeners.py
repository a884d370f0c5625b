"""`kafkaesque doctor` sees listeners that other machines reach, at a broker that is told to."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from kafkaesque.cli.broker_ports import unused_ports
from tests.clients.test_advertised_host import is_ready
from tests.clients.test_cli_up import KAFKAESQUE
from tests.forked import processes
from tests.waiting import DEADLINE_S, eventually


def test_listeners_left_open_and_in_the_clear_are_found(tmp_path: Path) -> None:
    kafka, outside, peer, admin = unused_ports(4)
    secret = tmp_path / "secret"
    secret.write_text("a secret of the cluster, long enough\n")
    secret.chmod(0o600)
    path = tmp_path / "broker.toml"
    text = (
        f'[broker]\nid = 1\ndata = "{tmp_path}/data"\ncluster.secret.file = "{secret}"\n'
        f"kafka.port = {kafka}\npeer.port = {peer}\nadmin.port = {admin}\ntext.port = 0\n"
        "allow.open.listeners = true\nallow.plaintext.listeners = true\n"
        f'[[listener]]\nname = "outside"\nport = {outside}\nhost = "0.0.0.0"\n'
        'advertised.host = "127.0.0.1"\naccess = "{}"\n'
    )
    found: dict[str, dict[str, list[str]]] = {}
    for access in ("optional", "required"):
        path.write_text(text.format(access))
        command = [sys.executable, "-m", "kafkaesque.server", "--config", str(path)]
        with (tmp_path / "log").open("ab") as log, subprocess.Popen(command, stderr=log) as process:
            try:
                eventually(lambda: is_ready(process, admin), "the broker is ready")
                done = processes.run(
                    [*KAFKAESQUE, "doctor", "--json", "-b", f"127.0.0.1:{kafka}"],
                    capture_output=True,
                    text=True,
                    timeout=DEADLINE_S,
                    check=False,
                )
            finally:
                process.terminate()
                process.wait(90)
        findings = json.loads(done.stdout)["findings"]
        found[access] = {
            each["check"]: each["names"]
            for each in findings
            if each["check"].startswith("listener")
        }
    assert found == {
        "optional": {"listener-open": ["outside"]},
        "required": {"listener-plaintext": ["outside"]},
    }
