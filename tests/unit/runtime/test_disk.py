import errno
import os
import threading
from pathlib import Path

import pytest

from kafkaesque.model.errors import DiskFailed, DiskFull, ReadFailed
from kafkaesque.runtime.directory import RealDirectory
from kafkaesque.runtime.disk import RealDisk
from kafkaesque.runtime.freeing import FreeingThread
from kafkaesque.runtime.kernel_syncs import KernelSyncs
from kafkaesque.runtime.loop import new_loop
from kafkaesque.runtime.workers import Mailbox, WorkerPool
from tests.unit.env.worlds import RealWorld


def test_a_directory_belongs_to_one_broker(world: RealWorld) -> None:
    with pytest.raises(DiskFailed, match=f"in use by another process .pid {os.getpid()}"):
        RealDisk(world.doors.disk.root, world.loop)
    assert world.env.disk.list_dir("") == []


def test_a_directory_is_free_again_after_close(tmp_path: Path) -> None:
    loop = new_loop()
    for _ in range(2):
        RealDisk(tmp_path / "new" / "data", loop).close()
    loop.close()


def test_a_directory_that_is_moved_or_replaced_is_not_this_disk_any_more(
    world: RealWorld,
) -> None:
    root = world.doors.disk.root
    assert world.env.disk.free_bytes() > 0
    os.rename(root, f"{root}.moved")
    with pytest.raises(DiskFailed, match=f"cannot find the data directory {root}"):
        world.env.disk.free_bytes()
    os.mkdir(root)
    with pytest.raises(DiskFailed, match=f"{root} is not the directory any more"):
        world.env.disk.free_bytes()
    os.rmdir(root)
    os.rename(f"{root}.moved", root)
    assert world.env.disk.free_bytes() > 0


def test_a_full_device_says_so(world: RealWorld) -> None:
    os.symlink("/dev/full", f"{world.doors.disk.root}/full")
    file = world.env.disk.open("full")
    with pytest.raises(DiskFull, match="cannot write full: No space left"):
        file.write_at(0, [b"x"])
    with pytest.raises(DiskFull):
        file.write_at(0, [b"x", b"y"])


def test_what_the_device_refuses_names_the_file_and_the_reason(
    world: RealWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = world.env.disk.open("log", create=True)
    # The kernel's own syncs have tests of their own.
    monkeypatch.setattr(KernelSyncs, "submit", lambda *_: False)

    def broken(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    for name in ("pwrite", "fdatasync", "pread", "ftruncate"):
        monkeypatch.setattr(os, name, broken)
    seen: list[object] = []
    world.env.disk.sync([file], seen.append)
    world.env.disk.read(file, 0, 10, seen.append)
    world.run_until(lambda: len(seen) == 2)
    with pytest.raises(DiskFailed) as write:
        file.write_at(0, [b"x"])
    with pytest.raises(DiskFailed) as cut:
        file.truncate(1)
    for error in (*seen, write.value, cut.value):
        assert isinstance(error, DiskFailed)
        assert not isinstance(error, DiskFull)
        assert "log: Input/output error" in str(error)


def test_short_writes_are_completed(world: RealWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    file = world.env.disk.open("log", create=True)
    pwrite, pwritev = os.pwrite, os.pwritev
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, data[:3], at))
    monkeypatch.setattr(
        os, "pwritev", lambda fd, buffers, at: pwritev(fd, [bytes(buffers[0])[:2]], at)
    )
    assert file.write_at(0, [b"0123456789"]) == 10
    assert file.write_at(10, [b"abc", b"", b"defgh", b"i"]) == 9
    assert file.read_blocking(0, 100) == b"0123456789abcdefghi"


@pytest.mark.parametrize(
    ("number", "is_device"), [(errno.EIO, True), (errno.EBADMSG, True), (errno.EBADF, False)]
)
def test_bytes_that_the_device_refuses_are_told_apart(
    world: RealWorld, monkeypatch: pytest.MonkeyPatch, number: int, is_device: bool
) -> None:
    def refuse(*_: object) -> bytes:
        raise OSError(number, os.strerror(number))

    disk = world.env.disk
    file = disk.open("log", create=True)
    file.write_at(0, [b"0123456789"])
    for name, call in (
        ("pread", lambda: file.read_blocking(0, 3)),
        ("preadv", lambda: file.read_cached(0, 3)),
        ("open", lambda: disk.open("log")),
        ("pwrite", lambda: file.write_at(0, [b"x"])),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, refuse)
            with pytest.raises(DiskFailed) as caught:
                call()
        assert isinstance(caught.value, ReadFailed) == (is_device and name != "pwrite"), name


def test_where_nowait_is_not_supported_reads_simply_wait(
    world: RealWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    preadv = os.preadv

    def old_kernel(fd: int, buffers: list[bytearray], at: int, flags: int = 0) -> int:
        if flags:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return preadv(fd, buffers, at)

    monkeypatch.setattr(os, "preadv", old_kernel)
    file = world.env.disk.open("log", create=True)
    file.write_at(0, [b"0123456789"])
    assert file.read_cached(2, 3) == b"234"
    assert file.read_cached(2, 3) == b"234"


def test_pages_out_of_memory_are_not_waited_for(world: RealWorld) -> None:
    file = world.doors.disk.open("log", create=True)
    file.write_at(0, [bytes(10_000_000)])
    os.fdatasync(file.fd)
    os.posix_fadvise(file.fd, 0, 0, os.POSIX_FADV_DONTNEED)
    if file.read_cached(5_000_000, 10) is not None:
        pytest.skip("this file system keeps everything in memory")
    assert not file.is_cached(0, 10_000_000, 4096)
    assert file.read_blocking(9_000_000, 10) == bytes(10)


def test_descriptors_return_when_the_last_holder_lets_go(world: RealWorld) -> None:
    disk = world.doors.disk
    before = len(os.listdir("/proc/self/fd"))
    file = disk.open("log", create=True)
    file.write_at(0, [b"x" * 10])
    file.close()
    assert file.read_blocking(0, 3) == b"xxx"
    del file
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_removed_file_is_freed_off_the_loop(
    world: RealWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    closers: list[str] = []
    close = os.close

    def spy(fd: int) -> None:
        closers.append(threading.current_thread().name)
        close(fd)

    disk = world.doors.disk
    file = disk.open("log", create=True)
    file.write_at(0, [bytes(100_000)])
    disk.remove("log")
    world.settle()
    monkeypatch.setattr(os, "close", spy)
    del file
    world.run_until(lambda: bool(closers))
    monkeypatch.undo()
    assert closers[0].startswith("disk-free")


def test_a_file_that_another_takes_the_place_of_is_freed_off_the_loop(
    world: RealWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = world.doors.disk
    for name in ("log", "log.swap"):
        disk.open(name, create=True).write_at(0, [name.encode()])
    old = os.stat(f"{disk.root}/log").st_ino
    closed: dict[int, tuple[str, int]] = {}
    close = os.close

    def spy(fd: int) -> None:
        status = os.fstat(fd)
        closed[status.st_ino] = threading.current_thread().name, status.st_nlink
        close(fd)

    monkeypatch.setattr(os, "close", spy)
    disk.rename("log.swap", "log")
    assert disk.list_dir("") == ["log"]
    world.run_until(lambda: old in closed)
    assert closed[old] == ("disk-free-0", 0), "that thread was the last holder"
    assert disk.open("log").read_blocking(0, 100) == b"log.swap"
    new = os.stat(f"{disk.root}/log").st_ino
    closed.clear()
    with pytest.raises(FileNotFoundError):
        disk.rename("missing", "log")
    world.run_until(lambda: new in closed)
    assert disk.exists("log")


def test_what_heavy_work_writes_goes_to_the_device_at_once_and_nothing_else_does(
    world: RealWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[int, int, int]] = []
    advise = os.posix_fadvise

    def spy(fd: int, position: int, length: int, advice: int) -> None:
        given.append((position, length, advice))
        advise(fd, position, length, advice)

    monkeypatch.setattr(os, "posix_fadvise", spy)
    world.doors.disk.open("wal", create=True).write_at(0, [b"0123456789"])
    assert not given, "the write-ahead log is synced in a moment, and segments when there is time"
    disk = RealDirectory(world.doors.disk.root, writes_back=True)
    file = disk.open("cleaned", create=True)
    file.write_at(0, [b"0123456789"])
    file.write_at(10, [b"abc", b"def"])
    disk.sync_blocking([file])
    dont_need = os.POSIX_FADV_DONTNEED
    assert given == [(0, 10, dont_need), (10, 6, dont_need)]
    assert file.read_blocking(0, 100) == b"0123456789abcdef"


def test_left_over_trash_is_emptied_at_the_start(tmp_path: Path) -> None:
    grave = tmp_path / "data" / ".trash" / "123-1"
    grave.mkdir(parents=True)
    (grave / "log").write_bytes(b"old")
    world = RealWorld(tmp_path / "data")
    world.run_until(lambda: not grave.exists())
    world.close()


def test_trash_that_is_not_emptied_yet_is_in_nobodys_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container the process before had the same id."""
    trash = tmp_path / "data" / ".trash"
    for number in (1, 2, 4):
        (trash / f"{os.getpid()}-{number}").mkdir(parents=True)
        (trash / f"{os.getpid()}-{number}" / "log").write_bytes(b"old")
    freed: list[str] = []
    monkeypatch.setattr(FreeingThread, "remove", lambda _, path: freed.append(Path(path).name))
    world = RealWorld(tmp_path / "data")
    disk = world.env.disk
    for name in ("a-0", "b-0"):
        disk.make_dir(name)
        disk.open(f"{name}/log", create=True).write_at(0, [b"new"])
        disk.remove_tree(name)
    assert disk.list_dir("") == []
    assert freed == [f"{os.getpid()}-{number}" for number in (1, 2, 4, 3, 5)]
    assert [(trash / name / "log").read_bytes() for name in freed] == [b"old"] * 3 + [b"new"] * 2
    world.close()


def test_a_quick_sync_does_not_wait_behind_a_long_one(
    world: RealWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = world.env.disk
    files = [disk.open(f"segment-{number}", create=True) for number in range(4)]
    log = disk.open("log", create=True)
    slow = {file.fd for file in files}  # type: ignore[attr-defined]
    gate = threading.Event()
    monkeypatch.setattr(os, "fdatasync", lambda fd: fd in slow and gate.wait(20))
    order: list[str] = []

    def on_log(_: object) -> None:
        order.append("log")
        gate.set()

    for _ in range(3):
        disk.sync(files, lambda _: order.append("segments"))
    disk.sync([log], on_log)
    world.run_until(lambda: len(order) == 4)
    assert order[0] == "log"


def test_results_come_home_in_the_order_in_which_work_ended() -> None:
    loop = new_loop()
    mailbox = Mailbox(loop)
    pool = WorkerPool("test", 1, mailbox)
    seen: list[object] = []

    def done(result: object, _: Exception | None) -> None:
        seen.append(result)
        if len(seen) == 500:
            loop.stop()

    for number in range(500):
        pool.submit(lambda number=number: number, done)  # type: ignore[misc]
    loop.run_forever()
    assert seen == list(range(500))
    assert pool.pending == 0
    pool.close()
    loop.close()


def test_a_completion_that_raises_loses_no_other(world: RealWorld) -> None:
    seen: list[int] = []

    def broken(_: object, __: Exception | None) -> None:
        raise RuntimeError("a defect")

    gate = threading.Event()
    world.env.disk.run(gate.wait, broken)
    for number in range(20):
        done = lambda _, __, number=number: seen.append(number)  # noqa: E731
        world.env.disk.run(lambda: None, done)
    gate.set()
    world.run_until(lambda: len(seen) == 20 and bool(world.fatal))
    assert [str(error) for error in world.fatal] == ["a defect"]
    world.fatal.clear()
