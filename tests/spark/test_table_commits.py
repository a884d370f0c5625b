"""A micro-batch is part of a table once, whoever brings it, how often, and beside whom."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from kafkaesque.spark.errors import WrongOption
from kafkaesque.spark.lakehouse import publishing
from kafkaesque.spark.lakehouse.commit_log import read_commit_info, version_at
from kafkaesque.spark.lakehouse.errors import Busy, NotRepeated, Overlap, TableError
from kafkaesque.spark.lakehouse.layout import plan_layout
from kafkaesque.spark.lakehouse.publishing import MicroBatch, TableOptions, join, publish
from kafkaesque.spark.lakehouse.table import (
    OFFSETS,
    file_entries,
    open_as_of,
    open_table,
    recorded_offsets,
    table_path,
)
from tests.spark.table_helpers import (
    DAY_US,
    NOON_US,
    content,
    expected,
    layout,
    rows,
    schema_json,
    stage,
    write,
)


def test_a_batch_is_there_with_its_offsets_in_the_commit(tmp_path: Path) -> None:
    table = tmp_path / "table"
    write(table, [rows(0, 10), rows(0, 5, partition=1)], 0)
    found = write(table, [rows(10, 7)], 1)
    assert content(table) == expected(0, 17) + expected(0, 5, partition=1)
    first, second = (read_commit_info(str(table), each) for each in (1, 2))
    assert first is not None
    assert second is not None
    assert first.words[OFFSETS] == {"flights": {"0": 10, "1": 5}}
    # Of the whole table, not only of what the commit has brought.
    assert second.words[OFFSETS] == {"flights": {"0": 17, "1": 5}}
    assert recorded_offsets(str(table), found.version) == {("flights", 0): 17, ("flights", 1): 5}
    assert content(table, version=1) == expected(0, 10) + expected(0, 5, partition=1)


def test_a_batch_that_comes_again_is_recognised(tmp_path: Path) -> None:
    table = tmp_path / "table"
    first = write(table, [rows(0, 10)], 0)
    again = write(table, [rows(0, 10)], 0)
    assert again.was_there
    assert again.version == first.version
    later = write(table, [rows(10, 10)], 1)
    assert write(table, [rows(0, 10)], 0).version == first.version
    assert open_table(str(table)).version() == later.version
    assert content(table) == expected(0, 20)


def test_a_batch_that_comes_again_as_another_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "table"
    write(table, [rows(0, 10)], 0)
    with pytest.raises(NotRepeated, match="with 10 rows, and comes again with 11"):
        write(table, [rows(0, 11)], 0)
    assert content(table) == expected(0, 10)


def test_the_numbers_outlive_checkpoints_and_the_logs_cleaning(tmp_path: Path) -> None:
    table = tmp_path / "table"
    for number in range(12):
        write(table, [rows(number, 1)], number)
    DeltaTable(table).create_checkpoint()
    log = table / "_delta_log"
    for path in sorted(log.glob("*.json"))[:-1]:
        path.unlink()
    assert write(table, [rows(3, 1)], 3).was_there
    with pytest.raises(Overlap, match="archived until offset 12"):
        write(table, [rows(11, 2)], 0, query="another")
    assert content(table) == expected(0, 12)


def test_two_drivers_of_one_query_write_a_batch_once(tmp_path: Path) -> None:
    table = tmp_path / "table"
    write(table, [rows(0, 1)], 0)
    parts = [stage(table, [rows(1, 50)], ("query", 1), task=task) for task in range(4)]
    barrier = threading.Barrier(len(parts))
    found: list[bool] = []

    def drive(part: Any) -> None:
        barrier.wait()
        batch = MicroBatch(query="query", batch_id=1, staged=join([part]))
        found.append(publish(TableOptions(path=str(table)), layout(), batch).was_there)

    drivers = [threading.Thread(target=drive, args=(part,)) for part in parts]
    for each in drivers:
        each.start()
    for each in drivers:
        each.join()
    assert sorted(found) == [False, True, True, True]
    assert content(table) == expected(0, 51)


def test_queries_beside_each_other_all_get_in(tmp_path: Path) -> None:
    table, topics = tmp_path / "table", [f"topic-{number}" for number in range(4)]

    def drive(topic: str) -> None:
        for number in range(8):
            write(table, [rows(5 * number, 5, topic=topic)], number, query=topic)

    drivers = [threading.Thread(target=drive, args=(topic,)) for topic in topics]
    for each in drivers:
        each.start()
    for each in drivers:
        each.join()
    everything: Counter[tuple[str, int, int, bytes]] = Counter()
    for topic in topics:
        everything += expected(0, 40, topic)
    assert content(table) == everything
    recorded = recorded_offsets(str(table), open_table(str(table)).version())
    assert recorded == {(topic, 0): 40 for topic in topics}


def test_offsets_that_are_archived_are_refused_from_another_query(tmp_path: Path) -> None:
    table = tmp_path / "table"
    write(table, [rows(0, 10)], 0)
    with pytest.raises(Overlap, match="flights-0 is archived until offset 10, and query other"):
        write(table, [rows(9, 3)], 0, query="other")
    # Where it goes on, it may; and whoever says so has rows twice.
    write(table, [rows(10, 3)], 0, query="other")
    write(table, [rows(2, 3)], 0, query="third", may_overlap=True)
    assert content(table) == expected(0, 13) + expected(2, 3)
    assert recorded_offsets(str(table), 3) == {("flights", 0): 13}


def test_an_answer_that_is_lost_does_not_write_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "table"
    write(table, [rows(0, 1)], 0)
    commit, calls = publishing._commit, 0

    def lose(*arguments: Any) -> int:
        nonlocal calls
        calls += 1
        commit(*arguments)
        raise CommitFailedError("the connection broke")

    monkeypatch.setattr(publishing, "_commit", lose)
    assert write(table, [rows(1, 5)], 1).was_there
    assert calls == 1
    assert content(table) == expected(0, 6)


def test_a_commit_that_is_overtaken_for_ever_ends_with_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any) -> int:
        raise CommitFailedError("0")

    monkeypatch.setattr(publishing, "_commit", refuse)
    monkeypatch.setattr(publishing, "_WAIT_S", 0.0)
    with pytest.raises(Busy, match="other commits came first 200 times"):
        write(tmp_path / "table", [rows(0, 1)], 0)


def test_a_column_is_added_when_it_is_allowed(tmp_path: Path) -> None:
    table = tmp_path / "table"
    write(table, [rows(0, 2)], 0)
    wider = layout(carrier="string")
    with pytest.raises(TableError, match="lacks the columns carrier: mergeSchema=true"):
        write(table, [rows(2, 2, carrier="AA")], 1, plan=wider)
    write(table, [rows(2, 2, carrier="AA")], 1, plan=wider, may_add_columns=True)
    # A query that does not know the column goes on.
    write(table, [rows(4, 1)], 2)
    found = DeltaTable(table).to_pyarrow_table().sort_by("offset")
    assert found.column("carrier").to_pylist() == [None, None, "AA", "AA", None]
    assert recorded_offsets(str(table), open_table(str(table)).version()) == {("flights", 0): 5}


def test_a_column_of_another_type_or_division_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "table"
    write(table, [rows(0, 2)], 0)
    text = schema_json().replace('"long"', '"string"')
    other = plan_layout(text, None)
    with pytest.raises(TableError, match="offset has the type string, and in the table long"):
        publish(
            TableOptions(path=str(table)),
            other,
            MicroBatch(query="q", batch_id=0, staged=stage(table, [rows(2, 2)])),
        )
    with pytest.raises(TableError, match="divided by topic, date, and partitionBy says topic"):
        write(table, [rows(2, 2)], 1, plan=layout(("topic",)))
    for names, words in ((("carrier",), "names carrier"), (("key",), "whose type is binary")):
        with pytest.raises(WrongOption, match=words):
            layout(names)


def test_files_are_divided_by_topic_and_date(tmp_path: Path) -> None:
    table = tmp_path / "table"
    batches = [
        rows(0, 2),
        rows(2, 2, time_us=NOON_US + DAY_US),
        rows(0, 1, topic="other", time_us=-1000),
        rows(1, 1, topic="other", time_us=2**62),
    ]
    write(table, batches, 0)
    found = {
        (each.partition_values["topic"], each.partition_values["date"]): each.rows
        for each in file_entries(open_table(str(table)))
    }
    assert found == {
        ("flights", "2024-05-01"): 2,
        ("flights", "2024-05-02"): 2,
        # Neither Kafka's "no timestamp" nor a time beyond all calendars has a date.
        ("other", None): 2,
    }
    assert content(table) == expected(0, 4) + expected(0, 2, "other")


def test_the_log_says_what_is_in_a_file(tmp_path: Path) -> None:
    table = tmp_path / "table"
    write(table, [rows(5, 10, partition=3)], 0)
    (file,) = file_entries(open_table(str(table)))
    assert file.least == {"partition": 3, "offset": 5, "timestamp": NOON_US}
    # Rounded outwards to what the log can say.
    assert file.most == {"partition": 3, "offset": 14, "timestamp": NOON_US + 1000}


def test_a_version_is_found_by_the_time_of_its_commit(tmp_path: Path) -> None:
    table = tmp_path / "table"
    for number in range(5):
        write(table, [rows(number, 1)], number)
        # Commits are told by milliseconds.
        log = table / "_delta_log" / f"{number + 1:020d}.json"
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        for each in lines:
            if "commitInfo" in each:
                each["commitInfo"]["timestamp"] = 4_000_000_000_000 + 1000 * number
        log.write_text("\n".join(json.dumps(each) for each in lines))
    for number in range(5):
        at = 4_000_000_000_000 + 1000 * number
        assert version_at(str(table), at) == number + 1
        assert version_at(str(table), at + 999) == number + 1
        assert version_at(str(table), at - 1) == number
    assert open_as_of(str(table), None, 4_000_000_002_500).version() == 3
    with pytest.raises(WrongOption, match="has no version of 1000 ms"):
        version_at(str(table), 1000)


def test_what_is_not_there_is_told_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(WrongOption, match="there is no table at"):
        open_table(str(tmp_path / "nowhere"))
    table = tmp_path / "table"
    write(table, [rows(0, 1)], 0)
    with pytest.raises(WrongOption, match="as of version 9: its log has the versions 0 to 1"):
        open_table(str(table), 9)
    with pytest.raises(WrongOption, match="is not on a file system"):
        table_path("s3://bucket/table")
    assert table_path("file:///srv/table") == table_path("/srv/table") == "/srv/table"
