"""The disk door of one simulated process, and the drive below it that outlives the process."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic

from kafkaesque.env.disk import ArgumentT, BlockingDisk, Buffer, File, ResultT, StepT
from kafkaesque.model.errors import DiskFailed, DiskFull, ReadFailed
from kafkaesque.runtime.ports import Socket
from kafkaesque.sim.dice import Chance
from kafkaesque.sim.inode import PAGE_BYTES, DirInode, FileInode, Inode, NameChange, Volume
from kafkaesque.sim.loop import Life, SimLoop

#: The cache holds files in pieces of this size: warm or cold.
PIECE_BYTES: Final = 128 * 1024
WARM_PIECES_MAX: Final = 64
#: What was written last is always in the cache.
TAIL_BYTES: Final = 256 * 1024
COLD_PROBABILITY: Final = 0.3
CAPACITY_BYTES: Final = 1 << 40
#: A large range leaves in pieces of this size.
SEND_BYTES_MAX: Final = 256 * 1024


@dataclass(slots=True)
class DriveFaults:
    """What is wrong with a drive."""

    #: Everything takes so many times as long.
    slowness: float = 1.0
    #: No more than this fits; None: enough does.
    capacity_bytes: int | None = None
    #: So many of the next syncs, writes or reads fail.
    failing_syncs: int = 0
    failing_writes: int = 0
    failing_reads: int = 0
    #: So many of the next writes land somewhere else, and report success.
    misdirected_writes: int = 0


class Drive:
    """A machine's disk."""

    def __init__(self, loop: SimLoop, place: str) -> None:
        self.loop: Final = loop
        self.place: Final = place
        self.chance: Final[Chance] = loop.chance(f"{place}/drive")
        self.volume: Final = Volume()
        self.faults = DriveFaults()
        #: Work in steps of processes that are gone. It is kept, or it would be closed, and change
        #: the disk, whenever the interpreter looks for garbage.
        self.unfinished: Final[list[Generator[Any, None, Any]]] = []
        #: Counts power cuts: what was under way in an earlier one never happened.
        self.cuts = 0

    def lose_power(self) -> None:
        """Lose what was not synced, more or less."""
        self.cuts += 1
        for line in self.volume.lose_power(self.chance):
            self.loop.tell(self.place, f"power cut: {line}")

    def sync_ns(self) -> int:
        """Draw how long a sync takes."""
        return self._draw_ns(100, 1_500, 30_000)

    def read_ns(self) -> int:
        """Draw how long a read from the device takes."""
        return self._draw_ns(50, 600, 10_000)

    def work_ns(self) -> int:
        """Draw how long a piece of work takes."""
        return self._draw_ns(20, 2_000, 20_000)

    def used_bytes(self) -> int:
        """Return how much files take."""
        return sum(len(inode.content) for _, inode in self.volume.files())

    def room_for(self, size: int) -> int:
        """Return how much of so many additional bytes fits."""
        limit = self.faults.capacity_bytes
        return size if limit is None else min(size, max(0, limit - self.used_bytes()))

    def flip_bit(self, path: str) -> str:
        """Damage a file silently; say where."""
        inode = self.volume.find(path)
        if not isinstance(inode, FileInode) or not inode.content:
            return f"{path}: nothing to damage"
        at, bit = self.chance.randrange(len(inode.content)), self.chance.randrange(8)
        inode.content[at] ^= 1 << bit
        return f"{path}: bit {bit} of byte {at} flipped"

    def take(self, fault: str) -> bool:
        """Use up one of a number of faults, if there is one."""
        count: int = getattr(self.faults, fault)
        if count > 0:
            setattr(self.faults, fault, count - 1)
        return count > 0

    def _draw_ns(self, us_min: int, us_max: int, late_us_max: int) -> int:
        late = self.chance.below(100) == 0
        us = us_min + self.chance.below((late_us_max if late else us_max) - us_min + 1)
        return round(us * 1_000 * self.faults.slowness)


class SimWorkers:
    """Threads of one process: work is done at the moment at which it ends."""

    __slots__ = ("_delay_ns", "_kind", "_life", "_loop")

    def __init__(self, loop: SimLoop, life: Life, kind: str, delay_ns: Callable[[], int]) -> None:
        self._loop: Final = loop
        self._life: Final = life
        self._kind: Final = kind
        self._delay_ns: Final = delay_ns

    def submit(
        self, work: Callable[[], object], on_done: Callable[[object, Exception | None], None]
    ) -> None:
        def happen() -> None:
            try:
                result, error = work(), None
            except Exception as raised:
                result, error = None, raised
            on_done(result, error)

        self._loop.after(self._delay_ns(), self._kind, happen, self._life)


class SimSteps(Generic[StepT, ResultT]):
    """Work in steps of one process, at the end of each step's time: see `StepRun`."""

    __slots__ = ("_drive", "_is_busy", "_is_stopping", "_life", "_on_done", "_on_step", "_work")

    def __init__(
        self,
        drive: Drive,
        life: Life,
        work: Generator[StepT, None, ResultT],
        on_step: Callable[[StepT], None],
        on_done: Callable[[ResultT | None, Exception | None], None],
    ) -> None:
        self._drive: Final = drive
        self._life: Final = life
        self._work: Final = work
        self._on_step: Final = on_step
        self._on_done: Final = on_done
        self._is_busy = False
        self._is_stopping = False
        drive.unfinished.append(work)
        self.go_on()

    def go_on(self) -> None:
        if not self._is_busy:
            self._is_busy = True
            self._drive.loop.after(self._drive.work_ns(), "step", self._step, self._life)

    def stop(self) -> None:
        self._is_stopping = True
        self.go_on()

    def _step(self) -> None:
        try:
            if self._is_stopping:
                self._work.close()
                self._end(None, None)
                return
            step = next(self._work)
        except StopIteration as stop:
            self._end(stop.value, None)
        except Exception as error:
            self._end(None, error)
        else:
            self._is_busy = False
            self._on_step(step)

    def _end(self, result: ResultT | None, error: Exception | None) -> None:
        self._drive.unfinished.remove(self._work)
        self._on_done(result, error)


class SimFile:
    """An open file."""

    __slots__ = ("_closed", "_drive", "_path", "inode")

    def __init__(self, drive: Drive, path: str, inode: FileInode) -> None:
        self._drive: Final = drive
        self._path: Final = path
        self.inode: Final = inode
        self._closed = False

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        return len(self.inode.content)

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> int:
        self._require_open()
        drive, data = self._drive, b"".join(buffers)
        if drive.take("failing_writes"):
            raise DiskFailed(f"cannot write {self._path}: Input/output error")
        more = max(0, position + len(data) - self.size())
        missing = more - drive.room_for(more)
        if missing:
            kept = drive.chance.randint(0, max(0, len(data) - missing))
            self.inode.write(position, data[:kept]) if kept else None
            raise DiskFull(f"cannot write {self._path}: No space left on device")
        if data and drive.take("misdirected_writes"):
            self._misdirect(position, data)
        elif data:
            self.inode.write(position, data)
        return len(data)

    def truncate(self, size_bytes: int) -> None:
        self._require_open()
        self.inode.resize(size_bytes)

    def preallocate(self, size_bytes: int) -> None:
        self._require_open()
        more = max(0, size_bytes - self.size())
        if self._drive.room_for(more) < more:
            raise DiskFull(f"cannot reserve space for {self._path}: No space left on device")
        if more:
            self.inode.resize(size_bytes)

    def read_blocking(self, position: int, length: int) -> bytes:
        if self._drive.take("failing_reads"):
            raise ReadFailed(f"cannot read {self._path}: Input/output error")
        self.touch(position, position + length)
        return bytes(self.inode.content[position : position + length])

    def read_cached(self, position: int, length: int) -> bytes | None:
        data = self.read_nowait(position, length)
        return None if data is None else bytes(data)

    def close(self) -> None:
        self._closed = True

    # What a connection needs for sending ranges

    def read_nowait(self, position: int, length: int) -> bytearray | None:
        if not self.is_cached(position, length, PIECE_BYTES):
            return None
        return self.inode.content[position : position + length]

    def read_into(self, room: memoryview, position: int, *, may_wait: bool) -> int | None:
        if not may_wait and not self.is_cached(position, len(room), PIECE_BYTES):
            return None
        data = self.inode.content[position : position + len(room)]
        room[: len(data)] = data
        return len(data)

    def is_cached(self, position: int, length: int, step_bytes: int) -> bool:
        end = min(position + length, self.size())
        if position >= end or position >= self.size() - TAIL_BYTES:
            return True
        warm = self.inode.warm
        for piece in range(position // PIECE_BYTES, -(-end // PIECE_BYTES)):
            if piece not in warm:
                if self._drive.chance.random() < COLD_PROBABILITY:
                    return False
                self._warm(piece)
        return True

    def touch(self, position: int, end: int) -> None:
        for piece in range(position // PIECE_BYTES, -(-min(end, self.size()) // PIECE_BYTES)):
            self._warm(piece)

    def send_to(self, sock: Socket, position: int, length: int) -> int:
        end = position + min(length, SEND_BYTES_MAX)
        data = bytes(self.inode.content[position:end])
        return sock.send(data) if data else 0

    def _warm(self, piece: int) -> None:
        warm = self.inode.warm
        warm.pop(piece, None)
        warm[piece] = None
        while len(warm) > WARM_PIECES_MAX:
            del warm[next(iter(warm))]

    def _misdirect(self, position: int, data: bytes) -> None:
        if position + len(data) > self.size():
            self.inode.resize(position + len(data))
        pages = self.size() // PAGE_BYTES + 1
        wrong = self._drive.chance.randrange(pages) * PAGE_BYTES + position % PAGE_BYTES
        self.inode.write(wrong, data)
        what = f"{self._path}: {len(data)} bytes for {position} were written at {wrong}"
        self._drive.loop.tell(self._drive.place, what)

    def _require_open(self) -> None:
        if self._closed:
            raise DiskFailed(f"cannot write {self._path}: it is closed")


class SimDisk:
    """The drive, as one process uses it."""

    def __init__(self, drive: Drive, life: Life) -> None:
        self._drive: Final = drive
        self._life: Final = life
        self.readers: Final = SimWorkers(drive.loop, life, "read", drive.read_ns)
        self._workers: Final = SimWorkers(drive.loop, life, "work", drive.work_ns)

    # Names

    def open(self, path: str, *, create: bool = False) -> SimFile:
        inode = self._find(path)
        if inode is None and create:
            directory, name = self._parent(path)
            inode = FileInode()
            self._drive.volume.change(NameChange(directory, name, inode))
        if inode is None:
            raise FileNotFoundError(path)
        if isinstance(inode, DirInode):
            raise DiskFailed(f"cannot open {path}: Is a directory")
        return SimFile(self._drive, path, inode)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def list_dir(self, path: str) -> list[str]:
        inode = self._find(path)
        return sorted(inode.entries) if isinstance(inode, DirInode) else []

    def make_dir(self, path: str) -> None:
        _check(path)
        directory = self._drive.volume.root
        for name in path.split("/"):
            inode = directory.entries.get(name)
            if name == "":
                continue
            if inode is None:
                inode = DirInode()
                self._drive.volume.change(NameChange(directory, name, inode))
            if not isinstance(inode, DirInode):
                raise DiskFailed(f"cannot make the directory {path}: File exists")
            directory = inode

    def remove(self, path: str) -> None:
        inode = self._find(path)
        if isinstance(inode, DirInode):
            raise DiskFailed(f"cannot remove {path}: Is a directory")
        if inode is not None:
            self._unlink(path)

    def remove_tree(self, path: str) -> None:
        if self._find(path) is not None:
            self._unlink(path)

    def rename(self, old: str, new: str) -> None:
        inode = self._find(old)
        if inode is None:
            raise FileNotFoundError(old)
        source, old_name = self._parent(old)
        target, new_name = self._parent(new)
        there = target.entries.get(new_name)
        if there is inode:
            return
        if isinstance(there, DirInode) and (there.entries or not isinstance(inode, DirInode)):
            raise DiskFailed(f"cannot rename to {new}: {old}: the directory exists")
        self._drive.volume.change(
            NameChange(source, old_name, None), NameChange(target, new_name, inode)
        )

    def free_bytes(self) -> int:
        if self._drive.faults.capacity_bytes is None:
            return CAPACITY_BYTES
        return max(0, self.total_bytes() - self._drive.used_bytes())

    def total_bytes(self) -> int:
        limit = self._drive.faults.capacity_bytes
        return CAPACITY_BYTES if limit is None else limit

    # What waits for the device

    def sync_blocking(self, files: Sequence[File], directories: Sequence[str] = ()) -> None:
        error = self._finish_sync(self._begin_sync(files), directories)
        if error is not None:
            raise error

    def sync(
        self,
        files: Sequence[File],
        on_done: Callable[[DiskFailed | None], None],
        directories: Sequence[str] = (),
    ) -> None:
        drive, directories = self._drive, tuple(directories)
        begun, cuts = self._begin_sync(files), drive.cuts

        def happen() -> None:
            # The device goes on when the process is gone, but not without power.
            if drive.cuts == cuts:
                error = self._finish_sync(begun, directories)
                drive.loop.after(0, "synced", lambda: on_done(error), self._life)

        what = f"{drive.place} sync {' '.join(file.path for file in files)}"
        drive.loop.after(drive.sync_ns(), what, happen)

    def read(
        self, file: File, position: int, length: int, on_done: Callable[[bytes | DiskFailed], None]
    ) -> None:
        def done(data: object, error: Exception | None) -> None:
            if isinstance(data, bytes):
                on_done(data)
            elif isinstance(error, DiskFailed):
                on_done(error)
            else:
                raise AssertionError("a read gives bytes or DiskFailed") from error

        self.readers.submit(lambda: file.read_blocking(position, length), done)

    def run(
        self, work: Callable[[], object], on_done: Callable[[object, Exception | None], None]
    ) -> None:
        self._workers.submit(work, on_done)

    def run_steps(
        self,
        work: Callable[[BlockingDisk, ArgumentT], Generator[StepT, None, ResultT]],
        argument: ArgumentT,
        on_step: Callable[[StepT], None],
        on_done: Callable[[ResultT | None, Exception | None], None],
    ) -> SimSteps[StepT, ResultT]:
        return SimSteps(self._drive, self._life, work(self, argument), on_step, on_done)

    # Inside

    def _find(self, path: str) -> Inode | None:
        _check(path)
        return self._drive.volume.find(path)

    def _parent(self, path: str) -> tuple[DirInode, str]:
        above, _, name = path.rpartition("/")
        directory = self._find(above)
        if not isinstance(directory, DirInode):
            raise FileNotFoundError(above)
        return directory, name

    def _unlink(self, path: str) -> None:
        directory, name = self._parent(path)
        self._drive.volume.change(NameChange(directory, name, None))

    def _begin_sync(self, files: Sequence[File]) -> list[tuple[FileInode, int, int]]:
        begun: list[tuple[FileInode, int, int]] = []
        for file in files:
            if not isinstance(file, SimFile):
                raise TypeError(f"{file!r} is not a file of this disk")
            begun.append((file.inode, *file.inode.begin_sync()))
        return begun

    def _finish_sync(
        self, begun: list[tuple[FileInode, int, int]], directories: Sequence[str]
    ) -> DiskFailed | None:
        drive = self._drive
        if drive.take("failing_syncs"):
            for inode, number, _ in begun:
                inode.fail_sync(number)
            return DiskFailed(f"cannot sync on {drive.place}: Input/output error")
        for inode, number, size in begun:
            inode.end_sync(number, size)
        for path in directories:
            directory = self._find(path)
            if not isinstance(directory, DirInode):
                return DiskFailed(f"cannot sync the directory {path}: No such file or directory")
            drive.volume.sync_dir(directory)
        return None


def _check(path: str) -> None:
    if path.startswith("/") or ".." in path.split("/"):
        raise ValueError(f"{path!r} leads out of the data directory")
