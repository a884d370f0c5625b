"""Checks that are taken out: the table fits the sources, and the runner tells what tests notice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.taken_out.run import Verdict, is_broken, run_rows
from bench.taken_out.table import GROUPS, Row, RowRefused, check_row, read_rows
from bench.taken_out.tree import Result, TestsDidNotRun, read_report

ROWS = read_rows()
DOOR = """
def may_enter(password: str) -> bool:
    if password != "right":
        return False
    return True
"""
TESTS = """
from kafkaesque.door import may_enter

def test_the_right_one_enters() -> None:
    assert may_enter("right")

def test_a_wrong_one_does_not() -> None:
    assert not may_enter("wrong")
"""
ROW = Row(
    group=1,
    check="the password is right",
    file="door.py",
    text='    if password != "right":\n        return False\n',
    instead="",
    tests=("tests/test_door.py::test_a_wrong_one_does_not",),
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small project; pytest loads the plugin that the package has."""
    package = tmp_path / "src" / "kafkaesque"
    for path, text in {
        package / "__init__.py": "",
        package / "door.py": DOOR,
        package / "testing" / "__init__.py": "",
        package / "testing" / "plugin.py": "",
        tmp_path / "tests" / "test_door.py": TESTS,
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_each_check_stands_once_in_its_file_and_each_test_is_there() -> None:
    refused = []
    for each in ROWS:
        try:
            check_row(each)
        except RowRefused as error:
            refused.append(str(error))
    assert refused == []


def test_each_group_has_rows_and_no_row_is_there_twice() -> None:
    assert {each.group for each in ROWS} == set(GROUPS)
    named = [each.check for each in ROWS]
    assert sorted(set(named)) == sorted(named)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (replace(ROW, text="nowhere"), "occurs 0 times"),
        (replace(ROW, text="return"), "occurs 2 times"),
        (replace(ROW, text="False"), "is not Python"),
        (replace(ROW, tests=("tests/test_door.py::test_another",)), "there is no test"),
        (replace(ROW, tests=("tests/test_gate.py::test_a_wrong_one_does_not",)), "is no test"),
        (replace(ROW, tests=("tests/test_door.py",)), "is no test"),
    ],
)
def test_a_row_that_says_nothing_is_refused(root: Path, row: Row, words: str) -> None:
    check_row(ROW, root)
    with pytest.raises(RowRefused, match=words):
        check_row(replace(row, instead="(") if "Python" in words else row, root)


def test_a_test_that_passes_without_its_check_is_told(root: Path, tmp_path: Path) -> None:
    other = replace(ROW, tests=("tests/test_door.py::test_the_right_one_enters",))
    told: list[Verdict] = []
    run_rows([ROW, other], root, tmp_path / "copies", jobs=1, limit_s=60, say=told.append)
    assert [each.is_caught for each in told] == [True, False]
    assert told[0].words.startswith(f"{ROW.tests[0]} (AssertionError: assert not True")
    assert told[1].words == f"{other.tests[0]} passes without it"
    # The sources are as they were, and so is the copy.
    copied = tmp_path / "copies" / "copy-0" / "src" / "kafkaesque" / "door.py"
    assert copied.read_text() == DOOR == (root / "src" / "kafkaesque" / "door.py").read_text()


def test_a_test_that_fails_with_its_check_says_nothing(root: Path, tmp_path: Path) -> None:
    (root / "tests" / "test_door.py").write_text(TESTS.replace("assert not", "assert"))
    told: list[Verdict] = []
    run_rows([ROW], root, tmp_path / "copies", jobs=1, limit_s=60, say=told.append)
    assert not told[0].is_caught
    assert "fails with the check in place" in told[0].words


CASE = '<testcase classname="tests.test_door" name="{name}">{told}</testcase>'


def report(*cases: tuple[str, str]) -> str:
    inner = "".join(CASE.format(name=name, told=told) for name, told in cases)
    return f"<testsuites><testsuite>{inner}</testsuite></testsuites>"


def test_one_case_that_fails_is_enough_and_a_case_can_be_named() -> None:
    failed = '<failure message="assert 1 == 2&#10;more"/>'
    told = report(("test_a[x]", ""), ("test_a[y]", failed), ("test_b", ""))
    names = ["tests/test_door.py::test_a", "tests/test_door.py::test_a[x]"]
    found = read_report(told, [*names, "tests/test_door.py::test_b"])
    assert [each.has_failed for each in found.values()] == [True, False, False]
    assert found[names[0]].reason == "assert 1 == 2"


@pytest.mark.parametrize(
    "told", ["<error message='a fixture is broken'/>", "<skipped message='not here'/>"]
)
def test_what_did_not_run_is_no_verdict(told: str) -> None:
    with pytest.raises(TestsDidNotRun):
        read_report(report(("test_a", told)), ["tests/test_door.py::test_a"])
    with pytest.raises(TestsDidNotRun, match="nothing was heard"):
        read_report(report(("test_b", "")), ["tests/test_door.py::test_a"])


def test_what_does_not_work_in_the_place_of_a_check_catches_nothing() -> None:
    assert is_broken(Result(True, "NameError: name 'x' is not defined"))
    assert not is_broken(Result(True, "AssertionError: assert 3 == 4"))
