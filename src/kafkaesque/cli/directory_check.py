"""What is wrong with a data directory: `log verify` tells all that keeps its broker from starting.

Everything that is durable is read and compared, and then the broker's own start is asked, as far as
that only looks: what it refuses is damage, whatever was found before.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from kafkaesque.env.clock import Clock
from kafkaesque.env.disk import Disk
from kafkaesque.model.errors import KafkaesqueError
from kafkaesque.model.ids import NodeId
from kafkaesque.storage.checkpoint import CHECKPOINT, load_checkpoint
from kafkaesque.storage.config import StorageConfig
from kafkaesque.storage.directory import (
    META,
    PARTITION_METADATA,
    read_owner,
    read_partition_metadata,
)
from kafkaesque.storage.offline import Finding, Severity, verify
from kafkaesque.storage.recovery import Recovery
from kafkaesque.storage.wal import WAL_DIRECTORY
from kafkaesque.storage.workbench import Workbench


def check_directory(disk: Disk, again: Disk) -> Iterator[Finding]:
    """Yield everything that is not as it should be; the directory is only looked at.

    `again` is the same directory, for what is read a second time. What stands in the way of all
    partitions is told once, also where the start says it too.
    """
    try:
        read_owner(disk)
    except KafkaesqueError as error:
        yield _refused(META, error)
    has_told = False
    for finding in verify(disk):
        place = finding.path.partition("/")[0]
        is_error = finding.severity is Severity.ERROR
        has_told = has_told or (is_error and place in (META, CHECKPOINT, WAL_DIRECTORY))
        yield _in_words(disk, finding)
    if not has_told:
        try:
            _Start(again).look()
        except KafkaesqueError as error:
            yield _refused(WAL_DIRECTORY, error)


class _Start(Recovery):
    """The part of a broker's start that changes nothing: is the write-ahead log whole?"""

    def __init__(self, disk: Disk) -> None:
        # Only what comes after the look asks for the time, or hands something in.
        bench = Workbench(
            disk,
            cast("Clock", None),
            StorageConfig(),
            fail=lambda _: None,
            ask_submit=lambda: None,
        )
        super().__init__(bench, "", NodeId(0), lambda: 0)
        self._disk = disk

    def look(self) -> None:
        """Look through the write-ahead log.

        Raises:
            StorageCorrupt: a start would refuse it.
        """
        self._outline(load_checkpoint(self._disk))


def _refused(path: str, error: KafkaesqueError) -> Finding:
    message = f"the broker does not start with it: {error}"
    return Finding(severity=Severity.ERROR, path=path, position=0, message=message)


def _in_words(disk: Disk, finding: Finding) -> Finding:
    """Return what is wrong with a partition's directory as people say it; other findings as is."""
    directory, _, name = finding.path.rpartition("/")
    if name != PARTITION_METADATA:
        return finding
    if not disk.exists(directory):
        message = "missing: at its next start the broker copies it from another one"
        return replace(finding, path=directory, message=message)
    found = read_partition_metadata(disk, directory)
    if found is None:
        message = f"missing, or it cannot be read: nothing says whose directory {directory} is"
    else:
        message = f"it says that this is the directory of {found.directory}"
        if found.directory == directory:
            message += ", of another topic of that name"
    return replace(finding, message=message)
