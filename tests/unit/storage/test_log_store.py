"""The engine: group commit, fences, bounds, directories."""

import dataclasses

import pytest

from kafkaesque.model.errors import ConfigError, DiskFailed, InvariantBroken
from kafkaesque.model.ids import NodeId, Term, TopicId
from kafkaesque.storage.checkpointer import CLOSING_SYNCS_MAX, Checkpointer
from kafkaesque.storage.config import StorageConfig
from kafkaesque.storage.directory import META
from kafkaesque.storage.errors import StorageCorrupt, WrongDirectory
from kafkaesque.storage.wal import list_wal_numbers
from tests.unit.storage.helpers import (
    SMALL,
    TOPIC_ID,
    World,
    add,
    fenced,
    mark,
    read_all,
    read_ranges,
)

MANY_FILES = dataclasses.replace(
    SMALL, wal_bytes=1 << 20, segment_bytes_max=1 << 20, sync_files_max=64, open_files_max=512
)
BIG = dataclasses.replace(SMALL, wal_bytes=1 << 20, segment_bytes_max=1 << 20)


# -- group commit


@pytest.mark.parametrize("partitions", [1, 10, 1000])
def test_one_sync_for_all_partitions(partitions: int) -> None:
    world = World(BIG)
    logs = [world.log(group) for group in range(1, partitions + 1)]
    world.commit()
    world.disk.synced_paths.clear()
    before = world.store.statistics.commit_syncs
    for log in logs:
        add(log, 1)
    world.commit()
    assert [len(paths) for paths in world.disk.synced_paths] == [1]
    assert world.store.statistics.commit_syncs - before == 1


def test_what_comes_during_a_sync_gathers_for_the_next() -> None:
    world = World(BIG)
    log = world.log()
    world.commit()
    before = world.store.statistics.commit_syncs
    done: list[int] = []
    for at in range(10):
        add(log, 1)
        world.store.submit(lambda at=at: done.append(at))  # type: ignore[misc]
    assert done == []
    world.disk.complete(1)
    assert done == [0]
    world.disk.complete(1)
    assert done == list(range(10))
    assert world.store.statistics.commit_syncs - before == 2


def test_callbacks_may_submit_more() -> None:
    world = World(BIG)
    log = world.log()
    done: list[str] = []

    def first() -> None:
        done.append("first")
        add(log, 1)
        world.store.submit(lambda: done.append("third"))

    add(log, 1)
    world.store.submit(first)
    world.store.submit(lambda: done.append("second"))
    world.disk.settle()
    assert done == ["first", "second", "third"]
    world.power_cut()
    assert world.log().end_offset == 2


def test_nothing_to_write_is_durable_at_once_but_not_within_the_call() -> None:
    world = World()
    world.commit()
    syncs = world.disk.syncs
    done: list[int] = []
    world.store.submit(lambda: done.append(1))
    assert done == []
    world.clock.turn()
    assert done == [1]
    assert world.disk.syncs == syncs


def test_write_caching_neither_syncs_nor_logs_its_data() -> None:
    world = World(BIG)
    log = world.log(write_caching=True)
    add(log, 1)
    world.commit()
    syncs, logged = world.disk.syncs, world.store.statistics.wal_bytes
    data = [add(log, 1).data for _ in range(50)]
    world.commit()
    assert (world.disk.syncs, world.store.statistics.wal_bytes) == (syncs, logged)
    world.kill()
    log = world.log(write_caching=True)
    assert read_all(log)[-len(data) * len(data[0]) :] == b"".join(data)


def test_write_caching_keeps_marks_and_hard_state_through_a_power_cut() -> None:
    for seed in range(20):
        world = World(BIG, seed)
        log = world.log(write_caching=True)
        mark(log, 1, b"first")
        log.save_hard_state(Term(3), NodeId(2))
        world.commit()
        add(log, 1)
        mark(log, 1, b"second")
        world.commit()
        world.power_cut()
        log = world.log(write_caching=True)
        assert log.hard_state == (3, 2)
        assert log.configurations[0] == (1, b"first")
        # The second stands on a batch that may be gone, and must not move to its place.
        assert log.configurations[1:] in ([], [(3, b"second")])
        assert (log.last_index == 3) == (len(log.configurations) == 2)


def test_write_caching_switched_off_makes_what_was_before_durable() -> None:
    for seed in range(20):
        world = World(BIG, seed)
        log = world.log(write_caching=True)
        data = [add(log, 1).data]
        world.commit()
        log = world.log(write_caching=False)
        data.append(add(log, 1).data)
        world.commit()
        world.power_cut()
        assert read_all(world.log()) == b"".join(data)


def test_a_log_remembers_that_it_was_cached() -> None:
    for is_checkpointed in (False, True):
        world = World(BIG)
        add(world.log(write_caching=True), 1)
        for end in (world.kill, world.restart):
            if is_checkpointed:
                world.store.request_checkpoint()
            world.commit()
            end()
            assert world.log(write_caching=False).was_cached
    world = World(BIG)
    add(world.log(), 1)
    world.restart()
    assert not world.log().was_cached


def test_old_batches_behind_a_cut_are_not_taken_in_again() -> None:
    """Same sizes and terms: only the order of things tells old batches from new ones."""
    for seed in range(60):
        world = World(BIG, seed)
        log = world.log(write_caching=True)
        for _ in range(20):
            add(log, 1, value=b"o")
        world.store.request_checkpoint()
        world.commit()
        log.truncate_to(5)
        for _ in range(5):
            add(log, 1, value=b"n")
        world.commit()
        (world.power_cut if seed % 2 else world.kill)()
        log = world.log(write_caching=True)
        values = read_all(log)
        assert log.end_offset == 10
        assert values.count(b"o") == 5
        assert values.count(b"n") == 5


def test_a_start_inside_a_cached_segment_outlasts_the_process() -> None:
    world = World(BIG)
    log = world.log(write_caching=True)
    for _ in range(10):
        add(log, 1)
    world.commit()
    log.advance_start(7)
    world.commit()
    add(log, 1)
    for _ in range(2):
        world.kill()
        log = world.log(write_caching=True)
        assert (log.start_offset, log.end_offset) == (7, 11)


def test_a_start_in_what_a_power_cut_took_is_the_end_of_the_rest() -> None:
    for seed in range(20):
        world = World(BIG, seed)
        log = world.log(write_caching=True)
        for _ in range(10):
            add(log, 1)
        world.commit()
        log.advance_start(7)
        world.commit()
        world.power_cut()
        log = world.log(write_caching=True)
        assert log.start_offset == min(7, log.end_offset)


def test_a_start_before_a_reset_does_not_come_back() -> None:
    world = World(BIG)
    log = world.log(write_caching=True)
    for _ in range(10):
        add(log, 1)
    world.commit()
    log.advance_start(7)
    log.reset_to(start_offset=2, index=20, term=Term(1))
    world.commit()
    for _ in range(8):
        add(log, 1)
    world.commit()
    world.kill()
    log = world.log(write_caching=True)
    assert (log.start_offset, log.end_offset) == (2, 10)


def test_a_cached_batch_is_kept_only_once_its_segment_is_known() -> None:
    """Whatever `keeps_cached` says yes to, a kill at that very moment leaves."""
    world = World(dataclasses.replace(BIG, segment_bytes_max=1024))
    log = world.log(write_caching=True)
    said = []
    for at in range(30):
        if at == 20:
            log.truncate_to(log.last_index - 2)
        entry = add(log, 1, value=b"%d" % at * 20)
        said.append(log.keeps_cached)
        kept = entry.last_index
        if said[-1]:
            world.clock.soon.clear()
            world.disk.pending.clear()
            world.kill()
            log = world.log(write_caching=True)
            assert log.last_index == kept, f"batch {at} is gone"
        else:
            world.commit()
            assert log.keeps_cached is (at < 20), "until the truncation is behind a checkpoint"
    assert said.count(True) > 5
    assert said.count(False) > 5
    log = world.log(write_caching=False)
    add(log, 1)
    assert not log.keeps_cached, "the topic asks for more"


def test_a_configuration_that_came_before_its_entry_counts_once() -> None:
    """A snapshot brings the newest one that is committed, wherever the snapshot ends."""
    world = World(BIG)
    log = world.log()
    log.reset_to(start_offset=5, index=5, term=Term(1), configuration=(8, b"new"))
    add(log, 1)
    mark(log, 1, b"old")
    mark(log, 1, b"new")
    mark(log, 1, b"newer")
    for _ in range(2):
        world.commit()
        assert log.configurations == [(8, b"new"), (9, b"newer")]
        world.kill()
        log = world.log()
    add(log, 1)
    log.advance_start(log.end_offset)
    assert log.configurations == [(9, b"newer")]


def test_a_start_before_a_snapshots_configuration_keeps_it() -> None:
    world = World(BIG)
    log = world.log()
    log.reset_to(start_offset=5, index=5, term=Term(1), configuration=(8, b"new"))
    mark(log, 1, b"old")
    add(log, 1)
    log.advance_start(6)
    assert log.configurations == [(8, b"new")]


# -- checkpoints


def test_files_of_the_write_ahead_log_stay_few() -> None:
    world = World()
    log = world.log()
    for _ in range(200):
        add(log, 1, value=b"v" * 1000)
        world.commit()
    statistics = world.store.statistics
    assert statistics.wal_files > 10
    assert statistics.checkpoints > 8
    assert len(list_wal_numbers(world.disk)) <= 4
    assert not world.store.over_bound
    world.kill()
    assert world.report.wal_bytes <= 2 * SMALL.wal_bytes
    assert len(read_all(world.log())) > 200_000


def test_a_checkpoint_that_is_late_is_said_and_slows_the_gateways() -> None:
    world = World()
    log = world.log()
    world.commit()
    stuck: list[Checkpointer] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpointer, "_sync_segments", lambda self: stuck.append(self))
        for _ in range(60):
            add(log, 1, value=b"v" * 1000)
            world.commit()
    assert stuck
    assert world.store.over_bound
    assert world.store.statistics.checkpoints_late > 0
    stuck[0]._sync_segments()
    world.disk.settle()
    assert over(world) is False


def test_pending_bytes_are_bounded_by_a_signal() -> None:
    world = World(dataclasses.replace(BIG, wal_pending_bytes_max=10_000))
    log = world.log()
    assert over(world) is False
    for _ in range(11):
        add(log, 1, value=b"v" * 1000)
    assert over(world)
    world.store.submit()
    assert over(world), "on its way is not durable"
    world.disk.settle()
    assert over(world) is False


def test_clean_restart_needs_no_recovery() -> None:
    world = World()
    logs = [world.log(group) for group in range(1, 20)]
    for log in logs:
        add(log, 1, 3)
        mark(log, 2)
    world.restart()
    assert world.report.was_clean
    assert world.report.wal_records == 0
    assert [world.log(group).last_index for group in range(1, 20)] == [4] * 19


# -- what fails


def over(world: World) -> bool:
    return world.store.over_bound


@pytest.mark.parametrize("when", ["sync", "wal write", "segment write"])
def test_a_failing_disk_fences(when: str) -> None:
    world = World(BIG)
    log = world.log()
    kept = add(log, 1)
    world.commit()
    done: list[int] = []
    if when == "sync":
        world.disk.fail_syncs = True
        add(log, 1)
        world.store.submit(lambda: done.append(1))
    elif when == "wal write":
        add(log, 1)
        world.disk.fail_writes = True
        with pytest.raises(DiskFailed):
            world.store.submit(lambda: done.append(1))
    else:
        world.disk.fail_writes = True
        with pytest.raises(DiskFailed):
            add(log, 1)
    world.disk.settle()
    assert done == []
    fenced(world)
    found = read_ranges(log.locate(0, 1, 1) or [])
    assert found == kept.data, "reads still work"
    closed: list[int] = []
    world.store.close(lambda: closed.append(1))
    assert closed == [1]
    world.power_cut()
    assert read_all(world.log()).startswith(kept.data)


def test_a_failing_background_sync_fences() -> None:
    world = World()
    log = world.log()
    for _ in range(20):
        add(log, 1, value=b"v" * 1000)
    world.store.submit()
    world.disk.complete(1)
    world.disk.fail_syncs = True
    world.disk.settle()
    fenced(world)


def _most_syncs_at_once(world: World) -> int:
    most = 0
    while world.disk.pending or world.clock.soon:
        most = max(most, len(world.disk.pending))
        world.disk.complete(1)
        world.clock.turn()
    return most


def test_a_store_that_closes_syncs_many_logs_at_once() -> None:
    """One after the other would take as long as the disk needs for one, times their number."""
    world = World(MANY_FILES)
    for group in range(1, 61):
        add(world.log(group), 1)
    world.commit()
    world.store.close(lambda: None)
    assert _most_syncs_at_once(world) == CLOSING_SYNCS_MAX
    world.disk = world.disk.power_cut(world.rng)
    world.open()
    assert all(len(read_all(world.log(group))) > 0 for group in range(1, 61))


def test_a_sync_that_fails_while_a_store_closes_is_no_clean_end() -> None:
    world = World(MANY_FILES)
    for group in range(1, 61):
        add(world.log(group), 1)
    world.commit()
    closed: list[int] = []
    world.store.close(lambda: closed.append(1))
    for _ in range(100):
        if len(world.disk.pending) == CLOSING_SYNCS_MAX:
            break
        world.disk.complete(1)
        world.clock.turn()
    world.disk.fail_syncs = True
    world.disk.settle()
    assert len(world.failures) == 1
    assert not world.store._checkpointer.was_clean


def test_nothing_is_changed_once_the_last_checkpoint_is_noted() -> None:
    """It would not be found again: that checkpoint needs no write-ahead log."""
    world = World()
    log = world.log()
    add(log, 3)
    closed: list[int] = []
    world.store.close(lambda: closed.append(1))
    while not world.store._bench.is_closing:
        world.disk.complete(1)
    kept = read_all(log)
    for change in (
        lambda: add(log, 1),
        lambda: log.reset_to(start_offset=9, index=9, term=Term(1)),
        lambda: log.truncate_to(1),
        lambda: log.advance_start(2),
        lambda: log.save_hard_state(Term(7), None),
        lambda: world.store.delete_log(log),
        lambda: world.log(2),
    ):
        with pytest.raises(InvariantBroken, match="after the store was closed"):
            change()
    world.disk.settle()
    assert closed == [1]
    world.disk = world.disk.kill()
    world.open()
    assert read_all(world.log()) == kept
    assert not world.report.damaged


# -- whose directory


@pytest.mark.parametrize(
    ("cluster", "node"), [("other", 1), ("cluster", 2)], ids=["cluster", "broker"]
)
def test_another_ones_directory_is_refused(cluster: str, node: int) -> None:
    world = World()
    world.close()
    with pytest.raises(WrongDirectory, match="belongs to broker 1 of cluster 'cluster'"):
        world.open(cluster, NodeId(node))
    world.open()


def test_a_newer_format_is_refused() -> None:
    world = World()
    world.close()
    world.disk.inode(META).data[:] = b'{"format": 2, "cluster_id": "cluster", "node": 1}'
    with pytest.raises(WrongDirectory, match="format 2"):
        world.open()


def test_a_start_that_was_cut_off_is_begun_again() -> None:
    for seed in range(30):
        world = World(seed=seed)
        world.disk.pending.clear()
        world.disk.root.entries.clear()
        world.disk = world.disk.kill()
        world.disk.root.entries.pop(META, None)
        world.disk.writes_max = seed
        try:
            world.open()
        except Exception as error:
            assert type(error).__name__ == "PowerGone"  # noqa: PT017
        world.disk.writes_max = None
        world.power_cut()
        add(world.log(), 1)
        world.commit()


# -- directories of partitions


def test_a_partition_directory_of_another_topic_is_moved_aside() -> None:
    world = World()
    world.disk.make_dir("topic1-0")
    world.disk.open("topic1-0/00000000000000000000.log", create=True).write_at(0, [b"precious"])
    log = world.log()
    assert log.end_offset == 0
    assert world.disk.inode("topic1-0.stray/00000000000000000000.log").data == b"precious"


def test_a_directory_is_not_moved_aside_because_what_says_whose_it_is_was_damaged() -> None:
    world = World()
    log = world.log()
    add(log, 1, value=b"v" * 100)
    world.commit()
    kept = read_all(log)
    path = "topic1-0/partition.metadata"
    world.disk.open("topic1-0/beside", create=True).write_at(0, [b"precious"])
    for bit in range(8 * world.disk.open(path).size()):
        world.kill()
        world.store.close(lambda: None)
        world.disk.settle()
        world.disk.inode(path).data[bit // 8] ^= 1 << bit % 8
        world.kill()
        assert world.report.strays == []
        assert world.disk.inode("topic1-0/beside").data == b"precious"
        assert read_all(world.log()) == kept


def test_a_deleted_topic_leaves_nothing_and_its_name_can_be_used_again() -> None:
    world = World()
    log = world.log()
    add(log, 1, value=b"old" * 1000)
    world.commit()
    world.store.delete_log(log)
    again = world.store.open_log(
        group=77, topic="topic1", partition=0, topic_id=TopicId(bytes([9] * 16))
    )
    data = add(again, 5).data
    world.commit()
    assert world.disk.list_dir(".") == ["checkpoint", META, "topic1-0", "wal"]
    for crash in (world.power_cut, world.kill, world.restart):
        crash()
        assert [log.group for log in world.store.logs] == [77]
        assert read_all(world.store.logs[0]) == data


def test_a_deletion_that_was_not_durable_did_not_happen() -> None:
    for seed in range(40):
        world = World(seed=seed)
        log = world.log()
        data = add(log, 1).data
        world.commit()
        world.store.delete_log(log)
        world.store.open_log(group=9, topic="topic1", partition=0, topic_id=TOPIC_ID)
        if seed % 2:
            world.power_cut()
        else:
            world.kill()
        assert world.report.damaged == {}
        assert [log.group for log in world.store.logs] == [1]
        assert read_all(world.log()) == data


def test_deleting_while_a_checkpoint_is_made() -> None:
    for steps in range(12):
        world = World()
        log, other = world.log(1), world.log(2)
        add(log, 1)
        add(other, 1)
        world.store.request_checkpoint()
        world.clock.turn()
        world.disk.complete(steps)
        world.store.delete_log(log)
        world.disk.settle()
        world.store.request_checkpoint()
        world.disk.settle()
        assert world.failures == []
        world.kill()
        assert [log.group for log in world.store.logs] == [2]


def test_the_same_group_must_be_the_same_log() -> None:
    world = World()
    world.log(1)
    with pytest.raises(InvariantBroken):
        world.store.open_log(group=1, topic="else", partition=0, topic_id=TOPIC_ID)
    with pytest.raises(InvariantBroken):
        world.store.open_log(group=5, topic="topic1", partition=0, topic_id=TOPIC_ID)


# -- configuration


@pytest.mark.parametrize(
    "change",
    [
        {"segment_bytes_max": 0},
        {"wal_bytes": 1},
        {"open_files_max": 10, "sync_files_max": 6},
        {"free_bytes_min": -1},
    ],
)
def test_configuration_out_of_range(change: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=next(iter(reversed(change)))):
        StorageConfig(**change)


def test_a_damaged_checkpoint_is_refused_and_says_what_to_do() -> None:
    world = World()
    add(world.log(), 1)
    world.close()
    data = world.disk.inode("checkpoint").data
    for at in range(0, len(data), 3):
        data[at] ^= 1
        with pytest.raises(StorageCorrupt, match="empty directory"):
            world.open()
        data[at] ^= 1
    world.open()
