"""A disk that is full, or nearly: what a broker keeps free for itself, and what it refuses then."""

import dataclasses

import pytest

from kafkaesque.model.errors import DiskFailed, DiskFull
from kafkaesque.model.ids import Term
from kafkaesque.storage.group_log import GroupLog
from kafkaesque.storage.log_store import LogStore
from kafkaesque.storage.wal import WriteAheadLog, list_wal_numbers, wal_path
from tests.unit.storage.helpers import (
    NODE,
    SMALL,
    World,
    add,
    fenced,
    mark,
    read_all,
)
from tests.unit.storage.memory_disk import ManualClock, MemoryDisk

BIG = dataclasses.replace(SMALL, wal_bytes=1 << 20, segment_bytes_max=1 << 20)


def refusal(world: World) -> DiskFailed | None:
    return world.store.refusal


def test_a_start_without_room_for_the_write_ahead_log_says_how_much_it_needs() -> None:
    clock = ManualClock()
    disk = MemoryDisk(clock)
    disk.capacity = 10_000
    store = LogStore(
        disk=disk, clock=clock, config=SMALL, cluster_id="c", node=NODE, draw=lambda: 7
    )
    told = r"needs 16384 more bytes for wal/\d+\.wal, and only \d+ are free"
    with pytest.raises(DiskFull, match=told):
        store.open()


def test_a_full_disk_refuses_before_it_breaks() -> None:
    world = World(dataclasses.replace(BIG, free_bytes_min=1 << 20))
    log = world.log()
    world.commit()
    world.disk.capacity = world.disk._used(world.disk.root) + (5 << 20)
    while (refused := refusal(world)) is None:
        add(log, 1, value=b"v" * 200_000)
        world.commit()
    assert isinstance(refused, DiskFull)
    free = world.disk.free_bytes()
    assert 0 < free < (1 << 20)
    assert f"only {free} bytes are free" in str(refused)
    assert f"free {(3 << 19) - free} or more" in str(refused)
    assert world.failures == []
    # What the broker needs for itself still works, and what was let in before it was full.
    add(log, 1)
    end = log.end_offset
    mark(log, 2)
    log.save_hard_state(Term(2), None)
    world.commit()
    world.disk.capacity = None
    world.clock.monotonic_ms += 1000
    assert refusal(world) is None
    add(log, 2)
    world.restart()
    assert world.log().end_offset == end + 1


def test_a_look_at_the_disk_says_what_it_sees_though_nobody_writes() -> None:
    world = World(dataclasses.replace(BIG, free_bytes_min=1 << 20))
    log = world.log()
    world.commit()
    # Something else fills the disk.
    used = world.disk._used(world.disk.root)
    world.disk.capacity = used + (1 << 20) - 1
    world.store.look_at_disk()
    assert isinstance(refusal(world), DiskFull)
    # It takes records again when there is half as much more, and not before.
    world.disk.capacity = used + (3 << 19) - 1
    world.store.look_at_disk()
    assert isinstance(refusal(world), DiskFull)
    world.disk.capacity = used + (3 << 19)
    world.store.look_at_disk()
    assert refusal(world) is None
    world.disk.capacity = used + (1 << 20)
    world.store.look_at_disk()
    assert refusal(world) is None
    add(log, 1)
    world.commit()
    assert world.failures == []


def test_a_start_on_a_full_disk_takes_records_when_there_is_enough_space() -> None:
    config = dataclasses.replace(SMALL, free_bytes_min=8_000)
    world = World(config)
    log = world.log()
    for _ in range(40):
        add(log, 1, value=b"v" * 1_000)
        world.commit()
    kept = read_all(log)
    world.close()
    world.disk.capacity = world.disk._used(world.disk.root) + 5_000
    world.open()
    log = world.log()
    assert read_all(log) == kept
    assert isinstance(refusal(world), DiskFull)
    # What is freed little by little does not make it take records little by little.
    log.advance_start(6)
    world.commit()
    world.clock.monotonic_ms += 1000
    assert isinstance(refusal(world), DiskFull)
    log.advance_start(30)
    world.commit()
    assert world.disk.free_bytes() >= 12_000
    world.clock.monotonic_ms += 1000
    assert refusal(world) is None
    add(log, 1)
    world.restart()
    assert world.log().end_offset == 41
    assert world.log().start_offset == 30


def test_with_little_space_a_file_of_the_write_ahead_log_is_written_on_beyond_its_size() -> None:
    config = dataclasses.replace(SMALL, free_bytes_min=10_000)
    world = World(config)
    log = world.log()
    world.commit()
    # Another file of 16 KiB would take what is kept for votes and metadata.
    world.disk.capacity = world.disk._used(world.disk.root) + 16_384 + 9_000
    wal, term = world.store._bench.wal, 0
    while wal._position < 18_000 and wal.number == 1:
        term += 1
        log.save_hard_state(Term(term), None)
        world.commit()
    assert world.failures == []
    assert world.store._bench.wal.number == 1
    mark(log, term)
    world.kill()
    assert world.log().term == term
    world.disk.capacity = None
    log = world.log()
    while world.store._bench.wal.number < 4:
        term += 1
        log.save_hard_state(Term(term), None)
        world.commit()
    world.kill()
    assert world.log().term == term


def test_with_little_space_all_spare_files_but_one_are_given_up() -> None:
    config = dataclasses.replace(SMALL, free_bytes_min=10_000)
    world = World(config)
    log = world.log()
    wal = world.store._bench.wal
    for _ in range(2):
        add(log, 1)
        wal.prepare()
        wal.roll()
        world.commit()
    add(log, 1)
    world.store.request_checkpoint()
    world.commit()
    world.disk.settle()
    assert len(world.store._bench.wal._spares) == 2
    world.disk.capacity = world.disk._used(world.disk.root) + 5_000
    world.store._check_space()
    assert len(world.store._bench.wal._spares) == 1
    assert refusal(world) is None
    world.restart()
    assert world.log().end_offset == 3


def test_a_disk_that_fills_up_at_once_fences() -> None:
    world = World(BIG)
    log = world.log()
    world.commit()
    world.disk.capacity = world.disk._used(world.disk.root) + 1000
    with pytest.raises(DiskFull):
        add(log, 1, value=b"v" * 5000)
    fenced(world)
    world.power_cut()
    assert world.log().end_offset == 0


ROOMY = dataclasses.replace(SMALL, free_bytes_min=16_384, segment_bytes_max=2048)


def sizes_of_wal(world: World) -> list[int]:
    """Return the sizes of the files of the write-ahead log."""
    return [len(world.disk.inode(wal_path(at)).data) for at in list_wal_numbers(world.disk)]


def turn(world: World, log: GroupLog, cut: GroupLog | None = None) -> None:
    """Append a batch, commit, and keep little.

    `cut` is cut while the commit before the end of a file is on its way: nothing is noted then.
    """
    if refusal(world) is None:
        add(log, 1, value=b"v" * 300)
    world.store.submit()
    if cut is not None and world.store._bench.wal.has_next:
        cut.truncate_to(cut.last_index - 1)
    world.commit()
    world.clock.monotonic_ms += 1000
    start = log.retention_candidate(world.clock.unix_ms, -1, 2048, log.end_offset)
    if start is not None:
        log.advance_start(start)
    world.commit()


def with_one_spare(free: int) -> tuple[World, GroupLog]:
    """Return a store that has made checkpoints, and has this much space."""
    world = World(ROOMY)
    log = world.log()
    while world.store._bench.wal.number < 4:
        turn(world, log)
    assert len(world.store._bench.wal._spares) == 1
    world.disk.capacity = world.disk._used(world.disk.root) + free
    return world, log


def end_a_file(world: World, log: GroupLog) -> None:
    """Write until a file of the write-ahead log is full, and has ended if it may."""
    cut = world.log(2)
    for _ in range(3):
        add(cut, 1)
    while cut.last_index == 3:
        turn(world, log, cut)


def test_with_little_space_no_file_ends_before_a_checkpoint_can_be_made() -> None:
    world, log = with_one_spare(30_000)
    made = world.store.statistics.checkpoints
    end_a_file(world, log)
    for _ in range(300):
        turn(world, log)
    assert refusal(world) is None
    assert world.store.statistics.checkpoints > made + 3
    assert world.store.statistics.checkpoints_late == 0
    assert max(sizes_of_wal(world)) < 2 * ROOMY.wal_bytes


def test_a_checkpoint_that_gives_files_back_may_take_what_is_kept_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The space went when a file had ended without one."""
    world, log = with_one_spare(30_000)
    number = world.store._bench.wal.number
    with monkeypatch.context() as patch:
        there_was = property(lambda wal: wal.number == number)
        patch.setattr(WriteAheadLog, "has_room_for_another", there_was)
        end_a_file(world, log)
    assert world.store.statistics.checkpoints_late == 1
    for _ in range(300):
        turn(world, log)
    assert refusal(world) is None
    assert world.store._bench.wal.file_count == 1
    assert max(sizes_of_wal(world)) < 2 * ROOMY.wal_bytes


@pytest.mark.parametrize("end", ["checkpoint", "kill"])
def test_a_file_that_was_written_on_beyond_its_size_gives_that_back(end: str) -> None:
    world = World(ROOMY)
    log = world.log()
    world.commit()
    world.disk.capacity = world.disk._used(world.disk.root) + 30_000
    while refusal(world) is None:
        turn(world, log)
    assert max(sizes_of_wal(world)) > ROOMY.wal_bytes + 4096
    capacity = world.disk.capacity
    if end == "checkpoint":
        world.disk.capacity = None
        while world.store._bench.wal.number < 3:
            turn(world, log)
    else:
        world.clock.soon.clear()
        world.disk = world.disk.kill()
        world.disk.capacity = capacity
        world.open()
        assert refusal(world) is None
    spares = world.store._bench.wal._spares
    assert [len(world.disk.inode(wal_path(at)).data) for at in spares] == [16_384] * len(spares)
    assert sum(sizes_of_wal(world)) < 2 * ROOMY.wal_bytes + 2048


class Gone:
    """A disk of which only what was opened before can be used: asked for its space it says so."""

    def __init__(self, disk: MemoryDisk) -> None:
        self._disk = disk

    def __getattr__(self, name: str) -> object:
        return getattr(self._disk, name)

    def free_bytes(self) -> int:
        raise DiskFailed("cannot find the data directory")


def test_a_disk_that_is_gone_is_noticed_without_a_write(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.log()
    world.commit()
    world.store.look_at_disk()
    assert world.store.failure is None
    monkeypatch.setattr(world.store._bench, "disk", Gone(world.disk))
    world.store.look_at_disk()
    world.disk.settle()
    assert [str(each).split(":")[0] for each in world.failures] == [
        "cannot find the data directory"
    ]
    fenced(world)


def test_a_store_whose_disk_is_gone_in_the_midst_of_a_commit_can_be_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(dataclasses.replace(BIG, free_bytes_min=1 << 10))
    log = world.log()
    world.commit()
    monkeypatch.setattr(world.store._bench, "disk", Gone(world.disk))
    # So much that it is looked how much space is left.
    add(log, 1, value=b"v" * 10_000)
    with pytest.raises(DiskFailed):
        world.store.submit()
    world.disk.settle()
    assert world.store.failure is not None
    world.close()


def test_a_log_whose_directory_was_removed_does_not_keep_a_store_from_closing() -> None:
    world = World()
    add(world.log(), 1)
    world.commit()
    world.disk.remove_tree("topic1-0")
    world.close()
    assert ["a directory is missing" in str(each) for each in world.failures] == [True]
