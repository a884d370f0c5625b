"""The files below one directory on the real machine, for who may wait for the device."""

import os
from collections.abc import Sequence
from typing import Final

from kafkaesque.env.disk import File
from kafkaesque.runtime.file import RealFile, disk_error, read_error

LOCK_NAME: Final = ".lock"
#: What was removed waits here, under its own number, until a worker has freed it.
TRASH_NAME: Final = ".trash"


class RealDirectory:
    """See `BlockingDisk`.

    With `writes_back` what is written goes on its way to the device at once, and the sync that
    follows does not hand it a lot in one piece, behind which others would wait.
    """

    def __init__(self, root: str | os.PathLike[str], *, writes_back: bool = False) -> None:
        self.root: Final = os.path.abspath(root)
        self._writes_back: Final = writes_back

    def open(self, path: str, *, create: bool = False) -> RealFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        try:
            fd = os.open(self._at(path), flags, 0o644)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise read_error(error, "cannot open", path) from error
        return RealFile(path, fd, self._close_later, writes_back=self._writes_back)

    def exists(self, path: str) -> bool:
        return os.path.exists(self._at(path))

    def list_dir(self, path: str) -> list[str]:
        try:
            names = os.listdir(self._at(path))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise read_error(error, "cannot list", path) from error
        return sorted(name for name in names if name not in (LOCK_NAME, TRASH_NAME))

    def make_dir(self, path: str) -> None:
        try:
            os.makedirs(self._at(path), exist_ok=True)
        except OSError as error:
            raise disk_error(error, "cannot make the directory", path) from error

    def remove(self, path: str) -> None:
        try:
            os.unlink(self._at(path))
        except FileNotFoundError:
            pass
        except OSError as error:
            raise disk_error(error, "cannot remove", path) from error

    def remove_tree(self, path: str) -> None:
        # It loads decompressors, and most brokers never remove a directory.
        import shutil

        shutil.rmtree(self._at(path), ignore_errors=True)

    def rename(self, old: str, new: str) -> None:
        try:
            os.replace(self._at(old), self._at(new))
        except FileNotFoundError:
            raise
        except OSError as error:
            raise disk_error(error, f"cannot rename to {new}:", old) from error

    def free_bytes(self) -> int:
        status = self._status()
        return status.f_bavail * status.f_frsize

    def total_bytes(self) -> int:
        status = self._status()
        return status.f_blocks * status.f_frsize

    def _status(self) -> os.statvfs_result:
        try:
            return os.statvfs(self.root)
        except OSError as error:
            raise disk_error(error, "cannot ask for the space in", self.root) from error

    def sync_blocking(self, files: Sequence[File], directories: Sequence[str] = ()) -> None:
        for file in files:
            _real(file).sync_now()
        for directory in directories:
            self._sync_dir(directory)

    # Inside

    def _at(self, path: str) -> str:
        if path.startswith("/") or ".." in path.split("/"):
            raise ValueError(f"{path!r} leads out of the data directory")
        return f"{self.root}/{path}"

    def _sync_dir(self, directory: str) -> None:
        try:
            fd = os.open(self._at(directory), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise disk_error(error, "cannot sync the directory", directory) from error

    def _close_later(self, fd: int) -> None:
        os.close(fd)


def descriptor_of(file: File) -> int:
    """Return the descriptor of a file of such a directory."""
    return _real(file).fd


def _real(file: File) -> RealFile:
    if not isinstance(file, RealFile):
        raise TypeError(f"{file!r} is not a file of this disk")
    return file
