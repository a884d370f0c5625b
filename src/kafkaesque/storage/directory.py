"""Whose data directory it is, and the directories of its partitions."""

import json
from typing import NamedTuple

from kafkaesque.env.disk import Disk
from kafkaesque.model.errors import ReadFailed
from kafkaesque.model.ids import NodeId
from kafkaesque.storage.checkpoint import CHECKPOINT, ROOT
from kafkaesque.storage.entries import LogIdentity
from kafkaesque.storage.errors import StorageCorrupt, WrongDirectory
from kafkaesque.storage.log_snapshot import read_identity, write_identity

META = "meta.json"
META_NEW = "meta.json.new"
FORMAT = 1
PARTITION_METADATA = "partition.metadata"
STRAY_SUFFIX = ".stray"
DELETED_SUFFIX = ".deleted"
#: File systems take no longer names.
NAME_BYTES_MAX = 255
#: Attempts to find a free name for a directory that is moved aside.
STRAYS_MAX = 10_000


class Owner(NamedTuple):
    """Whose data directory it is, and which: empty if it is from before directories had an id."""

    cluster_id: str
    node: int
    directory_id: str = ""


def read_owner(disk: Disk) -> Owner | None:
    """Return whose directory it is; None if nothing says so. Waits.

    Raises:
        WrongDirectory: it was written in another format.
        StorageCorrupt: it cannot be read.
    """
    if not disk.exists(META):
        return None
    file = disk.open(META)
    data = file.read_blocking(0, file.size())
    file.close()
    try:
        found = json.loads(data)
        version, cluster, owner = found["format"], found["cluster_id"], found["node"]
        directory_id = str(found.get("directory_id", ""))
    except (ValueError, KeyError, TypeError) as error:
        raise StorageCorrupt(f"{META!r} in the data directory cannot be read: {error}") from error
    if version != FORMAT:
        raise WrongDirectory(f"the data directory has format {version}; this is format {FORMAT}")
    return Owner(cluster, owner, directory_id)


def check_owner(disk: Disk, cluster_id: str, node: NodeId) -> Owner | None:
    """Return whose directory it is, if it is this broker's; None if it is new and nobody's.

    Raises:
        WrongDirectory: it belongs to somebody else, or was written in another format.
        StorageCorrupt: it cannot be read.
    """
    owner = read_owner(disk)
    if owner is None:
        if disk.exists(CHECKPOINT) and disk.list_dir("wal"):
            raise StorageCorrupt(
                f"the data directory has a {CHECKPOINT!r} but no {META!r}: restore that file, or"
                " start this broker with an empty directory, so that its replicas are copied from"
                " the other brokers"
            )
        return None
    if owner[:2] != (cluster_id, node):
        raise WrongDirectory(
            f"the data directory belongs to broker {owner.node} of cluster {owner.cluster_id!r},"
            f" and this is broker {node} of cluster {cluster_id!r}: give this broker a directory"
            " of its own, or start the one that this directory belongs to"
        )
    return owner


def write_owner(disk: Disk, cluster_id: str, node: NodeId, directory_id: str) -> None:
    """Make the directory this broker's, durably; waits. Everything else has to be there."""
    owner = {"format": FORMAT, "cluster_id": cluster_id, "node": node, "directory_id": directory_id}
    content = json.dumps(owner).encode()
    file = disk.open(META_NEW, create=True)
    file.truncate(0)
    file.write_at(0, [content + b"\n"])
    disk.sync_blocking([file])
    file.close()
    disk.rename(META_NEW, META)
    disk.sync_blocking([], [ROOT])


def make_partition_directory(disk: Disk, identity: LogIdentity) -> None:
    """Make a partition's directory and say in it whose it is; buffered."""
    disk.make_dir(identity.directory)
    file = disk.open(f"{identity.directory}/{PARTITION_METADATA}", create=True)
    file.truncate(0)
    file.write_at(0, [write_identity(identity) + b"\n"])
    file.close()


def read_partition_metadata(disk: Disk, directory: str) -> LogIdentity | None:
    """Return whose directory it is; None if that cannot be read. Waits."""
    path = f"{directory}/{PARTITION_METADATA}"
    if not disk.exists(path):
        return None
    try:
        file = disk.open(path)
    except ReadFailed:
        return None
    try:
        return read_identity(file.read_blocking(0, file.size()))
    except (ValueError, ReadFailed):
        return None
    finally:
        file.close()


def move_aside(disk: Disk, directory: str) -> str:
    """Give a directory that is not ours another name; buffered. Return that name.

    It ends as no partition's does, and begins as the directory was called, as far as there is room.
    """
    for number in range(1, STRAYS_MAX):
        suffix = (f".{number}" if number > 1 else "") + STRAY_SUFFIX
        name = directory[: NAME_BYTES_MAX - len(suffix)] + suffix
        if not disk.exists(name):
            disk.rename(directory, name)
            return name
    raise StorageCorrupt(f"{STRAYS_MAX} directories {directory}{STRAY_SUFFIX}: remove some")


def grave_of(identity: LogIdentity) -> str:
    """Return the name of a deleted log's directory until it is removed.

    No partition's directory ends so, and it is short: a topic's name may take all that there is.
    """
    return f"group-{identity.group}{DELETED_SUFFIX}"


def find_grave(disk: Disk, identity: LogIdentity) -> str | None:
    """Return what a log's directory is called if it waits to be removed, by any release."""
    before = f"{identity.directory}.{identity.group}{DELETED_SUFFIX}"
    return next((name for name in (grave_of(identity), before) if disk.exists(name)), None)
