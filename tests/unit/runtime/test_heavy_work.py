"""The worker process: who it is, and when it ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kafkaesque.model.errors import OverBound, WorkerLost
from kafkaesque.runtime import heavy_work, worker
from tests.unit.env import steps
from tests.unit.env.worlds import RealWorld
from tests.waiting import eventually

_BROKER = """\
import asyncio, sys
from kafkaesque.runtime.disk import RealDisk
from tests.unit.env import steps
loop = asyncio.new_event_loop()
disk = RealDisk(sys.argv[1], loop)
def on_step(pid):
    print(pid, flush=True)
    run.go_on()
run = disk.run_steps(steps.sleep, 60.0, on_step, print)
loop.run_forever()
"""


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that waits to be buried does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False  # gone before it was looked up, or between that and reading


def begin(world: RealWorld, seen: list[int]) -> None:
    world.env.disk.run_steps(steps.sleep, 60.0, seen.append, lambda *_: None)
    world.run_until(lambda: bool(seen))


def test_heavy_work_is_done_elsewhere_at_low_priority(world: RealWorld) -> None:
    seen: list[tuple[int, int, int, int]] = []
    done: list[object] = []
    run = world.env.disk.run_steps(steps.tell_process, None, seen.append, lambda *_: done.append(1))
    world.run_until(lambda: bool(seen))
    run.stop()
    world.run_until(lambda: bool(done))
    ((pid, group, session, niceness),) = seen
    assert pid != os.getpid()
    assert group == pid, "what a terminal sends to the broker's group is not for it"
    assert session == os.getsid(0), "in a session of its own it would be as good as not nice"
    assert niceness == min(19, os.nice(0) + worker.NICENESS)


def test_one_piece_of_heavy_work_at_a_time(world: RealWorld) -> None:
    """What is begun meanwhile waits for its turn, and may be stopped before it has one."""
    disk = world.env.disk
    done: list[str] = []
    pids: list[int] = []
    first = disk.run_steps(steps.tell_process, None, lambda _: None, lambda *_: done.append("1"))
    second = disk.run_steps(steps.count, 3, lambda _: None, lambda *_: done.append("2"))
    third = disk.run_steps(
        steps.sleep, 0.0, pids.append, lambda _, error: done.append(f"3 {error}")
    )
    second.stop()
    world.run_until(lambda: done == ["2"])
    assert not disk.exists("counted")
    assert not pids
    first.stop()
    world.run_until(lambda: bool(pids))
    assert done == ["2", "1"]
    third.go_on()
    world.settle()
    third.go_on()
    world.run_until(lambda: done == ["2", "1", "3 None"])


def test_so_much_heavy_work_may_wait(world: RealWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heavy_work, "WAITING_MAX", 1)
    for _ in range(2):
        world.env.disk.run_steps(steps.sleep, 60.0, print, print)
    with pytest.raises(OverBound):
        world.env.disk.run_steps(steps.sleep, 60.0, print, print)


def test_an_idle_worker_process_ends_and_another_is_begun(
    world: RealWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heavy_work, "IDLE_MS_MAX", 10)
    seen: list[tuple[int, int, int, int]] = []
    for count in (1, 2):
        done: list[object] = []
        run = world.env.disk.run_steps(
            steps.tell_process,
            None,
            seen.append,
            lambda *_: done.append(1),  # noqa: B023
        )
        world.run_until(lambda: len(seen) == count)  # noqa: B023
        run.stop()
        world.run_until(lambda: bool(done))  # noqa: B023
        world.run_until(lambda: not is_alive(seen[-1][0]))
    assert seen[0][0] != seen[1][0]


def test_the_worker_process_ends_with_the_disk_whatever_it_does(tmp_path: Path) -> None:
    world = RealWorld(tmp_path)
    seen: list[int] = []
    run = world.env.disk.run_steps(steps.sleep, 60.0, seen.append, lambda *_: None)
    world.run_until(lambda: bool(seen))
    run.go_on()
    world.settle()
    assert is_alive(seen[0])
    world.close()
    assert not is_alive(seen[0])


def test_a_worker_process_that_dies_is_told_about_and_another_is_begun(world: RealWorld) -> None:
    for _ in range(2):
        done: list[Exception | None] = []
        run = world.env.disk.run_steps(
            steps.die,
            None,
            lambda _: run.go_on(),  # noqa: B023
            lambda _, error: done.append(error),  # noqa: B023
        )
        world.run_until(lambda: bool(done))  # noqa: B023
        assert isinstance(done[0], WorkerLost)
        assert "status 9" in str(done[0])


def test_a_broker_that_is_killed_leaves_no_worker_process(tmp_path: Path) -> None:
    broker = subprocess.Popen(
        [sys.executable, "-c", _BROKER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert broker.stdout is not None
    try:
        pid = int(broker.stdout.readline())
        time.sleep(0.1)
        assert is_alive(pid), "it is busy for a minute"
        broker.send_signal(signal.SIGKILL)
        broker.wait()
        eventually(lambda: not is_alive(pid), "the worker has ended")
    finally:
        broker.kill()
        broker.wait()
        broker.stdout.close()


def test_a_worker_process_waits_for_the_last_one_of_the_directory(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-m", "kafkaesque.runtime.worker", str(tmp_path)], stdin=subprocess.PIPE
    )
    world = RealWorld(tmp_path)
    try:
        eventually(lambda: f"{holder.pid}" in Path("/proc/locks").read_text(), "the lock is taken")
        seen: list[int] = []
        world.env.disk.run_steps(steps.sleep, 0.0, seen.append, lambda *_: None)
        world.settle()
        world.settle()
        time.sleep(0.5)
        world.settle()
        assert not seen
        assert holder.stdin is not None
        holder.stdin.close()
        world.run_until(lambda: bool(seen))
    finally:
        holder.kill()
        holder.wait()
        world.close()
