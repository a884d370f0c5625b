"""nats-server, the peer that our NATS is compared with."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafkaesque.cli.broker_ports import unused_ports
from tests.waiting import until_port_answers


@contextmanager
def nats_server(folder: Path, *options: str) -> Iterator[int]:
    """Run nats-server with its log in this folder; yield its port."""
    beside = Path(sys.executable).with_name("nats-server")
    program = str(beside) if beside.exists() else shutil.which("nats-server")
    assert program, "requirements/test.txt brings nats-server"
    (port,) = unused_ports(1)
    command = [program, "-a", "127.0.0.1", "-p", str(port), "-l", str(folder / "log"), *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until_port_answers(process, port)
        yield port
    finally:
        process.terminate()
        process.wait()
