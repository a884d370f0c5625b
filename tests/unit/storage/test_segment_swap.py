"""Killed or without power after every single disk operation of a run: the log says the same."""

import contextlib
import dataclasses
import random
from collections.abc import Callable, Sequence

import pytest

from kafkaesque.env.disk import File
from kafkaesque.model.batch_encoder import BatchOptions, MarkerType
from kafkaesque.model.compression import Codec
from kafkaesque.model.errors import KafkaesqueError
from kafkaesque.storage import log_recovery
from kafkaesque.storage.compactor import CleanedGroup, compact
from kafkaesque.storage.group_log import GroupLog
from kafkaesque.storage.key_table import AbortedTable
from kafkaesque.storage.log_recovery import LogRecovery
from kafkaesque.storage.log_snapshot import SegmentSummary
from kafkaesque.storage.log_store import LogStore
from kafkaesque.storage.offline import Severity
from kafkaesque.storage.offline import verify as verify_offline
from kafkaesque.storage.segment_swap import (
    Replacement,
    apply_replacement,
    read_replacement,
    write_replacement,
)
from tests.unit.storage.compacting import (
    CONFIG,
    EAGER,
    AbortedTransaction,
    batches_of,
    checkpoint,
    close_segment,
    plan_for,
    put,
    put_marker,
    records_of,
    run,
    table_of,
)
from tests.unit.storage.helpers import TIME_MS, World, mark
from tests.unit.storage.memory_disk import MemoryDisk, PowerGone

OPTIONS = dataclasses.replace(EAGER, segment_bytes_max=2048)
ABORTED = [AbortedTransaction(7, 4, 6)]
#: Its records.
GIVEN_UP = range(4, 6)
LATER_MS = TIME_MS + 5000


def filled(seed: int = 0, *, write_caching: bool = False) -> World:
    """Return a world whose log has several closed segments, tombstones and transactions."""
    world = World(CONFIG, seed)
    log = world.log(write_caching=write_caching)
    mark(log, 1)
    put(log, [(b"a", b"1"), (b"b", b"1"), (b"c", b"1"), (b"d", b"1")])
    transaction = BatchOptions(producer_id=7, producer_epoch=0, transactional=True)
    put(log, [(b"a", b"aborted"), (b"z", b"aborted")], options=transaction)
    put_marker(log, 7, MarkerType.ABORT)
    for at in range(40):
        value = None if at % 9 == 0 else b"%d" % at * (at % 30)
        options = BatchOptions(codec=Codec(at % 5))
        put(log, [(b"%d" % (at % 11), value), (b"%d" % (at % 4), b"x")], options=options)
        if at == 20:
            mark(log, 2)
            mark(log, 2, b"configuration")
    close_segment(world, log)
    return world


def must_stay(log: GroupLog) -> set[int]:
    """Return the offsets that no run may take: the last of each key, where it has a value."""
    last: dict[bytes | None, tuple[int, bytes | None]] = {}
    for record in records_of(log):
        if record.offset not in GIVEN_UP and record.offset != 6:
            last[record.key] = record.offset, record.value
    return {offset for offset, value in last.values() if value is not None}


def check(log: GroupLog, before: dict[bytes, bytes], stay: set[int], all_offsets: set[int]) -> None:
    """See that a log says what it said."""
    assert table_of(log, GIVEN_UP) == before
    offsets = [record.offset for record in records_of(log)]
    assert offsets == sorted(set(offsets))
    assert stay <= set(offsets) <= all_offsets


def count_operations(twice: bool) -> int:
    """Return how many operations a run takes."""
    world = filled()
    log = world.log()
    at = world.disk.writes
    work(world, log, twice=twice)
    return world.disk.writes - at


def work(world: World, log: GroupLog, *, twice: bool) -> None:
    """Clean the log; a second time over what was cleaned, when horizons have passed."""
    run(world, log, plan_for(log, options=OPTIONS, aborted=ABORTED))
    if twice:
        plan = plan_for(log, options=OPTIONS, aborted=ABORTED, now_ms=LATER_MS)
        assert plan is not None
        run(world, log, plan)


OPERATIONS = count_operations(twice=True)


def test_a_run_takes_many_operations() -> None:
    assert 60 < OPERATIONS < 400
    assert count_operations(twice=False) < OPERATIONS


@pytest.mark.parametrize(
    "end", ["kill", pytest.param("power cut", marks=pytest.mark.extended), "power cut twice"]
)
@pytest.mark.parametrize("write_caching", [pytest.param(False, marks=pytest.mark.extended), True])
def test_a_crash_after_every_operation_leaves_the_same_table(end: str, write_caching: bool) -> None:
    crash_everywhere(end, write_caching=write_caching)


def crash_everywhere(end: str, *, write_caching: bool = False) -> None:
    """See that a log says the same after a crash at any point of two runs."""
    for operations in range(OPERATIONS):
        world = filled(operations, write_caching=write_caching)
        log = world.log(write_caching=write_caching)
        before, stay = table_of(log, GIVEN_UP), must_stay(log)
        all_offsets = {record.offset for record in records_of(log)}
        end_offset, spans = log.end_offset, log.term_spans
        world.disk.writes_max = world.disk.writes + operations
        # With write caching there is less to do.
        with contextlib.suppress(PowerGone):
            work(world, log, twice=True)
        assert write_caching or world.disk.writes > world.disk.writes_max
        world.disk.writes_max = None
        if end == "kill":
            world.kill()
        elif end == "power cut":
            world.power_cut()
        else:
            cut_again(world, operations)
        log = world.log(write_caching=write_caching)
        assert world.store.damaged == {}
        check(log, before, stay, all_offsets)
        assert (log.end_offset, log.term_spans) == (end_offset, spans)
        names = world.disk.list_dir("topic1-0")
        assert not [name for name in names if name.endswith((".cleaned", ".swap"))]
        assert not [f for f in verify_offline(world.disk) if f.severity is Severity.ERROR]
        # And it can be cleaned, and is the same then as without a crash.
        work_again(world, log)
        check(log, before, stay, all_offsets)
        assert {r.offset for r in records_of(log) if r.value is not None and r.offset > 6} == {
            offset for offset in stay if offset > 6
        }


def names_not_synced(patch: pytest.MonkeyPatch) -> None:
    """The record may be durable, and the files' names lost."""

    def sync_blocking(self: MemoryDisk, files: list[File], directories: object = ()) -> None:
        assert self._sync_work(files, ())() is None

    patch.setattr(MemoryDisk, "sync_blocking", sync_blocking)
    patch.setattr(LogStore, "_sync_names", lambda self, names, then: then())


def files_not_synced(patch: pytest.MonkeyPatch) -> None:
    def sync_blocking(self: MemoryDisk, files: list[File], directories: Sequence[str] = ()) -> None:
        files = [file for file in files if not file.path.endswith(".cleaned")]
        assert self._sync_work(files, directories)() is None

    patch.setattr(MemoryDisk, "sync_blocking", sync_blocking)


def swapped_at_once(patch: pytest.MonkeyPatch) -> None:
    """The files are put in place before the record is durable."""
    real = GroupLog.replace_segments

    def replace_segments(self: GroupLog, cleaned: CleanedGroup) -> bool:
        done = real(self, cleaned)
        self._swap(self._cleaning.pending.pop()[1])
        return done

    patch.setattr(GroupLog, "replace_segments", replace_segments)


def swaps_not_finished(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogRecovery, "_finish_swaps", lambda self, snapshot: snapshot.segments)


def files_not_moved_by_recovery(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(log_recovery, "finish_swap", lambda disk, directory, replacement: None)


def aborted_records_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AbortedTable, "has", lambda self, header: False)


@pytest.mark.parametrize(
    "plant",
    [
        names_not_synced,
        files_not_synced,
        swapped_at_once,
        swaps_not_finished,
        files_not_moved_by_recovery,
        aborted_records_kept,
    ],
)
def test_mistakes_that_are_put_in_are_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, KafkaesqueError, FileNotFoundError)):
        crash_everywhere("power cut")


def cut_again(world: World, seed: int) -> None:
    """Cut the power, and again while that is recovered from."""
    world.clock.soon.clear()
    world.disk = world.disk.power_cut(world.rng)
    world.disk.writes_max = random.Random(seed).randrange(12)
    try:
        world.open()
    except PowerGone:
        world.clock.soon.clear()
        world.disk = world.disk.power_cut(world.rng)
        world.open()
    world.disk.writes_max = None


def work_again(world: World, log: GroupLog) -> None:
    """Clean the log to the end."""
    checkpoint(world)
    for _ in range(2):
        eager = dataclasses.replace(OPTIONS, lag_ms_max=-(2**60))
        run(world, log, plan_for(log, options=eager, aborted=ABORTED, now_ms=LATER_MS))


def start_run(world: World, log: GroupLog) -> CleanedGroup:
    """Return the first group of a run, ready to be put in place."""
    plan = plan_for(log, options=OPTIONS, aborted=ABORTED)
    assert plan is not None
    return next(step for step in compact(world.disk, plan) if isinstance(step, CleanedGroup))


def waits(log: GroupLog) -> bool:
    """Tell whether a replacement waits for its record."""
    return log.is_replacing


def test_no_checkpoint_is_noted_between_the_record_and_the_files() -> None:
    world = filled()
    log = world.log()
    before = table_of(log, GIVEN_UP)
    cleaned = start_run(world, log)
    assert log.replace_segments(cleaned)
    assert waits(log)
    checkpoints = world.store.statistics.checkpoints
    world.store.request_checkpoint()
    world.store.submit()
    while world.clock.turn():
        pass
    assert world.store.statistics.checkpoints == checkpoints
    assert waits(log)
    assert plan_for(log) is None
    world.disk.settle()
    assert not waits(log)
    assert world.store.statistics.checkpoints == checkpoints + 1
    assert plan_for(log) is not None
    world.power_cut()
    check(world.log(), before, set(), set(range(1000)))


def test_what_was_just_replaced_is_not_replaced_again() -> None:
    world = filled()
    log = world.log()
    cleaned = start_run(world, log)
    assert log.replace_segments(cleaned)
    world.commit()
    before = batches_of(log)
    assert plan_for(log) is None, "until a checkpoint covers it"
    assert not log.replace_segments(cleaned)
    assert batches_of(log) == before
    checkpoint(world)
    assert plan_for(log) is not None


def test_a_run_is_void_when_its_segments_are_gone() -> None:
    world = filled()
    log = world.log()
    cleaned = start_run(world, log)
    log.advance_start(log.segments.segments[1].base_offset)
    assert not log.replace_segments(cleaned)
    assert not [n for n in world.disk.list_dir("topic1-0") if n.endswith(".cleaned")]
    world.commit()


@pytest.mark.parametrize("is_durable", [True, False])
@pytest.mark.parametrize("change", ["start", "reset", "truncate", "delete"])
def test_a_change_while_a_replacement_waits(change: str, is_durable: bool) -> None:
    for seed in range(20):
        world = filled(seed)
        log = world.log()
        before, stay = table_of(log, GIVEN_UP), must_stay(log)
        end, first_base = log.end_offset, log.segments.segments[1].base_offset
        assert log.replace_segments(start_run(world, log))
        if change == "start":
            log.advance_start(first_base + 1)
            stay = {offset for offset in stay if offset > first_base}
        elif change == "reset":
            log.reset_to(start_offset=500, index=600, term=log.last_term, base_offset=500)
            put(log, [(b"new", b"1")], term=9)
        elif change == "truncate":
            log.truncate_to(log.last_index - 1)
        else:
            world.store.delete_log(log)
        if is_durable:
            world.commit()
        world.power_cut()
        log = world.log()
        assert world.store.damaged == {}
        if change == "delete" and log.end_offset == 0:
            continue
        if change == "reset" and log.end_offset == 501:
            assert table_of(log) == {b"new": b"1"}
        elif change == "start":
            assert log.end_offset == end
            assert log.start_offset in (0, first_base + 1)
            assert stay <= {record.offset for record in records_of(log)}
        else:
            assert not (is_durable and change in ("reset", "delete"))
            assert end - 1 <= log.end_offset <= end
            found = table_of(log, GIVEN_UP)
            before.pop(b"last", None)
            found.pop(b"last", None)
            assert found == before


@pytest.mark.parametrize("end", ["power cut", "restart"])
@pytest.mark.parametrize("first_gone", [8, 5, 2])
def test_the_log_goes_on_in_what_was_replaced_when_its_end_is_cut_meanwhile(
    first_gone: int, end: str
) -> None:
    """What is not committed begins with a segment; with `write.caching` what was may go, too."""
    for seed in range(10):
        world = World(CONFIG, seed)
        log = world.log()
        for at in range(3):
            put(log, [(b"a%d" % at, b"1"), (b"b%d" % at, b"1")])
            close_segment(world, log)
        assert [segment.base_offset for segment in log.segments.segments] == [0, 2, 5, 8]
        plan = plan_for(log)
        assert plan is not None
        (cleaned,) = (step for step in compact(world.disk, plan) if not isinstance(step, int))
        assert cleaned.replacement.old_bases == (0, 2, 5)
        assert log.replace_segments(cleaned)
        log.truncate_to(log.index_of_offset(first_gone) - 1)
        world.commit()
        put(log, [(b"new", b"1")])
        world.commit()
        # Of "last" only the last one that was there stays.
        kept = [offset for offset in (0, 1, 3, 4, 5, 6, 7) if offset < first_gone] + [first_gone]
        assert [record.offset for record in records_of(log)] == kept
        if end == "restart":
            world.restart()
        else:
            world.power_cut()
        assert world.store.damaged == {}
        assert [record.offset for record in records_of(world.log())] == kept


def test_a_start_after_a_swap_removes_the_new_segments() -> None:
    for seed in range(20):
        world = filled(seed)
        log = world.log()
        run(world, log, plan_for(log, options=OPTIONS, aborted=ABORTED))
        for segment in log.segments.segments[1:3]:
            log.advance_start(segment.base_offset)
            world.commit()
        end = log.end_offset
        world.power_cut()
        log = world.log()
        assert log.end_offset == end
        assert log.segments.segments[0].base_offset == log.start_offset


def test_replacements_as_bytes_and_in_a_list() -> None:
    segments = [SegmentSummary(base, 10, 1, 2) for base in (0, 5, 9)]
    replacement = Replacement((0, 5), SegmentSummary(0, 7, -1, 2))
    assert read_replacement(write_replacement(replacement)) == replacement
    assert apply_replacement(segments, replacement) == (replacement.new, segments[2])
    with pytest.raises(ValueError, match="not a replacement"):
        read_replacement(b"{}")
    with pytest.raises(Exception, match="were replaced, but there are"):
        apply_replacement(segments[1:], replacement)


@pytest.mark.parametrize("steps_done", [1, 2, 3, 5])
def test_what_an_unfinished_run_has_left_is_no_damage(steps_done: int) -> None:
    world = filled()
    log = world.log()
    plan = plan_for(log, options=OPTIONS, aborted=ABORTED)
    assert plan is not None
    steps = compact(world.disk, plan)
    done = 0
    while done < steps_done:
        step = next(steps)
        if isinstance(step, CleanedGroup):
            assert log.replace_segments(step)
        names = world.disk.list_dir("topic1-0")
        done += any(name.endswith((".cleaned", ".swap")) for name in names)
    world.disk.kill()
    assert not [f for f in verify_offline(world.disk) if f.severity is Severity.ERROR]
    steps.close()
