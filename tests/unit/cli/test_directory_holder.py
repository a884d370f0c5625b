"""Only the process that has a data directory open is taken for its broker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafkaesque.cli.directory_holder import DirectoryHolder, is_held

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")

#: The part of a broker's start that counts here.
BROKER = """
import sys, time
from kafkaesque.runtime.disk import _lock
held = _lock(sys.argv[1])
print("held", flush=True)
time.sleep(60)
"""


@contextmanager
def broker(data: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", BROKER, str(data)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def test_the_process_that_has_it_open_is_found_stopped_and_seen_to_be_gone(tmp_path: Path) -> None:
    assert DirectoryHolder.find(tmp_path) is None
    assert not is_held(tmp_path)
    with broker(tmp_path) as process:
        holder = DirectoryHolder.find(tmp_path)
        assert holder is not None
        assert holder.pid == process.pid
        assert is_held(tmp_path)
        assert holder.is_running()
        assert not holder.wait(0.01)
        holder.signal(signal.SIGTERM)
        assert holder.wait(60)
        assert not holder.is_running()
    holder.signal(signal.SIGTERM)  # harmless
    holder.close()
    assert DirectoryHolder.find(tmp_path) is None
    assert not is_held(tmp_path)


@pytest.mark.parametrize("text", ["", "nonsense", "this process", "-1", "0", "9" * 30])
def test_what_a_broker_of_long_ago_left_is_nobodys(tmp_path: Path, text: str) -> None:
    own = str(os.getpid())
    (tmp_path / ".lock").write_text(own if text == "this process" else text)
    assert DirectoryHolder.find(tmp_path) is None
