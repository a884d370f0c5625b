"""Bounds of the house style that a linter does not know: one function a screen, one noun a file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 700
GENERATED = ROOT / "src" / "kafkaesque" / "protocols" / "kafka" / "messages"
FOLDERS = ("src", "tests", "bench", "codegen", "examples")


def written_files() -> list[Path]:
    """Every Python file that a person writes."""
    found = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path for path in found if GENERATED not in path.parents and "node" not in path.parts]


def long_functions(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yields name and length of each function longer than a screen."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield node.name, lines


def test_a_function_fits_on_one_screen() -> None:
    too_long = [
        f"{path.relative_to(ROOT)}: {name} has {lines} lines"
        for path in written_files()
        for name, lines in long_functions(ast.parse(path.read_text()))
    ]
    assert too_long == []


def test_a_long_function_would_be_found() -> None:
    body = "\n".join(["    pass"] * FUNCTION_LINES_MAX)
    assert list(long_functions(ast.parse(f"def endless():\n{body}\n"))) == [("endless", 71)]
    assert list(long_functions(ast.parse(f"def fits():\n{body[:-9]}\n"))) == []


def test_a_file_past_its_bound_is_two_files() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in written_files()}
    too_long = [
        f"{path.relative_to(ROOT)}: {lines} lines"
        for path, lines in lengths.items()
        if lines > FILE_LINES_MAX
    ]
    assert too_long == []


def raised_constants(tree: ast.AST) -> Iterator[str]:
    """Yields the name of each constant that is raised.

    What is raised again and again keeps the frames of every time, with all that was in them.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Name) and node.exc.id.isupper():
            yield f"{node.exc.id} in line {node.lineno}"


def test_an_exception_is_raised_once() -> None:
    texts = {
        path: path.read_text()
        for path in sorted((ROOT / "src").rglob("*.py"))
        if GENERATED not in path.parents
    }
    found = [
        f"{path.relative_to(ROOT)}: {each}"
        for path, text in texts.items()
        if re.search(r"\braise\s+_?[A-Z]", text)  # to parse all of them takes seconds
        for each in raised_constants(ast.parse(text))
    ]
    assert found == []


def test_a_constant_that_is_raised_would_be_found() -> None:
    assert list(raised_constants(ast.parse("raise _NO_TASK"))) == ["_NO_TASK in line 1"]
    assert list(raised_constants(ast.parse("raise EOFError"))) == []


@pytest.mark.parametrize(
    "path", sorted((ROOT / "src" / "kafkaesque").rglob("__init__.py")), ids=str
)
def test_a_room_says_in_one_sentence_what_it_is_for(path: Path) -> None:
    sentence = ast.get_docstring(ast.parse(path.read_text())) or ""
    first = sentence.split("\n\n")[0]
    assert first.endswith(".")
    assert len(first) <= 200
