"""What a user says about a table is understood, or refused in one sentence."""

from __future__ import annotations

import pytest

from kafkaesque.spark.errors import WrongOption
from kafkaesque.spark.lakehouse.backfill import Backfill
from kafkaesque.spark.lakehouse.options import parse_sink, parse_source
from kafkaesque.spark.lakehouse.staging import folder_of, read_file_name


def test_a_sinks_options() -> None:
    options = parse_sink({"path": "/t"})
    assert (options.table.path, options.partition_by, options.compact_every) == ("/t", None, 100)
    options = parse_sink(
        {
            "PATH": "file:///t",
            "partitionby": "topic, date,partition",
            "historyRetention": "12h",
            "txnAppId": "load-1",
            "txnVersion": "3",
            "checkpointLocation": "/c",
        }
    )
    assert options.table.history_ms == 12 * 3_600_000
    assert options.partition_by == ("topic", "date", "partition")
    assert options.written_as == ("load-1", 3)
    assert parse_sink({"path": "/t", "partitionBy": ""}).partition_by == ()


def test_a_sources_options() -> None:
    options = parse_source(
        {"path": "/t", "timestampAsOf": "2024-05-01T12:00:00+02:00", "columns": "key, value"},
        is_stream=False,
    )
    assert options.as_of_ms == 1_714_557_600_000
    assert options.columns == ("key", "value")
    options = parse_source(
        {"path": "/t", "startingOffsets": '{"t":{"1":7}}', "startingTimestamp": "2024-05-01"},
        is_stream=True,
    )
    assert options.starts == {("t", 1): 7}
    assert options.selection.bounds["timestamp"][0] == 1_714_521_600_000_000


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "the option path is missing"),
        ({"path": "s3://b/t"}, "is not on a file system"),
        ({"path": "/t", "versionAsOf": "1", "timestampAsOf": "2024-05-01"}, "exclude each other"),
        ({"path": "/t", "timestampAsOf": "yesterday"}, "is a time such as 2024-05-01"),
        ({"path": "/t", "versionAsOff": "1"}, "the nearest is versionAsOf"),
        ({"path": "/t", "startingOffsets": "latest"}, 'such as {"topic":{"0":23}}'),
        ({"path": "/t", "maxBytesPerTask": "1"}, "there is no option maxbytespertask"),
    ],
    ids=["path", "scheme", "both", "time", "name", "offsets", "kind"],
)
def test_what_is_wrong_with_a_source_is_told(options: dict[str, str], words: str) -> None:
    with pytest.raises(WrongOption, match=words):
        parse_source(options, is_stream=True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"path": "/t", "txnAppId": "a"}, "set together"),
        ({"path": "/t", "txnAppId": "a/b", "txnVersion": "1"}, "at most 120 of the characters"),
        ({"path": "/t", "historyRetention": "long"}, "is a time such as 30s"),
        ({"path": "/t", "mergeSchema": "perhaps"}, "is true or false"),
    ],
    ids=["version", "name", "duration", "flag"],
)
def test_what_is_wrong_with_a_sink_is_told(options: dict[str, str], words: str) -> None:
    with pytest.raises(WrongOption, match=words):
        parse_sink(options)


def test_a_files_name_says_for_which_micro_batch_it_was_staged() -> None:
    name = "staged-be821ebe-3710-4081-b716-4bd0f2c90188-12-3-20701b819225-0.zstd.parquet"
    assert read_file_name(name) == ("be821ebe-3710-4081-b716-4bd0f2c90188", 12)
    assert read_file_name("staged-a-1-2-0123456789ab-0-7-1-0123456789ab-2.zstd.parquet") == (
        "a-1-2-0123456789ab-0",
        7,
    )
    assert read_file_name("part-00000-c000.snappy.parquet") is None


def test_folders_are_names_whatever_the_values_are() -> None:
    assert folder_of({"topic": "flights", "date": None}) == "topic=flights/date=null"
    for value in ("..", "a/b", "a b", "%2F", "x" * 300):
        (part,) = folder_of({"kind": value}).split("/")
        assert part.startswith("kind=")
        assert len(part) < 140
        assert value not in part


def test_a_backfill_is_known_by_what_is_asked_for(tmp_path: object) -> None:
    one = Backfill(path=str(tmp_path), topic="a", to_topic="b", cluster_id="x")
    same = Backfill(path=str(tmp_path), topic="a", to_topic="b", cluster_id="x")
    other = Backfill(path=str(tmp_path), topic="a", to_topic="b", cluster_id="y")
    assert one.default_name() == same.default_name() != other.default_name()
    folder = one.claim("first")
    assert same.claim("first") == folder
    with pytest.raises(WrongOption, match="another backfill of this table has the name first"):
        other.claim("first")
