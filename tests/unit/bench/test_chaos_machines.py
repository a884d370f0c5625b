"""What a chaos run does to machines, and how it compares their replicas."""

from __future__ import annotations

import errno
import json
import os
import random
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from bench.chaos.__main__ import UNSHARE, can_unshare
from bench.chaos.machine import Control, Machine, compile_interposer
from bench.chaos.replicas import check_replicas
from bench.chaos.run import unsettled
from bench.chaos.switch import Network
from bench.kills.wire import PartitionView
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.records import Record

# -- replicas


def write_segment(
    home: Path, partition: str, records: list[tuple[bytes, bytes | None]], base: int = 0
) -> None:
    (home / partition).mkdir(parents=True, exist_ok=True)
    batch = bytearray(
        encode_batch([Record(n, 0, key, value, ()) for n, (key, value) in enumerate(records)])
    )
    struct.pack_into(">q", batch, 0, base)
    (home / partition / f"{base:020}.log").write_bytes(bytes(batch))


def compare(tmp_path: Path, partition: str, *holders: str) -> list[str]:
    anomalies: list[str] = []
    homes = {name: tmp_path / name for name in ("1", "2", "3")}
    check_replicas(homes, {partition: frozenset(holders)}, ["table-"], anomalies)
    return anomalies


def test_replicas_that_are_equal_are_no_anomaly(tmp_path: Path) -> None:
    for name in ("1", "2"):
        write_segment(tmp_path / name, "plain-0", [(b"k", b"v")])
    assert compare(tmp_path, "plain-0", "1", "2") == []
    (anomaly,) = compare(tmp_path, "plain-0", "1", "2", "3")
    assert "'3': 0" in anomaly


def test_a_replica_with_another_record_diverges(tmp_path: Path) -> None:
    write_segment(tmp_path / "1", "plain-0", [(b"k", b"v")])
    write_segment(tmp_path / "2", "plain-0", [(b"k", b"w")])
    (anomaly,) = compare(tmp_path, "plain-0", "1", "2")
    assert anomaly.startswith("divergence of replicas: plain-0")


def test_of_a_compacted_partition_the_newest_records_are_compared(tmp_path: Path) -> None:
    write_segment(tmp_path / "1", "table-0", [(b"k", b"old"), (b"l", b"x"), (b"k", b"new")])
    write_segment(tmp_path / "1", "table-0", [(b"l", None)], base=3)
    write_segment(tmp_path / "2", "table-0", [(b"k", b"new")], base=2)
    assert compare(tmp_path, "table-0", "1", "2") == []
    write_segment(tmp_path / "3", "table-0", [(b"k", b"old")], base=0)
    (anomaly,) = compare(tmp_path, "table-0", "1", "2", "3")
    assert anomaly.startswith("divergence of replicas: table-0")


def view(leader: int = 1, epoch: int = 1, in_sync: tuple[int, ...] = (1, 2)) -> PartitionView:
    return PartitionView(
        leader=leader, epoch=epoch, replicas=frozenset({1, 2}), in_sync=frozenset(in_sync)
    )


def test_a_cluster_is_settled_when_all_say_the_same_and_all_is_in_sync() -> None:
    where = ("plain", 0)
    assert unsettled([{where: view()}, {where: view()}], 2) == []
    assert unsettled([{where: view()}], 2) == ["1 of 2 brokers answer"]
    for other in (view(leader=2), view(epoch=2), view(in_sync=(1,)), view(leader=-1)):
        assert unsettled([{where: view()}, {where: other}], 2) != []


# -- the library that is loaded before the C library


@pytest.fixture(scope="module")
def interposer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = compile_interposer(tmp_path_factory.mktemp("interposer"))
    if library is None:
        pytest.skip("there is no C compiler")
    return library


_ASKED = """
import json, os, sys, time
disk, elsewhere = sys.argv[1:]
told = {"clock": time.time(), "monotonic": time.monotonic()}
def number(act):
    try:
        act()
    except OSError as error:
        return error.errno
    return 0
for name in (disk, elsewhere):
    file = os.open(name, os.O_RDWR | os.O_CREAT)
    told[name] = [
        number(lambda: os.write(file, b"x")),
        number(lambda: os.fdatasync(file)),
        number(lambda: os.pread(file, 1, 0)),
        number(lambda: os.preadv(file, [bytearray(1)], 0)),
        number(lambda: os.pwritev(file, [b"x"], 0)),
    ]
print(json.dumps(told))
"""


def ask(interposer: Path, control: Control, disk: Path, elsewhere: Path) -> dict[str, object]:
    environment = {
        **os.environ,
        "LD_PRELOAD": str(interposer),
        "CHAOS_CONTROL": str(control.path),
        "CHAOS_DISK": str(disk),
    }
    done = subprocess.run(
        [sys.executable, "-c", _ASKED, str(disk / "file"), str(elsewhere)],
        env=environment,
        capture_output=True,
        check=True,
    )
    return dict(json.loads(done.stdout))


def test_a_process_is_told_the_time_and_errors_of_its_own_disk_only(
    interposer: Path, tmp_path: Path
) -> None:
    disk, elsewhere = tmp_path / "disk", tmp_path / "elsewhere"
    disk.mkdir()
    control = Control(tmp_path / "control")
    before = ask(interposer, control, disk, elsewhere)
    assert before[str(disk / "file")] == [0] * 5
    control.clock_offset_ms = -86_400_000
    control.failing["syncs"] = control.failing["reads"] = True
    control.apply()
    after = ask(interposer, control, disk, elsewhere)
    assert float(str(after["clock"])) < float(str(before["clock"])) - 80_000
    assert float(str(after["monotonic"])) >= float(str(before["monotonic"]))
    assert after[str(disk / "file")] == [0, errno.EIO, errno.EIO, errno.EIO, 0]
    assert after[str(elsewhere)] == [0] * 5
    assert control.failures == 3
    control.failing["writes"] = True
    control.apply()
    assert control.failures == 3
    again = ask(interposer, control, disk, elsewhere)
    assert again[str(disk / "file")] == [errno.EIO] * 5


# -- the network

_HEARS = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[1], 9))
s.settimeout(float(sys.argv[2]))
print("ready", flush=True)
try:
    print(s.recv(100).decode(), flush=True)
except TimeoutError:
    print("nothing", flush=True)
"""
_SAYS = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(20):
    s.sendto(b"hello", (sys.argv[1], 9))
"""


def hears(network: Network, source: str, target: str, wait_s: float) -> str:
    """Return what a machine hears when another one says hello."""
    to = network.address(target)
    with subprocess.Popen(
        [*network.enter(target), sys.executable, "-c", _HEARS, to, str(wait_s)],
        stdout=subprocess.PIPE,
        text=True,
    ) as listener:
        assert listener.stdout is not None
        assert listener.stdout.readline() == "ready\n"
        subprocess.run([*network.enter(source), sys.executable, "-c", _SAYS, to], check=True)
        return listener.stdout.readline().strip()


def in_namespaces() -> None:
    """Runs in a process with namespaces of its own: links are cut one way, and mended."""
    network = Network(["clients", "1", "2"])
    try:
        assert hears(network, "1", "2", 20.0) == "hello"
        network.strike(7, [("1", "2")], loss=1.0)
        assert hears(network, "1", "2", 0.5) == "nothing"
        assert hears(network, "2", "1", 20.0) == "hello"
        network.mend(7)
        network.strike(8, [("1", "2")], delay_ms=100.0)
        assert hears(network, "1", "2", 20.0) == "hello"
    finally:
        network.close()


def test_links_are_cut_in_one_direction() -> None:
    if not can_unshare():
        pytest.skip("network namespaces cannot be made here")
    act = "from tests.unit.bench.test_chaos_machines import in_namespaces; in_namespaces()"
    done = subprocess.run(
        [*UNSHARE, sys.executable, "-c", act],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def test_a_closed_file_is_damaged_and_the_damage_is_told(tmp_path: Path) -> None:
    said: list[str] = []
    machine = Machine(
        "1",
        home=tmp_path,
        address="127.0.0.1",
        port=1,
        enter=[],
        interposer=None,
        say=said.append,
        anomaly=said.append,
    )
    machine.start = lambda: None  # type: ignore[method-assign]
    write_segment(machine.data, "plain-0", [(b"k", b"v" * 100)])
    assert machine.damage("bit flip", random.Random(1)) is None
    write_segment(machine.data, "plain-0", [(b"k", b"v")], base=1)
    segment = machine.data / "plain-0" / f"{0:020}.log"
    before = segment.read_bytes()
    done = machine.damage("bit flip", random.Random(1))
    assert done is not None
    assert "flipped" in done
    after = segment.read_bytes()
    assert sum((a ^ b).bit_count() for a, b in zip(before, after, strict=True)) == 1
    machine.cure()
    assert not segment.parent.exists()
    assert said == []
