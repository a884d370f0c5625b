"""What a process and all that it has started have used of the processor (Linux)."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
#: Places in /proc/PID/stat after the name: the parent; user and system, and those of children.
_PARENT = 1
_TIMES = slice(11, 15)


def tree_seconds(root: int) -> float:
    """Return user and system time of a process, its descendants, and those that have ended."""
    stats = _read_stats()
    found, waiting = 0, [root]
    children: dict[int, list[int]] = {}
    for pid, fields in stats.items():
        children.setdefault(int(fields[_PARENT]), []).append(pid)
    while waiting:
        pid = waiting.pop()
        if pid in stats:
            found += sum(map(int, stats[pid][_TIMES]))
            waiting += children.get(pid, ())
    return found / _TICKS


def _read_stats() -> dict[int, list[str]]:
    stats: dict[int, list[str]] = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            text = Path("/proc", name, "stat").read_text()
        except OSError:  # it has ended
            continue
        stats[int(name)] = text.rpartition(")")[2].split()
    return stats
