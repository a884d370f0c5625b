"""A second process of a broker's id, and that broker's successor elsewhere, as real processes."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from kafkaesque.cli.broker_ports import unused_ports
from tests.clients.cluster import KafkaesqueCluster, broker_command
from tests.documentation.output import plain
from tests.documentation.table import blocks_run_by, this_file

#: scripts/test-clients runs them.
pytestmark = pytest.mark.extended

#: Which broker has noticed it first, and the addresses.
VARIABLE = ((r"broker [12]\b", "broker N"), (r"\d+(\.\d+){3}:\d+", "ADDRESS"))
(_BLOCK,) = blocks_run_by(this_file(__file__), "docs/membership.md")
(SHOWN,) = plain(" ".join(_BLOCK.content.split()), VARIABLE)
#: Far more than it takes: the machine may have much else to do.
PATIENT_S = 60


def twin_file(cluster: KafkaesqueCluster, directory: Path, peer_port: int = 0) -> Path:
    """Return the file of another process that is broker 3, with ports and directory of its own.

    `peer_port`: where the others' files say that broker 3 is.
    """
    home = cluster.brokers[2].log_path.parent
    lines = (home / "broker.toml").read_text().splitlines()
    kafka, peer = unused_ports(2)
    changed = {"data": f'"{directory}"', "kafka.port": kafka, "peer.port": peer_port or peer}
    for number, line in enumerate(lines):
        key = line.split(" = ")[0]
        if key in changed:
            lines[number] = f"{key} = {changed[key]}"
    path = directory.with_suffix(".toml")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.timeout(600)
def test_a_newcomer_ends_with_a_sentence_and_a_dead_brokers_successor_starts(
    tmp_path: Path,
) -> None:
    with KafkaesqueCluster(3, directory=tmp_path) as cluster:
        data = cluster.brokers[2].log_path.parent / "data"
        for name in ("empty", "copied"):
            directory = tmp_path / name
            if name == "copied":
                shutil.copytree(data, directory, ignore=shutil.ignore_patterns("*lock*"))
            ended = subprocess.run(
                broker_command(twin_file(cluster, directory)),
                capture_output=True,
                text=True,
                timeout=PATIENT_S,
                check=False,
            )
            assert ended.returncode == 1
            assert SHOWN in plain(" ".join(ended.stderr.split()), VARIABLE)[0]
            assert f"at 127.0.0.1:{cluster.peer_ports[2]}" in ended.stderr
            assert ended.stdout == ""
        assert all(broker.is_running() for broker in cluster.brokers)

        cluster.brokers[2].kill()
        successor = subprocess.Popen(
            broker_command(twin_file(cluster, tmp_path / "copied", cluster.peer_ports[2])),
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            began = time.monotonic()
            assert successor.stdout is not None
            assert json.loads(successor.stdout.readline())["ready"] == 3
            assert time.monotonic() - began < PATIENT_S
        finally:
            successor.send_signal(signal.SIGKILL)
            successor.communicate()
