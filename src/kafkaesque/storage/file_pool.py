"""Open handles of the broker's segments and indexes: opened when needed, a bounded number."""

from kafkaesque.env.disk import Disk, File


class FilePool:
    """Hands out open files by path and closes those that were not asked for the longest."""

    __slots__ = ("_disk", "_open", "_open_files_max", "_pins")

    def __init__(self, disk: Disk, open_files_max: int) -> None:
        self._disk = disk
        self._open_files_max = open_files_max
        self._open: dict[str, File] = {}
        #: Files that a sync or read is using off the loop, with how often.
        self._pins: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._open)

    def get(self, path: str, *, create: bool = False) -> File:
        """Return the open file; it may be closed once control is back with the loop.

        Raises:
            FileNotFoundError: missing, and not to be created.
            DiskFailed: the device refused.
        """
        file = self._open.pop(path, None)
        if file is None:
            file = self._disk.open(path, create=create)
            if len(self._open) >= self._open_files_max:
                self._close_oldest()
        self._open[path] = file
        return file

    def _close_oldest(self) -> None:
        for path in self._open:
            if path not in self._pins:
                self._open.pop(path).close()
                return

    def pin(self, path: str) -> None:
        """Keep the file open until `unpin`."""
        self._pins[path] = self._pins.get(path, 0) + 1

    def unpin(self, path: str) -> None:
        """Undo one `pin`."""
        left = self._pins[path] - 1
        if left:
            self._pins[path] = left
        else:
            del self._pins[path]

    def drop(self, path: str) -> None:
        """Close the file, because it is going away."""
        file = self._open.pop(path, None)
        if file is not None:
            file.close()

    def drop_directory(self, directory: str) -> None:
        """Close all files in a directory."""
        prefix = directory + "/"
        for path in [path for path in self._open if path.startswith(prefix)]:
            self.drop(path)

    def close(self) -> None:
        """Close all."""
        for file in self._open.values():
            file.close()
        self._open.clear()
