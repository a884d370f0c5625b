"""How the write-ahead log goes on in another file, and what is noticed when that one is lost."""

import dataclasses
from collections.abc import Callable, Iterator

import pytest

from kafkaesque.model.errors import DiskFull
from kafkaesque.storage.checkpoint import load_checkpoint
from kafkaesque.storage.errors import StorageCorrupt
from kafkaesque.storage.group_log import GroupLog
from kafkaesque.storage.offline import Severity
from kafkaesque.storage.offline import verify as verify_offline
from kafkaesque.storage.wal import WriteAheadLog, list_wal_numbers, wal_path
from kafkaesque.storage.wal_format import (
    RECORD,
    Block,
    RecordKind,
    WalReader,
    write_block,
)
from tests.unit.storage.helpers import SMALL, World, add, read_all
from tests.unit.storage.memory_disk import PowerGone

FEW = dataclasses.replace(SMALL, wal_bytes=4096)
WAL_BYTES = FEW.wal_bytes
Damage = Callable[[World, str], None]


def removed(world: World, path: str) -> None:
    world.disk.remove(path)


def emptied(world: World, path: str) -> None:
    world.disk.inode(path).data.clear()


def cut(world: World, path: str) -> None:
    del world.disk.inode(path).data[WAL_BYTES - 1 :]


def cut_to_its_beginning(world: World, path: str) -> None:
    del world.disk.inode(path).data[512:]


def zeroed(world: World, path: str) -> None:
    data = world.disk.inode(path).data
    data[:] = bytes(len(data))


def zeroed_at_its_beginning(world: World, path: str) -> None:
    world.disk.inode(path).data[:512] = bytes(512)


def flipped_at_its_beginning(world: World, path: str) -> None:
    world.disk.inode(path).data[40] ^= 1


DAMAGES = [
    removed,
    emptied,
    cut,
    cut_to_its_beginning,
    zeroed,
    zeroed_at_its_beginning,
    flipped_at_its_beginning,
]


def blocks_of(world: World, number: int) -> list[Block]:
    file = world.disk.open(wal_path(number))
    blocks = list(WalReader(file, number).blocks(None))
    file.close()
    return blocks


def rolled(commits: int) -> tuple[World, GroupLog]:
    """Return a store that has just gone on in its second file, without a checkpoint since."""
    world = World(FEW)
    log = world.log()
    world.commit()
    world.store._checkpointer.is_running = True
    while world.store._bench.wal.number == 1:
        add(log, 1, value=b"v" * 300)
        world.commit()
    for _ in range(commits):
        add(log, 1)
        world.commit()
    assert list_wal_numbers(world.disk) == [1, 2]
    assert len(blocks_of(world, 2)) == commits
    return world, log


def kept(world: World) -> Callable[[], None]:
    """Return what puts all files back as they are now."""
    saved = [
        (directory, name, world.disk.inode(f"{directory}/{name}"))
        for directory in (".", "wal", "topic1-0")
        for name in world.disk.list_dir(directory)
        if "." in name or name == "checkpoint"
    ]
    contents = [bytes(inode.data) for _, _, inode in saved]

    def put_back() -> None:
        for (directory, name, _), content in zip(saved, contents, strict=True):
            path = f"{directory}/{name}"
            world.disk.open(path, create=True).truncate(0)
            world.disk.inode(path).data[:] = content
        for number in list_wal_numbers(world.disk):
            if ("wal", wal_path(number)[4:]) not in [(d, n) for d, n, _ in saved]:
                world.disk.remove(wal_path(number))

    return put_back


@pytest.mark.parametrize("commits", [0, 1, 3])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_that_has_just_begun_is_missed(damage: Damage, commits: int) -> None:
    world, log = rolled(commits)
    data, whole = read_all(log), kept(world)
    for number in (1, 2):
        damage(world, wal_path(number))
        with pytest.raises(StorageCorrupt, match=r"empty\n? directory"):
            world.kill()
        whole()
    world.kill()
    assert read_all(world.log()) == data


@pytest.mark.parametrize("damage", [removed, emptied, zeroed, flipped_at_its_beginning])
def test_verify_misses_a_file_that_has_just_begun(damage: Damage) -> None:
    world, _ = rolled(1)

    def errors() -> set[str]:
        return {f.path for f in verify_offline(world.disk) if f.severity is Severity.ERROR}

    assert errors() == set()
    damage(world, wal_path(2))
    assert errors() == {wal_path(2)}


def test_a_first_file_whose_last_block_is_gone_is_missed() -> None:
    """Though it is what tells that another one follows."""
    for commits in (1, 2):
        world, _ = rolled(commits)
        position = blocks_of(world, 1)[-1].position
        world.disk.inode(wal_path(1)).data[position:] = bytes(WAL_BYTES)
        with pytest.raises(StorageCorrupt, match=f"1.wal can be read up to byte {position} only"):
            world.kill()


def test_a_file_behind_one_that_nothing_says_to_follow_is_noticed() -> None:
    """What went into the one between may be torn, as ever; but there was something to go there."""
    world, _ = rolled(0)
    world.store._bench.wal.prepare()
    position = blocks_of(world, 1)[-1].position
    world.disk.inode(wal_path(1)).data[position:] = bytes(WAL_BYTES)
    with pytest.raises(StorageCorrupt, match=f"1.wal can be read up to byte {position} only"):
        world.kill()


def test_a_prepared_file_knows_how_much_was_durable_before_it() -> None:
    world = World(FEW)
    log = world.log()
    for _ in range(3):
        add(log, 1)
        world.commit()
    world.store._bench.wal.prepare()
    position = blocks_of(world, 1)[-1].position
    world.disk.inode(wal_path(1)).data[position:] = bytes(WAL_BYTES - position)
    with pytest.raises(StorageCorrupt, match=f"1.wal can be read up to byte {position} only"):
        world.kill()


def test_a_roll_costs_no_sync_call() -> None:
    world = World(FEW)
    log = world.log()
    world.commit()
    world.store._checkpointer.is_running = True
    for number in (1, 2, 3):
        while world.store._bench.wal.number == number:
            before = world.disk.syncs
            add(log, 1, value=b"v" * 300)
            world.commit()
            assert world.disk.syncs == before + 1
    paths = world.disk.synced_paths
    assert paths.count((wal_path(1), wal_path(2), "wal")) == 1
    at = paths.index((wal_path(1), wal_path(2), "wal"))
    assert paths[at + 1 : at + 3] == [(wal_path(1),), (wal_path(2),)]


def test_nothing_goes_to_a_file_before_the_one_before_says_durably_that_it_follows() -> None:
    world, log = rolled(1)
    for first, second in ((1, 2), (2, 3)):
        while world.store._bench.wal.number == first:
            add(log, 1, value=b"v" * 300)
            world.commit()
        add(log, 1)
        world.commit()
        *_, last = blocks_of(world, first)
        (begin, *_) = blocks_of(world, second)
        assert [r.kind for r in last.records].count(RecordKind.NEXT) == 1
        assert last.records[-1].kind == RecordKind.NEXT
        assert last.records[-1].first_index == second
        assert begin.number == last.number + 1
        assert begin.records[0].kind == RecordKind.FILE
        assert begin.records[0].first_index == first


@pytest.mark.parametrize("is_stopped", [True, False], ids=["stopped", "killed"])
def test_a_file_that_never_got_its_size_is_not_kept_for_reuse(is_stopped: bool) -> None:
    world = World(dataclasses.replace(SMALL, free_bytes_min=10_000))
    log = world.log()
    add(log, 1)
    world.commit()
    # Somebody else fills the disk just when the next file is to be made.
    capacity = world.disk._used(world.disk.root) + 9_000
    world.disk.capacity = capacity
    add(log, 1)
    world.store.request_checkpoint()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WriteAheadLog, "has_room_to_roll", True)
        with pytest.raises(DiskFull, match="needs 16384 more bytes"):
            world.store.submit()
    world.disk.settle()
    assert world.failures
    world.failures.clear()
    world.kill()
    for _ in range(4):
        world.disk.capacity = capacity
        assert not world.store._bench.wal.has_room_to_roll
        world.store.request_checkpoint()
        world.commit()
        assert world.failures == []
        if is_stopped:
            world.close()
        else:
            world.clock.soon.clear()
        world.disk = world.disk.kill()
        world.disk.capacity = capacity
        world.open()
    assert world.log().end_offset == 2, "a kill loses nothing that was written"


# -- crashes


class History:
    """Commits without rest, while checkpoints are made beside them."""

    def __init__(self, seed: int, commits: int = 26) -> None:
        self.world = World(FEW, seed)
        self.written = b""
        #: What of it was reported durable.
        self.durable = 0
        self.commits = commits

    def run(self) -> None:
        world, log = self.world, self.world.log()
        for at in range(self.commits):
            self.written += add(log, 1, value=b"%d" % at * 150).data
            self.submit(len(self.written))
            if at % 9 == 5:
                world.store.request_checkpoint()
            world.disk.complete(1 + at % 2)
            if at % 3 == 0:
                world.clock.turn()
        world.disk.settle()

    def submit(self, reached: int) -> None:
        def on_durable() -> None:
            self.durable = reached

        self.world.store.submit(on_durable)

    def crash_after(self, changes: int) -> bool:
        """Let the power go after so many changes; tell whether there were so many."""
        self.world.disk.writes_max = self.world.disk.writes + changes
        try:
            self.run()
        except PowerGone:
            return True
        finally:
            self.world.disk.writes_max = None
            self.world.clock.soon.clear()
        return False

    def check(self) -> None:
        """All that was reported is there."""
        log = self.world.store.get(1)
        data = b"" if log is None else read_all(log)
        assert self.world.store.damaged == {}
        assert self.written.startswith(data)
        assert len(data) >= self.durable


def crashed(seed: int = 0) -> Iterator[History]:
    """Yield the same history cut off after every change."""
    changes = 0
    while True:
        history = History(seed)
        if not history.crash_after(changes):
            assert history.durable == len(history.written)
            assert history.world.store._bench.wal.number > 4
            break
        yield history
        changes += 1
    assert changes > 100


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.extended) for seed in (2, 3))]
)
@pytest.mark.parametrize("crash", [World.kill, World.power_cut])
def test_a_crash_after_every_change_loses_nothing_and_is_never_refused(
    crash: Callable[[World], None], seed: int
) -> None:
    for history in crashed(seed):
        crash(history.world)
        history.check()
        history.world.power_cut()
        history.check()


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_lost_after_a_crash_anywhere_is_missed_or_not_needed(damage: Damage) -> None:
    refused = 0
    for history in crashed():
        whole = kept(history.world)
        for number in list_wal_numbers(history.world.disk):
            damage(history.world, wal_path(number))
            try:
                history.world.kill()
            except StorageCorrupt:
                refused += 1
            else:
                history.check()
                # Files were made and numbered on: what was before is another history's.
                break
            whole()
    assert refused > 50


# -- what the release before has left


def rewrite_as_before(world: World) -> None:
    """Write the write-ahead log as it was before files said which one follows."""
    ended = 0
    wal_first = load_checkpoint(world.disk).header.wal_first
    for number in list_wal_numbers(world.disk):
        blocks = blocks_of(world, number)
        data = bytearray(WAL_BYTES)
        position = 0
        for block in blocks:
            parts: list[bytes | memoryview] = []
            records = [r for r in block.records if r.kind != RecordKind.NEXT]
            for r in records:
                link = ended if r.kind == RecordKind.FILE and r.first_index else r.last_index
                fields = (r.group, r.kind, r.term, r.first_index, link, r.prev_index)
                parts += [RECORD.pack(*fields, len(r.payload)), bytes(r.payload)]
            buffers, size = write_block(number, position, block.number, len(records), parts)
            data[position : position + size] = b"".join(buffers)
            position += size
        ended = position
        if not blocks and number == wal_first:
            # A checkpoint named a file that had a block.
            begin = RECORD.pack(0, RecordKind.FILE, 0, number - 1, 0, WAL_BYTES, 0)
            buffers, size = write_block(number, 0, 1, 1, [begin])
            data[:size] = b"".join(buffers)
        world.disk.inode(wal_path(number)).data[:] = data


def test_what_the_release_before_has_left_is_opened_wherever_it_was_killed() -> None:
    several = 0
    for history in crashed():
        rewrite_as_before(history.world)
        history.world.kill()
        history.check()
        several += history.world.report.wal_files > 1
        log = history.world.log()
        history.written, history.durable = read_all(log), 0
        history.commits = 8
        history.run()
        history.world.power_cut()
        history.check()
        assert history.durable == len(history.written)
    assert several > 20


def test_after_a_clean_stop_nothing_is_left_that_the_release_before_does_not_know() -> None:
    for is_prepared in (False, True):
        world, log = rolled(1)
        world.store._checkpointer.is_running = False
        if is_prepared:
            world.store._bench.wal.prepare()
        data = read_all(log)
        world.close()
        header = load_checkpoint(world.disk).header
        assert header.is_clean
        assert header.wal_first > max(list_wal_numbers(world.disk))
        world.kill()
        assert world.report.was_clean
        assert read_all(world.log()) == data
