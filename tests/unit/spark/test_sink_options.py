"""What a user says about a sink is understood, or refused in one sentence."""

from __future__ import annotations

import pytest

from kafkaesque.model.compression import Codec
from kafkaesque.spark.errors import WrongOption
from kafkaesque.spark.sink_options import SinkOptions, check_columns, parse_sink


def parse(**options: str) -> SinkOptions:
    return parse_sink({"kafka.bootstrap.servers": "one:9092", **options})


def test_exactly_once_is_the_default() -> None:
    assert parse().is_exactly_once
    assert not parse(deliveryGuarantee="At-Least-Once").is_exactly_once
    assert parse(**{"kafka.compression.type": "zstd"}).codec is Codec.ZSTD
    assert parse(txnAppId="a", txnVersion="7").written_as == ("a", 7)
    assert parse(checkpointLocation="/somewhere", topic="t").topic == "t"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"deliveryGuarantee": "twice"}, "exactly-once or at-least-once, not 'twice'"),
        ({"kafka.compression.type": "rar"}, "zstd, not 'rar'"),
        ({"topics": "t"}, "the nearest is topic"),
        ({"kafka.transaction.timeout.ms": "1"}, "from 1000 to"),
        ({"txnAppId": "a"}, "set together"),
        ({"txnVersion": "1"}, "set together"),
        ({"txnAppId": "a", "txnVersion": "-1"}, "from 0 to"),
        ({"topic": ""}, "not ''; without it the column topic says it"),
        ({"topic": ".."}, "1 to 249 letters, digits, '.', '_' and '-', not '..'"),
        ({"topic": "a b"}, "the option topic is the name of a topic"),
        ({"topic": "a\n"}, "the option topic is the name of a topic"),
        ({"topic": "a" * 250}, "the option topic is the name of a topic"),
    ],
    ids=[
        "guarantee",
        "codec",
        "name",
        "timeout",
        "no-version",
        "no-name",
        "version",
        "empty",
        "dots",
        "space",
        "line",
        "long",
    ],
)
def test_what_is_wrong_is_told(options: dict[str, str], words: str) -> None:
    with pytest.raises(WrongOption, match=words):
        parse(**options)


HEADERS = "array<struct<key:string,value:binary>>"


def test_columns_of_the_right_types_are_taken() -> None:
    check_columns([("value", "string"), ("other", "double")], parse(topic="t"))
    columns = [("KEY", "binary"), ("value", "binary"), ("topic", "string"), ("partition", "int")]
    check_columns([*columns, ("headers", HEADERS)], parse())


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ([("key", "binary")], "no column value among key"),
        ([("value", "bigint")], "value has the type bigint; it has to be string or binary"),
        ([("value", "binary")], "neither the option topic nor a column topic"),
        ([("value", "binary"), ("topic", "string"), ("partition", "bigint")], "to be int"),
        ([("value", "binary"), ("topic", "string"), ("headers", "map<string,binary>")], "headers"),
    ],
    ids=["missing", "type", "topic", "partition", "headers"],
)
def test_a_table_that_cannot_be_written_is_refused(
    columns: list[tuple[str, str]], words: str
) -> None:
    with pytest.raises(WrongOption, match=words):
        check_columns(columns, parse())


def test_kept_timestamps_need_a_column_of_them() -> None:
    options = parse(keepTimestamps="true", topic="t")
    assert options.keeps_timestamps
    check_columns([("value", "binary"), ("timestamp", "timestamp")], options)
    with pytest.raises(WrongOption, match="keepTimestamps is set, and there is no column"):
        check_columns([("value", "binary")], options)
    with pytest.raises(WrongOption, match="timestamp has the type bigint"):
        check_columns([("value", "binary"), ("timestamp", "bigint")], options)
    # Otherwise it is one of the columns that are ignored.
    check_columns([("value", "binary"), ("timestamp", "bigint")], parse(topic="t"))
