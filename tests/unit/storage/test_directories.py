"""Directories of partitions whose topics are deleted, and whose names are used again."""

from typing import Any

import pytest

from kafkaesque.model.errors import DiskFull
from kafkaesque.model.ids import TopicId
from kafkaesque.storage.directory import META
from kafkaesque.storage.group_log import GroupLog
from tests.unit.storage.helpers import TOPIC_ID, World, add, read_all
from tests.unit.storage.memory_disk import NAME_BYTES_MAX

LATER_ID = TopicId(bytes(range(16, 32)))
#: What is there beside partitions.
REST = ["checkpoint", META, "wal"]
#: The longest name of a topic, and the shortest that left no room for what was put behind it.
LONGEST, LONG = "n" * 249, "n" * 245


def make(world: World, group: int, topic: str = "topic1", topic_id: TopicId = TOPIC_ID) -> GroupLog:
    return world.store.open_log(group=group, topic=topic, partition=12345, topic_id=topic_id)


def partitions(world: World) -> list[str]:
    return [name for name in world.disk.list_dir(".") if name not in REST]


# -- names


@pytest.mark.parametrize("topic", [LONG, LONGEST])
def test_a_topic_with_a_long_name_is_deleted(topic: str) -> None:
    world = World()
    log = make(world, 1, topic)
    add(log, 1)
    world.commit()
    world.store.delete_log(log)
    world.commit()
    assert partitions(world) == []
    for crash in (world.power_cut, world.kill, world.restart):
        crash()
        assert world.store.logs == []
    assert world.failures == []


def test_directories_with_long_names_are_moved_aside() -> None:
    world = World()
    name = f"{LONGEST}-12345"
    assert len(name) == NAME_BYTES_MAX
    for content in (b"first", b"second", b"third"):
        world.disk.make_dir(name)
        world.disk.open(f"{name}/beside", create=True).write_at(0, [content])
        log = make(world, 1, LONGEST)
        world.store.delete_log(log)
        world.commit()
    ends = (".stray", ".2.stray", ".3.stray")
    strays = [name[: NAME_BYTES_MAX - len(end)] + end for end in ends]
    assert partitions(world) == sorted(strays)
    found = [bytes(world.disk.inode(f"{stray}/beside").data) for stray in strays]
    assert found == [b"first", b"second", b"third"]


def test_a_deletion_by_the_release_before_that_was_not_durable_did_not_happen() -> None:
    world = World()
    log = make(world, 1)
    data = add(log, 1).data
    world.commit()
    world.clock.soon.clear()
    world.disk.rename("topic1-12345", "topic1-12345.1.deleted")
    world.kill()
    assert partitions(world) == ["topic1-12345"]
    assert read_all(make(world, 1)) == data


# -- damaged logs


def damaged() -> World:
    """Return a world whose log of group 1 cannot be used: a segment was cut."""
    world = World()
    log = make(world, 1)
    for _ in range(3):
        add(log, 1, value=b"old" * 100)
    world.commit()
    world.restart()
    file = world.disk.open("topic1-12345/00000000000000000000.log")
    file.truncate(0)
    world.disk.sync_blocking([file])
    file.close()
    world.restart()
    assert list(world.store.damaged) == [1]
    return world


def make_later(world: World) -> bytes:
    """Make the topic again; return what is in it."""
    log = make(world, 2, topic_id=LATER_ID)
    for _ in range(9):
        add(log, 1, value=b"new" * 100)
    world.commit()
    return read_all(log)


def test_a_damaged_log_is_deleted_and_its_topic_made_again() -> None:
    for crash in (World.power_cut, World.kill, World.restart):
        world = damaged()
        world.store.delete_damaged(1)
        assert world.store.damaged == {}
        assert not world.store.may_be_made(1), "a restart finds the deletion"
        data = make_later(world)
        for _ in range(2):
            crash(world)
            assert partitions(world) == ["topic1-12345"]
            assert world.store.damaged == {}
            assert [read_all(log) for log in world.store.logs] == [data]
        world.store.request_checkpoint()
        world.disk.settle()
        assert world.store.may_be_made(1)


def test_a_deletion_of_a_damaged_log_that_was_not_durable_did_not_happen() -> None:
    for seed in range(20):
        world = damaged()
        world.rng.seed(seed)
        world.store.delete_damaged(1)
        make(world, 2, topic_id=LATER_ID)
        if seed % 2:
            world.power_cut()
        else:
            world.kill()
        assert list(world.store.damaged) == [1]
        world.store.delete_damaged(1)
        data = make_later(world)
        world.restart()
        assert [read_all(log) for log in world.store.logs] == [data]


@pytest.mark.parametrize("crash", [World.power_cut, World.kill, World.restart])
def test_a_later_topic_keeps_its_directory_beside_a_damaged_log(crash: Any) -> None:
    """The release before did not delete damaged logs."""
    world = damaged()
    data = make_later(world)
    for _ in range(2):
        crash(world)
        assert list(world.store.damaged) == [1]
        assert "later topic" in world.store.damaged[1]
        assert world.report.strays == world.report.missing == []
        assert [read_all(log) for log in world.store.logs] == [data]
    world.store.delete_damaged(1)
    world.commit()
    for _ in range(2):
        crash(world)
        assert world.store.damaged == {}
        assert [read_all(log) for log in world.store.logs] == [data]


def test_a_directory_that_was_taken_from_a_later_topic_is_that_ones_again() -> None:
    """A start of the release before had made it anew for the damaged log, and was cut off."""
    world = damaged()
    make_later(world)
    world.restart()
    tag = world.disk.inode("topic1-12345/partition.metadata").data
    tag[:] = tag.replace(b'"group":2', b'"group":1').replace(LATER_ID.hex().encode(), b"00" * 16)
    world.disk.remove("topic1-12345/00000000000000000000.log")
    world.kill()
    assert list(world.store.damaged) == [1]
    (log,) = world.store.logs
    assert (log.group, log.end_offset, log.amnesia) == (2, 0, 7)
    world.store.delete_damaged(1)
    add(log, 2, value=b"copied")
    world.commit()
    data = read_all(log)
    for crash in (world.power_cut, world.kill, world.restart):
        crash()
        assert world.store.damaged == {}
        assert [read_all(log) for log in world.store.logs] == [data]


@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_what_says_whose_it_is_is_lost_where_a_later_topic_is_beside_a_damaged_log(
    is_checkpointed: bool,
) -> None:
    world = damaged()
    data = make_later(world)
    if is_checkpointed:
        world.restart()
    world.disk.inode("topic1-12345/partition.metadata").data.clear()
    for _ in range(2):
        world.kill()
        assert list(world.store.damaged) == [1]
        assert [read_all(log) for log in world.store.logs] == [data]
    world.store.delete_damaged(1)
    world.restart()
    assert world.store.damaged == {}
    assert [read_all(log) for log in world.store.logs] == [data]


# -- deleted and made again in one turn


def test_there_is_no_space_to_say_whose_a_directory_is() -> None:
    world = World()
    log = make(world, 1)
    data = add(log, 1).data
    world.commit()
    world.store.delete_log(log)
    world.disk.capacity = world.disk._used(world.disk.root)
    with pytest.raises(DiskFull):
        make(world, 2, topic_id=LATER_ID)
    world.kill()
    assert world.report.strays == ["topic1-12345.stray"]
    assert read_all(make(world, 1)) == data


@pytest.mark.parametrize("is_of_before", [False, True])
def test_the_power_goes_when_names_are_durable_and_a_deletion_is_not(is_of_before: bool) -> None:
    met = 0
    for seed in range(40):
        world = World(seed=seed)
        log = make(world, 1)
        data = add(log, 1).data
        world.commit()
        world.store.delete_log(log)
        make(world, 2, topic_id=LATER_ID)
        world.store.submit()
        world.disk.complete(1)
        world.clock.soon.clear()
        world.disk = world.disk.power_cut(world.rng)
        if is_of_before:
            world.disk.rename("group-1.deleted", "topic1-12345.1.deleted")
        world.open()
        groups = [log.group for log in world.store.logs]
        assert groups in ([1], [2]), "the write-ahead log may have been written"
        if groups == [1]:
            met += 1
            assert read_all(make(world, 1)) == data
        assert world.disk.exists("topic1-12345")
    assert met > 10
