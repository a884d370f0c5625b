"""Directories of partitions whose topics are deleted, and whose names are used again."""

import pytest

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
