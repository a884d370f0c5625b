"""Replacing segments by cleaned ones in one step, though the disk knows no such step.

Theory of operation. A group of adjacent segments is replaced by one that begins where the group
does. Its files go through three names:

- `<base>.log.cleaned`: being written. Of no worth after a crash.
- `<base>.log.swap`: whole and synced; the replacement is queued for the write-ahead log, together
  with the names.
- `<base>.log`: that record is durable. The other old files are removed.

So the record decides: without it the old segments are there, and leftovers are removed; with it
`finish_swap` can be done again and again, from whatever is found. A checkpoint that is noted later
knows the new segments, and no checkpoint is noted between the record and the last rename.

Names of one base are used once between two checkpoints, or a leftover could be taken for another
one's: what has been replaced is cleaned again only when a checkpoint covers it.
"""

import json
from collections.abc import Sequence
from typing import NamedTuple

from kafkaesque.env.disk import BlockingDisk, Buffer
from kafkaesque.storage.errors import StorageCorrupt
from kafkaesque.storage.key_index import KEY_INDEX_SUFFIX, NEW_SUFFIX, key_index_paths
from kafkaesque.storage.log_snapshot import SegmentSummary

LOG_SUFFIXES = (".log", ".index", ".timeindex", KEY_INDEX_SUFFIX)
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"


class Replacement(NamedTuple):
    """One segment that takes the place of several."""

    #: The first one is the new segment's, too.
    old_bases: tuple[int, ...]
    new: SegmentSummary


def paths_of(directory: str, base_offset: int) -> tuple[str, str, str]:
    """Return the names of a segment's files: batches, offset index, time index.

    Its index of keys is not among them: cleaned segments get one when somebody wants few keys.
    """
    stem = f"{directory}/{base_offset:020d}"
    return f"{stem}.log", f"{stem}.index", f"{stem}.timeindex"


def key_index_path(directory: str, base_offset: int) -> str:
    """Return what the index of a segment's keys is called."""
    return f"{directory}/{base_offset:020d}{KEY_INDEX_SUFFIX}"


def write_replacement(replacement: Replacement) -> bytes:
    """Return the payload of a REPLACE record."""
    fields = {"old": list(replacement.old_bases), "new": list(replacement.new)}
    return json.dumps(fields, separators=(",", ":")).encode()


def read_replacement(data: Buffer) -> Replacement:
    """Return what `write_replacement` wrote; raises ValueError for anything else."""
    try:
        found = json.loads(bytes(data))
        new = SegmentSummary(*map(int, found["new"]))
        return Replacement(tuple(map(int, found["old"])), new)
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a replacement of segments: {error!r}") from error


def apply_replacement(
    segments: Sequence[SegmentSummary], replacement: Replacement
) -> tuple[SegmentSummary, ...]:
    """Return a checkpoint's segments after a replacement.

    Raises:
        StorageCorrupt: they are not those that were replaced.
    """
    bases = tuple(segment.base_offset for segment in segments)
    old = replacement.old_bases
    at = bases.index(old[0]) if old and old[0] in bases else len(bases)
    if bases[at : at + len(old)] != old or replacement.new.base_offset != old[0]:
        raise StorageCorrupt(f"segments {old} were replaced, but there are {bases}")
    return (*segments[:at], replacement.new, *segments[at + len(old) :])


def stage_swap(disk: BlockingDisk, directory: str, base_offset: int) -> None:
    """Let the files of a cleaned segment be finished by recovery; buffered."""
    for path in paths_of(directory, base_offset):
        disk.rename(path + CLEANED_SUFFIX, path + SWAP_SUFFIX)


def finish_swap(disk: BlockingDisk, directory: str, replacement: Replacement) -> None:
    """Put the new files in place and remove the old ones; buffered. May have been done before.

    The record was perhaps durable before the names were: then the files have their first name.
    """
    for path in paths_of(directory, replacement.new.base_offset):
        for suffix in (SWAP_SUFFIX, CLEANED_SUFFIX):
            if disk.exists(path + suffix):
                disk.rename(path + suffix, path)
                break
    for base in replacement.old_bases[1:]:
        for path in paths_of(directory, base):
            disk.remove(path)
    for base in replacement.old_bases:
        for path in key_index_paths(key_index_path(directory, base)):
            disk.remove(path)


def current_path(disk: BlockingDisk, path: str) -> str:
    """Return where a segment's file is that may not have been put in place yet."""
    for suffix in (SWAP_SUFFIX, CLEANED_SUFFIX):
        if disk.exists(path + suffix):
            return path + suffix
    return path


def discard_cleaned(disk: BlockingDisk, directory: str, base_offset: int) -> None:
    """Remove what was written for a segment that is not going to be replaced."""
    for path in paths_of(directory, base_offset):
        disk.remove(path + CLEANED_SUFFIX)


def is_leftover(name: str) -> bool:
    """Tell whether a file was made beside a segment and never put in place."""
    return name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX, KEY_INDEX_SUFFIX + NEW_SUFFIX))
