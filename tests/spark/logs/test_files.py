"""Files that grow and are rotated: each line is read once, and says where it stands."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkaesque.spark.logs.followed_files import PIECE_BYTES, find_files, read_lines, readable_end

Run = Callable[..., list[tuple[str, int, bytes]]]
#: A first line that tells one file from another.
FIRST = b"2026-03-02 06:30:00 startup archives unpack"


@pytest.fixture
def run(spark: Any, tmp_path: Path) -> Run:
    """Reads what is available now in `logs/`, and returns (name, position, line) of what is new."""
    (tmp_path / "logs").mkdir()

    def read(**options: str) -> list[tuple[str, int, bytes]]:
        found: list[tuple[str, int, bytes]] = []

        def keep(batch: Any, number: int) -> None:
            found.extend(
                (Path(row.source).name, row.position, bytes(row.line)) for row in batch.collect()
            )

        reader = spark.readStream.format("kafkaesque-lines").options(**options)
        table = reader.option("path", str(tmp_path / "logs" / "*.log*")).load()
        writer = table.writeStream.foreachBatch(keep).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        query.awaitTermination()
        return sorted(found)

    return read


def test_lines_are_read_when_they_are_whole_and_once(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "logs" / "a.log"
    path.write_bytes(FIRST + b"\nsecond\n\nthi")
    at = len(FIRST) + 1
    assert run() == [("a.log", 0, FIRST), ("a.log", at, b"second"), ("a.log", at + 7, b"")]
    with path.open("ab") as file:
        file.write(b"rd\n")
    (tmp_path / "logs" / "b.log").write_bytes(b"another\n")
    (tmp_path / "logs" / "c.log.gz").write_bytes(b"compressed\n")
    (tmp_path / "logs" / "d.log").write_bytes(b"no line yet")
    assert run() == [("a.log", at + 8, b"third"), ("b.log", 0, b"another")]
    assert run() == []


def test_a_rotated_file_goes_on_and_its_successor_begins(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "logs" / "a.log"
    path.write_bytes(FIRST + b"\n")
    assert run() == [("a.log", 0, FIRST)]
    with path.open("ab") as file:
        path.rename(tmp_path / "logs" / "a.log.1")
        path.write_bytes(b"new day\n")
        file.write(b"late\n")
    assert run() == [("a.log", 0, b"new day"), ("a.log.1", len(FIRST) + 1, b"late")]
    path.write_bytes(b"cut off, and written anew\n")
    assert run() == [("a.log", 0, b"cut off, and written anew")]


def test_a_directory_that_is_away_for_a_while_is_not_read_again(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "logs" / "a.log"
    path.write_bytes(FIRST + b"\n")
    assert len(run()) == 1
    (tmp_path / "logs").rename(tmp_path / "away")
    assert run() == []
    (tmp_path / "away").rename(tmp_path / "logs")
    assert run() == []


def test_large_files_come_in_micro_batches(run: Run, tmp_path: Path) -> None:
    expected, rows = [], 60_000
    for name in ("a.log", "b.log"):
        lines = [b"%s %06d %s" % (name.encode(), number, b"x" * 80) for number in range(rows)]
        (tmp_path / "logs" / name).write_bytes(b"\n".join(lines) + b"\n")
        expected += [(name, number * 94, line) for number, line in enumerate(lines)]
    assert run(maxBytesPerTrigger=str(2 * PIECE_BYTES)) == expected


def test_a_line_without_end_comes_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    body = b"x" * (2 * PIECE_BYTES + 10) + b"\nshort\nrest"
    path.write_bytes(body)
    end = readable_end(str(path), 0, len(body))
    assert end == len(body) - 4
    found = []
    with path.open("rb") as file:
        for lines, starts in read_lines(file, 0, end):
            found += list(zip(starts, lines, strict=True))
    assert b"".join(line for _, line in found) == b"x" * (2 * PIECE_BYTES + 10) + b"short"
    assert all(body[start : start + len(line)] == line for start, line in found)
    assert max(len(line) for _, line in found) <= 2 * PIECE_BYTES
    assert readable_end(str(path), 0, 2 * PIECE_BYTES) == 2 * PIECE_BYTES
    assert readable_end(str(path), end, len(body)) == end


def test_one_file_under_two_names_is_one(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(FIRST + b"\n")
    os.link(path, tmp_path / "b.log")
    (found,) = find_files((str(tmp_path / "*.log"), str(tmp_path / "a*"))).values()
    assert found.path == str(path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"path": "logs/*.log"}, "does not begin with /"),
        ({"path": "/logs", "maxBytesPerTrigger": "1"}, "a whole number from 2097152"),
        ({"path": "/logs", "maxFiles": "1"}, "there is no option maxfiles"),
    ],
    ids=["relative", "bytes", "unknown"],
)
def test_wrong_options_are_told(spark: Any, options: dict[str, str], words: str) -> None:
    with pytest.raises(Exception, match=words):
        spark.readStream.format("kafkaesque-lines").options(**options).load()


def test_lines_that_are_gone_end_the_query(run: Run, tmp_path: Path, spark: Any) -> None:
    """The offsets of a micro-batch are logged, then it fails, then its file is gone."""
    path = tmp_path / "logs" / "a.log"
    path.write_bytes(FIRST + b"\n")
    table = spark.readStream.format("kafkaesque-lines").option("path", str(path)).load()

    def fail(batch: Any, number: int) -> None:
        raise RuntimeError("planned")

    writer = table.writeStream.foreachBatch(fail).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    with pytest.raises(Exception, match="planned"):
        query.awaitTermination()
    path.rename(tmp_path / "elsewhere")
    with pytest.raises(Exception, match="is gone, or another file, and its bytes 0 to 44"):
        run()
    assert run(failOnDataLoss="false") == []
