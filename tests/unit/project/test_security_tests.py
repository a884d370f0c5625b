"""The page of what was tried against the brokers names tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "security-tests.md"
#: A test; without a path it is in the file named before it.
NAMED = re.compile(r"`(tests/[\w/]+\.py)?::(test_\w+)`")
#: The groups of what is tried.
GROUPS = 20


def test_each_test_that_the_page_names_is_there() -> None:
    found = NAMED.findall(PAGE.read_text())
    missing, path = [], ""
    for named_path, name in found:
        path = named_path or path
        if f"def {name}(" not in (ROOT / path).read_text():
            missing.append(f"{path}::{name}")
    assert missing == []
    assert len(found) > 4 * GROUPS


def test_each_group_has_tests() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if re.match(r"\| \d+ \|", line)]
    assert [int(row.split("|")[1]) for row in rows] == list(range(1, GROUPS + 1))
    assert all(NAMED.search(row) for row in rows)
