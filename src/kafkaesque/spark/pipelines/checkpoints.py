"""The checkpoints of a project's flows: where declarative pipelines keep them, what they say.

Both kinds of run use the same ones, so that each goes on where the other stopped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kafkaesque.spark.pipelines.errors import WrongProject
from kafkaesque.spark.pipelines.flow_progress import TopicOffsets, topic_offsets

_ROOT = "_checkpoints"
#: With or without a host's place, which is empty.
_FILE = re.compile(r"file:(?://(?=/))?")
#: Spark's mark for a source that has no offset yet.
_NO_OFFSET = "-"


def storage_path(storage: str) -> Path | None:
    """Return a storage as a directory of this machine; None where it is another's."""
    found = _FILE.match(storage)
    return None if found is None else Path(storage[found.end() :])


def flow_checkpoint(storage: str, target: Sequence[str], flow: str) -> str:
    """Return where a flow's query has its checkpoint: the newest, as a full refresh makes new ones.

    Raises:
        WrongProject: the storage is none that this machine can look into.
    """
    root = storage_path(storage)
    if root is None:
        raise WrongProject(
            f"--continuous needs a storage that is a directory on this machine, not {storage}",
            "storage: a directory, in the project's spec",
        )
    folder = root.joinpath(_ROOT, *target, flow)
    newest = max(_versions(folder), default=0)
    return f"file://{folder / str(newest)}"


def flows_with_checkpoints(storage: str, table: Sequence[str]) -> set[str]:
    """Return the flows that have written a table so far, as far as this machine can see."""
    root = storage_path(storage)
    if root is None:
        return set()
    names = [_any_case(part) for part in table]
    return {
        folder.name for folder in root.glob("/".join([_ROOT, *names, "*"])) if _versions(folder)
    }


def _any_case(name: str) -> str:
    """Return a pattern of file names for a name of SQL."""
    letters = (f"[{each.lower()}{each.upper()}]" if each.isalpha() else each for each in name)
    return "".join(letters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Of one flow: its query, and the last micro-batch that is done."""

    flow: str
    query_id: str
    batch: int
    #: Where the query goes on, for each source that is topics.
    offsets: list[TopicOffsets]


def read_checkpoints(storage: str) -> list[Checkpoint]:
    """Return the newest checkpoint of each flow, as far as they can be read here."""
    root = storage_path(storage)
    if root is None:
        return []
    flows = {path.parent.parent for path in root.joinpath(_ROOT).glob("**/metadata")}
    found = []
    for folder in sorted(flows):
        versions = _versions(folder)
        if versions:
            checkpoint = _read(folder.name, folder / str(max(versions)))
            found += [checkpoint] if checkpoint is not None else []
    return found


def _versions(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return [int(each.name) for each in folder.iterdir() if each.name.isdigit()]


def _read(flow: str, folder: Path) -> Checkpoint | None:
    try:
        query_id = str(json.loads((folder / "metadata").read_text("utf-8"))["id"])
        done = [int(path.name) for path in (folder / "commits").iterdir() if path.name.isdigit()]
        if not done:
            return Checkpoint(flow=flow, query_id=query_id, batch=-1, offsets=[])
        batch = max(done)
        lines = (folder / "offsets" / str(batch)).read_text("utf-8").splitlines()
    except (OSError, ValueError, KeyError):
        # It is being written, or it is not there yet.
        return None
    # The version and the query's own settings come before a line for each source.
    sources = [_json(line) for line in lines[2:] if line != _NO_OFFSET]
    offsets = [each for each in map(topic_offsets, sources) if each is not None]
    return Checkpoint(flow=flow, query_id=query_id, batch=batch, offsets=offsets)


def _json(line: str) -> object:
    try:
        return json.loads(line)
    except ValueError:
        return None
