"""Tells whether a file has changed."""

from pathlib import Path

#: What changes with a file: its time, its size, its number. None: it cannot be looked at.
Fingerprint = tuple[int, int, int] | None


def fingerprint_of(path: Path) -> Fingerprint:
    """Return a file's fingerprint; it asks the disk, so it belongs into a worker thread."""
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino)
