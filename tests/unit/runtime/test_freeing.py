"""How the space of removed files is given back."""

import fcntl
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kafkaesque.runtime import freeing
from kafkaesque.runtime.freeing import STEP_BYTES, FreeingThread
from tests.unit.env.worlds import RealWorld

STEPS = 5
SIZE = STEPS * STEP_BYTES - 100


@pytest.fixture
def cuts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """What is cut so far, never on the loop: inodes, and down to which size."""
    with (tmp_path / "probe").open("w") as probe:
        try:
            fcntl.fcntl(probe, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError:
            pytest.skip("this file system does not tell who is the last to hold a file")
    made: list[tuple[int, int]] = []
    cut = os.ftruncate

    def spy(fd: int, size: int) -> None:
        assert threading.current_thread() is not threading.main_thread()
        made.append((os.fstat(fd).st_ino, size))
        cut(fd, size)

    monkeypatch.setattr(os, "ftruncate", spy)
    return made


def write(world: RealWorld, path: str) -> int:
    """Write a file; return its inode."""
    world.doors.disk.make_dir(os.path.dirname(path) or ".")
    file = world.doors.disk.open(path, create=True)
    file.write_at(0, [bytes(SIZE)])
    return os.fstat(file.fd).st_ino


def wait_until_idle(world: RealWorld) -> None:
    world.run_until(lambda: world.doors.disk._freeing._pool.pending == 0)


def steps_of(inode: int) -> list[tuple[int, int]]:
    return [(inode, at * STEP_BYTES) for at in reversed(range(1, STEPS))]


def test_a_large_file_is_freed_in_steps(world: RealWorld, cuts: list[tuple[int, int]]) -> None:
    inode = write(world, "log")
    world.doors.disk.remove("log")
    wait_until_idle(world)
    assert cuts == steps_of(inode)


def test_a_replaced_file_and_a_removed_directory_are_freed_in_steps(
    world: RealWorld, cuts: list[tuple[int, int]]
) -> None:
    disk = world.doors.disk
    replaced, removed = write(world, "log"), write(world, "topic-0/log")
    write(world, "log.swap")
    disk.rename("log.swap", "log")
    disk.remove_tree("topic-0")
    wait_until_idle(world)
    assert cuts == steps_of(replaced) + steps_of(removed)
    assert disk.list_dir("") == ["log"]
    assert os.listdir(f"{disk.root}/.trash") == []


def test_what_somebody_still_reads_stays_whole(
    world: RealWorld, cuts: list[tuple[int, int]]
) -> None:
    disk = world.doors.disk
    inode = write(world, "log")
    file = disk.open("log")
    disk.remove("log")
    wait_until_idle(world)
    assert not cuts
    assert len(file.read_blocking(0, SIZE)) == SIZE
    del file
    wait_until_idle(world)
    assert cuts == steps_of(inode), "and is freed by whoever lets go last"


def test_what_another_process_still_reads_stays_whole(
    world: RealWorld, cuts: list[tuple[int, int]]
) -> None:
    disk = world.doors.disk
    write(world, "log")
    program = "import sys; f = open(sys.argv[1], 'rb'); print(); input(); print(len(f.read()))"
    reader = subprocess.Popen(
        [sys.executable, "-c", program, f"{disk.root}/log"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert reader.stdout is not None
        reader.stdout.readline()
        disk.remove("log")
        wait_until_idle(world)
        said, _ = reader.communicate("\n", timeout=90)
    finally:
        reader.kill()
        reader.wait()
    assert int(said) == SIZE
    assert not cuts


def test_what_has_another_name_stays_whole(world: RealWorld, cuts: list[tuple[int, int]]) -> None:
    disk = world.doors.disk
    write(world, "log")
    os.link(f"{disk.root}/log", f"{disk.root}/copy")
    disk.remove("log")
    wait_until_idle(world)
    assert not cuts
    assert os.path.getsize(f"{disk.root}/copy") == SIZE


def test_closing_waits_for_no_rests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "ftruncate", lambda *_: time.sleep(0.5))
    monkeypatch.setattr(freeing, "STEP_BYTES", SIZE // 100)
    world = RealWorld(tmp_path)
    write(world, "log")
    world.doors.disk.remove("log")
    begun = time.monotonic()
    world.close()
    assert time.monotonic() - begun < 25, "a hundred steps would take twice as long"
    assert not (tmp_path / "log").exists()


def test_there_are_no_rests_while_many_wait(
    world: RealWorld, monkeypatch: pytest.MonkeyPatch, cuts: list[tuple[int, int]]
) -> None:
    rests: list[float] = []
    monkeypatch.setattr(world.doors.disk._freeing._is_closing, "wait", rests.append)
    for name, waiting_files_max, rests_wanted in (("few", 32, STEPS - 1), ("many", 0, 0)):
        rests.clear()
        monkeypatch.setattr(freeing, "WAITING_FILES_MAX", waiting_files_max)
        inode = write(world, name)
        world.doors.disk.remove(name)
        wait_until_idle(world)
        assert cuts[-(STEPS - 1) :] == steps_of(inode)
        assert len(rests) == rests_wanted


def test_when_too_much_waits_files_are_closed_at_once(
    world: RealWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = world.doors.disk
    gate = threading.Event()
    monkeypatch.setattr(FreeingThread, "_cut", lambda *_: gate.wait())
    monkeypatch.setattr(freeing, "JOBS_MAX", 2)
    closed: list[str] = []
    close = os.close

    def spy(fd: int) -> None:
        closed.append(threading.current_thread().name)
        close(fd)

    for name in ("a", "b", "c", "d"):
        disk.open(name, create=True)
    monkeypatch.setattr(os, "close", spy)
    try:
        for name in ("a", "b", "c", "d"):
            disk.remove(name)
        assert closed == [threading.current_thread().name] * 2
    finally:
        gate.set()
    wait_until_idle(world)
    assert closed[2:] == ["disk-free-0"] * 2
    assert disk.list_dir("") == []
