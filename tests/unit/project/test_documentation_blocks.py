"""Each block of the documentation is run by a test, or the table says why none runs it."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Callable

import pytest

from tests.documentation.blocks import PAGES, ROOT, blocks_of
from tests.documentation.table import KINDS, counts, rows, rows_of

#: A file or a folder, with its place in the checkout.
NAMED = re.compile(r"\b((?:tests|scripts)/[\w/-]+(?:\.py)?)")

BLOCKS = [each for page in PAGES for each in blocks_of(page)]


def test_each_block_has_one_row() -> None:
    assert len(BLOCKS) > 300
    found = {str(block): [each.begins for each in rows_of(block)] for block in BLOCKS}
    assert {block: of for block, of in found.items() if len(of) != 1} == {}


def test_each_block_is_counted_once() -> None:
    found = counts()
    assert found.total() == len(BLOCKS)
    assert found["run"] > found["compared"] > 100


def test_each_row_is_for_a_block() -> None:
    used = {row for block in BLOCKS for row in rows_of(block)}
    assert [row for row in rows() if row not in used] == []


def test_each_test_of_the_table_exists_and_asks_the_table_which_blocks_it_has_to_run() -> None:
    tests = {row.test for row in rows() if row.test}
    assert len(tests) > 20
    wrong = [
        test
        for test in tests
        if not (ROOT / test).is_file() or "_run_by(" not in (ROOT / test).read_text()
    ]
    assert wrong == []


def test_what_is_not_run_is_no_program_or_a_command_that_is_looked_up() -> None:
    programs = ("python", "sh", "bash", "js", "sql", "console", "session")
    for block in BLOCKS:
        (row,) = rows_of(block)
        if row.kind == "shown":
            assert block.language not in programs, block
            assert not block.is_session, block
        elif row.kind == "fragment":
            assert block.language in ("python", "sql", "yaml", "toml"), block
        elif row.kind:
            assert row.kind in KINDS
            assert block.language in ("sh", "bash") or block.is_session, block


def test_the_page_of_the_tests_names_each_block_that_is_not_run() -> None:
    text = (ROOT / "docs" / "testing.md").read_text()
    told = re.findall(r"(?m)^- `.*` of \[[\w./]+\]\(([\w./]+)", text)
    not_run = [block.page for block in BLOCKS if rows_of(block)[0].kind]
    assert sorted(not_run) == sorted(f"docs/{each}" for each in told)


def test_what_a_reason_names_exists() -> None:
    named = {path for row in rows() for path in NAMED.findall(row.reason)}
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_what_has_a_grammar_follows_it() -> None:
    parsers: dict[str, Callable[[str], object]] = {
        "python": ast.parse,
        "toml": tomllib.loads,
        "json": json.loads,
    }
    wrong = []
    for block in BLOCKS:
        try:
            parsers.get(block.language, len)(block.content)
        except (SyntaxError, ValueError) as error:
            wrong.append(f"{block}: {error}")
    assert wrong == []


@pytest.mark.parametrize("page", PAGES)
def test_what_is_printed_is_compared_by_the_test_that_runs_what_prints_it(page: str) -> None:
    test = ""
    for block in blocks_of(page):
        (row,) = rows_of(block)
        if block.language == "text":
            assert row.test == test, block
        test = row.test
