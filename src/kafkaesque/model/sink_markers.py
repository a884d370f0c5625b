"""The groups in which an exactly-once Spark sink keeps its markers: nobody consumes with them.

A marker is a committed offset that says which micro-batch a task wrote last (ADR 11). Without it a
micro-batch that is repeated is written a second time, so whoever manages groups has to know them.
"""

import re
from typing import Final

#: What stands before is a prefix of the user's.
_NAME: Final = re.compile(r".*spark-sink-.+-[0-9]+", re.DOTALL)


def sink_id(query: str, task: int) -> str:
    """Return the transactional id of a sink's task, which is also the group of its marker.

    Whoever may only use names of a prefix has that before it.
    """
    return f"spark-sink-{query}-{task}"


def keeps_sink_marker(group: str) -> bool:
    """Tell whether a group has the name of one that keeps a sink's marker."""
    return _NAME.fullmatch(group) is not None
