"""A broker behind an address that is not its machine's: it listens at one, and tells the other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

from kafkaesque.cli.broker_ports import unused_ports
from tests.waiting import eventually

#: An address for documentation: nobody's.
ADVERTISED = "192.0.2.1"
READY_S_MAX = 90.0


def test_a_broker_need_not_have_the_address_that_others_are_told(tmp_path: Path) -> None:
    kafka, peer, admin = unused_ports(3)
    config = tmp_path / "broker.toml"
    config.write_text(
        f'[broker]\nid = 1\ndata = "{tmp_path}/data"\nhost = "127.0.0.1"\n'
        f'peer.host = "127.0.0.1"\nadvertised.host = "{ADVERTISED}"\n'
        f"kafka.port = {kafka}\npeer.port = {peer}\nadmin.port = {admin}\ntext.port = 0\n"
    )
    command = [sys.executable, "-m", "kafkaesque.server", "--config", str(config)]
    with (tmp_path / "log").open("wb") as log, subprocess.Popen(command, stderr=log) as broker:
        try:
            eventually(lambda: is_ready(broker, admin), "the broker is ready", seconds=READY_S_MAX)
        finally:
            broker.terminate()
            assert broker.wait(90) == 0
    assert f"Kafka on {ADVERTISED}:{kafka}" in (tmp_path / "log").read_text()


def is_ready(broker: subprocess.Popen[bytes], admin: int) -> bool:
    assert broker.poll() is None, "it has ended"
    try:
        with urlopen(f"http://127.0.0.1:{admin}/health/ready", timeout=5) as page:
            return bool(page.status == 200)
    except OSError:
        return False
