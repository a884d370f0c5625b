"""What the operating system says of this process; None where it does not say."""

import os
import resource
from typing import NamedTuple


class ProcessFacts(NamedTuple):
    """Of the process that asks."""

    resident_bytes: int | None
    cpu_seconds: float
    open_files: int | None
    open_files_max: int
    start_seconds: float | None


def read_process_facts() -> ProcessFacts:
    """Return what holds now."""
    times = os.times()
    return ProcessFacts(
        resident_bytes=_resident_bytes(),
        cpu_seconds=times.user + times.system,
        open_files=_open_files(),
        open_files_max=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        start_seconds=_start_seconds(),
    )


class ProcessLoad(NamedTuple):
    """What is cheap to ask for."""

    resident_bytes: int | None
    cpu_seconds: float


def read_load() -> ProcessLoad:
    """Return how much memory and processor time this process takes."""
    times = os.times()
    return ProcessLoad(resident_bytes=_resident_bytes(), cpu_seconds=times.user + times.system)


def _resident_bytes() -> int | None:
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def _open_files() -> int | None:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return None


def _start_seconds() -> float | None:
    """Return when the process began, as Unix time."""
    try:
        with open("/proc/self/stat", "rb") as stat:
            # After the name, which is in parentheses and may hold anything.
            ticks = int(stat.read().rpartition(b")")[2].split()[19])
        with open("/proc/stat", "rb") as system:
            booted = next(line for line in system if line.startswith(b"btime "))
        return int(booted.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, StopIteration):
        return None
