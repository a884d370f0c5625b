"""What the next start makes of torn, damaged and missing files."""

import contextlib
import dataclasses
import json
from collections.abc import Callable

import pytest

from kafkaesque.model.checksum import crc32c
from kafkaesque.model.errors import ReadFailed
from kafkaesque.model.ids import Index, NodeId, Offset, Term
from kafkaesque.storage.config import SegmentOptions
from kafkaesque.storage.entries import LogStart
from kafkaesque.storage.errors import StorageCorrupt
from kafkaesque.storage.group_log import GroupLog
from kafkaesque.storage.log_recovery import LogFate
from kafkaesque.storage.log_snapshot import write_start
from kafkaesque.storage.offline import DumpedBatch, DumpedRecord, Severity, dump_segment, dump_wal
from kafkaesque.storage.offline import verify as verify_offline
from kafkaesque.storage.wal import list_wal_numbers, wal_path
from kafkaesque.storage.wal_format import RecordKind, WalReader, WalRecord
from tests.unit.storage.helpers import NODE, SMALL, TIME_MS, TOPIC_ID, World, add, mark, read_all
from tests.unit.storage.memory_disk import PowerGone

BIG = dataclasses.replace(SMALL, wal_bytes=1 << 16, segment_bytes_max=1 << 20)
SEGMENT = "topic1-0/00000000000000000000.log"


def last_block(world: World) -> tuple[str, int, int]:
    """Return the newest file of the write-ahead log, and where its last block begins and ends."""
    number = list_wal_numbers(world.disk)[-1]
    reader = WalReader(world.disk.open(wal_path(number)), number)
    *_, block = reader.blocks(None)
    return wal_path(number), block.position, block.position + block.size_bytes


def test_wal_torn_at_every_byte_of_the_last_commit() -> None:
    world = World(BIG)
    log = world.log()
    first = bytes(add(log, 1, 2, value=b"first").data)
    mark(log, 1)
    world.commit()
    second = bytes(add(log, 1, 2, value=b"second").data)
    mark(log, 1)
    world.commit()
    path, begin, end = last_block(world)
    # What the crash left in the segment may be anything behind what a checkpoint covers.
    wal, segment = (bytes(world.disk.inode(p).data) for p in (path, SEGMENT))
    checkpoint = bytes(world.disk.inode("checkpoint").data)
    for cut in range(begin, end + 1):
        for name in list_wal_numbers(world.disk):
            world.disk.remove(wal_path(name))
        # It had its size before anything was written to it.
        torn = wal[:cut].ljust(len(wal), b"\0")
        world.disk.open(path, create=True).write_at(0, [torn])
        world.disk.inode("checkpoint").data[:] = checkpoint
        world.disk.inode(SEGMENT).data[:] = segment[: cut % len(segment)]
        world.kill()
        log = world.log()
        if torn != wal:
            assert read_all(log) == first
            assert log.last_index == 3
        else:
            assert read_all(log) == first + second
            assert log.last_index == 6


def written(world: World) -> None:
    log = world.log()
    for _ in range(3):
        add(log, 1)
        world.commit()


def clean(world: World) -> None:
    """A stop and a start, after which nothing was written that would need a checkpoint."""
    written(world)
    world.restart()


def checkpointed(world: World) -> None:
    """A checkpoint that nothing has followed."""
    written(world)
    before = world.store.statistics.checkpoints
    world.store.request_checkpoint()
    world.commit()
    assert world.store.statistics.checkpoints == before + 1


@pytest.mark.parametrize("is_directory", [False, True], ids=["files", "directory"])
@pytest.mark.parametrize("begin", [written, clean, checkpointed])
def test_a_write_ahead_log_that_somebody_has_removed_is_missed(
    begin: Callable[[World], None], is_directory: bool
) -> None:
    world = World(BIG)
    begin(world)
    for number in list_wal_numbers(world.disk):
        world.disk.remove(wal_path(number))
    if is_directory:
        world.disk.remove_tree("wal")
    with pytest.raises(StorageCorrupt, match=r"write-ahead log are missing: there are none.*empty"):
        world.kill()


def test_nothing_is_missed_after_a_clean_stop() -> None:
    world = World(BIG)
    written(world)
    world.close()
    world.disk.remove_tree("wal")
    world.kill()
    assert world.log().end_offset == 3


def test_what_the_release_before_has_left_is_opened() -> None:
    """It wrote a checkpoint that names a file, and died before it made the file."""
    world = World(BIG)
    checkpointed(world)
    checkpoint = world.disk.inode("checkpoint").data
    line = json.loads(checkpoint.splitlines()[0])
    assert line.pop("wal")
    body = json.dumps(line).encode() + b"\n" + b"".join(checkpoint.splitlines(True)[1:-1])
    checkpoint[:] = body + json.dumps({"crc32c": crc32c(body)}).encode() + b"\n"
    for number in list_wal_numbers(world.disk):
        world.disk.remove(wal_path(number))
    world.kill()
    assert world.log().end_offset == 3


def test_a_write_ahead_log_that_was_cut_is_refused_wherever_it_was() -> None:
    world = World(BIG)
    written(world)
    path, _, end = last_block(world)
    wal = bytes(world.disk.inode(path).data)
    assert end < len(wal) == BIG.wal_bytes
    for cut in range(0, len(wal), 509):
        world.disk.inode(path).data[:] = wal[:cut]
        with pytest.raises(StorageCorrupt, match=r"has been cut: of|cannot be read"):
            world.kill()
    world.disk.inode(path).data[:] = wal
    world.kill()
    assert world.log().end_offset == 3


def test_damage_in_the_middle_of_the_wal_is_no_torn_end() -> None:
    world = World(BIG)
    log = world.log()
    for _ in range(5):
        add(log, 1)
        world.commit()
    path, begin, _ = last_block(world)
    data = world.disk.inode(path).data
    data[begin - 512 + 30] ^= 1
    with pytest.raises(StorageCorrupt, match=f"{path} is damaged at byte {begin - 512}"):
        world.kill()
    data[begin - 512 + 30] ^= 1
    world.kill()
    assert world.log().end_offset == 5


def stop_checkpoints(world: World) -> None:
    """Let files of the write-ahead log pile up."""
    world.store._checkpointer.is_running = True


@pytest.mark.parametrize("damage", ["missing", "cut", "flipped at the end"])
def test_a_damaged_file_before_the_last_is_refused(damage: str) -> None:
    world = World()
    log = world.log()
    stop_checkpoints(world)
    for _ in range(60):
        add(log, 1, value=b"v" * 500)
        world.commit()
    numbers = list_wal_numbers(world.disk)
    assert len(numbers) >= 3
    path = wal_path(numbers[1])
    if damage == "missing":
        world.disk.remove(path)
    else:
        reader = WalReader(world.disk.open(path), numbers[1])
        *_, block = reader.blocks(None)
        data = world.disk.inode(path).data
        if damage == "cut":
            del data[block.position :]
        else:
            data[block.position + 100] ^= 1
    with pytest.raises(StorageCorrupt, match=r"empty directory|missing"):
        world.kill()


def test_many_wal_files_are_replayed_in_order() -> None:
    world = World()
    log = world.log()
    stop_checkpoints(world)
    data = b""
    for at in range(60):
        data += add(log, 1 + at // 10, value=b"%d" % at * 100).data
        world.commit()
    for _ in range(2):
        world.power_cut()
        assert read_all(world.log()) == data
    assert world.report.wal_files == 1


def test_a_cached_segment_torn_at_every_byte_keeps_everything_before() -> None:
    world = World(BIG)
    log = world.log(write_caching=True)
    data = [bytes(add(log, 1, at % 3 + 1, value=b"v" * at).data) for at in range(6)]
    world.commit()
    whole = bytes(world.disk.inode(SEGMENT).data)
    assert whole == b"".join(data)
    ends = [sum(map(len, data[: at + 1])) for at in range(6)]
    saved = {
        path: bytes(world.disk.inode(path).data)
        for path in ("checkpoint", wal_path(list_wal_numbers(world.disk)[-1]))
    }
    for cut in range(ends[3], len(whole)):
        for rest in (b"", b"\0" * 100, b"\xff" * 100):
            for number in list_wal_numbers(world.disk):
                world.disk.remove(wal_path(number))
            for path, content in saved.items():
                file = world.disk.open(path, create=True)
                file.truncate(0)
                file.write_at(0, [content])
            world.disk.inode(SEGMENT).data[:] = whole[:cut] + rest
            world.kill()
            # Zeros may happen to be what was cut off.
            found = whole[:cut] + rest
            kept = max(end for end in ends if found[:end] == whole[:end])
            assert read_all(world.log(write_caching=True)) == whole[:kept]
            assert len(world.disk.inode(SEGMENT).data) == kept


def test_what_was_cut_off_a_cached_log_does_not_come_back() -> None:
    """The cut was in the page cache only when the process died, and lasted until the power cut."""
    for seed in range(20):
        world = World(BIG, seed)
        log = world.log(write_caching=True)
        kept = bytes(add(log, 1).data)
        world.store.request_checkpoint()
        world.commit()
        add(log, 1, value=b"gone")
        log.truncate_to(1)
        world.commit()
        world.kill()
        world.power_cut()
        assert read_all(world.log(write_caching=True)) == kept


@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_one_damaged_log_does_not_stop_the_others(damage: str) -> None:
    world = World()
    for group in (1, 2):
        for _ in range(3):
            add(world.log(group), 1)
    world.restart()
    if damage == "missing":
        world.disk.remove(SEGMENT)
    else:
        del world.disk.inode(SEGMENT).data[-1:]
    for _ in range(3):
        world.kill()
        assert list(world.report.damaged) == [1]
        assert SEGMENT in world.report.damaged[1]
        with pytest.raises(StorageCorrupt, match="copied from another"):
            world.log(1)
        assert world.log(2).end_offset == 3
        add(world.log(2), 1)
        world.log(2).truncate_to(3)
        world.restart()


@pytest.mark.parametrize("is_clean", [False, True], ids=["killed", "stopped"])
def test_a_name_tag_that_cannot_be_read_is_written_again(is_clean: bool) -> None:
    world = World(BIG)
    kept = bytes(add(world.log(), 1).data)
    world.commit()
    if is_clean:
        world.close()
    tag = world.disk.inode("topic1-0/partition.metadata")
    content = bytes(tag.data)
    tag.data[:] = b""
    world.disk.unreadable = ("topic1-0/partition.metadata",)
    world.kill()
    assert bytes(tag.data) == content
    assert not world.report.damaged
    assert not world.report.strays
    assert read_all(world.log()) == kept


@pytest.mark.parametrize("is_cached", [False, True], ids=["cut", "cached"])
def test_a_segment_that_cannot_be_read_is_its_own_logs_damage(is_cached: bool) -> None:
    """It is read at the start if it has to be cut, or may hold what the log of writes has not."""
    world = World()
    log = world.log(write_caching=is_cached)
    for _ in range(3):
        add(log, 1)
    world.store.request_checkpoint()
    world.commit()
    other = world.log(2)
    add(log, 1) if is_cached else log.truncate_to(1)
    add(other, 1)
    world.commit()
    world.disk.unreadable = (SEGMENT,)
    world.kill()
    assert world.report.damaged == {1: f"cannot read {SEGMENT}: planted"}
    assert world.log(2).end_offset == 1
    with pytest.raises(StorageCorrupt, match="cannot read"):
        world.log(1)


def test_a_write_ahead_log_that_cannot_be_read_lets_nothing_start() -> None:
    world = World()
    add(world.log(), 1)
    world.commit()
    world.disk.unreadable = ("wal/",)
    with pytest.raises(ReadFailed):
        world.kill()


def test_leftovers_are_removed() -> None:
    world = World()
    add(world.log(), 1)
    world.commit()
    world.disk.open("topic1-0/00000000000000000999.log", create=True).write_at(0, [b"x"])
    world.disk.open("topic1-0/snapshot", create=True)
    world.kill()
    assert "00000000000000000999.log" not in world.disk.list_dir("topic1-0")
    assert "snapshot" in world.disk.list_dir("topic1-0"), "that is somebody else's"


def test_a_failed_sync_is_not_papered_over_by_the_next_start() -> None:
    """What the kernel dropped looks good in its cache, so the next start writes it again."""
    world = World(BIG)
    log = world.log()
    kept = bytes(add(log, 1, value=b"kept").data)
    world.commit()
    lost = bytes(add(log, 1, value=b"lost").data)
    world.disk.fail_syncs = True
    world.store.submit()
    world.disk.settle()
    world.disk.fail_syncs = False
    world.kill()
    assert read_all(world.log()) == kept + lost
    for _ in range(3):
        world.power_cut()
        assert read_all(world.log()) == kept + lost


# -- where segments end


LIMIT = SegmentOptions(segment_bytes_max=2048, segment_ms_max=60_000)
Layout = list[tuple[int, int, int, int]]


def layout(log: GroupLog) -> Layout:
    """Return where segments begin, how long they are, when they were made, and their times."""
    return [(s.base_offset, s.size, s.created_ms, s.max_timestamp) for s in log.segments.segments]


def sizes_of_files(world: World) -> list[int]:
    names = world.disk.list_dir("topic1-0")
    logs = sorted(name for name in names if name.endswith(".log"))
    return [len(world.disk.inode(f"topic1-0/{name}").data) for name in logs]


def write(world: World, log: GroupLog, count: int, term: int = 1) -> list[Index]:
    """Append batches, every seventh a while before the next, every tenth behind a mark.

    Returns the last index after each.
    """
    ends: list[Index] = []
    for at in range(count):
        if at % 10 == 9:
            mark(log, term)
        add(log, term, 2, value=b"%d" % at * 100)
        ends.append(log.last_index)
        world.clock.unix_ms += 70_000 if at % 7 == 6 else 1_000
        if at % 4 == 3:
            world.commit()
    world.commit()
    return ends


def rolled(*, write_caching: bool = False) -> World:
    """Return a store whose log had a checkpoint, a cut into it, and a start, and went on."""
    world = World(BIG)
    log = world.log(options=LIMIT, write_caching=write_caching)
    write(world, log, 20)
    world.restart()
    log = world.log(options=LIMIT, write_caching=write_caching)
    log.truncate_to(write(world, log, 20, term=2)[2])
    log.truncate_to(write(world, log, 30, term=3)[-9])
    write(world, log, 20, term=4)
    log.advance_start(log.segments.segments[2].base_offset + 1)
    world.commit()
    assert len(log.segments.segments) > 8
    return world


@pytest.mark.parametrize("crash", ["kill", "power cut"])
def test_recovery_begins_segments_where_the_broker_had_begun_them(crash: str) -> None:
    world = World(BIG)
    log = world.log(options=LIMIT)
    write(world, log, 60)
    before, data = layout(log), read_all(log)
    assert len(before) > 10, "by size and by age"
    keep = log.retention_candidate(world.clock.unix_ms, -1, 4096, log.end_offset)
    assert keep
    world.clock.unix_ms += 30 * 24 * 3_600_000
    for is_first in (True, False):
        if crash == "kill":
            world.kill()
        else:
            world.power_cut()
        found = world.store.get(1)
        assert found is not None
        assert layout(found) == before, "though the topic's options are not known yet"
        assert sizes_of_files(world) == [size for _, size, _, _ in before]
        assert read_all(found) == data
        names = world.disk.list_dir("topic1-0")
        assert len([name for name in names if name.endswith(".index")]) == len(before) - 1
        assert not is_first or world.store.statistics.indexes_rebuilt == 0
        log = world.log(options=LIMIT)
        assert log.retention_candidate(TIME_MS, -1, 4096, log.end_offset) == keep
    add(log, 1)
    assert len(log.segments.segments) == len(before) + 1, "the last one is too old"


@pytest.mark.parametrize(
    ("crash", "write_caching"),
    [
        ("kill", False),
        ("power cut", False),
        pytest.param("kill", True, marks=pytest.mark.extended),
    ],
)
def test_a_recovery_that_is_cut_off_anywhere_and_begun_again(
    crash: str, write_caching: bool
) -> None:
    changes = 0
    while True:
        world = rolled(write_caching=write_caching)
        log = world.log(options=LIMIT, write_caching=write_caching)
        before, data, end_offset = layout(log), read_all(log), log.end_offset
        world.rng.seed(changes)
        world.clock.soon.clear()
        world.disk = world.disk.kill()
        world.disk.writes_max = changes
        is_whole = False
        with contextlib.suppress(PowerGone):
            world.open()
            is_whole = True
        world.disk.writes_max = None
        if crash == "kill":
            world.kill()
        else:
            world.power_cut()
        found = world.store.get(1)
        assert found is not None
        assert world.store.damaged == {}
        assert (read_all(found), found.end_offset) == (data, end_offset)
        assert layout(found) == before
        assert sizes_of_files(world) == [size for _, size, _, _ in before]
        assert not [f for f in verify_offline(world.disk) if f.severity is Severity.ERROR]
        if is_whole:
            break
        changes += 1
    assert changes > 30


def test_segments_of_what_was_cut_off_are_forgotten() -> None:
    fate = LogFate()
    for index in (1, 5, 9):
        fate.note(WalRecord(1, RecordKind.ROLL, 0, index, 1000 + index, 0, memoryview(b"")))
    fate.note(WalRecord(1, RecordKind.TRUNCATE, 0, 0, 5, 9, memoryview(b"")))
    assert fate.rolls == {1: 1001, 5: 1005}
    start = LogStart(start_offset=Offset(7), prev_index=Index(7), prev_term=Term(1), marks_before=0)
    payload = memoryview(write_start(start))
    fate.note(WalRecord(1, RecordKind.RESET, 0, 0, 0, 0, payload))
    assert fate.rolls == {}


# -- offline


def busy(world: World) -> None:
    for group in (1, 2):
        log = world.log(group)
        mark(log, 1)
        for at in range(30):
            add(log, 1, 2, value=b"v" * at * 20)
        log.truncate_to(log.last_index - 4)
        add(log, 2)
    world.commit()


def test_verify_finds_nothing_in_a_good_directory() -> None:
    world = World()
    busy(world)
    assert list(verify_offline(world.disk)) == []
    world.restart()
    world.close()
    assert list(verify_offline(world.disk)) == []


def test_verify_finds_every_flipped_byte() -> None:
    world = World()
    busy(world)
    world.close()
    paths = [
        f"{directory}/{name}"
        for directory in ("topic1-0", "topic2-0")
        for name in world.disk.list_dir(directory)
        if name.endswith(".log")
    ]
    assert len(paths) > 4
    for path in [*paths, "checkpoint"]:
        data = world.disk.inode(path).data
        for at in range(0, len(data), 97):
            data[at] ^= 0x41
            found = list(verify_offline(world.disk))
            assert found, (path, at)
            assert found[0].severity is Severity.ERROR
            assert found[0].path == path
            data[at] ^= 0x41
    assert list(verify_offline(world.disk)) == []


def test_verify_on_what_is_not_a_data_directory() -> None:
    world = World()
    world.disk.remove("meta.json")
    (finding,) = verify_offline(world.disk)
    assert finding.severity is Severity.ERROR


def test_verify_tells_broken_indexes_and_strays_apart_from_damage() -> None:
    world = World()
    busy(world)
    world.close()
    name = next(n for n in world.disk.list_dir("topic1-0") if n.endswith(".index"))
    world.disk.inode(f"topic1-0/{name}").data[-1] ^= 1
    world.disk.make_dir("gone-0")
    world.disk.open("gone-0/partition.metadata", create=True)
    found = list(verify_offline(world.disk))
    assert [f.severity for f in found] == [Severity.NOTE] * 2
    assert [f.path for f in found] == [f"topic1-0/{name}", "gone-0"]


def test_dump() -> None:
    world = World(BIG)
    log = world.log()
    data = [bytes(add(log, 3, 2).data) for _ in range(4)]
    world.commit()
    items = list(dump_segment(world.disk, SEGMENT))
    assert [i.data for i in items if isinstance(i, DumpedBatch)] == data
    number = list_wal_numbers(world.disk)[-1]
    records = [i for i in dump_wal(world.disk, number) if isinstance(i, DumpedRecord)]
    assert [bytes(r.record.payload) for r in records if r.record.kind == 0] == data
    assert "DATA term 3 index 7 to 8 after 6" in str(records[-1])


# -- a log that somebody has removed


def with_a_removed_directory(*, clean: bool) -> World:
    world = World()
    for group in (1, 2):
        for _ in range(3):
            add(world.log(group), 1)
        world.log(group).save_hard_state(Term(4), NodeId(2))
    world.restart()
    if not clean:
        add(world.log(1), 1)
        add(world.log(2), 1)
        world.commit()
    world.disk.remove_tree("topic1-0")
    world.kill()
    return world


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_whose_directory_was_removed_begins_anew_and_remembers_that(clean: bool) -> None:
    world = with_a_removed_directory(clean=clean)
    assert world.report.missing == ["topic1-0"]
    assert not world.report.damaged
    for _ in range(2):
        log = world.log(1)
        assert (log.end_offset, log.last_index, log.term) == (0, 0, 0)
        assert log.amnesia == 7
        assert world.log(2).amnesia == 0
        assert world.log(2).end_offset == (3 if clean else 4)
        world.kill()
        assert not world.report.missing
    add(world.log(1), 1)
    world.power_cut()
    world.restart()
    assert world.log(1).amnesia == 7


def test_amnesia_outlasts_restarts_and_snapshots_until_it_is_over() -> None:
    world = World()
    log = world.store.open_log(
        group=1, topic="topic1", partition=0, topic_id=TOPIC_ID, may_be_lost=True
    )
    assert log.amnesia == 7
    world.commit()
    world.power_cut()
    assert world.log(1).amnesia == 7, "from the write-ahead log"
    world.log(1).reset_to(start_offset=5, index=6, term=Term(1))
    world.commit()
    world.restart()
    assert world.log(1).amnesia == 7, "from the checkpoint"
    world.log(1).save_amnesia(0)
    world.commit()
    world.power_cut()
    assert world.log(1).amnesia == 0
    again = world.store.open_log(
        group=1, topic="topic1", partition=0, topic_id=TOPIC_ID, may_be_lost=True
    )
    assert again.amnesia == 0, "this log is there"


def test_a_directory_has_an_id_that_another_one_has_not() -> None:
    world = World()
    assert world.store.directory_id == f"{7:016x}"
    meta = world.disk.inode("meta.json").data
    meta[:] = meta.replace(b"07", b"08")
    world.restart()
    assert world.store.directory_id == f"{8:016x}"
    meta = world.disk.inode("meta.json").data
    meta[:] = b'{"format": 1, "cluster_id": "cluster", "node": 1}'
    world.restart()
    assert world.store.directory_id == f"{7:016x}", "one from before directories had ids gets one"
    assert b"0007" in world.disk.inode("meta.json").data


@pytest.mark.parametrize("clean", [True, False])
def test_a_damaged_log_that_is_whole_again_knows_what_it_has_forgotten(clean: bool) -> None:
    world = World()
    add(world.log(1), 1)
    add(world.log(2), 1)
    world.restart()
    if not clean:
        world.log(1).save_hard_state(Term(5), NODE)
        add(world.log(1), 5)
        world.log(2).save_hard_state(Term(5), NODE)
        world.commit()
    world.disk.rename(SEGMENT, "elsewhere")
    for _ in range(2):
        world.kill()
        assert list(world.report.damaged) == [1]
        assert world.log(2).amnesia == 0
    world.disk.rename("elsewhere", SEGMENT)
    world.kill()
    for _ in range(2):
        assert not world.report.damaged
        log = world.log(1)
        assert log.amnesia == (0 if clean else 7), "nothing came after the checkpoint"
        assert log.end_offset == 1
        assert read_all(log)
        world.restart()
    assert world.log(2).amnesia == 0
    assert world.log(2).vote == (None if clean else NODE)


def test_a_damaged_log_that_no_checkpoint_knows_yet_is_remembered_to_have_forgotten() -> None:
    world = World()
    log = world.log(write_caching=True)
    add(log, 1)
    log.save_hard_state(Term(5), NODE)
    world.commit()
    world.disk.unreadable = (SEGMENT,)
    world.kill()
    assert list(world.report.damaged) == [1]
    for _ in range(2):
        world.kill()
        assert not world.report.damaged
        log = world.log(write_caching=True)
        assert (log.end_offset, log.amnesia) == (0, 7), "it had voted in term 5"
        world.restart()
    world.disk.unreadable = ()
    add(world.log(write_caching=True), 6)
    world.commit()
    world.kill()
    assert world.log(write_caching=True).end_offset == 1
