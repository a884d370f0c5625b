import errno
import os
import platform
import threading
from pathlib import Path

import pytest

from kafkaesque.env.disk import File
from kafkaesque.model.errors import DiskFailed
from kafkaesque.runtime.kernel_syncs import SYNCS_MAX, KernelSyncs
from kafkaesque.runtime.loop import new_loop
from kafkaesque.runtime.poller import Poller
from kafkaesque.runtime.turns import Turns
from kafkaesque.runtime.workers import WorkerPool
from tests.unit.env.worlds import RealWorld

pytestmark = pytest.mark.skipif(
    platform.system() != "Linux" or platform.machine() not in ("x86_64", "aarch64"),
    reason="threads sync on this system",
)


def written(world: RealWorld, name: str) -> File:
    file = world.env.disk.open(name, create=True)
    file.write_at(0, [name.encode()])
    return file


def test_a_sync_is_no_threads_work(world: RealWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []
    monkeypatch.setattr(WorkerPool, "_start_thread", lambda pool: threads.append("started"))
    seen: list[tuple[object, int]] = []
    world.env.disk.sync(
        [written(world, "log")], lambda error: seen.append((error, threading.get_ident()))
    )
    assert not seen
    world.run_until(lambda: bool(seen))
    assert seen == [(None, threading.get_ident())]
    assert not threads


def test_two_files_are_one_sync(world: RealWorld) -> None:
    seen: list[DiskFailed | None] = []
    world.env.disk.sync([written(world, "a"), written(world, "b")], seen.append)
    world.run_until(lambda: bool(seen))
    assert seen == [None]


def test_more_than_the_kernel_has_room_for_are_synced_by_threads(world: RealWorld) -> None:
    seen: list[DiskFailed | None] = []
    files = [written(world, str(number)) for number in range(3 * SYNCS_MAX)]
    for each in files:
        world.env.disk.sync([each], seen.append)
    world.run_until(lambda: len(seen) == len(files))
    assert not any(seen)


def test_what_the_kernel_does_not_sync_is_a_threads_work_and_its_error(world: RealWorld) -> None:
    os.symlink("/dev/full", f"{world.doors.disk.root}/full")
    seen: list[DiskFailed | None] = []
    world.env.disk.sync([world.env.disk.open("full")], seen.append)
    world.run_until(lambda: bool(seen))
    assert "cannot sync full: Invalid argument" in str(seen[0])


def test_a_failure_of_the_device_names_the_file(
    world: RealWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    collect = KernelSyncs._collect

    def failed(syncs: KernelSyncs, least: int) -> object:
        done = collect(syncs, least)
        for each in done:
            each.error = errno.EIO
        return done

    monkeypatch.setattr(KernelSyncs, "_collect", failed)
    seen: list[DiskFailed | None] = []
    world.env.disk.sync([written(world, "log")], seen.append)
    world.run_until(lambda: bool(seen))
    assert str(seen[0]) == "cannot sync log: Input/output error"


def test_whoever_closes_waits_and_nobody_is_told(tmp_path: Path) -> None:
    loop = new_loop()
    poller = Poller(loop, Turns(loop))
    syncs = KernelSyncs(poller)
    seen: list[int] = []
    with (tmp_path / "log").open("wb", buffering=0) as file:
        file.write(b"x" * 1_000_000)
        assert syncs.submit([file.fileno()], seen.append)
        syncs.close()
    poller.close()
    loop.run_until_complete(_nothing())
    loop.close()
    assert not seen


async def _nothing() -> None:
    pass


def test_without_the_kernels_calls_there_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    loop = new_loop()
    poller = Poller(loop, Turns(loop))
    assert KernelSyncs.open(poller) is None
    poller.close()
    loop.close()
    made = RealWorld(tmp_path / "data")
    seen: list[DiskFailed | None] = []
    made.env.disk.sync([written(made, "log")], seen.append)
    made.run_until(lambda: bool(seen))
    made.close()
    assert seen == [None]
