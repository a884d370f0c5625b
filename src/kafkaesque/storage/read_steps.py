"""Reading in steps: one piece of code for warm, cold and recovery reads.

A search through files is written once, as a generator that yields what it wants to read and is sent
the bytes. `run_warm` gives up at the first piece that is not in memory, `run_cold` fetches such
pieces off the loop, `run_blocking` waits (recovery, offline tools).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import NamedTuple, TypeVar

from kafkaesque.env.disk import Disk
from kafkaesque.model.errors import DiskFailed, InvariantBroken
from kafkaesque.storage.file_pool import FilePool

T = TypeVar("T")


class ReadRequest(NamedTuple):
    """A piece of a file; fewer bytes come only at its end."""

    path: str
    position: int
    length: int


Steps = Generator[ReadRequest, bytes, T]


class Cold(Exception):
    """The bytes are not in memory."""


def run_warm(steps: Steps[T], pool: FilePool) -> T:
    """Run without waiting for the device.

    Raises:
        Cold: some bytes are not in memory.
    """
    try:
        request = next(steps)
        while True:
            try:
                data = pool.get(request.path).read_cached(request.position, request.length)
            except FileNotFoundError as error:
                request = steps.throw(error)
                continue
            if data is None:
                steps.close()
                raise Cold
            request = steps.send(data)
    except StopIteration as stop:
        result: T = stop.value
        return result


def run_blocking(steps: Steps[T], pool: FilePool) -> T:
    """Run, waiting for the device; for recovery and offline tools."""
    try:
        request = next(steps)
        while True:
            try:
                file = pool.get(request.path)
            except FileNotFoundError as error:
                request = steps.throw(error)
                continue
            request = steps.send(file.read_blocking(request.position, request.length))
    except StopIteration as stop:
        result: T = stop.value
        return result


def run_cold(
    steps: Steps[T], pool: FilePool, disk: Disk, on_done: Callable[[T | Exception], None]
) -> None:
    """Run, reading off the loop what is not in memory; `on_done` at once if all of it is."""
    _ColdRun(steps, pool, disk, on_done).resume(None, None)


class _ColdRun:
    """One run across turns of the loop."""

    __slots__ = ("_disk", "_on_done", "_pool", "_steps")

    def __init__(
        self,
        steps: Steps[T],
        pool: FilePool,
        disk: Disk,
        on_done: Callable[[T | Exception], None],
    ) -> None:
        self._steps: Generator[ReadRequest, bytes, object] = steps
        self._pool = pool
        self._disk = disk
        self._on_done: Callable[..., None] = on_done

    def resume(self, data: bytes | None, error: Exception | None) -> None:
        """Go on until something has to be read off the loop, or to the end."""
        try:
            request = self._advance(data, error)
            while True:
                try:
                    file = self._pool.get(request.path)
                except FileNotFoundError as missing:
                    request = self._steps.throw(missing)
                    continue
                cached = file.read_cached(request.position, request.length)
                if cached is None:
                    break
                request = self._steps.send(cached)
        except StopIteration as stop:
            self._on_done(stop.value)
            return
        except InvariantBroken:
            raise
        except Exception as failure:
            self._on_done(failure)
            return
        self._pool.pin(request.path)

        def on_read(result: bytes | DiskFailed) -> None:
            self._pool.unpin(request.path)
            if isinstance(result, DiskFailed):
                self.resume(None, result)
            else:
                self.resume(result, None)

        self._disk.read(file, request.position, request.length, on_read)

    def _advance(self, data: bytes | None, error: Exception | None) -> ReadRequest:
        if error is not None:
            return self._steps.throw(error)
        if data is None:
            return next(self._steps)
        return self._steps.send(data)
