import gc
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from kafkaesque.model.errors import InvariantBroken
from kafkaesque.runtime.runner import run

class Service:
    reload = None
    def __init__(self, env, how):
        self.env, self.how = env, how
        env.env.clock.call_soon(self.ready)
    def ready(self):
        print("ready", flush=True)
        if self.how == "broken":
            self.env.env.clock.call_later(10, self.fail)
    def fail(self):
        raise InvariantBroken("two leaders in term 7")
    def stop(self, on_stopped):
        print("stopping", flush=True)
        if self.how != "slow":
            self.env.env.clock.call_later(20, on_stopped)

status = run(sys.argv[1], lambda env: Service(env, sys.argv[2]))
print("ended", flush=True)
sys.exit(status)
"""


def start(root: Path, how: str, program: str = PROGRAM) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", program, str(root), how],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": "src"},
        cwd=Path(__file__).parents[3],
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_in_order(tmp_path: Path, number: signal.Signals) -> None:
    with start(tmp_path, "good") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        out, _ = process.communicate(timeout=90)
    assert out == "stopping\nended\n"
    assert process.returncode == 0


REDIAL = """
import sys
from kafkaesque.env.network import Address, Framing, ListenOptions
from kafkaesque.runtime.runner import run

def start(doors):
    def dial(error=None):
        address, options = Address("127.0.0.1", 9), ListenOptions(framing=Framing.STREAM)
        doors.env.network.connect(address, options, None, dial)
    dial()
    raise OSError(sys.argv[2])

try:
    run(sys.argv[1], start)
except OSError as error:
    print(error)
"""


def test_what_kept_a_service_from_starting_is_said_though_it_dials_others(tmp_path: Path) -> None:
    with start(tmp_path, "the port is busy", REDIAL) as process:
        out, complaints = process.communicate(timeout=90)
    assert (out, complaints, process.returncode) == ("the port is busy\n", "", 0)


FAREWELL = """
import sys
from kafkaesque.env.network import Address, Framing, ListenOptions
from kafkaesque.runtime.runner import run

class Service:
    reload = None
    def __init__(self, doors):
        self.links = []
        options = ListenOptions(framing=Framing.STREAM)
        listener = doors.env.network.listen(Address("127.0.0.1", 0), options, lambda: self)
        print(listener.address.port, flush=True)
    def on_open(self, connection):
        self.links.append(connection)
        if len(self.links) == 2:
            print("two", flush=True)
    def on_bytes(self, data): pass
    def on_writable(self): pass
    def on_close(self, error): pass
    def stop(self, on_stopped):
        for link in self.links:
            link.write([b"farewell" * 100_000])
        on_stopped()

sys.exit(run(sys.argv[1], Service))
"""


def test_what_was_written_last_reaches_its_clients(tmp_path: Path) -> None:
    with start(tmp_path, "good", FAREWELL) as process:
        assert process.stdout is not None
        sock = socket.create_connection(("127.0.0.1", int(process.stdout.readline())))
        idle = socket.create_connection(sock.getpeername())
        assert process.stdout.readline() == "two\n"
        process.send_signal(signal.SIGTERM)
        received = b""
        while piece := sock.recv(1_000_000):
            received += piece
        assert received == b"farewell" * 100_000
        sock.close()
        process.communicate(timeout=90)
        idle.close()
    assert process.returncode == 0


def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    with start(tmp_path, "slow") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "stopping\n"
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=90)
    assert out == ""
    assert process.returncode == 1


def test_a_broken_invariant_stops_with_a_report(tmp_path: Path) -> None:
    with start(tmp_path, "broken") as process:
        out, err = process.communicate(timeout=90)
    assert out == "ready\n"
    assert process.returncode == 70
    assert "two leaders in term 7" in err
    assert "Traceback" in err
    assert "starting again is safe" in err


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    with start(tmp_path, "good") as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "ready\n"
        with start(tmp_path, "good") as second:
            _, err = second.communicate(timeout=90)
        assert f"in use by another process (pid {first.pid})" in err
        first.kill()


def test_the_settings_of_the_collector() -> None:
    before = gc.get_threshold()
    from kafkaesque.runtime.runner import GC_THRESHOLDS, settle_gc

    try:
        settle_gc()
        assert gc.get_threshold() == GC_THRESHOLDS
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
