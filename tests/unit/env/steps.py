"""Work in steps, for the worker process to find by name."""

import os
import time
from collections.abc import Generator

from kafkaesque.env.disk import BlockingDisk
from kafkaesque.model.errors import DiskFailed


def count(disk: BlockingDisk, steps: int) -> Generator[int, None, str]:
    """Write a file, a byte for each step; say what is in it. Where it is stopped, remove it."""
    file = disk.open("counted", create=True)
    try:
        for at in range(steps):
            file.write_at(at, [b"%d" % (at % 10)])
            yield at
        disk.sync_blocking([file])
        return file.read_blocking(0, 100).decode()
    except GeneratorExit:
        disk.remove("counted")
        raise
    finally:
        file.close()


def fail(disk: BlockingDisk, what: str) -> Generator[int, None, None]:
    """Fail in the second step."""
    yield 1
    raise DiskFailed(what)


def tell_process(disk: BlockingDisk, _: None) -> Generator[tuple[int, int, int, int], None, None]:
    """Yield the process, its group, its session and how nice it is, again and again."""
    while True:
        yield os.getpid(), os.getpgid(0), os.getsid(0), os.nice(0)


def sleep(disk: BlockingDisk, seconds: float) -> Generator[int, None, None]:
    """Yield the process; then be busy for long."""
    yield os.getpid()
    time.sleep(seconds)
    yield 0


def die(disk: BlockingDisk, _: None) -> Generator[int, None, None]:
    """End the process in the second step, as an allocation beyond the machine's memory would."""
    yield os.getpid()
    os._exit(9)
