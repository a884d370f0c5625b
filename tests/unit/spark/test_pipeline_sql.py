"""Statements of declarative pipelines are told apart, and kept as they are written."""

from __future__ import annotations

import pytest

from kafkaesque.spark.pipelines.errors import WrongProject
from kafkaesque.spark.pipelines.sql_statements import (
    MATERIALIZED_VIEW,
    STREAMING_TABLE,
    TEMPORARY_VIEW,
    SqlCommand,
    SqlDataset,
    SqlFlow,
    parse_statements,
    read_statements,
)


def parsed(text: str) -> SqlDataset:
    (found,) = parse_statements(text, "a.sql")
    assert isinstance(found, SqlDataset)
    return found


def test_a_query_begins_after_the_as_that_stands_outside_of_everything() -> None:
    text = """
    -- AS a comment; with a semicolon
    CREATE OR REPLACE STREAMING TABLE IF NOT EXISTS `my db`.words (a STRING COMMENT 'AS; it', b INT)
    USING json PARTITIONED BY (b) COMMENT 'it''s AS you like it' TBLPROPERTIES ('k' = 'AS')
    /* AS; */ AS SELECT x AS a FROM STREAM (SELECT 1 AS x);
    """
    found = parsed(text.replace("OR REPLACE ", ""))
    assert (found.kind, found.name) == (STREAMING_TABLE, "`my db`.words")
    assert (found.plain_name, found.provider) == ("my db.words", "json")
    assert found.columns == "(a STRING COMMENT 'AS; it', b INT)"
    assert found.clauses.startswith("USING json PARTITIONED BY (b) COMMENT 'it''s AS you like it'")
    assert found.query == "SELECT x AS a FROM STREAM (SELECT 1 AS x)"


@pytest.mark.parametrize(
    ("text", "kind", "query"),
    [
        ("CREATE STREAMING TABLE t", STREAMING_TABLE, None),
        ("create materialized view t as select 1", MATERIALIZED_VIEW, "select 1"),
        ("CREATE TEMPORARY VIEW t AS WITH a AS (SELECT 1) SELECT * FROM a", TEMPORARY_VIEW, None),
    ],
    ids=["table", "view", "temporary view"],
)
def test_kinds(text: str, kind: str, query: str | None) -> None:
    found = parsed(text)
    assert (found.kind, found.name, found.columns, found.clauses) == (kind, "t", "", "")
    assert found.query == (query or (text.partition(" AS ")[2] or None))


def test_flows_and_settings() -> None:
    settings, flow = parse_statements(
        "SET spark.sql.ansi.enabled = true;"
        "CREATE FLOW f AS INSERT INTO `a b`.t BY NAME SELECT 1 AS x;;",
        "a.sql",
    )
    assert settings == SqlCommand(text="SET spark.sql.ansi.enabled = true")
    assert isinstance(flow, SqlFlow)
    assert (flow.plain_name, flow.plain_target, flow.query) == ("f", "a b.t", "SELECT 1 AS x")


def test_what_only_triggered_runs_know() -> None:
    text = "CREATE FLOW f AS AUTO CDC INTO t FROM STREAM s KEYS (a) SEQUENCE BY b"
    with pytest.raises(
        WrongProject, match=r"a.sql: continuous runs do not support `CREATE FLOW F AS"
    ):
        parse_statements(text, "a.sql")
    assert read_statements(f"{text}; SET a = b") == [SqlCommand(text="SET a = b")]
