"""A disk in memory that loses what it is allowed to lose, and a clock that is moved by hand."""

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from kafkaesque.env.disk import Buffer, File
from kafkaesque.model.errors import DiskFailed, DiskFull, ReadFailed

SECTOR = 512
NAME_BYTES_MAX = 255


class PowerGone(Exception):
    """The power went out within a call."""


class ManualTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualClock:
    """Time stands still, and callbacks wait, until a test says otherwise."""

    def __init__(self) -> None:
        self.monotonic_ms = 1_000
        self.unix_ms = 1_700_000_000_000
        self.soon: deque[Callable[[], None]] = deque()

    def now_ms(self) -> int:
        return self.monotonic_ms

    def now_ns(self) -> int:
        return self.monotonic_ms * 1_000_000

    def wall_ms(self) -> int:
        return self.unix_ms

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> ManualTimer:
        raise NotImplementedError

    def turn(self) -> bool:
        """Run what has been asked for; tell whether there was anything."""
        count = len(self.soon)
        for _ in range(count):
            self.soon.popleft()()
        return count > 0


@dataclass
class Inode:
    """A file: what the page cache has, what the device has, and the writes between."""

    data: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    #: (position, bytes), or (size, None) for a change of length.
    unsynced: list[tuple[int, bytes | None]] = field(default_factory=list)

    def apply(self, position: int, data: bytes | None, to: bytearray) -> None:
        if data is None:
            del to[position:]
            to.extend(bytes(position - len(to)))
            return
        if position > len(to):
            to.extend(bytes(position - len(to)))
        to[position : position + len(data)] = data

    def change(self, position: int, data: bytes | None) -> None:
        self.apply(position, data, self.data)
        self.unsynced.append((position, data))

    def sync(self, count: int) -> None:
        for position, data in self.unsynced[:count]:
            self.apply(position, data, self.durable)
        del self.unsynced[:count]

    def after_power_cut(self, rng: random.Random) -> "Inode":
        """Return a file as it may be found: any of the unsynced sectors may have been written."""
        found = Inode(data=bytearray(self.durable))
        mode = rng.choice(["none", "all", "prefix", "sectors", "sectors"])
        changes = self.unsynced
        if mode == "none":
            changes = []
        elif mode == "prefix":
            changes = changes[: rng.randrange(len(changes) + 1)]
        for position, data in changes:
            if mode != "sectors" or data is None:
                if mode != "sectors" or rng.random() < 0.7:
                    self.apply(position, data, found.data)
                continue
            at = 0
            while at < len(data):
                end = at + SECTOR - (position + at) % SECTOR
                if rng.random() < 0.6:
                    self.apply(position + at, data[at:end], found.data)
                at = end
        if mode == "prefix" and changes and rng.random() < 0.5:
            position, data = changes[-1]
            if data:
                cut = rng.randrange(len(data))
                found.data[position + cut : position + len(data)] = bytes(len(data) - cut)
        found.durable = bytearray(found.data)
        return found


@dataclass
class Directory:
    entries: dict[str, "Inode | Directory"] = field(default_factory=dict)
    #: The states since the last sync, oldest first; the device has one of them.
    history: list[dict[str, "Inode | Directory"]] = field(default_factory=lambda: [{}])

    def note(self) -> None:
        self.history.append(dict(self.entries))

    def sync(self, count: int) -> None:
        del self.history[: count - 1]

    def after_power_cut(
        self, rng: random.Random, seen: dict[int, "Inode | Directory"]
    ) -> "Directory":
        found = Directory()
        for name, node in rng.choice(self.history).items():
            if id(node) not in seen:
                if isinstance(node, Directory):
                    seen[id(node)] = node.after_power_cut(rng, seen)
                else:
                    seen[id(node)] = node.after_power_cut(rng)
            found.entries[name] = seen[id(node)]
        found.history = [dict(found.entries)]
        return found


class MemoryFile:
    def __init__(self, disk: "MemoryDisk", path: str, inode: Inode) -> None:
        self.disk = disk
        self.inode = inode
        self._path = path
        self.is_closed = False

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        return len(self.inode.data)

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> int:
        assert not self.is_closed, f"{self._path} is closed"
        data = b"".join(buffers)
        self.disk.count_change()
        if self.disk.fail_writes:
            raise DiskFailed(f"cannot write {self._path}: planted")
        grown = max(position + len(data) - self.size(), 0)
        if grown > self.disk.free_bytes():
            fits = len(data) - grown + self.disk.free_bytes()
            self.inode.change(position, data[: max(fits, 0)])
            raise DiskFull(f"cannot write {self._path}: no space")
        self.inode.change(position, data)
        return len(data)

    def truncate(self, size_bytes: int) -> None:
        assert not self.is_closed
        self.disk.count_change()
        self.inode.change(size_bytes, None)

    def preallocate(self, size_bytes: int) -> None:
        assert not self.is_closed
        if size_bytes > self.size():
            if size_bytes - self.size() > self.disk.free_bytes():
                raise DiskFull(f"cannot reserve space for {self._path}")
            self.inode.change(size_bytes, None)

    def read_blocking(self, position: int, length: int) -> bytes:
        if self._path.startswith(self.disk.unreadable):
            raise ReadFailed(f"cannot read {self._path}: planted")
        return bytes(memoryview(self.inode.data)[position : position + length])

    def read_cached(self, position: int, length: int) -> bytes | None:
        assert not self.is_closed
        self.disk.cached_reads += 1
        return None if self.disk.is_cold else self.read_blocking(position, length)

    def close(self) -> None:
        self.is_closed = True


class MemoryDisk:
    """See the module. Completions wait in `pending` until `complete`."""

    def __init__(self, clock: ManualClock, root: Directory | None = None) -> None:
        self.clock = clock
        self.root = root if root is not None else Directory()
        self.pending: deque[Callable[[], None]] = deque()
        self.capacity: int | None = None
        self.fail_syncs = False
        self.fail_writes = False
        #: Paths that begin so cannot be read.
        self.unreadable: tuple[str, ...] = ()
        self.is_cold = False
        self.syncs = 0
        self.writes = 0
        #: The power goes out at the next change after so many.
        self.writes_max: int | None = None
        self.cached_reads = 0
        self.synced_paths: list[tuple[str, ...]] = []
        self.open_files: dict[int, MemoryFile] = {}

    # -- for tests

    def complete(self, count: int = 1_000_000) -> int:
        """Let asynchronous calls finish; return how many did."""
        done = 0
        while self.pending and done < count:
            self.pending.popleft()()
            done += 1
        return done

    def settle(self) -> None:
        """Let everything finish that was asked for, and what follows from it."""
        while self.clock.turn() or self.complete():
            pass

    def power_cut(self, rng: random.Random) -> "MemoryDisk":
        """Return the disk as the next start finds it."""
        root = self.root.after_power_cut(rng, {})
        self.pending.clear()
        return MemoryDisk(self.clock, root)

    def kill(self) -> "MemoryDisk":
        """Return the disk after only the process has died: nothing written is lost."""
        self.pending.clear()
        found = MemoryDisk(self.clock, self.root)
        found.unreadable = self.unreadable
        return found

    def count_change(self) -> None:
        self.writes += 1
        if self.writes_max is not None and self.writes > self.writes_max:
            raise PowerGone

    def inode(self, path: str) -> Inode:
        node = self._find(path)
        assert isinstance(node, Inode), path
        return node

    def _parts(self, path: str) -> list[str]:
        return [part for part in path.split("/") if part not in ("", ".")]

    def _find(self, path: str) -> Inode | Directory | None:
        node: Inode | Directory | None = self.root
        for part in self._parts(path):
            if not isinstance(node, Directory):
                return None
            node = node.entries.get(part)
        return node

    def _parent(self, path: str) -> tuple[Directory, str]:
        *parents, name = self._parts(path)
        node = self._find("/".join(parents))
        if not isinstance(node, Directory):
            raise FileNotFoundError(path)
        return node, name

    # -- the protocol

    def open(self, path: str, *, create: bool = False) -> File:
        node = self._find(path)
        if node is None:
            if not create:
                raise FileNotFoundError(path)
            self.count_change()
            parent, name = self._parent(path)
            node = parent.entries[name] = Inode()
            parent.note()
        assert isinstance(node, Inode)
        file = MemoryFile(self, path, node)
        self.open_files[id(file)] = file
        self.open_files = {key: f for key, f in self.open_files.items() if not f.is_closed}
        return file

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def list_dir(self, path: str) -> list[str]:
        node = self._find(path)
        return sorted(node.entries) if isinstance(node, Directory) else []

    def make_dir(self, path: str) -> None:
        node = self.root
        for part in self._parts(path):
            found = node.entries.get(part)
            if found is None:
                found = node.entries[part] = Directory()
                node.note()
            assert isinstance(found, Directory)
            node = found

    def remove(self, path: str) -> None:
        try:
            parent, name = self._parent(path)
        except FileNotFoundError:
            return
        if name in parent.entries:
            self.count_change()
            del parent.entries[name]
            parent.note()

    remove_tree = remove

    def rename(self, old: str, new: str) -> None:
        self.count_change()
        source, old_name = self._parent(old)
        target, new_name = self._parent(new)
        node = source.entries.pop(old_name, None)
        if node is None:
            raise FileNotFoundError(old)
        refusal = self._refuses(node, new_name, target.entries.get(new_name))
        if refusal:
            source.entries[old_name] = node
            raise DiskFailed(f"cannot rename to {new}: {old}: {refusal}")
        target.entries[new_name] = node
        source.note()
        if target is not source:
            target.note()

    def _refuses(
        self, node: Inode | Directory, name: str, there: Inode | Directory | None
    ) -> str | None:
        """Return why rename(2) would not give something a name, if it would not."""
        if len(name) > NAME_BYTES_MAX:
            return "File name too long"
        if isinstance(there, Directory) and not isinstance(node, Directory):
            return "Is a directory"
        if isinstance(there, Inode) and isinstance(node, Directory):
            return "Not a directory"
        return "Directory not empty" if isinstance(there, Directory) and there.entries else None

    def _used(self, node: Directory) -> int:
        return sum(
            len(child.data) if isinstance(child, Inode) else self._used(child)
            for child in node.entries.values()
        )

    def free_bytes(self) -> int:
        if self.capacity is None:
            return 1 << 60
        return max(self.capacity - self._used(self.root), 0)

    def total_bytes(self) -> int:
        return 1 << 60 if self.capacity is None else self.capacity

    def _sync_work(
        self, files: Sequence[File], directories: Sequence[str]
    ) -> Callable[[], DiskFailed | None]:
        self.syncs += 1
        self.count_change()
        inodes = []
        for file in files:
            assert isinstance(file, MemoryFile)
            inodes.append((file.inode, len(file.inode.unsynced)))
        self.synced_paths.append((*(file.path for file in files), *directories))

        def work() -> DiskFailed | None:
            for inode, count in inodes:
                if self.fail_syncs:
                    # As a kernel does it: what could not be written is clean from then on.
                    del inode.unsynced[:count]
                else:
                    inode.sync(count)
            for directory in directories:
                node = self._find(directory)
                if not isinstance(node, Directory):
                    return DiskFailed(f"cannot sync {directory}: it is gone")
                node.sync(len(node.history))
            return DiskFailed("cannot sync: planted") if self.fail_syncs else None

        return work

    def sync_blocking(self, files: Sequence[File], directories: Sequence[str] = ()) -> None:
        error = self._sync_work(files, directories)()
        if error is not None:
            raise error

    def sync(
        self,
        files: Sequence[File],
        on_done: Callable[[DiskFailed | None], None],
        directories: Sequence[str] = (),
    ) -> None:
        work = self._sync_work(files, directories)
        self.pending.append(lambda: on_done(work()))

    def read(
        self, file: File, position: int, length: int, on_done: Callable[[bytes | DiskFailed], None]
    ) -> None:
        self.pending.append(lambda: on_done(file.read_blocking(position, length)))

    def run(
        self, work: Callable[[], object], on_done: Callable[[object, Exception | None], None]
    ) -> None:
        def job() -> None:
            try:
                result = work()
            except Exception as error:
                on_done(None, error)
            else:
                on_done(result, None)

        self.pending.append(job)

    def run_steps(self, *_: object) -> NoReturn:
        raise NotImplementedError("storage itself asks for no work in steps")
