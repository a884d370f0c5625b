"""Options that a file has, so that no password stands in a program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafkaesque.spark.errors import WrongOption
from kafkaesque.spark.options_file import FILE_BYTES_MAX, with_options_file
from kafkaesque.spark.sink_options import parse_sink
from kafkaesque.spark.source_options import parse_source

IN_FILE = {"kafka.bootstrap.servers": "a:1", "transactionalIdPrefix": "app-"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "app_spark.json"
    found.write_text(json.dumps(IN_FILE))
    return found


def test_both_ends_take_a_file_and_what_is_given_counts_first(path: Path) -> None:
    given = {"OptionsFile": str(path), "topic": "orders"}
    sink = parse_sink(given)
    assert (sink.cluster.bootstrap_servers, sink.id_prefix) == ((("a", 1),), "app-")
    elsewhere = {**given, "KAFKA.bootstrap.servers": "b:2", "transactionalIdPrefix": ""}
    sink = parse_sink(elsewhere)
    assert (sink.cluster.bootstrap_servers, sink.id_prefix) == ((("b", 2),), "")
    source = parse_source({"optionsFile": str(path), "subscribe": "orders"}, is_stream=True)
    assert source.cluster.bootstrap_servers == (("a", 1),)


@pytest.mark.parametrize("none", [{}, {"optionsFile": ""}, {"optionsFile": " "}])
def test_without_a_file_the_options_are_those_that_are_given(none: dict[str, str]) -> None:
    assert with_options_file({"topic": "orders", **none}) == {"topic": "orders"}


@pytest.mark.parametrize(
    "content",
    [
        "hidden-word",
        '["hidden-word"]',
        '{"kafka.sasl.jaas.config": 5, "x": "hidden-word"}',
        '{"optionsFile": "hidden-word"}',
        json.dumps({"hidden-word": "x" * FILE_BYTES_MAX}),
        "\xff",
    ],
)
def test_a_file_that_holds_no_options_is_told_without_what_is_in_it(
    tmp_path: Path, content: str
) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(content, "latin-1")
    with pytest.raises(WrongOption, match=r"wrong\.json") as told:
        with_options_file({"optionsFile": str(path)})
    assert "hidden-word" not in str(told.value)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(WrongOption, match=r"none\.json, .* no such file"):
        with_options_file({"optionsFile": str(tmp_path / "none.json")})
    with pytest.raises(WrongOption, match="Spark hides settings"):
        with_options_file({"optionsFile": "*********(redacted)"})


@pytest.mark.parametrize("prefix", ["with blank", "a/b", "x" * 101])
def test_a_prefix_that_no_name_has_is_refused(path: Path, prefix: str) -> None:
    with pytest.raises(WrongOption, match="transactionalIdPrefix is at most 100 letters"):
        parse_sink({"optionsFile": str(path), "topic": "x", "transactionalIdPrefix": prefix})
