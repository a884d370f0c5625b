"""`kafkaesque log verify` on directories with which a broker does not start, and on others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafkaesque.cli.commands.log import broker_directories
from kafkaesque.cli.directory_check import check_directory
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.storage.errors import StorageCorrupt
from kafkaesque.storage.offline import Finding, Severity
from kafkaesque.storage.wal import list_wal_numbers, wal_path
from tests.unit.storage.helpers import SMALL, World, add


def written() -> World:
    """Return a broker that was killed after a checkpoint and some more records."""
    world = World(SMALL)
    for log in (world.log(), world.log(2)):
        add(log, 1)
    world.commit()
    world.store.request_checkpoint()
    world.commit()
    for _ in range(3):
        add(world.log(), 1)
        world.commit()
    return world


def found(world: World) -> list[Finding]:
    return list(check_directory(world.disk, world.disk))


def errors(world: World) -> list[tuple[str, str]]:
    return [(e.path, e.message) for e in found(world) if e.severity is Severity.ERROR]


def remove_wal(world: World) -> None:
    world.disk.remove_tree("wal")


def cut_wal(world: World) -> None:
    world.disk.inode(wal_path(list_wal_numbers(world.disk)[-1])).data[100:] = b""


def overwrite_meta(world: World) -> None:
    world.disk.inode("meta.json").data[:] = b"garbage"


def overwrite_wal(world: World) -> None:
    world.disk.inode(wal_path(list_wal_numbers(world.disk)[-1])).data[:48] = b"x" * 48


def remove_checkpoint(world: World) -> None:
    world.disk.remove("checkpoint")


@pytest.mark.parametrize(
    ("damage", "path", "message"),
    [
        (remove_wal, "wal", "files of the write-ahead log are missing: there are none, and"),
        (cut_wal, "wal", "wal/0000000002.wal has been cut: of"),
        (overwrite_meta, "meta.json", "'meta.json' in the data directory cannot be read: Expect"),
    ],
)
def test_what_a_start_refuses_is_damage(
    damage: Callable[[World], None], path: str, message: str
) -> None:
    world = written()
    assert found(world) == []
    damage(world)
    (told,) = errors(world)
    assert told[0] == path
    assert told[1].startswith(f"the broker does not start with it: {message}")
    with pytest.raises(StorageCorrupt):
        world.kill()


@pytest.mark.parametrize(
    ("damage", "path"),
    [(overwrite_wal, "wal/0000000002.wal"), (remove_checkpoint, "checkpoint")],
)
def test_what_was_found_is_not_told_again_as_the_start_says_it(
    damage: Callable[[World], None], path: str
) -> None:
    world = written()
    damage(world)
    assert [each for each, _ in errors(world)] == [path]
    with pytest.raises(StorageCorrupt):
        world.kill()


def test_a_write_ahead_log_is_not_missed_after_a_clean_stop() -> None:
    world = written()
    world.close()
    remove_wal(world)
    assert found(world) == []


def test_a_broker_without_its_meta_json_is_not_passed_over(tmp_path: Path) -> None:
    for number, name in ((1, "meta.json"), (2, "checkpoint"), (3, "broker.log")):
        (tmp_path / f"broker-{number}").mkdir()
        (tmp_path / f"broker-{number}" / name).touch()
    brokers = [tmp_path / "broker-1", tmp_path / "broker-2"]
    assert broker_directories(tmp_path, "") == brokers
    assert broker_directories(brokers[1], "") == brokers[1:]
    with pytest.raises(CommandFailed, match="holds no broker's data"):
        broker_directories(tmp_path / "broker-3", "")


def test_whose_directory_is_missing_or_anothers_is_said_in_words() -> None:
    world = written()
    metadata = world.disk.inode("topic1-0/partition.metadata")
    metadata.data[:] = world.disk.inode("topic2-0/partition.metadata").data
    path = "topic1-0/partition.metadata"
    assert errors(world) == [(path, "it says that this is the directory of topic2-0")]
    metadata.data[:] = metadata.data.replace(b"topic2", b"topic1")
    assert errors(world)[0][1].endswith("directory of topic1-0, of another topic of that name")
    metadata.data[:] = b"garbage"
    assert errors(world)[0][1].startswith("missing, or it cannot be read: nothing says whose")
    world.disk.remove_tree("topic1-0")
    wanted = "missing: at its next start the broker copies it from another one"
    assert errors(world) == [("topic1-0", wanted)]
