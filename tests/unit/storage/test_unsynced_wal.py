"""Killed while a sync is on its way, then without power while the next start recovers."""

import contextlib
from collections.abc import Callable

import pytest

from kafkaesque.model.batch import scan_batches
from kafkaesque.model.errors import DiskFailed
from kafkaesque.model.ids import Term
from kafkaesque.storage.compactor import CleanedGroup, compact
from kafkaesque.storage.group_log import GroupLog
from tests.unit.storage.compacting import plan_for
from tests.unit.storage.helpers import World, add, mark, read_all
from tests.unit.storage.memory_disk import PowerGone

#: The next start makes fewer changes to the disk than this.
CHANGES_MAX = 40


def checkpointed(seed: int) -> tuple[World, GroupLog]:
    """Return a log of several segments that all are in a checkpoint."""
    world = World(seed=seed)
    log = world.log()
    mark(log, 1)
    for at in range(60):
        add(log, 1, value=b"%03d" % at * 50)
    for _ in range(2):
        world.commit()
        world.store.request_checkpoint()
        world.disk.settle()
    assert len(log.segments.segments) > 2
    return world, log


def truncate(world: World, log: GroupLog) -> None:
    log.truncate_to(45)
    for _ in range(20):
        add(log, 2, value=b"NEW" * 50)  # of the size of what was cut off


def start(world: World, log: GroupLog) -> None:
    log.advance_start(log.segments.segments[1].base_offset + 1)


def reset(world: World, log: GroupLog) -> None:
    log.reset_to(start_offset=500, index=500, term=Term(2))
    add(log, 2)


def replace(world: World, log: GroupLog) -> None:
    plan = plan_for(log)
    assert plan is not None
    step = next(step for step in compact(world.disk, plan) if isinstance(step, CleanedGroup))
    assert log.replace_segments(step)


Change = Callable[[World, GroupLog], None]
CHANGES: list[Change] = [truncate, start, reset, replace]


def killed(change: Change, seed: int) -> World:
    """Return a store that was killed when the change was written, and not synced."""
    world, log = checkpointed(seed)
    change(world, log)
    world.store.submit()
    world.clock.soon.clear()
    world.disk = world.disk.kill()
    return world


def checked(world: World) -> bytes:
    """Return all batches; each is of the term that the log says."""
    assert world.store.damaged == {}
    assert world.report.missing == []
    (log,) = world.store.logs
    data = read_all(log)
    for batch in scan_batches(data).batches:
        term = log.positions.term_at(log.index_of_offset(batch.base_offset))
        assert batch.partition_leader_epoch == term
    return data


def may_be_found(change: Change) -> list[bytes]:
    """Return what there was before a change, and what there is after it."""
    before = read_all(checkpointed(0)[1])
    world = killed(change, 0)
    world.open()
    after = checked(world)
    assert after != before
    return [before, after]


@pytest.mark.parametrize("change", CHANGES)
def test_a_power_cut_anywhere_in_a_recovery_from_what_was_not_synced(change: Change) -> None:
    good = may_be_found(change)
    for changes in range(CHANGES_MAX):
        world = killed(change, changes)
        world.disk.writes_max = changes
        with contextlib.suppress(PowerGone):
            world.open()
            assert changes > CHANGES_MAX // 4
        world.disk.writes_max = None
        world.power_cut()
        assert checked(world) in good


@pytest.mark.parametrize("change", CHANGES)
def test_a_start_that_cannot_sync_what_it_has_found_does_nothing(change: Change) -> None:
    good = may_be_found(change)
    for seed in range(8):
        world = killed(change, seed)
        files = {name: world.disk.list_dir(name) for name in ("topic1-0", "wal")}
        world.disk.fail_syncs = True
        with pytest.raises(DiskFailed, match="sync"):
            world.open()
        assert files == {name: world.disk.list_dir(name) for name in files}
        world.disk = world.disk.kill()
        if seed % 2:
            world.open()
            assert checked(world) == good[1]
        world.power_cut()
        assert checked(world) in good
