"""Indexes of closed segments' keys: the file, how it is made, and when it goes."""

from __future__ import annotations

from array import array
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.model.batch import scan_batches
from kafkaesque.model.batch_encoder import BatchOptions, MarkerType
from kafkaesque.model.compression import Codec
from kafkaesque.model.sealed_batch import SALT_BYTES, BatchKeys, BatchSealer
from kafkaesque.storage import key_index, key_index_builder
from kafkaesque.storage.errors import StorageCorrupt
from kafkaesque.storage.group_log import GroupLog
from kafkaesque.storage.key_index import (
    NEW_SUFFIX,
    SegmentMark,
    WantedRuns,
    add_place,
    select,
    write_key_index,
    write_too_many,
)
from kafkaesque.storage.key_index_builder import KeyIndexPlan, build_key_index
from kafkaesque.storage.readable_log import ClosedSegment
from tests.unit.storage.compacting import (
    CONFIG,
    append,
    batches_of,
    close_segment,
    plan_for,
    put,
    put_marker,
    run,
)
from tests.unit.storage.helpers import World

MARK = SegmentMark(100, 900, 4_000, 3_900, 7)


def plan_of(closed: ClosedSegment, *, free_bytes_min: int = 0) -> KeyIndexPlan:
    segment = closed.segment
    return KeyIndexPlan(
        segment.directory, segment.base_offset, closed.end_offset, segment.size, free_bytes_min
    )


def build(world: World, plan: KeyIndexPlan) -> bytes | None:
    """Make an index and give it its name; return what is in it, or None if there is none."""
    steps = build_key_index(world.disk, plan)
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            if not stop.value:
                return None
            break
    world.disk.rename(plan.index_path + NEW_SUFFIX, plan.index_path)
    file = world.disk.open(plan.index_path)
    data = file.read_blocking(0, file.size())
    file.close()
    return data


def first_of(log: GroupLog) -> ClosedSegment:
    closed = log.closed_segment(log.start_offset)
    assert closed is not None
    return closed


def is_within(offset: int, runs: WantedRuns) -> bool:
    return any(first <= offset < end for first, end in zip(runs.firsts, runs.ends, strict=True))


KEYS = st.sampled_from([None, b"", b"a", b"b", b"a.b", b"\xff\x00", b"c" * 300])
BATCHES = st.lists(st.tuples(st.lists(KEYS, min_size=1, max_size=4), st.booleans()), min_size=1)


@given(BATCHES, st.sets(KEYS), st.sampled_from([1, 200, 100_000]))
def test_an_index_names_the_blocks_of_what_is_wanted(
    batches: list[tuple[list[bytes | None], bool]], wanted: set[bytes | None], block_bytes: int
) -> None:
    world = World(CONFIG)
    log = world.log()
    log.segments.segment_bytes_max = 1 << 20
    for keys, is_compressed in batches:
        options = BatchOptions(codec=Codec.GZIP if is_compressed else Codec.NONE)
        put(log, [(key, b"v") for key in keys], options=options)
    close_segment(world, log)
    closed = first_of(log)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_index_builder, "BLOCK_BYTES", block_bytes)
        data = build(world, plan_of(closed))
    assert data is not None
    names = {key or b"" for key in wanted}
    runs = select(data, lambda key: key in names)
    assert runs is not None
    assert runs.mark[:3] == (0, closed.end_offset, closed.segment.size)
    assert list(runs.firsts) == sorted(runs.firsts)
    assert all(first < end for first, end in zip(runs.firsts, runs.ends, strict=True))
    offset = 0
    for keys, _ in batches:
        has_wanted = any((key or b"") in names for key in keys)
        for at in range(offset, offset + len(keys)):
            is_read = is_within(at, runs)
            # With the smallest blocks each is a batch, and nothing is read that is not wanted.
            assert is_read == has_wanted if block_bytes == 1 else is_read or not has_wanted
        offset += len(keys)


@given(st.sets(st.integers(0, 20_000)))
def test_places_are_what_was_added(blocks: set[int]) -> None:
    places = bytearray()
    before = -1
    for block in sorted(blocks):
        add_place(places, before, block)
        before = block
    mark = MARK._replace(base_offset=0, end_offset=20_001)
    data = write_key_index(mark, array("q", range(20_001)), b"", {b"k": places})
    assert data is not None
    runs = select(data, lambda _: True)
    assert runs is not None
    found = [
        block
        for first, end in zip(runs.firsts, runs.ends, strict=True)
        for block in range(first, end)
    ]
    assert found == sorted(blocks)


def contents() -> list[bytes]:
    full = write_key_index(MARK, array("q", [100, 300, 500]), b"\1", {b"ab": bytearray(b"\2\1")})
    empty = write_key_index(MARK, array("q", [100]), b"", {})
    assert full is not None
    assert empty is not None
    return [full, empty, write_too_many(MARK)]


@pytest.mark.parametrize("which", range(3))
def test_whatever_byte_is_damaged_is_noticed(which: int) -> None:
    content = contents()[which]
    is_full = select(content, lambda _: True) is None
    assert is_full == (which == 2)
    for at in range(len(content)):
        for mask in (1, 0x80, 0xFF):
            damaged = bytearray(content)
            damaged[at] ^= mask
            with pytest.raises(ValueError, match="index of keys"):
                select(damaged, lambda _: True)
    for data in (content[:-1], content + b"\0", b"", content[: len(content) // 2]):
        with pytest.raises(ValueError, match="index of keys"):
            select(data, lambda _: True)


def test_batches_of_transactions_are_everybody_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_index_builder, "BLOCK_BYTES", 1)
    world = World(CONFIG)
    log = world.log()
    put(log, [(b"a", b"v")])
    put(
        log,
        [(b"b", b"v")],
        options=BatchOptions(producer_id=5, producer_epoch=0, base_sequence=0, transactional=True),
    )
    put_marker(log, 5, MarkerType.COMMIT)
    put(log, [(b"a", b"v")])
    close_segment(world, log)
    data = build(world, plan_of(first_of(log)))
    assert data is not None
    runs = select(data, lambda _: False)
    assert runs is not None
    assert (list(runs.firsts), list(runs.ends)) == ([1], [3])


@pytest.mark.parametrize("bound", ["KEYS_MAX", "FILE_BYTES_MAX"])
def test_a_segment_with_too_many_keys_says_so(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(CONFIG)
    log = world.log()
    put(log, [(b"%d" % at, b"v") for at in range(5)])
    put(log, [(b"%d" % at, b"v") for at in range(5, 9)])
    close_segment(world, log)
    for module in (key_index, key_index_builder):
        monkeypatch.setattr(module, bound, 8)
    data = build(world, plan_of(first_of(log)))
    assert data is not None
    monkeypatch.setattr(key_index, "FILE_BYTES_MAX", 1_000)
    assert select(data, lambda _: True) is None


def test_many_places_of_what_is_wanted_are_the_whole_segment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(key_index, "PLACES_BYTES_MAX", 2)
    data = contents()[0]
    runs = select(data, lambda _: True)
    assert runs is not None
    assert (list(runs.firsts), list(runs.ends)) == ([100], [900])


def test_of_sealed_batches_nothing_is_written_in_the_clear() -> None:
    world = World(CONFIG)
    log = world.log()
    put(log, [(b"a", b"v")])
    keys = BatchKeys(topic_id=bytes(16), partition=0, versions={1: bytes(32)})
    sealer = BatchSealer(keys, bytes(SALT_BYTES))
    (plain,) = batches_of(log)
    sealed, _ = sealer.seal(plain, scan_batches(plain).batches[0], b"")
    append(log, sealed, 1)
    close_segment(world, log)
    closed = first_of(log)
    assert build(world, plan_of(closed)) is None
    assert not world.disk.exists(closed.segment.key_index_path + NEW_SUFFIX)


def test_nothing_is_written_where_there_is_little_space() -> None:
    world = World(CONFIG)
    log = world.log()
    put(log, [(b"a", b"v")])
    close_segment(world, log)
    plan = plan_of(first_of(log), free_bytes_min=1 << 60)
    assert build(world, plan) is None


def test_of_a_damaged_segment_there_is_no_index() -> None:
    world = World(CONFIG)
    log = world.log()
    put(log, [(b"a", b"v")])
    close_segment(world, log)
    closed = first_of(log)
    world.disk.inode(closed.segment.path).data[65] ^= 1
    with pytest.raises(StorageCorrupt):
        build(world, plan_of(closed))


def retain(world: World, log: GroupLog) -> None:
    log.advance_start(first_of(log).end_offset)
    world.commit()


def compact(world: World, log: GroupLog) -> None:
    assert run(world, log, plan_for(log)) is not None


def cut(world: World, log: GroupLog) -> None:
    log.truncate_to(log.index_of_offset(1))
    world.commit()


@pytest.mark.parametrize("change", [retain, compact, cut])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_an_index_goes_with_its_segment(
    change: Callable[[World, GroupLog], None], is_restarted: bool
) -> None:
    world = World(CONFIG)
    log = world.log()
    for _ in range(3):
        put(log, [(b"a", b"v" * 100)])
    close_segment(world, log)
    put(log, [(b"a", b"w")])
    close_segment(world, log)
    closed = first_of(log)
    path = closed.segment.key_index_path
    assert build(world, plan_of(closed)) is not None
    world.disk.open(path + NEW_SUFFIX, create=True).close()
    change(world, log)
    if is_restarted:
        world.kill()
    assert not world.disk.exists(path)
    assert not world.disk.exists(path + NEW_SUFFIX)


def test_a_crash_leaves_indexes_and_nothing_half_made() -> None:
    world = World(CONFIG)
    log = world.log()
    put(log, [(b"a", b"v")])
    close_segment(world, log)
    put(log, [(b"a", b"v")])
    closed = first_of(log)
    path = closed.segment.key_index_path
    data = build(world, plan_of(closed))
    active = log.segments.segments[-1]
    for other in (path + NEW_SUFFIX, active.key_index_path):
        world.disk.open(other, create=True).close()
    world.commit()
    world.kill()
    assert bytes(world.disk.inode(path).data) == data
    assert not world.disk.exists(path + NEW_SUFFIX)
    assert not world.disk.exists(active.key_index_path)


def test_what_is_written_is_no_closed_segment() -> None:
    world = World(CONFIG)
    log = world.log()
    assert log.closed_segment(0) is None
    put(log, [(b"a", b"v")])
    assert log.closed_segment(0) is None
    close_segment(world, log)
    closed = first_of(log)
    assert (closed.end_offset, closed.segment.base_offset) == (1, 0)
    assert log.closed_segment(1) is None
    log.truncate_to(log.index_of_offset(0))
    assert log.closed_segment(0) is None
