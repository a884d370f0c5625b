"""The groups in which an exactly-once Spark sink keeps its markers: nobody consumes with them.

A marker is a committed offset that says which micro-batch a task wrote last (ADR 11). Without it a
micro-batch that is repeated is written a second time, so whoever manages groups has to know them.
"""

import re
from typing import Final, NamedTuple

#: What stands before is a prefix of the user's.
_PARTS: Final = re.compile(r"(.*spark-sink-)(.+)-([0-9]+)", re.DOTALL)

#: The metadata of offsets that a query commits for those who watch its lag.
PROGRESS_MARK: Final = "spark"


class SinkTask(NamedTuple):
    """A task of a sink, by the name of its group."""

    query: str
    task: int


def sink_task(group: str) -> SinkTask | None:
    """Return whose marker a group keeps; None: it keeps none."""
    found = _PARTS.fullmatch(group)
    # No sink has so many tasks that a number of more digits is one.
    if found is None or len(found[3]) > 9:
        return None
    return SinkTask(found[2], int(found[3]))


def sink_id(query: str, task: int) -> str:
    """Return the transactional id of a sink's task, which is also the group of its marker.

    Whoever may only use names of a prefix has that before it.
    """
    return f"spark-sink-{query}-{task}"


def keeps_sink_marker(group: str) -> bool:
    """Tell whether a group has the name of one that keeps a sink's marker."""
    return _PARTS.fullmatch(group) is not None
