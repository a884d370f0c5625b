"""A broker's data directory for looking only: no file is made, changed or removed."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import cast

from kafkaesque.cli.failure import CommandFailed
from kafkaesque.env.disk import Disk

OnRead = Callable[[int], None]

LOCK_NAME = ".lock"
TRASH_NAME = ".trash"


class ReadOnlyFile:
    """A file that is read at places."""

    def __init__(self, root: Path, path: str, on_read: OnRead) -> None:
        self.path = path
        self._on_read = on_read
        self._fd = os.open(root / path, os.O_RDONLY | os.O_CLOEXEC)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def read_blocking(self, position: int, length: int) -> bytes:
        data = os.pread(self._fd, length, position)
        self._on_read(len(data))
        return data

    def close(self) -> None:
        os.close(self._fd)


class ReadOnlyDisk:
    """The part of the door to files that reads."""

    def __init__(self, root: Path, on_read: OnRead) -> None:
        self._root = root
        self._on_read = on_read

    def open(self, path: str) -> ReadOnlyFile:
        return ReadOnlyFile(self._root, path, self._on_read)

    def exists(self, path: str) -> bool:
        return (self._root / path).exists()

    def list_dir(self, path: str) -> list[str]:
        try:
            names = os.listdir(self._root / path)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(name for name in names if name not in (LOCK_NAME, TRASH_NAME))


def read_only_disk(root: Path, on_read: OnRead = lambda _: None) -> Disk:
    """Return a broker's directory as a disk; whatever would write to it has no such method.

    `on_read` gets the number of bytes of each read.

    Raises:
        CommandFailed: a broker has it open.
    """
    try:
        with (root / LOCK_NAME).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        pass
    except OSError:
        raise CommandFailed(
            f"a broker has {root} open; what it is writing would look damaged",
            hint="stop it first",
        ) from None
    return cast("Disk", ReadOnlyDisk(root, on_read))
