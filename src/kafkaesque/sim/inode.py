"""Simulated files and directories: what programs see, and what a power cut leaves of it.

Theory of operation. A file's content is what programs see. Its durable content is not stored; what
is stored is how to get back: for every page that was changed since, what it was before. A sync
closes an *epoch* of such memories; when it succeeds, that epoch and all before it are forgotten,
which is to say, durable. A power cut goes back sector by sector, each to any of the states that it
had since the last successful sync: a device writes what it likes, when it likes.

When a sync fails, what it covered is marked as lost: programs go on seeing it in the page cache,
and no later sync makes it durable, as it is on Linux.

A directory's changes become durable by its own sync, or happen to: a power cut keeps a beginning
of the changes to all directories, in the order in which they were made.
"""

import random
from dataclasses import dataclass, field
from typing import Final

PAGE_BYTES: Final = 4096
SECTOR_BYTES: Final = 512


@dataclass(slots=True)
class Epoch:
    """What was changed between two syncs."""

    number: int
    #: The file's size when it began.
    size: int
    #: Pages by number, as they were when it began (shorter, or empty, beyond the end).
    before: dict[int, bytes] = field(default_factory=dict)


class FileInode:
    """A file's content."""

    __slots__ = ("_epochs", "_lost", "content", "durable_size", "warm")

    def __init__(self) -> None:
        self.content: Final = bytearray()
        self.durable_size = 0
        #: Oldest first; the last one is open.
        self._epochs: Final[list[Epoch]] = [Epoch(0, 0)]
        #: Pages of failed syncs, as they were before.
        self._lost: Final[dict[int, bytes]] = {}
        #: Pieces that were read lately, in the order of reading.
        self.warm: Final[dict[int, None]] = {}

    @property
    def dirty_bytes(self) -> int:
        """How much is not durable yet."""
        return PAGE_BYTES * sum(len(epoch.before) for epoch in self._epochs)

    def write(self, position: int, data: bytes) -> None:
        """Change the content."""
        self._remember(min(position, len(self.content)), position + len(data))
        if position > len(self.content):
            self.content.extend(bytes(position - len(self.content)))
        self.content[position : position + len(data)] = data

    def resize(self, size: int) -> None:
        """Cut, or extend with zeros."""
        old = len(self.content)
        self._remember(min(old, size), max(old, size))
        if size < old:
            del self.content[size:]
        else:
            self.content.extend(bytes(size - old))

    def begin_sync(self) -> tuple[int, int]:
        """Close the epoch; return its number and the size that is to be durable."""
        last = self._epochs[-1]
        if not last.before:
            return last.number - 1, len(self.content)
        self._epochs.append(Epoch(last.number + 1, len(self.content)))
        return last.number, len(self.content)

    def end_sync(self, number: int, size: int) -> None:
        """Everything up to an epoch is durable now."""
        if self._epochs[0].number <= number:
            self._drop(number)
            self.durable_size = size

    def fail_sync(self, number: int) -> None:
        """Everything up to an epoch will never be durable."""
        for epoch in self._drop(number):
            for page, before in epoch.before.items():
                later = next((e for e in self._epochs if page in e.before), None)
                if later is None:
                    self._lost.setdefault(page, before)
                else:  # It will be written again, but what it is on the device now is this.
                    later.before[page] = before

    def lose_end(self, size: int) -> None:
        """Lose what is beyond a size, as if it had never been written: a damage, not a change."""
        del self.content[size:]
        self.durable_size = min(self.durable_size, size)
        self._epochs[:] = [Epoch(self._epochs[-1].number, size)]
        self._lost.clear()

    def lose_power(self, chance: random.Random) -> str:
        """Become what the device has; say what that is, if it has changed."""
        was, dirty = len(self.content), self.dirty_bytes
        self.warm.clear()
        if dirty == 0 and not self._lost:
            return ""
        size = self._surviving_size(chance)
        # How much of the unsynced reached the device: nothing, everything, or anything.
        survival = chance.choice((0.0, 0.0, 1.0, 0.5, chance.random()))
        versions: dict[int, list[bytes]] = {}
        for epoch in self._epochs:
            for page, before in epoch.before.items():
                versions.setdefault(page, []).append(before)
        if size > was:
            self.content.extend(bytes(size - was))
        for page in sorted(versions):
            self._choose(page, versions[page], survival, was, chance)
        for page, before in self._lost.items():
            self._put(page * PAGE_BYTES, before.ljust(PAGE_BYTES, b"\0"))
        del self.content[size:]
        self._epochs[:] = [Epoch(0, size)]
        self._lost.clear()
        self.durable_size = size
        return f"{was} -> {size} bytes, {dirty} unsynced, {survival:.2f} of them kept"

    def _remember(self, start: int, end: int) -> None:
        before = self._epochs[-1].before
        for page in range(start // PAGE_BYTES, -(-end // PAGE_BYTES)):
            if page in self._lost:
                # The page will be written anew as a whole; the device has it as it was before the
                # sync that failed.
                before[page] = self._lost.pop(page)
            elif page not in before:
                before[page] = bytes(self.content[page * PAGE_BYTES : (page + 1) * PAGE_BYTES])

    def _drop(self, number: int) -> list[Epoch]:
        dropped = [epoch for epoch in self._epochs if epoch.number <= number]
        del self._epochs[: len(dropped)]
        return dropped

    def _surviving_size(self, chance: random.Random) -> int:
        sizes = [self.durable_size, len(self.content)]
        sizes += [epoch.size for epoch in self._epochs[1:]]
        if self.dirty_bytes == 0:
            return self.durable_size
        low, high = min(sizes), max(sizes)
        return chance.choice((*sizes, chance.randint(low, high)))

    def _choose(
        self, page: int, versions: list[bytes], survival: float, was: int, chance: random.Random
    ) -> None:
        start = page * PAGE_BYTES
        for sector in range(0, PAGE_BYTES, SECTOR_BYTES):
            # Beyond the end there is only what was there before a cut that did not survive.
            if start + sector >= was or chance.random() >= survival:
                old = versions[chance.randrange(len(versions))]
                data = old[sector : sector + SECTOR_BYTES].ljust(SECTOR_BYTES, b"\0")
                self._put(start + sector, data)

    def _put(self, position: int, data: bytes) -> None:
        """Overwrite what there is, and extend nothing."""
        room = max(0, len(self.content) - position)
        self.content[position : position + min(len(data), room)] = data[:room]


class DirInode:
    """A directory: names now, and names for ever."""

    __slots__ = ("durable", "entries")

    def __init__(self) -> None:
        self.entries: Final[dict[str, Inode]] = {}
        self.durable: Final[dict[str, Inode]] = {}


Inode = FileInode | DirInode


@dataclass(frozen=True, slots=True)
class NameChange:
    """One entry of a directory gets another inode, or none."""

    directory: DirInode
    name: str
    inode: Inode | None

    def apply(self, entries: dict[str, Inode]) -> None:
        """Make the change."""
        if self.inode is None:
            entries.pop(self.name, None)
        else:
            entries[self.name] = self.inode


class Volume:
    """A file system: its tree, and the changes of names that are not durable yet."""

    def __init__(self) -> None:
        self.root: Final = DirInode()
        #: Changes that belong together, in the order in which they were made.
        self._pending: Final[list[tuple[NameChange, ...]]] = []

    def clear(self) -> None:
        """Become an empty one."""
        self.root.entries.clear()
        self.root.durable.clear()
        self._pending.clear()

    def find(self, path: str) -> Inode | None:
        """Return what has this name."""
        inode: Inode = self.root
        for name in path.split("/"):
            if name in ("", "."):
                continue
            if not isinstance(inode, DirInode) or name not in inode.entries:
                return None
            inode = inode.entries[name]
        return inode

    def change(self, *changes: NameChange) -> None:
        """Change names, all at once."""
        for change in changes:
            change.apply(change.directory.entries)
        self._pending.append(changes)

    def sync_dir(self, directory: DirInode) -> None:
        """Make a directory's names durable, and whatever changed together with them."""
        involved = [directory]
        durable: list[tuple[NameChange, ...]] = []
        kept: list[tuple[NameChange, ...]] = []
        # Backwards, because a change takes with it every earlier one of each directory it touches.
        for changes in reversed(self._pending):
            if any(change.directory is each for change in changes for each in involved):
                involved += [change.directory for change in changes]
                durable.append(changes)
            else:
                kept.append(changes)
        for changes in reversed(durable):
            self._make_durable(changes)
        self._pending[:] = reversed(kept)

    def lose_power(self, chance: random.Random) -> list[str]:
        """Become what the device has; say what that is."""
        count = chance.choice((0, len(self._pending), chance.randint(0, len(self._pending))))
        told = [f"{count} of {len(self._pending)} unsynced changes of names kept"]
        for changes in self._pending[:count]:
            self._make_durable(changes)
        self._pending.clear()
        for path, directory in self.directories():
            directory.entries.clear()
            directory.entries.update(directory.durable)
            for name, inode in sorted(directory.entries.items(), key=lambda entry: entry[0]):
                if isinstance(inode, FileInode):
                    what = inode.lose_power(chance)
                    if what:
                        told.append(f"{path}{name}: {what}")
        return told

    def directories(self) -> list[tuple[str, DirInode]]:
        """Return all directories by their durable names, parents first, with `/` at their end."""
        found: list[tuple[str, DirInode]] = [("", self.root)]
        for path, directory in found:
            for name, inode in directory.durable.items():
                if isinstance(inode, DirInode):
                    found.append((f"{path}{name}/", inode))
        return found

    def files(self) -> list[tuple[str, FileInode]]:
        """Return all files by their present names, sorted."""
        found: list[tuple[str, FileInode]] = []
        open_dirs: list[tuple[str, DirInode]] = [("", self.root)]
        for path, directory in open_dirs:
            for name, inode in directory.entries.items():
                if isinstance(inode, DirInode):
                    open_dirs.append((f"{path}{name}/", inode))
                else:
                    found.append((path + name, inode))
        return sorted(found, key=lambda entry: entry[0])

    def _make_durable(self, changes: tuple[NameChange, ...]) -> None:
        for change in changes:
            change.apply(change.directory.durable)
