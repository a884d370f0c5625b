"""Files of a table: joined beside writers, removed when nobody needs them, found by what is in."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from kafkaesque.spark.errors import WrongOption
from kafkaesque.spark.lakehouse import compaction
from kafkaesque.spark.lakehouse.compaction import Compacted, compact, plan_compaction
from kafkaesque.spark.lakehouse.errors import TableError
from kafkaesque.spark.lakehouse.file_ranges import FileRanges, end_offsets, first_offsets
from kafkaesque.spark.lakehouse.publishing import replace_files
from kafkaesque.spark.lakehouse.scan import Scan, read_scan, read_sorted
from kafkaesque.spark.lakehouse.selection import Selection
from kafkaesque.spark.lakehouse.table import (
    FileEntry,
    file_entries,
    open_table,
    recorded_offsets,
)
from kafkaesque.spark.lakehouse.vacuum import expire, vacuum
from tests.spark.table_helpers import (
    DAY_US,
    NOON_US,
    content,
    data_files,
    expected,
    layout,
    rows,
    stage,
    write,
)

PLENTY = 1 << 27


def filled(table: Path, batches: int = 6, count: int = 10) -> Counter[Any]:
    """Write micro-batches of two partitions; return what is in the table."""
    for number in range(batches):
        first = number * count
        write(table, [rows(first, count), rows(first, count, partition=1)], number)
    return expected(0, batches * count) + expected(0, batches * count, partition=1)


def entries(table: Path, version: int | None = None) -> list[FileEntry]:
    return file_entries(open_table(str(table), version))


def scan(table: Path, selection: Selection, **more: Any) -> Scan:
    opened = open_table(str(table))
    schema = pa.schema(opened.schema().to_arrow())
    files = tuple(each for each in file_entries(opened) if selection.may_contain(each))
    return Scan(
        table=str(table),
        files=files,
        selection=selection,
        schema=bytes(schema.serialize()),
        columns=tuple(more.get("columns", schema.names)),
    )


def test_small_files_become_one_with_the_same_rows(tmp_path: Path) -> None:
    table = tmp_path / "table"
    everything = filled(table)
    assert compact(str(table), file_bytes=PLENTY) == Compacted(6, 1, 0)
    assert content(table) == everything
    (file,) = entries(table)
    assert (file.rows, file.least["offset"], file.most["offset"]) == (120, 0, 59)
    # Old versions are as they were, and the offsets stand in every commit.
    assert content(table, version=2) == expected(0, 20) + expected(0, 20, partition=1)
    ends = {("flights", 0): 60, ("flights", 1): 60}
    assert recorded_offsets(str(table), open_table(str(table)).version()) == ends
    assert compact(str(table), file_bytes=PLENTY) == Compacted()


@pytest.mark.parametrize("bytes_max", [1, PLENTY], ids=["each-alone", "joined"])
def test_row_groups_have_one_partition_each_in_the_order_of_offsets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bytes_max: int
) -> None:
    monkeypatch.setattr(compaction, "ROW_GROUP_BYTES", bytes_max)
    table = tmp_path / "table"
    write(table, [rows(0, 5, partition=1), rows(0, 5), rows(5, 5, partition=1)], 0)
    write(table, [rows(10, 5, partition=1), rows(5, 5)], 1)
    compact(str(table), file_bytes=PLENTY)
    (file,) = entries(table)
    opened = pq.ParquetFile(table / file.path)
    groups = [opened.read_row_group(each) for each in range(opened.num_row_groups)]
    assert all(len(set(each.column("partition").to_pylist())) == 1 for each in groups)
    whole = pa.concat_tables(groups)
    found = zip(*(whole.column(name).to_pylist() for name in ("partition", "offset")), strict=True)
    places = [(0, offset) for offset in range(10)] + [(1, offset) for offset in range(15)]
    assert list(found) == places


def test_rows_that_come_mixed_are_written_in_order(tmp_path: Path) -> None:
    both = pa.Table.from_batches([rows(0, 6), rows(0, 6, partition=1)])
    mixed = both.take(pa.array([7, 0, 11, 5, 3, 6, 2, 1, 9, 10, 8, 4])).combine_chunks()
    (file,) = stage(tmp_path, mixed.to_batches()).files
    with pq.ParquetFile(tmp_path / file.path) as opened:
        groups = [opened.read_row_group(each) for each in range(opened.num_row_groups)]
    assert [set(each.column("partition").to_pylist()) for each in groups] == [{0}, {1}]
    assert [each.column("offset").to_pylist() for each in groups] == [list(range(6))] * 2


def test_what_is_to_be_joined() -> None:
    def entry(path: str, size: int, date: str, offset: int = 0) -> FileEntry:
        return FileEntry(path, size, 1, {"date": date}, {"offset": offset}, {})

    small = [entry(f"a{each}", 10, "x", each) for each in range(5)]
    others = [entry("b", 10, "y"), entry("c", 60, "x")]
    plans = plan_compaction(small + others, file_bytes=100, files_min=2)
    assert [[each.path for each in plan] for plan in plans] == [["a0", "a1", "a2", "a3", "a4"]]
    assert plan_compaction(small, file_bytes=100, files_min=6) == []
    plans = plan_compaction(small, file_bytes=25, files_min=2)
    assert [[each.path for each in plan] for plan in plans] == [["a0", "a1"], ["a2", "a3"]]


def test_of_two_compactions_one_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """delta-rs's own leave each row there twice."""
    table = tmp_path / "table"
    everything = filled(table)
    replace, barrier = replace_files, threading.Barrier(2)

    def meet(*arguments: Any) -> int | None:
        barrier.wait(timeout=60)
        return replace(*arguments)

    monkeypatch.setattr(compaction, "replace_files", meet)
    found: list[Compacted] = []
    threads = [
        threading.Thread(target=lambda: found.append(compact(str(table), file_bytes=PLENTY)))
        for _ in range(2)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(each.overtaken for each in found) == [0, 1]
    assert content(table) == everything


def test_compaction_beside_a_writer_hinders_neither(tmp_path: Path) -> None:
    table, stop = tmp_path / "table", threading.Event()
    done: list[Compacted] = []
    write(table, [rows(0, 10)], 0)

    def join_files() -> None:
        while not stop.is_set():
            done.append(compact(str(table), file_bytes=PLENTY))

    thread = threading.Thread(target=join_files)
    thread.start()
    try:
        for number in range(1, 40):
            write(table, [rows(10 * number, 10)], number)
    finally:
        stop.set()
        thread.join()
    assert content(table) == expected(0, 400)
    assert sum(each.files_after for each in done) > 1
    assert sum(each.overtaken for each in done) == 0


def test_compaction_keeps_columns_that_came_later(tmp_path: Path) -> None:
    table = tmp_path / "table"
    write(table, [rows(0, 2)], 0)
    wider = layout(carrier="string")
    write(table, [rows(2, 2, carrier="AA")], 1, plan=wider, may_add_columns=True)
    compact(str(table), file_bytes=PLENTY)
    found = DeltaTable(table).to_pyarrow_table().sort_by("offset")
    assert found.column("carrier").to_pylist() == [None, None, "AA", "AA"]


def test_vacuum_keeps_what_is_readable_and_what_is_under_way(tmp_path: Path) -> None:
    table = tmp_path / "table"
    everything = filled(table)
    before = data_files(table)
    compact(str(table), file_bytes=PLENTY)
    # Under way: a micro-batch whose commit is still to come.
    staged = stage(table, [rows(60, 5)], ("query", 6))
    assert vacuum(str(table)).size_bytes == 0
    assert before < data_files(table)
    found = vacuum(str(table), history_ms=0)
    assert set(found.old) == before
    assert not found.dead
    assert not found.strange
    assert data_files(table) == {entries(table)[0].path, staged.files[0].path}
    assert content(table) == everything


def test_vacuum_removes_attempts_that_can_be_committed_no_more(tmp_path: Path) -> None:
    table = tmp_path / "table"
    write(table, [rows(0, 5)], 0)
    # A driver died here: staged, not committed.
    dead = stage(table, [rows(5, 5)], ("query", 1))
    assert vacuum(str(table)).dead == ()
    # The next one stages and commits the same micro-batch.
    write(table, [rows(5, 5)], 1)
    dry = vacuum(str(table), dry_run=True)
    assert dry.dead == tuple(each.path for each in dead.files)
    assert (table / dry.dead[0]).exists()
    assert vacuum(str(table)).dead == dry.dead
    assert not (table / dry.dead[0]).exists()
    assert content(table) == expected(0, 10)
    assert vacuum(str(table)).size_bytes == 0


def test_vacuum_removes_strange_files_when_they_are_old_only(tmp_path: Path) -> None:
    table = tmp_path / "table"
    write(table, [rows(0, 5)], 0)
    never = stage(table, [rows(5, 5)], ("other", 0)).files[0].path
    (table / "_backfills").mkdir()
    (table / "_backfills" / "state.parquet").write_bytes(b"not for us")
    hour_ms = 3_600_000
    assert vacuum(str(table), strange_age_ms=hour_ms).strange == ()
    long_ago = time.time() - 7200
    os.utime(table / never, (long_ago, long_ago))
    assert vacuum(str(table), strange_age_ms=hour_ms).strange == (never,)
    assert (table / "_backfills" / "state.parquet").exists()
    assert content(table) == expected(0, 5)


def test_vacuum_beside_a_writer_takes_nothing_that_is_needed(tmp_path: Path) -> None:
    table, stop = tmp_path / "table", threading.Event()
    write(table, [rows(0, 10)], 0)

    def clean() -> None:
        while not stop.is_set():
            vacuum(str(table))

    thread = threading.Thread(target=clean)
    thread.start()
    try:
        for number in range(1, 40):
            write(table, [rows(10 * number, 10)], number)
    finally:
        stop.set()
        thread.join()
    assert content(table) == expected(0, 400)


def test_a_version_whose_files_are_gone_is_told_in_one_sentence(tmp_path: Path) -> None:
    table = tmp_path / "table"
    filled(table)
    wanted = scan(table, Selection())
    compact(str(table), file_bytes=PLENTY)
    vacuum(str(table), history_ms=0)
    with pytest.raises(TableError, match="is gone: vacuum has removed it"):
        list(read_scan(wanted))


def test_rows_expire_by_their_time_and_are_not_archived_again(tmp_path: Path) -> None:
    table = tmp_path / "table"
    write(table, [rows(0, 5), rows(5, 5, time_us=NOON_US + DAY_US)], 0)
    limit_ms = (NOON_US + DAY_US) // 1000
    assert expire(str(table), before_ms=limit_ms, dry_run=True).rows == 5
    assert content(table) == expected(0, 10)
    found = expire(str(table), before_ms=limit_ms)
    assert (found.rows, found.version) == (5, 2)
    assert content(table) == expected(5, 5)
    assert content(table, version=1) == expected(0, 10)
    assert recorded_offsets(str(table), 2) == {("flights", 0): 10}
    assert expire(str(table), before_ms=limit_ms).version is None


def test_only_rows_with_times_expire(tmp_path: Path) -> None:
    table = tmp_path / "table"
    DeltaTable.create(table, pa.schema([("a", pa.int32())]))
    with pytest.raises(WrongOption, match="has no column timestamp"):
        expire(str(table), before_ms=1)


def found_offsets(batches: Any) -> list[tuple[int, int]]:
    return [
        pair
        for batch in batches
        for pair in zip(
            batch.column("partition").to_pylist(), batch.column("offset").to_pylist(), strict=True
        )
    ]


@pytest.mark.parametrize("is_compacted", [False, True], ids=["as-written", "compacted"])
def test_a_selection_finds_its_rows_and_leaves_files_out(
    tmp_path: Path, is_compacted: bool
) -> None:
    table = tmp_path / "table"
    for number in range(4):
        day = NOON_US + number * DAY_US
        write(table, [rows(10 * number, 10, time_us=day)], 2 * number)
        write(table, [rows(0, 3, topic=f"other-{number}", time_us=day)], 2 * number + 1)
    if is_compacted:
        compact(str(table), file_bytes=PLENTY)
    flights = Selection().with_values("topic", ["flights"])
    one = scan(
        table, flights.with_times((NOON_US + DAY_US) // 1000, (NOON_US + 3 * DAY_US) // 1000)
    )
    assert len(one.files) == 2
    assert [offset for _, offset in found_offsets(read_scan(one))] == list(range(10, 30))
    two = scan(table, Selection().with_offsets(("flights", 0), 5, 15))
    assert [offset for _, offset in found_offsets(read_scan(two))] == list(range(5, 15))
    assert scan(table, flights.with_values("topic", ["other-1"])).files == ()
    days = scan(table, Selection().with_bounds("date", None, NOON_US // DAY_US))
    assert {each.partition_values["date"] for each in days.files} == {"2024-05-01"}
    narrow = scan(table, flights, columns=("date", "offset"))
    assert next(iter(read_scan(narrow))).schema.names == ["date", "offset"]


def test_a_date_alone_leaves_files_out() -> None:
    """As of files that others have written, and of which the log says nothing more."""
    day = FileEntry("a", 1, None, {"date": "2024-05-01"}, {}, {})
    nobody_knows = FileEntry("b", 1, None, {"date": None}, {}, {})
    noon_ms = NOON_US // 1000
    half_ms = DAY_US // 2000
    for start, end, is_wanted in (
        (None, noon_ms - half_ms, False),
        (None, noon_ms - half_ms + 1, True),
        (noon_ms + half_ms - 1, None, True),
        (noon_ms + half_ms, None, False),
    ):
        wanted = Selection().with_times(start, end)
        assert wanted.may_contain(day) is is_wanted
        assert wanted.may_contain(nobody_knows)


def test_the_offsets_of_mixed_files_are_found_and_read_in_their_order(tmp_path: Path) -> None:
    table = tmp_path / "table"
    filled(table)
    # Two files that overlap in neither partition's offsets, each of both partitions.
    ranges = FileRanges(str(table)).find(entries(table))
    assert first_offsets(ranges) == {("flights", 0): 0, ("flights", 1): 0}
    assert end_offsets(ranges) == {("flights", 0): 60, ("flights", 1): 60}
    assert [(each.first, each.last) for each in ranges["flights", 1]][:2] == [(0, 9), (10, 19)]
    wanted = scan(table, Selection().with_offsets(("flights", 1), 5, 45))
    backwards = Scan(
        table=wanted.table,
        files=wanted.files[::-1],
        selection=wanted.selection,
        schema=wanted.schema,
        columns=("value", "offset"),
    )
    found = pa.Table.from_batches(read_sorted(backwards))
    assert found.column("offset").to_pylist() == list(range(5, 45))
    assert found.schema.names == ["value", "offset"]
